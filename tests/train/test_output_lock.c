/* test_output_lock.c: acquisition, contents and heartbeats of a run's lock files. */
#include "train/output_lock.h"
#include "core/clock.h"
#include "tests/data_common.h"

#include <fcntl.h>
#include <regex.h>
#include <time.h>

static const char elsewhere[] = "host far\nprocess 77\njob Slurm job 12\nboot "
                                "00000000-0000-4000-8000-000000000000\nsince 1.000000000\n";

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static void add_lock(struct ss_output_locks *all, const char *name)
{
    ck_assert_int_eq(ss_output_locks_add(all, in_folder(name), "--checkpoint-dir run"), SS_OK);
}

/* Call ss_output_locks_take until no lock is waited for, or it fails. */
static enum ss_status take(struct ss_output_locks *all, double most_s)
{
    int waiting = 1;
    enum ss_status status = SS_OK;
    for (const double begin = ss_seconds(); status == SS_OK && waiting; sleep_ms(20)) {
        ck_assert(ss_seconds() - begin < most_s);
        status = ss_output_locks_take(all, &waiting);
    }
    return status;
}

static void matches(const char *text, const char *pattern)
{
    regex_t rule;
    ck_assert_int_eq(regcomp(&rule, pattern, REG_EXTENDED | REG_NOSUB), 0);
    ck_assert_msg(regexec(&rule, text, 0, NULL, 0) == 0, "%s", text);
    regfree(&rule);
}

static void no_jobs(void)
{
    static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID",
                                        "JOB_ID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

START_TEST(text)
{
    static const struct {
        const char *variable, *value, *line;
    } jobs[] = {{"SLURM_JOB_ID", "", "none"},
                {"SLURM_JOB_ID", "81", "Slurm job 81"},
                {"PBS_JOBID", "7.head", "PBS job 7.head"},
                {"LSB_JOBID", "5", "LSF job 5"},
                {"FLUX_JOB_ID", "f3", "Flux job f3"},
                {"JOB_ID", "9", "Grid Engine job 9"}};
    const struct timespec now = {.tv_sec = time(NULL)};
    make_folder();
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        static struct ss_output_locks all;
        char expected[512], host[64] = "";
        no_jobs();
        setenv(jobs[i].variable, jobs[i].value, 1);
        memset(&all, 0, sizeof all);
        add_lock(&all, "lock");
        ck_assert_int_eq(take(&all, 1), SS_OK);
        char *said = read_text("lock");
        gethostname(host, sizeof host - 1);
        snprintf(expected, sizeof expected, "host %s\nprocess %ld\njob %s\nboot ", host,
                 (long)getpid(), jobs[i].line);
        ck_assert_msg(!strncmp(said, expected, strlen(expected)), "%s", said);
        matches(said + strlen(expected),
                "^[0-9a-f-]{36}\nsince [0-9]+\\.[0-9]{9}\nbeat 00000001\n$");
        const long since = atol(strstr(said, "since ") + 6);
        ck_assert(since >= now.tv_sec && since < now.tv_sec + 60);
        free(said);
        ss_output_locks_release(&all);
        ck_assert(!has_file("lock")); /* a released lock file is removed */
    }
    remove_folder();
}
END_TEST

/* On the same machine the kernel's file lock decides: the lock of an ended run is taken over, that
 * of a live run is an error after 2 s. */
