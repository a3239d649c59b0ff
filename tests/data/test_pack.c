/* test_pack.c: a pack holds the decoder's pixels, its bytes do not depend on how it was built, and
 * it is refused after the folder has changed. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "tests/data/pack_common.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* Checks that image i equals the decoded reference image. */
static void expect_image(struct ss_pack *p, size_t i, struct ss_jpeg *j, const char *reference)
{
    struct ss_pixels got;
    struct image want = decode_reference(j, reference);
    ck_assert_msg(ss_pack_pixels(p, i, &got) == SS_OK, "%s", ss_log_last_error());
    ck_assert_int_eq(got.area.x, 0);
    ck_assert_int_eq(got.area.y, 0);
    ck_assert_int_eq(got.area.width, want.width);
    ck_assert_int_eq(got.area.height, want.height);
    ck_assert_int_eq(got.scale, 1);
    ck_assert_uint_eq(got.stride, 3 * (size_t)want.width);
    ck_assert_uint_eq((uintptr_t)got.rgb % 64, 0);
    const size_t size = got.stride * (size_t)want.height;
    ck_assert_mem_eq(got.rgb, want.rgb, size);
    for (size_t k = size; k % 64 != 0; k++)
        ck_assert_uint_eq(got.rgb[k], 0);
    free(want.rgb);
}

START_TEST(round_trip)
{
    struct ss_jpeg *j;
    char path[600];
    ck_assert_int_eq(ss_jpeg_open(&j), SS_OK);
    for (int split = SS_SPLIT_TRAIN; split <= SS_SPLIT_TEST; split++) {
        const char *const(*files)[2] = split == SS_SPLIT_TRAIN ? train_files : val_files;
        struct ss_imagefolder *f = list((enum ss_split)split);
        ck_assert_uint_eq(f->count, split == SS_SPLIT_TRAIN ? TRAIN : VAL);
        ck_assert_int_eq(
            ss_pack_path(path, sizeof path, in_folder("cache/deep"), (enum ss_split)split), SS_OK);
        const char *name = path + strlen(folder) + 1;
        ck_assert_str_eq(name,
                         split == SS_SPLIT_TRAIN ? "cache/deep/train.pack" : "cache/deep/val.pack");
        expect_unfit(name, f, "");
        ck_assert_int_eq(build(name, f, 3, 9, 0), SS_OK);
        struct ss_pack *p = must_open(name, f);
        struct stat st;
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(ss_pack_bytes(p), (size_t)st.st_size);
        ck_assert_uint_eq(ss_pack_corrupt(p), 0);
        for (size_t k = 0; k < 2 * f->count; k++)
            expect_image(p, k * OTHER_ORDER % f->count, j, files[k * OTHER_ORDER % f->count][1]);
        ss_pack_close(p);
        ss_imagefolder_close(f);
    }
    ck_assert_int_eq(count_files("cache/deep"), 2);
    ss_jpeg_close(j);
}
END_TEST

/* The bytes depend on the folder only. */
START_TEST(same_bytes)
{
    static const struct {
        int threads;
        double portion;
    } ways[] = {{1, 9}, {4, 9}, {4, 0}, {1, 0}, {0, 0.001}, {33, 9}};
    write_file("train/a/1.jpg", "\xff\xd8 no", 5);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size = 0, other;
    uint8_t *first = NULL;
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        ck_assert_int_eq(build("t.pack", f, ways[k].threads, ways[k].portion, 1), SS_OK);
        uint8_t *bytes = read_file("t.pack", &other);
        if (k == 0) {
            first = bytes;
            size = other;
            continue;
        }
        ck_assert_uint_eq(size, other);
        ck_assert_mem_eq(first, bytes, size);
        free(bytes);
    }
    free(first);
    struct ss_pack_builder *b = NULL;
    expect_error(ss_pack_begin(in_folder("x"), f, -1, 0, &b), SS_ERR_INVALID,
                 "-1 decoding threads");
    ck_assert_ptr_null(b);
    ss_imagefolder_close(f);
}
END_TEST

/* Lists the folder again and opens the pack: it is refused with `text`, or matches if NULL. */
static void expect_changed(const char *text)
{
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    if (text)
        expect_unfit("t.pack", f, text);
    else
        ss_pack_close(must_open("t.pack", f));
    ss_imagefolder_close(f);
}

