/* Data sets of image files (dataset.h). */
#include "core/folder.h"
#include "core/log.h"
#include "core/utf8.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "data/normalise.h"
#include "data/image.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SIDE = 224, MESSAGE_BYTES = 1024 };

struct ss_images {
    struct ss_imagefolder *folder;
    struct ss_pack *pack; /* NULL: files are decoded */
    struct ss_dataset_options options;
    _Atomic unsigned char *corrupt; /* per file: was skipped and reported */
};

/* State of one loading thread. */
struct context {
    struct ss_image_loader *loader;
    uint8_t *pixels; /* of one sample */
    size_t capacity;
};

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int key_error;

static void free_context(void *arg)
{
    struct context *c = arg;
    ss_image_close(c->loader);
    free(c->pixels);
    free(c);
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, free_context);
}

/* Return the calling thread's context, created if missing, with space for `bytes` bytes of
 * pixels. */
static enum ss_status find_context(size_t bytes, struct context **out)
{
    pthread_once(&key_once, make_key);
    if (key_error)
        return ss_fail(SS_ERR_LIBRARY, "pthread_key_create: no more keys");
    struct context *c = pthread_getspecific(key);
    if (!c) {
        c = calloc(1, sizeof *c);
        if (!c)
            return ss_fail_memory("a decoder", sizeof *c);
        enum ss_status status = ss_image_open(&c->loader);
        if (status == SS_OK && pthread_setspecific(key, c))
            status = ss_fail_memory("a decoder", sizeof *c);
        if (status != SS_OK) {
            free_context(c);
            return status;
        }
    }
    if (c->capacity < bytes) {
        uint8_t *pixels = realloc(c->pixels, bytes);
        if (!pixels)
            return ss_fail_memory("an image", bytes);
        c->pixels = pixels;
        c->capacity = bytes;
    }
    *out = c;
    return SS_OK;
}

/* Whether the sample uses the training transform of CIFAR: resize to its size, pad, crop, flip. */
static int pads(const struct ss_dataset *d, const struct ss_load_how *how)
{
    return how->augment && d->images->options.crop == SS_CROP_PADDED;
}

static enum ss_status load_file(const struct ss_dataset *d, size_t file, size_t i,
                                const struct ss_load_how *how, struct context *c, uint8_t *out)
{
    const uint32_t sample = (uint32_t)i;
    const struct ss_size size = {d->height, d->width}, drawn = {0};
    const struct ss_image_how image = {.size = size,
                                       .channels = d->channels,
                                       .least = pads(d, how)   ? size
                                                : how->augment ? drawn
                                                               : d->least,
                                       .range = SS_CROP_RANGE,
                                       .seed = how->seed,
                                       .epoch = how->epoch,
                                       .order = SS_PIXELS_CHW,
                                       .draw_as = &sample,
                                       .pack = d->images->pack,
                                       .reduced = d->images->options.reduced};
    return ss_image_load(c->loader, d->images->folder, file, &image, out);
}

/* load_file that sets *skipped for a corrupt file instead of failing. */
static enum ss_status try_file(const struct ss_dataset *d, size_t file, size_t i,
                               const struct ss_load_how *how, struct context *c, uint8_t *out,
                               int *skipped)
{
    struct ss_images *p = d->images;
    char text[MESSAGE_BYTES];
    *skipped = atomic_load_explicit(&p->corrupt[file], memory_order_relaxed);
    if (*skipped)
        return SS_OK;
    ss_log_capture(text, sizeof text);
    enum ss_status status = load_file(d, file, i, how, c, out);
    ss_log_capture(NULL, 0);
    if (status != SS_ERR_FORMAT)
        return status == SS_OK ? SS_OK : ss_fail(status, "%s", text);
    *skipped = 1;
    if (!atomic_exchange(&p->corrupt[file], 1))
        ss_warn("%s; skipped", text);
    return SS_OK;
}

