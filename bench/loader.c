/* bench/loader: throughput of the data loader.
 *
 *    bench/loader --data-dir DIR [--workers N] [--images N] [--cache DIR] [--bytes] ...
 *
 * Threads act as load tasks in training: each takes the next slice of the next batch of the
 * shuffled training split and writes its samples into a slot, a whole batch; there are a few
 * slots, used in turn. No training takes place. Prints one line of JSON. */
#include "core/clock.h"
#include "core/log.h"
#include "apps/commands/option_help.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "data/pack.h"
#include "data/sampler.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SLOTS = 4, SLICE = 8, MAX_WORKERS = 64, MAX_BATCH = 4096, PATH_CAPACITY = 4096 };

struct options {
    const char *data_dir, *cache;
    long side, workers, batch, images, warmup, seed;
    double seconds;
    int bytes, reduced, checksum, pin;
};

struct bench {
    struct options o;
    struct ss_dataset *dataset;
    struct ss_sampler sampler;
    size_t sample_bytes, slices; /* slices: per batch */
    char *slots;
    pthread_barrier_t barrier;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t consumed_one;
    uint32_t epoch;     /* current epoch of the sampler */
    size_t next, end;   /* next slice to take; end of this run */
    double until;       /* no more batches after this time; 0: no time limit */
    size_t done[SLOTS]; /* written slices of the slot's batch */
    size_t consumed;    /* batches */
    uint64_t sum;
    enum ss_status status;
};

struct slice {
    size_t number; /* since the start */
    uint32_t epoch;
    int count;
    uint32_t sample[SLICE];
    char *out;
};

static void fill_slice(struct bench *b, struct slice *s)
{
    size_t batch = s->number / b->slices, first = s->number % b->slices * SLICE;
    s->epoch = (uint32_t)(batch / b->sampler.steps);
    if (s->epoch != b->epoch)
        ss_sampler_set_epoch(&b->sampler, b->epoch = s->epoch);
    size_t left = (size_t)b->o.batch - first;
    s->count = left < SLICE ? (int)left : SLICE;
    for (int i = 0; i < s->count; i++)
        s->sample[i] =
            (uint32_t)ss_sampler_index(&b->sampler, batch % b->sampler.steps, first + (size_t)i);
    s->out = b->slots + (batch % SLOTS * (size_t)b->o.batch + first) * b->sample_bytes;
}

/* Take the next slice. Returns 0 if this run is over. */
static int take_slice(struct bench *b, struct slice *s)
{
    pthread_mutex_lock(&b->lock);
    while (b->next < b->end && b->next / b->slices >= b->consumed + SLOTS)
        pthread_cond_wait(&b->consumed_one, &b->lock);
    if (b->until > 0 && b->next % b->slices == 0 && ss_seconds() >= b->until)
        b->end = b->next < b->end ? b->next : b->end;
    int more = b->next < b->end;
    if (more) {
        s->number = b->next++;
        fill_slice(b, s);
    }
    pthread_mutex_unlock(&b->lock);
    return more;
}

/* Finish a slice. The oldest batch is consumed once complete. */
static void finish_slice(struct bench *b, const struct slice *s, uint64_t sum,
                         enum ss_status status)
{
    pthread_mutex_lock(&b->lock);
    b->sum += sum;
    if (status != SS_OK) {
        b->status = status;
        b->end = 0;
        pthread_cond_broadcast(&b->consumed_one);
    }
    b->done[s->number / b->slices % SLOTS]++;
    for (size_t *done; *(done = &b->done[b->consumed % SLOTS]) == b->slices; b->consumed++) {
        *done = 0;
        pthread_cond_broadcast(&b->consumed_one);
    }
    pthread_mutex_unlock(&b->lock);
}

