/* Shared helpers of the pack tests: a data set of reference images, and packs built from it. */
#ifndef SS_TESTS_PACK_COMMON_H
#define SS_TESTS_PACK_COMMON_H

#include "core/folder.h"
#include "data/imagefolder.h"
#include "data/pack.h"
#include "tests/data/data_images.h"

/* {file name, reference image it is a copy of}, in the folder's order. */
static const char *const train_files[][2] = {
    {"a/0.jpg", "c420.jpg"}, {"a/1.jpg", "grey.jpg"},        {"a/2.jpg", "pixel.jpg"},
    {"a/3.jpg", "cmyk.jpg"}, {"a/4.jpg", "progressive.jpg"}, {"b/0.jpg", "large.jpg"},
    {"b/1.jpg", "ycck.jpg"}, {"b/2.jpg", "rotated.jpg"},     {"b/3.jpg", "c444.jpg"},
};
static const char *const val_files[][2] = {{"a/0.jpg", "c422.jpg"}, {"b/0.jpg", "pixel.jpg"}};
enum { TRAIN = sizeof train_files / sizeof *train_files, VAL = 2, OTHER_ORDER = 7 };

static inline void put_copy(const char *split, const char *const file[2])
{
    char name[64];
    struct bytes b = read_reference(file[1]);
    snprintf(name, sizeof name, "%s/%s", split, file[0]);
    write_file(name, b.at, b.size);
    free(b.at);
}

static inline void make_data(void)
{
    make_folder();
    static const char *const folders[] = {"train/a", "train/b", "val/a", "val/b"};
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(ss_folder_make(in_folder(folders[i])), SS_OK);
    for (size_t i = 0; i < TRAIN; i++)
        put_copy("train", train_files[i]);
    for (size_t i = 0; i < VAL; i++)
        put_copy("val", val_files[i]);
}

static inline struct ss_imagefolder *list(enum ss_split split)
{
    struct ss_imagefolder *f;
    ck_assert_msg(ss_imagefolder_open(folder, split, NULL, &f) == SS_OK, "%s", ss_log_last_error());
    return f;
}

static inline enum ss_status build(const char *name, const struct ss_imagefolder *f, int threads,
                                   double portion, int skip_corrupt)
{
    struct ss_pack_builder *b;
    SS_TRY(ss_pack_begin(in_folder(name), f, threads, skip_corrupt, &b));
    for (size_t done = 0, before = 0; done < f->count; before = done) {
        enum ss_status status = ss_pack_continue(b, portion, &done);
        if (status != SS_OK) {
            ss_pack_abort(b);
            return status;
        }
        ck_assert_uint_gt(done, before);
    }
    return ss_pack_commit(b);
}

static inline void must_build(const char *name, enum ss_split split)
{
    struct ss_imagefolder *f = list(split);
    ck_assert_msg(build(name, f, 2, 9, 0) == SS_OK, "%s", ss_log_last_error());
    ss_imagefolder_close(f);
}

static inline struct ss_pack *must_open(const char *name, const struct ss_imagefolder *f)
{
    struct ss_pack *p = NULL;
    char why[200];
    ck_assert_int_eq(ss_pack_open(in_folder(name), f, why, sizeof why, &p), SS_OK);
    ck_assert_msg(p != NULL, "%s", why);
    ck_assert_str_eq(why, "");
    return p;
}

/* Checks that the pack does not match the folder and that the reason contains `text`. */
static inline void expect_unfit(const char *name, const struct ss_imagefolder *f, const char *text)
{
    struct ss_pack *p = (void *)folder; /* must be set */
    char why[200];
    ck_assert_int_eq(ss_pack_open(in_folder(name), f, why, sizeof why, &p), SS_OK);
    ck_assert_msg(p == NULL, "opened, expected the refusal \"%s\"", text);
    ck_assert_msg(strstr(why, text) != NULL && (*text || !*why), "\"%s\" does not contain \"%s\"",
                  why, text);
}

#endif
