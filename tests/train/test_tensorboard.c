/* test_tensorboard.c: reads TensorBoard event files with a reader independent of the writer;
 * damaged files; write failures. */
#include "tests/data_common.h"
#include "tests/train/events_reader.h"
#include "train/tensorboard.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <sys/syscall.h>
#include <time.h>

/* The sorted names in a subfolder of the temporary folder, at most 8. */
static char names[8][256];

static int list(const char *dir)
{
    struct dirent **entries;
    int n = 0, all = scandir(in_folder(dir), &entries, NULL, alphasort);
    ck_assert_int_ge(all, 2);
    for (int i = 0; i < all; i++) {
        if (entries[i]->d_name[0] != '.' && n < 8)
            snprintf(names[n++], sizeof names[0], "%s", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return n;
}

/* The bytes of the only file in `dir`. */
static unsigned char *only_file(const char *dir, size_t *size)
{
    char *name = NULL;
    ck_assert_int_eq(list(dir), 1);
    ck_assert_int_gt(asprintf(&name, "%s/%s", dir, names[0]), 0);
    unsigned char *bytes = read_file(name, size);
    free(name);
    return bytes;
}

static struct ss_tensorboard *open_in(const char *dir)
{
    struct ss_tensorboard *t = NULL;
    ck_assert_int_eq(ss_tensorboard_open(in_folder(dir), &t), SS_OK);
    return t;
}

static const struct events_scalar written[] = {
    {"Loss/train", 0, 1700000000.25, 0},
    {"Loss/train", 1, 1700000001.5, 2.302585125F},
    {"a", -1, 0, -0.0F},
    {"b", INT64_MAX, 4102444800.0, FLT_MAX},
    {"b", INT64_MIN, -1e300, -FLT_MAX},
    {"steps", 127, 1, 1},
    {"steps", 128, 2, 1.5F},
    {"steps", 1LL << 35, 3, 1.0F / 3},
    {"tiny", 5, 4, FLT_TRUE_MIN},
    {"tiny", 6, 5, FLT_MIN},
    {"not finite", 7, 6, (float)NAN},
    {"not finite", 8, 7, (float)INFINITY},
    {"not finite", 9, 8, (float)-INFINITY},
    {"Größe \"ä\" \xe2\x82\xac", 10, 9, 16777216},
};
enum { NWRITTEN = sizeof written / sizeof written[0] };

static void write_all_scalars(struct ss_tensorboard *t)
{
    for (int i = 0; i < NWRITTEN; i++)
        ck_assert_int_eq(ss_tensorboard_scalar(t, written[i].tag, written[i].step,
                                               written[i].wall_time, (double)written[i].value),
                         SS_OK);
}

static void expect_scalars(const struct events *e, size_t n)
{
    ck_assert_uint_eq(e->count, n);
    for (size_t i = 0; i < n; i++) {
        const struct events_scalar *got = &e->scalars[i], *want = &written[i];
        ck_assert_str_eq(got->tag, want->tag);
        ck_assert_int_eq(got->step, want->step);
        ck_assert_int_eq(memcmp(&got->wall_time, &want->wall_time, sizeof want->wall_time), 0);
        if (isnan(want->value))
            ck_assert(isnan(got->value));
        else
            ck_assert_msg(memcmp(&got->value, &want->value, sizeof want->value) == 0,
                          "scalar %zu: %a, not %a", i, (double)got->value, (double)want->value);
    }
}

START_TEST(round_trip)
{
    struct events e;
    size_t size;
    double before = (double)time(NULL);
    struct ss_tensorboard *t = open_in("new/folder");
    double after = (double)time(NULL);
    write_all_scalars(t);
    /* Read the file before it is closed: a killed run leaves all written records. */
    unsigned char *bytes = only_file("new/folder", &size);
    ck_assert_msg(events_parse(bytes, size, &e) == 0, "%s", e.error);
    ck_assert(e.start >= before && e.start <= after);
    ck_assert_uint_eq(e.records, 1 + NWRITTEN);
    expect_scalars(&e, NWRITTEN);
    events_free(&e);
    free(bytes);
    ck_assert_int_eq(ss_tensorboard_close(t), SS_OK);
    ck_assert_int_eq(ss_tensorboard_close(NULL), SS_OK);
}
END_TEST

/* If not 0, the write() below, which replaces that of the C library, alternately fails with EINTR
 * and writes at most 7 bytes. */
static int trickle;

ssize_t write(int fd, const void *bytes, size_t size)
{
    if (trickle && trickle++ % 2) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_write, fd, bytes, trickle && size > 7 ? (size_t)7 : size);
}

START_TEST(short_writes)
{
    struct events e;
    size_t size;
    trickle = 1;
    struct ss_tensorboard *t = open_in("d");
    write_all_scalars(t);
    ck_assert_int_eq(ss_tensorboard_close(t), SS_OK);
    ck_assert_int_gt(trickle, 100);
    trickle = 0;
    unsigned char *bytes = only_file("d", &size);
    ck_assert_msg(events_parse(bytes, size, &e) == 0, "%s", e.error);
    expect_scalars(&e, NWRITTEN);
    events_free(&e);
    free(bytes);
}
END_TEST

/* The expected bytes, derived by hand from the specification of the formats: key 0x09 is field 1 of
 * 8 bytes, 0x10 field 2 as a varint, 0x2a field 5 with a length, 0x0a field 1 with a length, 0x15
 * field 2 of 4 bytes. */
START_TEST(known_bytes)
{
    static const unsigned char event[] = {0x09, 0,    0,    0,    0,    0,  0,    0xf8,
                                          0x3f, 0x10, 0xac, 0x02, 0x2a, 10, 0x0a, 8,
                                          0x0a, 1,    'x',  0x15, 0,    0,  0,    0xc0};
    static const unsigned char length[8] = {sizeof event};
    size_t size;
    struct ss_tensorboard *t = open_in("d");
    ck_assert_int_eq(ss_tensorboard_scalar(t, "x", 300, 1.5, -2), SS_OK);
    ck_assert_int_eq(ss_tensorboard_close(t), SS_OK);
    unsigned char *bytes = only_file("d", &size), *record = bytes + 12 + 24 + 4;
    ck_assert_uint_eq(size, 40 + 12 + sizeof event + 4);
    ck_assert_mem_eq(bytes + 12 + 9,
                     "\x1a\x0d"
                     "brain.Event:2",
                     15);
    ck_assert_mem_eq(record, length, 8);
    ck_assert_mem_eq(record + 12, event, sizeof event);
    free(bytes);
}
END_TEST

/* Values outside the range of a float become infinite or zero, without an error. */
START_TEST(doubles)
{
    struct events e;
    size_t size;
    struct ss_tensorboard *t = open_in("d");
    ck_assert_int_eq(ss_tensorboard_scalar(t, "x", 0, 0, DBL_MAX), SS_OK);
    ck_assert_int_eq(ss_tensorboard_scalar(t, "x", 1, 0, DBL_MIN), SS_OK);
    ck_assert_int_eq(ss_tensorboard_scalar(t, "x", 2, 0, 0.1), SS_OK);
    ck_assert_int_eq(ss_tensorboard_close(t), SS_OK);
    unsigned char *bytes = only_file("d", &size);
    ck_assert_msg(events_parse(bytes, size, &e) == 0, "%s", e.error);
    ck_assert_uint_eq(e.count, 3);
    ck_assert(e.scalars[0].value == (float)INFINITY && e.scalars[1].value == 0 &&
              e.scalars[2].value == 0.1F);
    events_free(&e);
    free(bytes);
}
END_TEST

/* Two files opened in the same second by the same process have different names, in order. */
START_TEST(file_names)
{
    char host[256] = "", want[400];
    long long time_of[2];
    struct ss_tensorboard *first = open_in("d"), *second = open_in("d");
    ck_assert_int_eq(ss_tensorboard_close(first), SS_OK);
    ck_assert_int_eq(ss_tensorboard_close(second), SS_OK);
    ck_assert_int_eq(list("d"), 2);
    ck_assert_int_eq(gethostname(host, sizeof host - 1), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(sscanf(names[i], "events.out.tfevents.%lld.", &time_of[i]), 1);
    for (int i = 0; i < 2; i++) {
        snprintf(want, sizeof want, "events.out.tfevents.%010lld.%s.%ld.%d", time_of[i], host,
                 (long)getpid(), i == 1 && time_of[1] == time_of[0]);
        ck_assert_str_eq(names[i], want);
    }
    ck_assert(llabs((long long)time(NULL) - time_of[1]) < 100);
}
END_TEST

START_TEST(tag_lengths)
{
    struct events e;
    size_t size;
    char tag[SS_TENSORBOARD_TAG + 2];
    struct ss_tensorboard *t = open_in("d");
    memset(tag, 't', sizeof tag);
    tag[SS_TENSORBOARD_TAG + 1] = '\0';
    expect_error(ss_tensorboard_scalar(t, tag, 0, 0, 0), SS_ERR_INVALID, "has 256 bytes");
    expect_error(ss_tensorboard_scalar(t, "", 0, 0, 0), SS_ERR_INVALID, "has 0 bytes");
    for (int n = SS_TENSORBOARD_TAG; n > 0; n--) {
        tag[n] = '\0';
        ck_assert_int_eq(ss_tensorboard_scalar(t, tag, INT64_MIN, 0, n), SS_OK);
    }
    ck_assert_int_eq(ss_tensorboard_close(t), SS_OK);
    unsigned char *bytes = only_file("d", &size);
    ck_assert_msg(events_parse(bytes, size, &e) == 0, "%s", e.error);
    ck_assert_uint_eq(e.count, SS_TENSORBOARD_TAG);
    for (size_t i = 0; i < e.count; i++) {
        ck_assert_uint_eq(strlen(e.scalars[i].tag), SS_TENSORBOARD_TAG - i);
        ck_assert(e.scalars[i].value == (float)(SS_TENSORBOARD_TAG - i));
    }
    events_free(&e);
    free(bytes);
}
END_TEST

/* A file with some scalars. The tests of damage below check that the reader detects truncation
 * within a record and any flipped bit, and returns all preceding scalars. */
static unsigned char *small_file(size_t *size)
{
    struct ss_tensorboard *t = open_in("d");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ss_tensorboard_scalar(t, written[i].tag, written[i].step,
                                               written[i].wall_time, (double)written[i].value),
                         SS_OK);
    ck_assert_int_eq(ss_tensorboard_close(t), SS_OK);
    return only_file("d", size);
}

START_TEST(cut_file)
{
    struct events e;
    size_t size, ends = 0;
    unsigned char *bytes = small_file(&size);
    for (size_t n = 0; n <= size; n++) {
        /* Allocate exactly n bytes, so that a sanitizer detects a read past the end. */
        unsigned char *cut = malloc(n ? n : 1);
        ck_assert_ptr_nonnull(cut);
        memcpy(cut, bytes, n);
        if (events_parse(cut, n, &e) == 0) {
            ck_assert_uint_eq(e.records, ++ends);
        } else {
            ck_assert_uint_eq(e.records, ends);
            ck_assert_str_ne(e.error, "");
        }
        expect_scalars(&e, ends > 0 ? ends - 1 : 0);
        events_free(&e);
        free(cut);
    }
    ck_assert_uint_eq(ends, 5);
    free(bytes);
}
END_TEST

START_TEST(turned_bit)
{
    struct events e;
    size_t size, last = 0;
    unsigned char *bytes = small_file(&size);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_msg(events_parse(bytes, size, &e) == -1, "bit %zu", bit);
        ck_assert_uint_ge(e.records, last);
        last = e.records;
        expect_scalars(&e, last > 0 ? last - 1 : 0);
        events_free(&e);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    ck_assert_uint_eq(last, 4);
    free(bytes);
}
END_TEST

/* A file size limit emulates a full disk: one write is partial, the next one fails. The incomplete
 * record is removed and the error is reported once. No record follows, even when space is free
 * again. */
START_TEST(full_disk)
{
    struct events e;
    size_t size;
    struct ss_tensorboard *t = open_in("d");
    fill_disk(500);
    enum ss_status status = SS_OK;
    size_t fit = 0;
    for (; status == SS_OK && fit < 100; fit++)
        status = ss_tensorboard_scalar(t, "x", (int64_t)fit, 1, 2);
    fit--;
    ck_assert_int_eq(status, SS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(),
                                 "cannot write: File too large; it ends after "
                                 "its last complete record: free space there"));
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "/d/events.out.tfevents."));
    ss_fail(SS_ERR_IO, "another error");
    fill_disk(RLIM_INFINITY);
    ck_assert_int_eq(ss_tensorboard_scalar(t, "x", 0, 1, 2), SS_ERR_IO);
    ck_assert_int_eq(ss_tensorboard_close(t), SS_ERR_IO);
    ck_assert_str_eq(ss_log_last_error(), "another error");

    unsigned char *bytes = only_file("d", &size);
    ck_assert_msg(events_parse(bytes, size, &e) == 0, "%s", e.error);
    ck_assert_uint_eq(e.count, fit);
    /* Bytes of an event: time 9, step 2, summary 2, value 2, tag 3, number 5. */
    ck_assert_uint_eq(size, 40 + fit * (16 + 23));
    ck_assert_uint_eq(fit, (500 - 40) / 39);
    events_free(&e);
    free(bytes);
}
END_TEST