/* Hash of a sample and its position in the stream; totals do not depend on the order. */
static uint64_t hash_sample(const char *at, size_t bytes, size_t place, int32_t label)
{
    uint64_t hash = ss_mix64(place, (uint64_t)label);
    for (size_t i = 0; i < bytes; i += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, at + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static void load_slice(struct bench *b, const struct slice *s)
{
    struct ss_load_how how = {
        .seed = (uint64_t)b->o.seed, .epoch = s->epoch, .augment = 1, .bytes = b->o.bytes};
    uint64_t sum = 0;
    enum ss_status status = SS_OK;
    for (int i = 0; i < s->count && status == SS_OK; i++) {
        char *out = s->out + (size_t)i * b->sample_bytes;
        int32_t label;
        status = ss_dataset_load(b->dataset, s->sample[i], &how, out, &label);
        if (b->o.checksum && status == SS_OK)
            sum += hash_sample(out, b->sample_bytes, s->number * SLICE + (size_t)i, label);
    }
    finish_slice(b, s, sum, status);
}

/* Worker thread. Two runs: warm-up and measurement. */
static void *work(void *arg)
{
    struct bench *b = arg;
    for (int run = 0; run < 2; run++) {
        struct slice s;
        pthread_barrier_wait(&b->barrier);
        while (take_slice(b, &s))
            load_slice(b, &s);
        pthread_barrier_wait(&b->barrier);
    }
    return NULL;
}

/* Pin worker `index` to the index-th core that this process may use. */
static enum ss_status pin(pthread_t thread, long index)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all))
        return ss_fail(SS_ERR_LIBRARY, "sched_getaffinity failed");
    long left = index;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all) && left-- == 0)
            CPU_SET(core, &one);
    if (left >= 0)
        return ss_fail(SS_ERR_INVALID,
                       "--workers: no core for worker %ld; %d cores may "
                       "be used",
                       index, CPU_COUNT(&all));
    if (pthread_setaffinity_np(thread, sizeof one, &one))
        return ss_fail(SS_ERR_LIBRARY, "pthread_setaffinity_np failed");
    return SS_OK;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

struct result {
    size_t images;
    double seconds, cpu_seconds;
};

/* Load `images` more images, or for `seconds`; in whole batches. */
static struct result run(struct bench *b, long images, double seconds)
{
    size_t batches = ((size_t)images + (size_t)b->o.batch - 1) / (size_t)b->o.batch;
    size_t before = b->consumed;
    b->end = b->status != SS_OK ? 0 : seconds > 0 ? SIZE_MAX : b->next + batches * b->slices;
    b->until = seconds > 0 ? ss_seconds() + seconds : 0;
    struct result r = {.seconds = -ss_seconds(), .cpu_seconds = -cpu_seconds()};
    pthread_barrier_wait(&b->barrier);
    pthread_barrier_wait(&b->barrier);
    r.seconds += ss_seconds();
    r.cpu_seconds += cpu_seconds();
    r.images = (b->consumed - before) * (size_t)b->o.batch;
    return r;
}

static enum ss_status measure(struct bench *b, struct result *out)
{
    pthread_t threads[MAX_WORKERS];
    enum ss_status status = SS_OK;
    if (pthread_barrier_init(&b->barrier, NULL, (unsigned)b->o.workers + 1) ||
        pthread_mutex_init(&b->lock, NULL) || pthread_cond_init(&b->consumed_one, NULL))
        return ss_fail(SS_ERR_LIBRARY, "pthread: a lock cannot be made");
    for (long i = 0; i < b->o.workers; i++) {
        /* Workers that did start wait for each other, and end with the process. */
        if (pthread_create(&threads[i], NULL, work, b))
            return ss_fail(SS_ERR_LIBRARY, "pthread_create: thread %ld cannot be started", i);
        if (b->o.pin && status == SS_OK)
            status = pin(threads[i], i);
    }
    if (status != SS_OK)
        return status;
    run(b, b->o.warmup, 0);
    b->sum = 0;
    *out = run(b, b->o.images, b->o.seconds);
    for (long i = 0; i < b->o.workers; i++)
        pthread_join(threads[i], NULL);
    return b->status;
}

static enum ss_status build_pack(const char *path, const struct ss_imagefolder *folder)
{
    struct ss_pack_builder *builder;
    size_t done = 0;
    SS_TRY(ss_pack_begin(path, folder, 1, 0, &builder));
    while (done < folder->count) {
        enum ss_status status = ss_pack_continue(builder, 3600, &done);
        if (status != SS_OK) {
            ss_pack_abort(builder);
            return status;
        }
    }
    return ss_pack_commit(builder);
}

/* Use a pack in --cache from now on; it is built if missing. */
static enum ss_status use_cache(struct bench *b)
{
    char path[PATH_CAPACITY], why[256];
    const struct ss_imagefolder *folder = ss_dataset_folder(b->dataset);
    struct ss_pack *pack;
    if (!folder)
        return ss_fail(SS_ERR_INVALID, "--cache: %s holds no folders of images", b->o.data_dir);
    SS_TRY(ss_pack_path(path, sizeof path, b->o.cache, SS_SPLIT_TRAIN));
    SS_TRY(ss_pack_open(path, folder, why, sizeof why, &pack));
    if (!pack) {
        SS_TRY(build_pack(path, folder));
        SS_TRY(ss_pack_open(path, folder, why, sizeof why, &pack));
    }
    if (!pack)
        return ss_fail(SS_ERR_FORMAT, "%s: was just built, and is %s", path, why);
    ss_dataset_use_pack(b->dataset, pack);
    return SS_OK;
}

