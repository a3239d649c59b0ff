#include "apps/data/make_tinyimagenet.h"
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/rng.h"
#include "apps/data/jpeg_write.h"
#include "data/resize.h"
#include "apps/data/synthetic.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = SS_SYNTHETIC_SIDE, SIDE = 64, WNID_STEP = 7919 };

struct maker {
    const char *dir;
    const struct ss_tinyimagenet *what;
    struct ss_resizer *resizer;
};

/* Generate IDs in WordNet's format that are not consecutive and do not start at 0. */
static void name_class(uint32_t k, char wnid[16])
{
    snprintf(wnid, 16, "n%08u", 1443537 + k * WNID_STEP);
}

static SS_PRINTF(2, 3) enum ss_status append(struct ss_atomic_file *f, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return ss_atomic_write(f, line, (size_t)length);
}

static struct ss_jpeg_how draw_how(uint64_t seed, int val, uint32_t sample)
{
    uint64_t bits = ss_mix64(ss_mix64(seed, (uint64_t)val), sample);
    return (struct ss_jpeg_how){.quality = 60 + (int)(bits % 36),
                                .grey = (bits >> 16) % 16 == 0,
                                .progressive = (bits >> 24) % 8 == 0,
                                .full_colour = (bits >> 32) % 4 == 0};
}

static enum ss_status make_image(const struct maker *m, const char *path, uint32_t class_index,
                                 int val, uint32_t sample)
{
    uint8_t planes[3][SMALL * SMALL], small[3 * SMALL * SMALL], rgb[3 * SIDE * SIDE];
    ss_synthetic_image(m->what->seed, class_index, val, sample, planes[0]);
    for (int i = 0; i < SMALL * SMALL; i++)
        for (int c = 0; c < 3; c++)
            small[3 * i + c] = planes[c][i];
    struct ss_resize enlarge = ss_resize_whole(small, 3 * SMALL, SMALL, SMALL, SIDE, SIDE);
    enlarge.order = SS_PIXELS_HWC;
    SS_TRY(ss_resize_run(m->resizer, &enlarge, rgb));
    struct ss_jpeg_how how = draw_how(m->what->seed, val, sample);
    return ss_jpeg_write(path, rgb, SIDE, SIDE, &how);
}

static enum ss_status make_train(const struct maker *m)
{
    for (uint32_t k = 0; k < m->what->classes; k++) {
        char folder[4096], wnid[16];
        name_class(k, wnid);
        int n = snprintf(folder, sizeof folder, "%s/train/%s/images", m->dir, wnid);
        if (n < 0 || (size_t)n >= sizeof folder)
            return ss_fail(SS_ERR_INVALID, "%.80s...: the folder's name is too long", m->dir);
        SS_TRY(ss_folder_make(folder));
        for (uint32_t i = 0; i * m->what->classes + k < m->what->train; i++) {
            char path[4096], name[48];
            snprintf(name, sizeof name, "%s_%u.JPEG", wnid, i);
            SS_TRY(ss_folder_join(path, sizeof path, folder, name));
            SS_TRY(make_image(m, path, k, 0, i * m->what->classes + k));
        }
    }
    return SS_OK;
}

/* The classes of val are not in ascending order. */
static enum ss_status make_val_files(const struct maker *m, const char *folder,
                                     struct ss_atomic_file *list)
{
    for (uint32_t i = 0; i < m->what->val; i++) {
        char path[4096], name[32], wnid[16];
        uint32_t k = (m->what->val - i) % m->what->classes;
        name_class(k, wnid);
        snprintf(name, sizeof name, "val_%u.JPEG", i);
        SS_TRY(ss_folder_join(path, sizeof path, folder, name));
        SS_TRY(make_image(m, path, k, 1, i));
        SS_TRY(append(list, "%s\t%s\t0\t0\t%d\t%d\n", name, wnid, SIDE - 1, SIDE - 1));
    }
    return SS_OK;
}

/* Write DIR/NAME atomically with the content that `fill` appends. */
static enum ss_status make_list(const struct maker *m, const char *name,
                                enum ss_status (*fill)(const struct maker *,
                                                       struct ss_atomic_file *))
{
    char path[4096];
    struct ss_atomic_file *list;
    SS_TRY(ss_folder_join(path, sizeof path, m->dir, name));
    SS_TRY(ss_atomic_open(path, &list));
    enum ss_status status = fill(m, list);
    if (status == SS_OK)
        return ss_atomic_commit(list);
    ss_atomic_abort(list);
    return status;
}

static enum ss_status fill_val(const struct maker *m, struct ss_atomic_file *list)
{
    char folder[4096];
    SS_TRY(ss_folder_join(folder, sizeof folder, m->dir, "val/images"));
    SS_TRY(ss_folder_make(folder));
    return make_val_files(m, folder, list);
}

static enum ss_status fill_words(const struct maker *m, struct ss_atomic_file *list)
{
    char wnid[16];
    for (uint32_t k = 0; k < m->what->classes; k++) {
        name_class(k, wnid);
        SS_TRY(append(list, "%s\tgenerated pattern %u\n", wnid, k));
    }
    return SS_OK;
}

/* Not in the order of the folders, like TinyImageNet's own list. */
static enum ss_status fill_wnids(const struct maker *m, struct ss_atomic_file *list)
{
    char wnid[16];
    for (uint32_t k = m->what->classes; k-- > 0;) {
        name_class(k, wnid);
        SS_TRY(append(list, "%s\n", wnid));
    }
    return SS_OK;
}

static enum ss_status make_all(const struct maker *m)
{
    char val[4096];
    SS_TRY(ss_folder_join(val, sizeof val, m->dir, "val"));
    SS_TRY(ss_folder_make(val));
    SS_TRY(make_train(m));
    SS_TRY(make_list(m, "val/val_annotations.txt", fill_val));
    SS_TRY(make_list(m, "words.txt", fill_words));
    return make_list(m, "wnids.txt", fill_wnids);
}

enum ss_status ss_make_tinyimagenet(const char *dir, const struct ss_tinyimagenet *what)
{
    if (what->classes < 1 || what->classes > SS_MAKE_TINYIMAGENET_CLASSES)
        return ss_fail(SS_ERR_INVALID, "%u classes; give 1 to %d", what->classes,
                       SS_MAKE_TINYIMAGENET_CLASSES);
    if (what->train < what->classes || what->train > SS_MAKE_TINYIMAGENET_FILES || what->val < 1 ||
        what->val > SS_MAKE_TINYIMAGENET_FILES)
        return ss_fail(SS_ERR_INVALID,
                       "%u training and %u validation images; give at least one of each class for "
                       "training, one for validation, and at most %d",
                       what->train, what->val, SS_MAKE_TINYIMAGENET_FILES);
    if (ss_folder_has(dir, "train") || ss_folder_has(dir, "val"))
        return ss_fail(
            SS_ERR_INVALID,
            "%s: already has a folder train or val; remove them or choose another folder", dir);
    struct maker m = {.dir = dir, .what = what};
    SS_TRY(ss_resizer_open(&m.resizer));
    enum ss_status status = make_all(&m);
    ss_resizer_close(m.resizer);
    return status;
}
