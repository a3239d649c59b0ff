#include "apps/data/convert_npz.h"
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/rng.h"
#include "apps/data/idx.h"
#include "data/imagefolder.h"
#include "apps/data/npz.h"
#include "data/pixels.h"
#include "apps/data/png_write.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRAIN, VAL, PARTS, MAX_LABELS = SS_IMAGEFOLDER_MAX_CLASSES };
static const char *const part_names[PARTS] = {"train", "val"};

/* Common array names: training images and labels, then validation images and labels or NULL. The
 * first row whose arrays all exist is used. */
static const char *const usual[][4] = {
    {"x_train", "y_train", "x_test", "y_test"}, /* Keras */
    {"x_train", "y_train", "x_val", "y_val"},
    {"train_images", "train_labels", "val_images", "val_labels"}, /* MedMNIST */
    {"train_images", "train_labels", "test_images", "test_labels"},
    {"x_train", "y_train", NULL, NULL},
    {"train_images", "train_labels", NULL, NULL},
    {"images", "labels", NULL, NULL},
    {"data", "targets", NULL, NULL},
    {"data", "labels", NULL, NULL},
    {"x", "y", NULL, NULL},
};
enum { USUAL = sizeof usual / sizeof *usual };

/* Names of IDX files, in the same order; ".gz" may be appended. */
static const char *const idx_names[][4] = {
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
     "t10k-labels-idx1-ubyte"},
    {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte",
     "t10k-labels.idx1-ubyte"},
};
enum { IDX_NAMES = sizeof idx_names / sizeof *idx_names };

struct part {
    struct ss_npz_array images, labels;
    size_t count;
    size_t pixel, row, channel; /* strides in bytes */
    int height, width, channels;
};

struct converter {
    const char *from;
    const struct ss_npz_how *how;
    struct ss_zip *zip; /* NULL: a folder of IDX files */
    const char *names[4];
    char files[4][64];        /* IDX file names in that folder */
    struct part parts[PARTS]; /* [VAL] is empty if the validation set is split off [TRAIN] */
    size_t counts[PARTS][MAX_LABELS];
    unsigned char *is_val; /* per image of parts[TRAIN] if the set is split off, else NULL */
    int digits;            /* of the largest label */
    char folder[3840];     /* temporary */
    uint8_t *pixels;       /* of one image */
    size_t written[PARTS];
};

static enum ss_status choose_files(struct converter *c)
{
    for (int i = 0; i < 4; i++)
        for (int row = 0; row < 2 * IDX_NAMES && !c->names[i]; row++) {
            snprintf(c->files[i], sizeof c->files[i], "%s%s", idx_names[row / 2][i],
                     row % 2 ? ".gz" : "");
            if (ss_folder_has(c->from, c->files[i]))
                c->names[i] = c->files[i];
        }
    for (int i = 0; i < 4; i++)
        if (!c->names[i] && (i < 2 || c->names[2] || c->names[3]))
            return ss_fail(SS_ERR_FORMAT, "%s: %s is missing (also with .gz)", c->from,
                           idx_names[0][i]);
    return SS_OK;
}

static enum ss_status choose_names(struct converter *c)
{
    const struct ss_npz_how *how = c->how;
    if (!c->zip)
        return choose_files(c);
    if (how->images || how->labels) {
        if (!how->images || !how->labels)
            return ss_fail(SS_ERR_INVALID, "%s: give both --images and --labels", c->from);
        c->names[0] = how->images;
        c->names[1] = how->labels;
        return SS_OK;
    }
    for (int row = 0; row < USUAL; row++) {
        int all = 1;
        for (int i = 0; i < 4; i++)
            all &= !usual[row][i] || ss_npz_has(c->zip, usual[row][i]);
        if (all) {
            memcpy(c->names, usual[row], sizeof c->names);
            return SS_OK;
        }
    }
    char names[300];
    ss_npz_names(c->zip, names, sizeof names);
    return ss_fail(SS_ERR_FORMAT,
                   "%s: has no arrays with common names such as x_train and y_train; choose with "
                   "--images and --labels from: %s",
                   c->from, names);
}

static enum ss_status fail_images(const struct converter *c, const struct ss_npz_array *a)
{
    return ss_fail(SS_ERR_UNSUPPORTED,
                   "%s: %s: the shape must be (N,H,W), (N,H,W,C) or (N,C,H,W) with C 1 or 3",
                   c->from, a->name);
}