START_TEST(changed)
{
    must_build("t.pack", SS_SPLIT_TRAIN);
    expect_changed(NULL);
    write_file("train/b/9.jpg", "another", 7);
    expect_changed("made of 9 files, and there are 10");
    ck_assert_int_eq(unlink(in_folder("train/b/9.jpg")), 0);
    expect_changed(NULL);
    ck_assert_int_eq(rename(in_folder("train/b/3.jpg"), in_folder("train/a/5.jpg")), 0);
    expect_changed("made of other files");
    ck_assert_int_eq(rename(in_folder("train/a/5.jpg"), in_folder("train/b/3.jpg")), 0);
    expect_changed(NULL);
    ck_assert_int_eq(rename(in_folder("train/b/3.jpg"), in_folder("kept.jpg")), 0);
    expect_changed("made of 9 files, and there are 8");
    ck_assert_int_eq(rename(in_folder("kept.jpg"), in_folder("train/b/3.jpg")), 0);

    /* A modification time changed by 1 ns or 1 s invalidates the pack, and so does another size. */
    struct stat st;
    ck_assert_int_eq(stat(in_folder("train/a/2.jpg"), &st), 0);
    struct timespec times[2] = {st.st_mtim, st.st_mtim}; /* access, modified */
    times[1].tv_nsec = (times[1].tv_nsec + 1) % 1000000000;
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("train/a/2.jpg"), times, 0), 0);
    expect_changed("made before some file changed");
    times[1] = (struct timespec){times[0].tv_sec + 1, times[0].tv_nsec};
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("train/a/2.jpg"), times, 0), 0);
    expect_changed("made before some file changed");
    times[1] = times[0];
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("train/a/2.jpg"), times, 0), 0);
    expect_changed(NULL);
    write_file("train/a/2.jpg", "x", 1);
    expect_changed("made of other files");
    put_copy("train", train_files[2]);
    expect_changed("made before some file changed");
    must_build("t.pack", SS_SPLIT_TRAIN);
    expect_changed(NULL);
    struct ss_imagefolder *val = list(SS_SPLIT_TEST);
    expect_unfit("t.pack", val, "made of 9 files, and there are 2");
    ss_imagefolder_close(val);
}
END_TEST

/* Damages files 1, 6 and 7. File 6 is not a JPEG at all, so its error is detected sooner. */
static void damage_files(void)
{
    for (size_t k = 0; k < 2; k++) {
        const char *const *file = train_files[k ? 7 : 1];
        struct bytes b = read_reference(file[1]);
        char name[64];
        snprintf(name, sizeof name, "train/%s", file[0]);
        write_file(name, b.at, b.size - 30);
        free(b.at);
    }
    write_file("train/b/1.jpg", "no", 2);
}

START_TEST(corrupt)
{
    must_build("t.pack", SS_SPLIT_TRAIN);
    size_t size, other;
    uint8_t *before = read_file("t.pack", &size);
    damage_files();
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    for (int threads = 1; threads <= 4; threads++)
        expect_error(build("t.pack", f, threads, 9, 0), SS_ERR_FORMAT,
                     "/train/a/1.jpg: the file is truncated");
    uint8_t *after = read_file("t.pack", &other);
    ck_assert_uint_eq(size, other);
    ck_assert_mem_eq(before, after, size);
    free(before);
    free(after);

    struct ss_jpeg *j;
    struct ss_pixels pixels = {.rgb = NULL};
    ck_assert_int_eq(ss_jpeg_open(&j), SS_OK);
    ck_assert_int_eq(build("t.pack", f, 4, 0, 1), SS_OK);
    struct ss_pack *p = must_open("t.pack", f);
    ck_assert_uint_eq(ss_pack_corrupt(p), 3);
    for (size_t i = 0; i < f->count; i++)
        if (i != 1 && i != 6 && i != 7)
            expect_image(p, i, j, train_files[i][1]);
    expect_error(ss_pack_pixels(p, 1, &pixels), SS_ERR_FORMAT, "/train/a/1.jpg: not a usable");
    expect_error(ss_pack_pixels(p, 6, &pixels), SS_ERR_FORMAT, "/train/b/1.jpg: not a usable");
    expect_error(ss_pack_pixels(p, 7, &pixels), SS_ERR_FORMAT, "/train/b/2.jpg: not a usable");
    ck_assert_ptr_null(pixels.rgb);
    ss_pack_close(p);

    /* A missing file is an error, not a corrupt file. */
    ck_assert_int_eq(unlink(in_folder("train/b/3.jpg")), 0);
    expect_error(build("t.pack", f, 4, 9, 1), SS_ERR_IO, "/train/b/3.jpg: cannot open");
    p = must_open("t.pack", f);
    ss_pack_close(p);
    ck_assert_int_eq(count_files(NULL), 3);
    ss_jpeg_close(j);
    ss_imagefolder_close(f);
}
END_TEST