/* No space for the first record: no file is left. */
START_TEST(full_disk_at_start)
{
    struct ss_tensorboard *t = NULL;
    ck_assert_int_eq(mkdir(in_folder("d"), 0777), 0);
    fill_disk(10);
    expect_error(ss_tensorboard_open(in_folder("d"), &t), SS_ERR_IO, "cannot write: ");
    ck_assert_ptr_null(t);
    ck_assert_int_eq(count_files("d"), 0);
}
END_TEST

START_TEST(no_folder)
{
    struct ss_tensorboard *t = NULL;
    char long_name[5000];
    write_file("file", "x", 1);
    expect_error(ss_tensorboard_open(in_folder("file"), &t), SS_ERR_IO,
                 "/file: is not a folder; remove it or name another");
    expect_error(ss_tensorboard_open(in_folder("file/d"), &t), SS_ERR_IO,
                 "/file/d: cannot make this folder: ");
    expect_error(ss_tensorboard_open("", &t), SS_ERR_INVALID, "name is empty");
    memset(long_name, 'd', sizeof long_name);
    for (size_t i = 0; i < sizeof long_name; i += 100)
        long_name[i] = '/';
    memcpy(long_name, "/tmp", 4);
    long_name[sizeof long_name - 1] = '\0';
    expect_error(ss_tensorboard_open(long_name, &t), SS_ERR_INVALID, "name is too long");
    ck_assert_ptr_null(t);
    /* Even root cannot create a file there. */
    expect_error(ss_tensorboard_open("/proc", &t), SS_ERR_IO, "cannot create the file: ");
    ck_assert_ptr_null(t);
}
END_TEST