static enum ss_status check_images(const struct converter *c, struct part *p)
{
    const struct ss_npz_array *a = &p->images;
    const size_t *s = a->shape;
    if (a->type[1] != 'u' || a->item != 1)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "%s: %s: its type is %s; images must be uint8 (|u1), 0 to 255", c->from,
                       a->name, a->type);
    const int grey = a->dims == 3, last = a->dims == 4 && (s[3] == 1 || s[3] == 3),
              first = a->dims == 4 && !last && (s[1] == 1 || s[1] == 3);
    if (!grey && !last && !first)
        return fail_images(c, a);
    const size_t channels = grey   ? 1
                            : last ? s[3]
                                   : s[1],
                 height = first ? s[2] : s[1], width = first ? s[3] : s[2];
    if (!s[0] || !height || !width || height > SS_IMAGE_MAX_PIXELS / width)
        return ss_fail(SS_ERR_UNSUPPORTED, "%s: %s: %zu images of %zu x %zu pixels", c->from,
                       a->name, s[0], height, width);
    p->count = s[0];
    p->channels = (int)channels;
    p->height = (int)height;
    p->width = (int)width;
    p->pixel = first ? 1 : channels;
    p->row = p->pixel * width;
    p->channel = first ? height * width : 1;
    return SS_OK;
}

static enum ss_status check_labels(struct converter *c, const struct part *p, int part)
{
    const struct ss_npz_array *a = &p->labels;
    if (!ss_npz_is_integer(a))
        return ss_fail(SS_ERR_UNSUPPORTED, "%s: %s: its type is %s; labels must be integers",
                       c->from, a->name, a->type);
    if (a->dims < 1 || a->dims > 2 || (a->dims == 2 && a->shape[1] != 1))
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "%s: %s: the shape must be (N) or (N,1), with one label per image", c->from,
                       a->name);
    if (a->shape[0] != p->count)
        return ss_fail(SS_ERR_FORMAT, "%s: %s: %zu labels for %zu images of %s", c->from, a->name,
                       a->shape[0], p->count, p->images.name);
    for (size_t i = 0; i < p->count; i++) {
        const int64_t label = ss_npz_integer(a, i);
        if (label < 0 || label >= MAX_LABELS)
            return ss_fail(SS_ERR_FORMAT, "%s: %s: label %lld of image %zu; it must be 0 to %d",
                           c->from, a->name, (long long)label, i, MAX_LABELS - 1);
        c->counts[part][label]++;
    }
    return SS_OK;
}

static enum ss_status read_array(const struct converter *c, const char *name,
                                 struct ss_npz_array *out)
{
    return c->zip ? ss_npz_read(c->zip, c->from, name, out) : ss_idx_read(c->from, name, out);
}

static enum ss_status read_part(struct converter *c, int part)
{
    struct part *p = &c->parts[part];
    SS_TRY(read_array(c, c->names[2 * part], &p->images));
    SS_TRY(check_images(c, p));
    SS_TRY(read_array(c, c->names[2 * part + 1], &p->labels));
    return check_labels(c, p, part);
}

static int label_of(const struct part *p, size_t i)
{
    return (int)ss_npz_integer(&p->labels, i);
}

/* Select the validation images of one class, whose images are `members`, by a partial shuffle. */
static void split_class(struct converter *c, int label, uint32_t *members, size_t count)
{
    size_t take = (size_t)lrint((double)count * c->how->val_fraction);
    take = take < 1 ? 1 : take > count - 1 ? count - 1 : take;
    struct ss_rng rng;
    ss_rng_open(&rng, c->how->seed, SS_RNG_SYNTHETIC, UINT32_MAX, (uint32_t)label);
    for (size_t i = 0; i < take; i++) {
        const size_t j = i + ss_rng_below(&rng, (uint32_t)(count - i));
        const uint32_t chosen = members[j];
        members[j] = members[i];
        members[i] = chosen;
        c->is_val[chosen] = 1;
    }
    c->counts[VAL][label] = take;
    c->counts[TRAIN][label] = count - take;
}

