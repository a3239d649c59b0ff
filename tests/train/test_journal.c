/* test_journal.c: events as JSON lines, appending to a log, and the progress output. The test
 * controls the clock. */
#include "tests/data_common.h"
#include "train/journal.h"

#include <time.h>

static double now_s = 1000;

/* Replaces the function of the C library. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    t->tv_sec = (time_t)now_s;
    t->tv_nsec = (long)((now_s - (double)t->tv_sec) * 1e9);
    return 0;
}

static void log_one(struct ss_journal *j, const char *name)
{
    ss_journal_event(j, "event", "name", 's', name, "count", 'i', (int64_t)-5, "x", 'f', 0.1, NULL);
}

#define LINE(name)                                                                                 \
    "{\"event\":\"event\",\"name\":\"" name "\",\"count\":-5,\"x\":0.10000000000000001}\n"

START_TEST(events)
{
    struct ss_journal j;
    ck_assert_int_eq(ss_journal_open(&j, in_folder("log"), 1), SS_OK);
    log_one(&j, "a \"b\"\n");
    file_says("log", LINE("a \\\"b\\\"\\n")); /* written immediately */
    ss_journal_event(&j, "end", NULL);
    ck_assert_int_eq(ss_journal_close(&j), SS_OK);
    file_says("log", LINE("a \\\"b\\\"\\n") "{\"event\":\"end\"}\n");
    ck_assert_int_eq(ss_journal_open(&j, in_folder("log"), 1), SS_OK); /* truncated */
    ck_assert_int_eq(ss_journal_close(&j), SS_OK);
    file_says("log", "");
    /* Without output: on a rank that does not write, and without a file */
    ck_assert_int_eq(ss_journal_open(&j, in_folder("none"), 0), SS_OK);
    log_one(&j, "a");
    ck_assert_int_eq(ss_journal_close(&j), SS_OK);
    ck_assert(!has_file("none"));
    ck_assert_int_eq(ss_journal_open(&j, NULL, 1), SS_OK);
    log_one(&j, "a");
    ck_assert_int_eq(ss_journal_close(&j), SS_OK);
    expect_error(ss_journal_open(&j, in_folder("no/log"), 1), SS_ERR_IO,
                 "/no/log: cannot write: No such file or directory");
}
END_TEST

/* Appending removes a partial last line, as a full disk leaves it. */
static const struct {
    const char *before, *after;
} logs[] = {{"", LINE("new")},
            {"{}\n", "{}\n" LINE("new")},
            {"{}\n{\"eve", "{}\n" LINE("new")},
            {"{\"eve", LINE("new")},
            {"{}\n\n", "{}\n\n" LINE("new")}};

START_TEST(goes_on)
{
    struct ss_journal j;
    write_file("log", logs[_i].before, strlen(logs[_i].before));
    ck_assert_int_eq(ss_journal_append(&j, in_folder("log")), SS_OK);
    log_one(&j, "new");
    ck_assert_int_eq(ss_journal_close(&j), SS_OK);
    file_says("log", logs[_i].after);
    ck_assert_int_eq(unlink(in_folder("log")), 0);
    ck_assert_int_eq(ss_journal_append(&j, in_folder("log")), SS_OK); /* creates the file */
    log_one(&j, "new");
    ck_assert_int_eq(ss_journal_close(&j), SS_OK);
    file_says("log", LINE("new"));
    ck_assert_int_eq(ss_journal_append(&j, NULL), SS_OK);
    ck_assert_int_eq(ss_journal_close(&j), SS_OK);
    ck_assert_int_eq(ss_journal_append(&j, "/dev/null"), SS_OK); /* not a regular file */
    ck_assert_int_eq(ss_journal_close(&j), SS_OK);
}
END_TEST

START_TEST(full_disk)
{
    struct ss_journal j;
    ck_assert_int_eq(ss_journal_open(&j, "/dev/full", 1), SS_OK);
    log_one(&j, "a");
    ck_assert_ptr_nonnull(
        strstr(ss_log_last_error(), "--log-json /dev/full: cannot write: No space left on device"));
    ck_assert_int_eq(ss_journal_close(&j), SS_ERR_IO);
}
END_TEST