START_TEST(given_up)
{
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    struct ss_pack_builder *b;
    size_t done = 0;
    for (size_t portions = 0; portions < 4; portions++) {
        ck_assert_int_eq(ss_pack_begin(in_folder("cache/t.pack"), f, 3, 0, &b), SS_OK);
        for (size_t k = 0; k < portions; k++)
            ck_assert_int_eq(ss_pack_continue(b, 0, &done), SS_OK);
        ck_assert_uint_eq(done, portions);
        ck_assert_int_eq(count_files("cache"), 1);
        ss_pack_abort(b);
        ck_assert_int_eq(count_files("cache"), 0);
    }
    ck_assert_int_eq(ss_pack_begin(in_folder("cache/t.pack"), f, 3, 0, &b), SS_OK);
    ck_assert_int_eq(ss_pack_continue(b, 0, &done), SS_OK);
    expect_error(ss_pack_commit(b), SS_ERR_INVALID, "1 of 9 files");
    ck_assert_int_eq(count_files("cache"), 0);

    write_file("file", "", 0);
    expect_error(ss_pack_begin(in_folder("file/t.pack"), f, 1, 0, &b), SS_ERR_IO, "/file");
    struct ss_pack *p;
    char why[9];
    expect_error(ss_pack_open(in_folder("file/t.pack"), f, why, sizeof why, &p), SS_ERR_IO,
                 "/file/t.pack: cannot open: Not a directory");
    expect_error(ss_pack_open(folder, f, why, sizeof why, &p), SS_ERR_IO, "not a regular file");
    ss_imagefolder_close(f);
}
END_TEST

/* Killed during a build: the older pack is intact, and the next build succeeds. */
START_TEST(killed)
{
    must_build("cache/t.pack", SS_SPLIT_TRAIN);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size, other;
    uint8_t *before = read_file("cache/t.pack", &size);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct ss_pack_builder *b;
        size_t done = 0;
        if (ss_pack_begin(in_folder("cache/t.pack"), f, 2, 0, &b) != SS_OK)
            _exit(1);
        while (done < 6)
            if (ss_pack_continue(b, 0, &done) != SS_OK)
                _exit(2);
        if (write(ends[1], "x", 1) != 1)
            _exit(3);
        for (;;)
            pause();
    }
    char byte;
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_int_eq(count_files("cache"), 2); /* with its temporary file */
    uint8_t *after = read_file("cache/t.pack", &other);
    ck_assert_uint_eq(size, other);
    ck_assert_mem_eq(before, after, size);
    free(before);
    free(after);
    ss_pack_close(must_open("cache/t.pack", f));
    ck_assert_int_eq(build("cache/t.pack", f, 2, 9, 0), SS_OK);
    ss_pack_close(must_open("cache/t.pack", f));
    ss_imagefolder_close(f);
}
END_TEST

/* Temporary files of killed runs are removed if they are old and belong to this pack. */
START_TEST(leftovers)
{
    static const char *const kept[] = {"cache/t.pack.tmp.12",  "cache/t.pack.tmp.1x",
                                       "cache/t.pack.tmp.",    "cache/u.pack.tmp.11",
                                       "cache/at.pack.tmp.11", "cache/t.pack.old"};
    enum { KEPT = sizeof kept / sizeof *kept };
    const struct timespec old[2] = {{.tv_sec = time(NULL) - 3700}, {.tv_sec = time(NULL) - 3700}};
    ck_assert_int_eq(ss_folder_make(in_folder("cache")), SS_OK);
    for (size_t i = 0; i < KEPT; i++) {
        write_file(kept[i], "x", 1);
        if (i > 0)
            ck_assert_int_eq(utimensat(AT_FDCWD, in_folder(kept[i]), old, 0), 0);
    }
    write_file("cache/t.pack.tmp.11", "x", 1);
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("cache/t.pack.tmp.11"), old, 0), 0);
    must_build("cache/t.pack", SS_SPLIT_TRAIN);
    ck_assert(!has_file("cache/t.pack.tmp.11"));
    for (size_t i = 0; i < KEPT; i++)
        ck_assert_msg(has_file(kept[i]), "%s is gone", kept[i]);
    ck_assert_int_eq(count_files("cache"), KEPT + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pack");
    TCase *tc = tcase_create("pack");
    tcase_set_timeout(tc, 240);
    tcase_add_checked_fixture(tc, make_data, remove_folder);
    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, same_bytes);
    tcase_add_test(tc, changed);
    tcase_add_test(tc, corrupt);
    tcase_add_test(tc, given_up);
    tcase_add_test(tc, killed);
    tcase_add_test(tc, leftovers);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
