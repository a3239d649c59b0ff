/* Parallel decoder with a ring of slots. Threads take the files in order and store each image in
 * its slot; the caller receives the images in order. A thread blocks if no slot is free, or if
 * the decoded images exceed the memory limit. The thread that decodes the file for which the
 * caller waits never blocks on memory, so an image of any size is processed. */
#include "data/pack_decode.h"
#include "core/log.h"
#include "data/image_file.h"
#include "data/pack_format.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS_PER_THREAD = 16,
    /* Peak memory per image in multiples of its size: the result, the decoder's own copy, and for a
     * progressive file all coefficients, of two bytes each. */
    DECODING_COST = 4,
};
#define HOLD_BYTES ((size_t)512 << 20)

struct slot {
    size_t file;
    int done;
    struct pack_image image;
};

struct pack_decoders {
    const struct ss_imagefolder *folder;
    pthread_mutex_t lock;
    pthread_cond_t ready, capacity; /* the caller's next image is ready; a slot or memory is free */
    struct slot *slots;
    size_t nslots;
    size_t taken, given; /* number of files taken by threads; released by the caller */
    size_t held;         /* bytes of images */
    int stop;
    int threads;
    pthread_t thread[];
};

/* Take the next file. Returns its slot, or NULL at the end. */
static struct slot *take(struct pack_decoders *d)
{
    struct slot *slot = NULL;
    pthread_mutex_lock(&d->lock);
    while (!d->stop && d->taken < d->folder->count && d->taken - d->given >= d->nslots)
        pthread_cond_wait(&d->capacity, &d->lock);
    if (!d->stop && d->taken < d->folder->count) {
        slot = &d->slots[d->taken % d->nslots];
        slot->file = d->taken++;
    }
    pthread_mutex_unlock(&d->lock);
    return slot;
}

static void hold(struct pack_decoders *d, size_t file, size_t bytes)
{
    pthread_mutex_lock(&d->lock);
    while (!d->stop && file != d->given && d->held + bytes > HOLD_BYTES)
        pthread_cond_wait(&d->capacity, &d->lock);
    d->held += bytes;
    pthread_mutex_unlock(&d->lock);
}

static void release(struct pack_decoders *d, size_t bytes)
{
    pthread_mutex_lock(&d->lock);
    d->held -= bytes;
    pthread_cond_broadcast(&d->capacity);
    pthread_mutex_unlock(&d->lock);
}

static enum ss_status copy_rows(const struct ss_pixels *from, struct pack_image *to)
{
    const size_t row = 3 * (size_t)to->width, used = row * (size_t)to->height;
    to->bytes = malloc(to->size);
    if (!to->bytes)
        return ss_fail_memory("an image", to->size);
    for (size_t y = 0; y < (size_t)to->height; y++)
        memcpy(to->bytes + y * row, from->rgb + y * from->stride, row);
    memset(to->bytes + used, 0, to->size - used);
    to->checksum = pack_checksum(to->bytes, to->size);
    return SS_OK;
}

static enum ss_status decode(struct pack_decoders *d, size_t i, struct ss_decoder *decoder,
                             struct ss_image_file *file, struct pack_image *out)
{
    SS_TRY(ss_imagefolder_read(d->folder, i, file));
    SS_TRY(
        ss_decoder_begin(decoder, file->path, file->bytes, file->size, &out->width, &out->height));
    const size_t size = (size_t)pack_padded(3 * (uint64_t)out->width * (uint64_t)out->height);
    hold(d, i, DECODING_COST * size);
    struct ss_pixels pixels;
    out->size = size;
    enum ss_status status = ss_decoder_decode(decoder, NULL, 1, &pixels);
    if (status == SS_OK)
        status = copy_rows(&pixels, out);
    if (status != SS_OK)
        out->size = 0;
    release(d, DECODING_COST * size - out->size);
    return status;
}