/* Load sample i as bytes. *file: the file that was loaded; SIZE_MAX: skipped, not replaced. */
static enum ss_status load_bytes(const struct ss_dataset *d, size_t i,
                                 const struct ss_load_how *how, struct context *c, uint8_t *out,
                                 size_t *file)
{
    *file = i;
    if (!d->images->options.skip_corrupt)
        return load_file(d, i, i, how, c, out);
    for (size_t tries = 0; tries < (how->replace ? d->count : 1); tries++) {
        int skipped;
        *file = (i + tries) % d->count;
        SS_TRY(try_file(d, *file, i, how, c, out, &skipped));
        if (!skipped)
            return SS_OK;
    }
    if (how->replace)
        return ss_fail(SS_ERR_FORMAT, "%s: no usable image among %zu files", d->path, d->count);
    *file = SIZE_MAX;
    return SS_OK;
}

static void normalise(const struct ss_dataset *d, const uint8_t *pixels, float *x)
{
    const size_t plane = (size_t)d->height * (size_t)d->width;
    for (size_t c = 0; c < (size_t)d->channels; c++)
        ss_pixels_normalise(pixels + c * plane, plane, d->mean[c], d->std[c], x + c * plane);
}

static enum ss_status load(const struct ss_dataset *d, size_t i, const struct ss_load_how *how,
                           void *out, int32_t *label)
{
    struct context *c = NULL;
    const int at_once = how->bytes && !pads(d, how);
    size_t bytes = (size_t)d->channels * (size_t)d->height * (size_t)d->width, file;
    SS_TRY(find_context(at_once ? 0 : bytes, &c));
    SS_TRY(load_bytes(d, i, how, c, at_once ? out : c->pixels, &file));
    *label = file == SIZE_MAX ? -1 : ss_imagefolder_label(d->images->folder, file);
    if (file == SIZE_MAX)
        memset(out, 0, how->bytes ? bytes : bytes * sizeof(float));
    else if (pads(d, how))
        ss_augment_load(d, c->pixels, i, how, out);
    else if (!how->bytes)
        normalise(d, c->pixels, out);
    return SS_OK;
}

static void free_images(struct ss_images *p)
{
    ss_pack_close(p->pack);
    ss_imagefolder_close(p->folder);
    free(p->corrupt);
    free(p);
}

static void close_images(struct ss_dataset *d)
{
    free_images(d->images);
}

const struct ss_imagefolder *ss_dataset_folder(const struct ss_dataset *d)
{
    return d->images ? d->images->folder : NULL;
}

const char *ss_dataset_class(const struct ss_dataset *d, int label)
{
    if (d->names)
        return d->names[label];
    if (d->images)
        return d->classes ? ss_imagefolder_class(d->images->folder, label) : NULL;
    return d->class_names ? d->class_names[label] : NULL;
}

/* Search the UTF-8 list for a name, starting at index `from`. Returns its index, or -1. */
static int find_name(const char *name, int classes, char *const *names, int from)
{
    for (int i = 0; i < classes; i++)
        if (ss_utf8_is_copy(names[(from + i) % classes], name))
            return (from + i) % classes;
    return -1;
}

enum ss_status ss_dataset_label_by(struct ss_dataset *d, int classes, char *const *names,
                                   int *changed)
{
    int next = 0;
    *changed = d->classes != classes;
    int *label_of = malloc((size_t)d->classes * sizeof *label_of);
    if (!label_of)
        return ss_fail_memory("labels", (size_t)d->classes * sizeof *label_of);
    for (int c = 0; c < d->classes; c++) {
        label_of[c] = find_name(ss_dataset_class(d, c), classes, names, next);
        if (label_of[c] < 0) {
            free(label_of);
            return ss_fail(SS_ERR_MISMATCH,
                           "%s: class \"%s\" is not among the %d classes that the weights were "
                           "trained with (first: \"%s\")",
                           d->path, ss_dataset_class(d, c), classes, names[0]);
        }
        *changed |= label_of[c] != c;
        next = label_of[c] + 1;
    }
    d->label_of = label_of;
    d->names = names;
    d->classes = classes;
    return SS_OK;
}

void ss_dataset_use_pack(struct ss_dataset *d, struct ss_pack *pack)
{
    ss_pack_close(d->images->pack);
    d->images->pack = pack;
}