static struct ss_journal shown;

static void show_from(const char *wish)
{
    setenv("STARSTEP_PROGRESS", wish, 1);
    ck_assert_int_eq(ss_journal_open(&shown, NULL, 1), SS_OK);
    ck_assert_ptr_nonnull(freopen(in_folder("err"), "w", stderr));
}

static void show(double after_s, long step, double images_per_s)
{
    now_s += after_s;
    ss_journal_progress(&shown, 2, 3, step, 60, 1.23456, images_per_s);
    fflush(stderr);
}

#define BAR30 ".............................."

START_TEST(bar)
{
    show_from("bar");
    show(0, 0, 0);
    show(0.05, 1, 10); /* too soon */
    show(0.06, 2, 10.4);
    file_says("err", "\rEpoch 2/3 [" BAR30 "] 0/60  loss 1.2346  0 img/s   "
                     "\rEpoch 2/3 [#............................."
                     "] 2/60  loss 1.2346  10 img/s   ");
    show(1, 60, 10);
    show_from("bar");
    show(1, 31, 10);
    ss_journal_end_progress(&shown);
    ss_journal_end_progress(&shown); /* no bar left to erase */
    show(0, 1, 10);                  /* a bar is drawn immediately */
    fflush(stderr);
    char expected[512];
    snprintf(expected, sizeof expected,
             "\rEpoch 2/3 [################..............] 31/60  loss 1.2346  10 img/s   \r%100s\r"
             "\rEpoch 2/3 [#.............................] 1/60  loss 1.2346  10 img/s   ",
             "");
    file_says("err", expected);
}
END_TEST

/* The first line is printed after 10 s, then one every 30 s. */
START_TEST(lines)
{
    unsetenv("STARSTEP_PROGRESS");
    ck_assert_ptr_nonnull(freopen(in_folder("err"), "w", stderr)); /* no terminal */
    ck_assert_int_eq(ss_journal_open(&shown, NULL, 1), SS_OK);
    show(9.9, 1, 10);
    show(0.2, 2, 0); /* no throughput yet: no line */
    show(0, 3, 10.04);
    show(29.9, 4, 10);
    show(0.2, 5, 10);
    now_s += 20;
    ss_journal_end_progress(&shown); /* another line was printed */
    show(29.9, 6, 10);
    show(0.2, 7, 10);
    file_says("err", "Epoch 2/3, step 3/60: loss 1.2346, 10.0 img/s\n"
                     "Epoch 2/3, step 5/60: loss 1.2346, 10.0 img/s\n"
                     "Epoch 2/3, step 7/60: loss 1.2346, 10.0 img/s\n");
}
END_TEST

START_TEST(as_wished)
{
    static const char *const bad[] = {"often", "3x", "-1", "1e7", "nan"};
    show_from("none");
    show(1e6, 1, 10);
    show_from("0");
    show(1e6, 1, 10);
    file_says("err", "");
    show_from("5");
    show(4.9, 1, 10);
    show(0.2, 2, 10);
    show(4.9, 3, 10);
    show(0.2, 4, 10);
    file_says("err", "Epoch 2/3, step 2/60: loss 1.2346, 10.0 img/s\n"
                     "Epoch 2/3, step 4/60: loss 1.2346, 10.0 img/s\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char expected[128];
        setenv("STARSTEP_PROGRESS", bad[i], 1);
        snprintf(expected, sizeof expected,
                 "STARSTEP_PROGRESS=%s: use bar, none, or the seconds between two lines", bad[i]);
        expect_error(ss_journal_open(&shown, NULL, 1), SS_ERR_INVALID, expected);
    }
    memset(&shown, 0, sizeof shown); /* a rank without progress output */
    show(1e6, 1, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal");
    TCase *t = tcase_create("journal");
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_test(t, events);
    tcase_add_loop_test(t, goes_on, 0, sizeof logs / sizeof *logs);
    tcase_add_test(t, full_disk);
    tcase_add_test(t, bar);
    tcase_add_test(t, lines);
    tcase_add_test(t, as_wished);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