static enum ss_status open_bench(struct bench *b)
{
    const struct ss_dataset_options how = {.size = ss_square((int)b->o.side),
                                           .reduced = b->o.reduced};
    SS_TRY(ss_dataset_open(b->o.data_dir, SS_SPLIT_TRAIN, &how, &b->dataset));
    if (b->o.cache)
        SS_TRY(use_cache(b));
    const struct ss_dataset *d = b->dataset;
    b->sample_bytes = (size_t)d->channels * (size_t)d->height * (size_t)d->width *
                      (b->o.bytes ? 1 : sizeof(float));
    size_t slot = (size_t)b->o.batch * b->sample_bytes;
    b->slices = ((size_t)b->o.batch + SLICE - 1) / SLICE;
    SS_TRY(ss_sampler_open(&b->sampler, d->count, 0, 1, (size_t)b->o.batch, 1, 1,
                           (uint64_t)b->o.seed));
    ss_sampler_set_epoch(&b->sampler, 0);
    b->slots = malloc(SLOTS * slot);
    if (!b->slots)
        return ss_fail_memory("batches", SLOTS * slot);
    memset(b->slots, 0, SLOTS * slot); /* avoids page faults later */
    return SS_OK;
}

static void close_bench(struct bench *b)
{
    free(b->slots);
    ss_sampler_close(&b->sampler);
    ss_dataset_close(b->dataset);
}

static void print_result(const struct bench *b, const struct result *r)
{
    printf("{\"images_per_s\": %.2f, \"images\": %zu, \"seconds\": %.4f, \"cpu_seconds\": %.4f, "
           "\"workers\": %ld, \"sample_bytes\": %zu, \"checksum\": \"%016" PRIx64 "\"}\n",
           (double)r->images / r->seconds, r->images, r->seconds, r->cpu_seconds, b->o.workers,
           b->sample_bytes, b->sum);
}

static const struct ss_option rows[] = {
    SS_OPTION_TEXT(struct options, data_dir, "--data-dir", NULL, "DIR", "folder of images"),
    SS_OPTION_TEXT(struct options, cache, "--cache", NULL, "DIR",
                   "read a packed cache, built if missing"),
    SS_OPTION_INT(struct options, side, "--image-size", 0, 0, 4096, "N",
                  "side of a sample; 0: the data set's"),
    SS_OPTION_INT(struct options, workers, "--workers", 1, 1, MAX_WORKERS, "N", "threads"),
    SS_OPTION_INT(struct options, batch, "--batch-size", 64, 1, MAX_BATCH, "N",
                  "images of a batch"),
    SS_OPTION_INT(struct options, images, "--images", 4096, 1, 1e9, "N",
                  "images to measure, in whole batches"),
    SS_OPTION_FLOAT(struct options, seconds, "--seconds", 0, 0, 3600, "S",
                    "measure for this time instead; 0: images"),
    SS_OPTION_INT(struct options, warmup, "--warmup", 512, 1, 1e9, "N", "images to warm up"),
    SS_OPTION_INT(struct options, seed, "--seed", 1, 0, 1e9, "N", "seed of order and augmentation"),
    SS_OPTION_FLAG(struct options, bytes, "--bytes", "bytes for a GPU, not normalised fp32"),
    SS_OPTION_FLAG(struct options, reduced, "--reduced", "decode at a reduced scale"),
    SS_OPTION_FLAG(struct options, checksum, "--checksum", "checksum of the written data"),
    SS_OPTION_FLAG(struct options, pin, "--pin", "pin each worker to a core"),
    {0}};

static int parse(struct options *o, int argc, char **argv)
{
    const struct ss_option_set sets[] = {{.rows = rows, .values = o}, {0}};
    argv[0] = "loader";
    int code = ss_options_command(
        "usage: loader --data-dir DIR [OPTION...]\nThroughput of the data loader.\n", sets, argc,
        argv);
    if (code >= 0)
        return code;
    if (o->data_dir)
        return -1;
    ss_fail(SS_ERR_INVALID, "loader: --data-dir DIR is needed");
    return 2;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    int code = parse(&b.o, argc, argv);
    if (code >= 0)
        return code;
    struct result r = {0};
    enum ss_status status = open_bench(&b);
    if (status == SS_OK)
        status = measure(&b, &r);
    if (status == SS_OK)
        print_result(&b, &r);
    close_bench(&b);
    return status == SS_OK ? 0 : 1;
}