/* Sort the images by label into `members`, which has space for all, and split each class. */
static enum ss_status split_classes(struct converter *c, uint32_t *members)
{
    const struct part *p = &c->parts[TRAIN];
    size_t *first = calloc(MAX_LABELS + 1, sizeof *first);
    if (!first)
        return ss_fail_memory("a split", (MAX_LABELS + 1) * sizeof *first);
    for (int k = 0; k < MAX_LABELS; k++)
        first[k + 1] = first[k] + c->counts[TRAIN][k];
    for (size_t i = 0; i < p->count; i++)
        members[first[label_of(p, i)]++] = (uint32_t)i;
    enum ss_status status = SS_OK;
    for (int k = 0; k < MAX_LABELS && status == SS_OK; k++) {
        const size_t count = c->counts[TRAIN][k]; /* first[k] is now the start of the next class */
        if (count == 1)
            status = ss_fail(SS_ERR_FORMAT,
                             "%s: label %d has one image; a class needs one for training and one "
                             "for validation",
                             c->from, k);
        else if (count)
            split_class(c, k, members + first[k] - count, count);
    }
    free(first);
    return status;
}

static enum ss_status split(struct converter *c)
{
    const size_t count = c->parts[TRAIN].count;
    if (count > UINT32_MAX)
        return ss_fail(SS_ERR_UNSUPPORTED, "%s: more than 2^32 images", c->from);
    c->is_val = calloc(count, 1);
    uint32_t *members = malloc(count * sizeof *members);
    enum ss_status status = c->is_val && members
                                ? split_classes(c, members)
                                : ss_fail_memory("a split", count * sizeof *members);
    free(members);
    return status;
}

/* Check that every validation class has training images. */
static enum ss_status check_classes(struct converter *c)
{
    int last = 0;
    for (int k = 0; k < MAX_LABELS; k++) {
        if (c->counts[VAL][k] && !c->counts[TRAIN][k])
            return ss_fail(SS_ERR_FORMAT,
                           "%s: label %d is in %s and not in %s; every class needs training images",
                           c->from, k, c->names[3], c->names[1]);
        if (c->counts[TRAIN][k])
            last = k;
    }
    c->digits = snprintf(NULL, 0, "%d", last);
    return SS_OK;
}

static enum ss_status read_arrays(struct converter *c)
{
    SS_TRY(choose_names(c));
    const int has_val = c->names[2] != NULL, wanted = c->how->val_fraction > 0;
    if (!has_val && !wanted)
        return ss_fail(SS_ERR_INVALID,
                       "%s: has no arrays for validation; split off a fraction of %s: "
                       "--val-fraction 0.1",
                       c->from, c->names[0]);
    if (has_val && wanted)
        return ss_fail(SS_ERR_INVALID, "%s: %s is for validation; leave --val-fraction out%s",
                       c->from, c->names[2],
                       c->zip ? ", or give --images and --labels to split those arrays" : "");
    SS_TRY(read_part(c, TRAIN));
    SS_TRY(has_val ? read_part(c, VAL) : split(c));
    return check_classes(c);
}

/* Return image i as contiguous (height, width, channels), copied to c->pixels if necessary. */
static const uint8_t *gather(const struct converter *c, const struct part *p, size_t i)
{
    const size_t height = (size_t)p->height, width = (size_t)p->width,
                 channels = (size_t)p->channels;
    const uint8_t *in = p->images.bytes + i * height * width * channels;
    if (p->pixel == channels)
        return in;
    uint8_t *out = c->pixels;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t k = 0; k < channels; k++)
                *out++ = in[y * p->row + x * p->pixel + k * p->channel];
    return c->pixels;
}

static enum ss_status make_folders(const struct converter *c)
{
    for (int part = 0; part < PARTS; part++)
        for (int k = 0; k < MAX_LABELS; k++) {
            char path[4096];
            if (!c->counts[part][k])
                continue;
            snprintf(path, sizeof path, "%s/%s/%0*d", c->folder, part_names[part], c->digits, k);
            SS_TRY(ss_folder_make(path));
        }
    return SS_OK;
}

static enum ss_status write_part(struct converter *c, const struct part *p, int part)
{
    for (size_t i = 0; i < p->count; i++) {
        char path[4096];
        const int to = c->is_val && c->is_val[i] ? VAL : part;
        if (c->how->stopped && c->how->stopped())
            return ss_fail(SS_ERR_INTERRUPTED, "%s: stopped by a signal after %zu images", c->from,
                           c->written[TRAIN] + c->written[VAL]);
        snprintf(path, sizeof path, "%s/%s/%0*d/%08zu.png", c->folder, part_names[to], c->digits,
                 label_of(p, i), i);
        SS_TRY(ss_png_write(path, gather(c, p, i), p->width, p->height, p->channels));
        c->written[to]++;
    }
    return SS_OK;
}

