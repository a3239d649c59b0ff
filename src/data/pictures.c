/* pictures.c: a data set of JPEG files (contract in dataset.h). */
#include "data/dataset.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "data/picture.h"

/* Of one loading thread. */
struct context {
    struct ss_picture_loader *loader;
    uint8_t *pixels; /* of one sample */
    size_t room;
};

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int key_error;

static void free_context(void *arg)
{
    struct context *c = arg;
    ss_picture_close(c->loader);
    free(c->pixels);
    free(c);
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, free_context);
}

/* The calling thread's, with room for so many bytes. */
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
        enum ss_status status = ss_picture_open(&c->loader);
        if (status == SS_OK && pthread_setspecific(key, c))
            status = ss_fail_memory("a decoder", sizeof *c);
        if (status != SS_OK) {
            free_context(c);
            return status;
        }
    }
    if (c->room < bytes) {
        uint8_t *pixels = realloc(c->pixels, bytes);
        if (!pixels)
            return ss_fail_memory("a picture", bytes);
        c->pixels = pixels;
        c->room = bytes;
    }
    *out = c;
    return SS_OK;
}

static enum ss_status load(const struct ss_dataset *d, size_t i, const struct ss_load_how *how,
                           void *out)
{
    struct context *c = NULL;
    const size_t plane = (size_t)d->height * (size_t)d->width;
    const struct ss_picture_how picture = {.side = d->width,
                                           .shorter = how->augment ? 0 : d->width * 8 / 7,
                                           .range = SS_CROP_RANGE,
                                           .seed = how->seed,
                                           .epoch = how->epoch,
                                           .order = SS_PIXELS_CHW};
    SS_TRY(find_context(how->bytes ? 0 : 3 * plane, &c));
    uint8_t *pixels = how->bytes ? out : c->pixels;
    SS_TRY(ss_picture_load(c->loader, d->folder, i, &picture, pixels));
    if (how->bytes)
        return SS_OK;
    float *x = out;
    for (int channel = 0; channel < 3; channel++) {
        const float *table = d->normalised[channel];
        for (size_t k = 0; k < plane; k++)
            *x++ = table[*pixels++];
    }
    return SS_OK;
}

static int label(const struct ss_dataset *d, size_t i)
{
    return ss_imagefolder_label(d->folder, i);
}

static void close_folder(struct ss_dataset *d)
{
    ss_imagefolder_close(d->folder);
}

static const struct ss_dataset_ops picture_ops = {load, label, close_folder};

enum ss_status ss_dataset_open_pictures(const char *dir, enum ss_split split, int side,
                                        struct ss_dataset **out)
{
    struct ss_imagefolder *folder;
    SS_TRY(ss_imagefolder_open(dir, split, &folder));
    struct ss_dataset *d = malloc(sizeof *d);
    if (!d) {
        ss_imagefolder_close(folder);
        return ss_fail_memory("a data set", sizeof *d);
    }
    *d = (struct ss_dataset){.ops = &picture_ops,
                             .name = "pictures",
                             .count = folder->count,
                             .channels = 3,
                             .height = side,
                             .width = side,
                             .classes = folder->classes,
                             .mean = {0.485f, 0.456f, 0.406f}, /* ImageNet's */
                             .std = {0.229f, 0.224f, 0.225f},
                             .fingerprint = folder->fingerprint,
                             .folder = folder};
    snprintf(d->path, sizeof d->path, "%s", folder->root);
    ss_dataset_fill_table(d);
    *out = d;
    return SS_OK;
}