START_TEST(another_run)
{
    static struct ss_output_locks first, second, third;
    char expected[640], host[64] = "";
    no_jobs();
    setenv("SLURM_JOB_ID", "81", 1);
    make_folder();
    gethostname(host, sizeof host - 1);
    add_lock(&first, "lock");
    ck_assert_int_eq(take(&first, 1), SS_OK);
    add_lock(&second, "lock");
    const double begin = ss_seconds();
    snprintf(expected, sizeof expected,
             "--checkpoint-dir run: another run writes there: process %ld on %.40s, Slurm job 81 "
             "(%s); wait until "
             "it has ended, or give each run its own",
             (long)getpid(), host, in_folder("lock"));
    expect_error(take(&second, 10), SS_ERR_INVALID, expected);
    ck_assert(ss_seconds() - begin >= SS_LOCK_GRACE_S);
    ss_output_locks_release(&second);
    ck_assert(has_file("lock"));

    /* The first run ends while another one waits. */
    add_lock(&third, "lock");
    int waiting;
    ck_assert_int_eq(ss_output_locks_take(&third, &waiting), SS_OK);
    ck_assert_int_eq(waiting, 1);
    ss_output_locks_release(&first);
    ck_assert(!has_file("lock"));
    ck_assert_int_eq(take(&third, 1), SS_OK);
    ss_output_locks_release(&third);
    remove_folder();
}
END_TEST

/* After a crash the file stays, but the kernel has released its lock. */
START_TEST(crashed_here)
{
    static struct ss_output_locks all, again;
    make_folder();
    add_lock(&all, "lock");
    ck_assert_int_eq(take(&all, 1), SS_OK);
    char *said = read_text("lock");
    ss_output_locks_release(&all);
    write_text("lock", said);
    write_text("empty", "");
    add_lock(&again, "lock");
    add_lock(&again, "empty");
    ck_assert_int_eq(take(&again, 1), SS_OK);
    free(said);
    ss_output_locks_release(&again);
    remove_folder();
}
END_TEST

/* A file that is not a lock file is neither taken over nor removed. */
START_TEST(somebodys_own)
{
    static const char *const contents[] = {"/dev/sda1\n", "hosts\n", NULL};
    char large[1024];
    memset(large, ' ', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    make_folder();
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        static struct ss_output_locks all;
        const char *content = contents[i] ? contents[i] : large;
        memset(&all, 0, sizeof all);
        write_text("lock", content);
        add_lock(&all, "lock");
        ck_assert_int_eq(take(&all, 1), SS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "exists and is not a lock file"));
        ss_output_locks_release(&all);
        char *said = read_text("lock");
        ck_assert_str_eq(said, content);
        free(said);
    }
    remove_folder();
}
END_TEST

/* Write the heartbeat of a process on another machine. */
static void heartbeat_elsewhere(const char *name, int heartbeat)
{
    char said[sizeof elsewhere + 32];
    snprintf(said, sizeof said, "%sbeat %08d\n", elsewhere, heartbeat);
    write_text(name, said);
}

/* Locks of another machine: one without heartbeats is claimed after 10 s and owned 2 s later,
 * unless another process claims it in between; one with heartbeats is an error. */
START_TEST(another_machine)
{
    static struct ss_output_locks silent, beating, stolen;
    static const char told[] =
        "--checkpoint-dir run: another run writes there: process 77 on far, Slurm job 12 (";
    enum { OTHERS, TAKEN, STOLEN, SEEN, REFUSED } state = OTHERS;
    make_folder();
    heartbeat_elsewhere("silent", 1);
    heartbeat_elsewhere("beating", 1);
    heartbeat_elsewhere("stolen", 1);
    add_lock(&silent, "silent");
    add_lock(&beating, "beating");
    add_lock(&stolen, "stolen");
    int waiting;
    const double begin = ss_seconds();
    ck_assert_int_eq(ss_output_locks_take(&beating, &waiting), SS_OK);
    ck_assert_int_eq(waiting, 1);
    sleep_ms(50);
    ck_assert_int_eq(ss_output_locks_take(&beating, &waiting), SS_OK);
    ck_assert_int_eq(waiting, 1);
    heartbeat_elsewhere("beating", 2);
    expect_error(ss_output_locks_take(&beating, &waiting), SS_ERR_INVALID, told);

    for (waiting = 1; waiting || state != REFUSED; sleep_ms(20)) {
        int others;
        ck_assert(ss_seconds() - begin < 60);
        ck_assert_int_eq(ss_output_locks_take(&silent, &waiting), SS_OK);
        ck_assert(waiting || ss_seconds() - begin >= SS_LOCK_SILENCE_S + 2);
        if (state == SEEN) {
            expect_error(ss_output_locks_take(&stolen, &others), SS_ERR_INVALID, told);
            state = REFUSED;
        }
        if (state == REFUSED)
            continue;
        ck_assert_int_eq(ss_output_locks_take(&stolen, &others), SS_OK);
        ck_assert_int_eq(others, 1);
        char *said = read_text("stolen");
        if (state == OTHERS && strncmp(said, elsewhere, strlen(elsewhere)) != 0) {
            state = TAKEN;
            heartbeat_elsewhere("stolen", 2);
        } else if (state == TAKEN && strstr(stolen.lock[0].seen, "beat 00000002")) {
            ck_assert(ss_seconds() - begin >= SS_LOCK_SILENCE_S + 2);
            state = STOLEN;
        } else if (state == STOLEN) {
            heartbeat_elsewhere("stolen", 3);
            state = SEEN;
        }
        free(said);
    }
    ss_output_locks_release(&silent);
    ss_output_locks_release(&beating);
    ss_output_locks_release(&stolen);
    ck_assert(!has_file("silent") && has_file("beating") && has_file("stolen"));
    remove_folder();
}
END_TEST