int ss_dataset_skipped(const struct ss_dataset *d, size_t i)
{
    return d->images && atomic_load(&d->images->corrupt[i]);
}

static const struct ss_dataset_ops image_ops = {load, close_images};

/* Takes ownership of the folder, also on failure. */
static enum ss_status open_images(struct ss_imagefolder *folder,
                                  const struct ss_dataset_options *options, struct ss_images **out)
{
    struct ss_images *p = calloc(1, sizeof *p);
    if (!p) {
        ss_imagefolder_close(folder);
        return ss_fail_memory("a data set", sizeof *p);
    }
    p->folder = folder;
    p->options = *options;
    enum ss_status status = SS_OK;
    if (!options->skip_corrupt)
        status = ss_imagefolder_check_sizes(p->folder); /* fail before the first step */
    if (status == SS_OK && !(p->corrupt = calloc(p->folder->count, 1)))
        status = ss_fail_memory("a data set", p->folder->count);
    if (status != SS_OK) {
        free_images(p);
        return status;
    }
    *out = p;
    return SS_OK;
}

/* Open the data set of a folder. Takes ownership of the folder, also on failure. */
static enum ss_status open_dataset(struct ss_imagefolder *folder,
                                   const struct ss_dataset_options *options,
                                   struct ss_dataset **out)
{
    const int channels = options->channels ? options->channels : 3;
    const struct ss_size size = options->size.height    ? options->size
                                : options->usual.height ? options->usual
                                                        : ss_square(DEFAULT_SIDE);
    struct ss_images *p = NULL;
    SS_TRY(open_images(folder, options, &p));
    struct ss_dataset *d = malloc(sizeof *d);
    if (!d) {
        free_images(p);
        return ss_fail_memory("a data set", sizeof *d);
    }
    *d = (struct ss_dataset){.ops = &image_ops,
                             .name = "pictures",
                             .count = p->folder->count,
                             .channels = channels,
                             .height = size.height,
                             .width = size.width,
                             .least = options->least,
                             .classes = p->folder->classes,
                             .mean = {0.485f, 0.456f, 0.406f}, /* ImageNet's */
                             .std = {0.229f, 0.224f, 0.225f},
                             .fingerprint = p->folder->fingerprint,
                             .images = p};
    if (!d->least.height)
        d->least = options->crop == SS_CROP_PADDED
                       ? size
                       : (struct ss_size){size.height * 8 / 7, size.width * 8 / 7};
    if (channels == 1) {
        d->mean[0] = 0.459f;
        d->std[0] = 0.226f;
    }
    snprintf(d->path, sizeof d->path, "%s", p->folder->root);
    ss_dataset_fill_table(d);
    *out = d;
    return SS_OK;
}

static enum ss_status check_channels(const char *path, const struct ss_dataset_options *options)
{
    if (!options->channels || options->channels == 1 || options->channels == 3)
        return SS_OK;
    return ss_fail(SS_ERR_UNSUPPORTED,
                   "%s: %d channels per sample; images have 3, or 1 as grayscale", path,
                   options->channels);
}

enum ss_status ss_dataset_open_images(const char *dir, enum ss_split split,
                                      const struct ss_dataset_options *options,
                                      struct ss_dataset **out)
{
    struct ss_imagefolder *folder;
    SS_TRY(check_channels(dir, options));
    SS_TRY(ss_imagefolder_open(dir, split, options, &folder));
    return open_dataset(folder, options, out);
}

enum ss_status ss_images_open(const char *path, const struct ss_dataset_options *options,
                              struct ss_dataset **out)
{
    struct ss_imagefolder *folder;
    SS_TRY(check_channels(path, options));
    SS_TRY(ss_imagefolder_open_flat(path, &folder));
    return open_dataset(folder, options, out);
}

enum ss_status ss_images_path(const struct ss_dataset *d, size_t i, char *out, size_t capacity)
{
    return ss_folder_join(out, capacity, d->path, ss_imagefolder_name(d->images->folder, i));
}