START_TEST(unwritable_folder)
{
    struct ss_tensorboard *t = NULL;
    ck_assert_int_eq(mkdir(in_folder("d"), 0555), 0);
    ck_assert_int_eq(chmod(folder, 0755), 0);
    /* Root can write anywhere: become another user, if permitted. */
    int was_root = geteuid() == 0;
    if (was_root && seteuid(65534) != 0)
        return;
    expect_error(ss_tensorboard_open(in_folder("d"), &t), SS_ERR_IO,
                 "cannot create the file: Permission denied; name a folder in which files can");
    expect_error(ss_tensorboard_open(in_folder("d/e"), &t), SS_ERR_IO,
                 "/d/e: cannot make this folder: Permission denied; name one");
    ck_assert(!was_root || seteuid(0) == 0);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(count_files("d"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensorboard");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, short_writes);
    tcase_add_test(tc, known_bytes);
    tcase_add_test(tc, doubles);
    tcase_add_test(tc, file_names);
    tcase_add_test(tc, tag_lengths);
    tcase_add_test(tc, cut_file);
    tcase_add_test(tc, turned_bit);
    tcase_add_test(tc, full_disk);
    tcase_add_test(tc, full_disk_at_start);
    tcase_add_test(tc, no_folder);
    tcase_add_test(tc, unwritable_folder);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