/* A heartbeat is written every second; a lock file with another owner is lost, and not changed. */
START_TEST(heartbeats)
{
    static struct ss_output_locks all;
    make_folder();
    add_lock(&all, "lock");
    ck_assert_int_eq(take(&all, 1), SS_OK);
    ck_assert_int_eq(ss_output_locks_start_heartbeat(&all), SS_OK);
    for (int seen = 0; !seen; sleep_ms(50)) {
        char *said = read_text("lock");
        seen = strstr(said, "\nbeat 00000003\n") != NULL;
        free(said);
    }
    ck_assert_int_eq(ss_output_locks_check(&all), SS_OK);
    write_text("lock", elsewhere);
    while (ss_output_locks_check(&all) == SS_OK)
        sleep_ms(50);
    expect_error(ss_output_locks_check(&all), SS_ERR_INVALID, "process 77 on far");
    sleep_ms(1200); /* no further heartbeat */
    ss_output_locks_release(&all);
    char *said = read_text("lock");
    ck_assert_str_eq(said, elsewhere);
    free(said);
    remove_folder();
}
END_TEST

START_TEST(places)
{
    static struct ss_output_locks all, none;
    char name[PATH_MAX + 2];
    int waiting;
    make_folder();
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    expect_error(ss_output_locks_add(&all, name, "--trace x"), SS_ERR_INVALID,
                 "--trace x: the name is too long");
    add_lock(&all, "no/such/folder");
    ck_assert_int_eq(take(&all, 1), SS_OK); /* continues without a lock */
    for (int i = 1; i < SS_LOCK_MOST; i++)
        add_lock(&all, &"lock"[i]); /* other names */
    expect_error(ss_output_locks_add(&all, "x", "--trace x"), SS_ERR_INVALID, "--trace x: ");
    ck_assert_int_eq(take(&all, 1), SS_OK);
    ck_assert(has_file("ock") && has_file("ck") && has_file("k"));
    ss_output_locks_release(&all);
    ck_assert(!has_file("ock") && !has_file("ck") && !has_file("k"));
    ck_assert_int_eq(ss_output_locks_take(&none, &waiting), SS_OK);
    ck_assert_int_eq(waiting, 0);
    ck_assert_int_eq(ss_output_locks_start_heartbeat(&none), SS_OK);
    ss_output_locks_release(&none);
    remove_folder();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output_lock");
    TCase *t = tcase_create("output_lock");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, text);
    tcase_add_test(t, somebodys_own);
    tcase_add_test(t, another_run);
    tcase_add_test(t, crashed_here);
    tcase_add_test(t, another_machine);
    tcase_add_test(t, heartbeats);
    tcase_add_test(t, places);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