static void finish(struct pack_decoders *d, struct slot *slot)
{
    pthread_mutex_lock(&d->lock);
    slot->done = 1;
    if (slot->file == d->given)
        pthread_cond_signal(&d->ready);
    pthread_mutex_unlock(&d->lock);
}

static void *work(void *arg)
{
    struct pack_decoders *d = arg;
    struct ss_image_file file = {.bytes = NULL};
    struct ss_decoder *decoder = NULL;
    struct slot *slot;
    while ((slot = take(d)) != NULL) {
        struct pack_image *p = &slot->image;
        ss_log_capture(p->text, sizeof p->text);
        p->bytes = NULL;
        p->size = 0;
        p->status = decoder ? SS_OK : ss_decoder_open(&decoder);
        if (p->status == SS_OK)
            p->status = decode(d, slot->file, decoder, &file, p);
        finish(d, slot);
    }
    ss_log_capture(NULL, 0);
    ss_decoder_close(decoder);
    free(file.bytes);
    return NULL;
}

static enum ss_status start_threads(struct pack_decoders *d, int threads)
{
    int error = 0;
    for (; d->threads < threads; d->threads++) {
        error = pthread_create(&d->thread[d->threads], NULL, work, d);
        if (error)
            break;
    }
    if (d->threads == 0)
        return ss_fail(SS_ERR_LIBRARY, "cannot start a thread to decode images: %s",
                       strerror(error));
    if (error)
        ss_warn("only %d of %d decoding threads could be started: %s", d->threads, threads,
                strerror(error));
    return SS_OK;
}

enum ss_status pack_decoders_start(const struct ss_imagefolder *folder, int threads,
                                   struct pack_decoders **out)
{
    if ((size_t)threads > folder->count)
        threads = (int)folder->count;
    const size_t bytes = sizeof(struct pack_decoders) + (size_t)threads * sizeof(pthread_t);
    struct pack_decoders *d = calloc(1, bytes);
    if (!d)
        return ss_fail_memory("decoding threads", bytes);
    d->folder = folder;
    d->nslots = SLOTS_PER_THREAD * (size_t)threads;
    pthread_mutex_init(&d->lock, NULL); /* these three cannot fail with default attributes */
    pthread_cond_init(&d->ready, NULL);
    pthread_cond_init(&d->capacity, NULL);
    d->slots = calloc(d->nslots, sizeof *d->slots);
    enum ss_status status = d->slots ? start_threads(d, threads)
                                     : ss_fail_memory("images", d->nslots * sizeof *d->slots);
    if (status != SS_OK) {
        pack_decoders_stop(d);
        return status;
    }
    *out = d;
    return SS_OK;
}

const struct pack_image *pack_decoders_next(struct pack_decoders *d)
{
    struct slot *slot = &d->slots[d->given % d->nslots];
    pthread_mutex_lock(&d->lock);
    while (!slot->done)
        pthread_cond_wait(&d->ready, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return &slot->image;
}

void pack_decoders_release(struct pack_decoders *d)
{
    struct slot *slot = &d->slots[d->given % d->nslots];
    free(slot->image.bytes);
    slot->image.bytes = NULL;
    pthread_mutex_lock(&d->lock);
    slot->done = 0;
    d->held -= slot->image.size;
    d->given++;
    pthread_cond_broadcast(&d->capacity);
    pthread_mutex_unlock(&d->lock);
}

void pack_decoders_stop(struct pack_decoders *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = 1;
    pthread_cond_broadcast(&d->capacity);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < d->threads; i++)
        pthread_join(d->thread[i], NULL); /* cannot fail: started, and joined once */
    for (size_t i = 0; d->slots && i < d->nslots; i++)
        free(d->slots[i].image.bytes);
    free(d->slots);
    pthread_cond_destroy(&d->capacity);
    pthread_cond_destroy(&d->ready);
    pthread_mutex_destroy(&d->lock);
    free(d);
}