static enum ss_status write_all(struct converter *c)
{
    size_t most = 0;
    SS_TRY(make_folders(c));
    for (int part = 0; part < PARTS; part++) {
        const struct part *p = &c->parts[part];
        const size_t bytes = (size_t)p->height * (size_t)p->width * (size_t)p->channels;
        most = bytes > most ? bytes : most;
    }
    c->pixels = malloc(most);
    if (!c->pixels)
        return ss_fail_memory("an image", most);
    for (int part = 0; part < PARTS; part++)
        SS_TRY(write_part(c, &c->parts[part], part));
    return SS_OK;
}

/* Sync all files with one call: an fsync of each file takes longer than writing it. */
static enum ss_status sync_all(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int failed = fd < 0 || syncfs(fd) != 0;
    enum ss_status status =
        failed ? ss_fail(SS_ERR_IO, "%s: cannot sync to disk: %s", folder, strerror(errno)) : SS_OK;
    if (fd >= 0)
        close(fd);
    return status;
}

/* Move train last: without it the folder is not a data set. */
static enum ss_status move_all(const struct converter *c, const char *to)
{
    SS_TRY(sync_all(c->folder));
    for (int part = PARTS; part-- > 0;) {
        char old[4096], new[4096];
        SS_TRY(ss_folder_join(old, sizeof old, c->folder, part_names[part]));
        SS_TRY(ss_folder_join(new, sizeof new, to, part_names[part]));
        if (rename(old, new) != 0)
            return ss_fail(SS_ERR_IO, "%s: cannot move the folder there: %s", new, strerror(errno));
    }
    return ss_atomic_sync_folder(to);
}

static enum ss_status write_folders(struct converter *c, const char *to)
{
    for (int part = 0; part < PARTS; part++)
        if (ss_folder_has(to, part_names[part]))
            return ss_fail(
                SS_ERR_INVALID,
                "%s: already has a folder train or val; remove them or choose another folder", to);
    const int n = snprintf(c->folder, sizeof c->folder, "%s/convert.tmp.%ld", to, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof c->folder)
        return ss_fail(SS_ERR_INVALID, "%.80s...: the folder's name is too long", to);
    enum ss_status status = write_all(c);
    if (status == SS_OK)
        status = move_all(c, to);
    ss_folder_remove(c->folder);
    return status;
}

static void describe(const struct converter *c, struct ss_npz_converted *out)
{
    const struct part *p = &c->parts[TRAIN];
    *out = (struct ss_npz_converted){.train = c->written[TRAIN],
                                     .val = c->written[VAL],
                                     .height = p->height,
                                     .width = p->width,
                                     .channels = p->channels};
    for (int k = 0; k < MAX_LABELS; k++)
        out->classes += c->counts[TRAIN][k] != 0;
    snprintf(out->images, sizeof out->images, "%s", c->names[0]);
    snprintf(out->val_images, sizeof out->val_images, "%s", c->names[2] ? c->names[2] : "");
}

static enum ss_status convert(const char *from, struct ss_zip *zip, const char *to,
                              const struct ss_npz_how *how, struct ss_npz_converted *out)
{
    struct converter *c = calloc(1, sizeof *c);
    if (!c)
        return ss_fail_memory("a conversion", sizeof *c);
    c->from = from;
    c->how = how;
    c->zip = zip;
    enum ss_status status = read_arrays(c);
    if (status == SS_OK)
        status = write_folders(c, to);
    if (status == SS_OK)
        describe(c, out);
    for (int part = 0; part < PARTS; part++) {
        ss_npz_free(&c->parts[part].images);
        ss_npz_free(&c->parts[part].labels);
    }
    free(c->is_val);
    free(c->pixels);
    free(c);
    return status;
}

enum ss_status ss_convert_npz(const char *from, const char *to, const struct ss_npz_how *how,
                              struct ss_npz_converted *out)
{
    struct ss_zip *zip;
    SS_TRY(ss_zip_open(from, &zip));
    enum ss_status status = convert(from, zip, to, how, out);
    ss_zip_close(zip);
    return status;
}

enum ss_status ss_convert_idx(const char *from, const char *to, const struct ss_npz_how *how,
                              struct ss_npz_converted *out)
{
    return convert(from, NULL, to, how, out);
}
