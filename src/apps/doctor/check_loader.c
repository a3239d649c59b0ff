/* check_loader.c: measures loading of samples: reading alone, and reading with decoding, with as
 * many threads as a run would have, on all ranks simultaneously. */
#include "core/clock.h"
#include "core/folder.h"
#include "core/rng.h"
#include "core/thread.h"
#include "data/dataset.h"
#include "data/imagefolder.h"
#include "apps/doctor/procfs.h"
#include "runtime/placement.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_THREADS = 64,
    COPIED_FILES = 300,
    COPIED_MB = 64,
    PLENTY = 1000,     /* upper bound in images/s per thread: above the speed of any decoder */
    DRAWS = 0x646f6374 /* seed of the draws */
};

struct load {
    const struct ss_dataset *d;
    int read_only; /* only read the files of images */
    double end;    /* as ss_seconds() */
    uint32_t stream;
    /* Results. */
    enum ss_status status;
    char why[512];
    uint64_t files, bytes;
};

static enum ss_status load_one(const struct load *l, size_t i, struct ss_image_file *file,
                               void *sample, uint64_t *bytes)
{
    const struct ss_load_how how = {.augment = 1, .bytes = 1};
    int32_t label;
    if (!l->read_only)
        return ss_dataset_load(l->d, i, &how, sample, &label);
    SS_TRY(ss_imagefolder_read(ss_dataset_folder(l->d), i, file));
    *bytes += file->size;
    return SS_OK;
}

/* Draw a sample. Reading alone and loading use alternate samples, so that neither benefits from
 * data that the other has brought into memory. */
static size_t draw(const struct load *l, struct ss_rng *rng)
{
    size_t half = (l->d->count + !l->read_only) / 2;
    return half ? 2 * (size_t)ss_rng_below(rng, (uint32_t)half) + (size_t)l->read_only : 0;
}

static void *run_load(void *arg)
{
    struct load *l = arg;
    struct ss_image_file file = {.bytes = NULL};
    struct ss_rng rng;
    void *sample = malloc((size_t)l->d->channels * (size_t)l->d->height * (size_t)l->d->width);
    ss_log_capture(l->why, sizeof l->why);
    ss_rng_open(&rng, DRAWS, SS_RNG_SHUFFLE, l->stream, 0);
    l->status = sample ? SS_OK : ss_fail_memory("a sample", (size_t)l->d->height);
    while (l->status == SS_OK && ss_seconds() < l->end) {
        size_t i = draw(l, &rng);
        l->status = load_one(l, i, &file, sample, &l->bytes);
        l->files += l->status == SS_OK;
    }
    ss_log_capture(NULL, 0);
    free(file.bytes);
    free(sample);
    return NULL;
}

struct rate {
    double files, mb; /* per second */
};

/* Run the threads of this rank for some seconds, each with draws of its own. */
static enum ss_status measure(const struct ss_dataset *d, int read_only, int threads,
                              double seconds, uint32_t stream, struct rate *out, char *why,
                              size_t capacity)
{
    static struct load load[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    double begin = ss_seconds();
    int started = 0;
    uint64_t files = 0, bytes = 0;
    enum ss_status status = SS_OK;
    for (; started < threads && status == SS_OK; started += status == SS_OK) {
        load[started] = (struct load){.d = d,
                                      .read_only = read_only,
                                      .end = begin + seconds,
                                      .stream = stream * MAX_THREADS + (uint32_t)started};
        status = ss_thread_start(&thread[started], run_load, &load[started], "a loading thread");
    }
    for (int i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
        files += load[i].files;
        bytes += load[i].bytes;
        if (load[i].status != SS_OK) {
            status = load[i].status;
            snprintf(why, capacity, "%s", load[i].why);
        }
    }
    double took = ss_seconds() - begin;
    *out = (struct rate){.files = (double)files / took, .mb = (double)bytes / took / 1e6};
    return status;
}

/* The number of load workers of this rank in a run. Collective. */
static int count_threads(const struct ss_doctor_options *o, struct ss_comm *comm)
{
    struct ss_placement p;
    int device, workers = 1, gpu;
    char why[256];
    ss_log_capture(why, sizeof why);
    if (ss_comm_any(comm, !ss_probe_uses_gpu(o), &gpu, "choice of a device") == SS_OK) {
        enum ss_status status =
            gpu ? ss_placement_decide(0, (int)o->workers, ss_comm_local_rank(comm),
                                      ss_comm_local_size(comm), &p)
                : ss_runtime_place_gpu(comm, (int)o->workers, -1, &device, &p);
        if (status == SS_OK)
            workers = p.workers;
    }
    ss_log_capture(NULL, 0);
    return workers < 1 ? 1 : workers > MAX_THREADS ? MAX_THREADS : workers;
}

static const char STAGE[] = "stage the data to the node: --cache in a node-local folder, or a copy "
                            "in memory or on a local disk (LOCAL_DIR)";
static const char CORES[] = "give ranks more cores for loading (--workers), or decode once with "
                            "--cache or with --reduced-decode";

/* Report loading. reading: its share of the loading time, 0 to 1. */
static void judge(const struct ss_doctor_options *o, const char *check, const char *where,
                  int threads, struct rate read, double images, double reading,
                  struct ss_findings *f)
{
    char need[64] = "";
    int few = o->need_images > 0 ? images < o->need_images : images < PLENTY * threads;
    int files = few && reading >= 0.5;
    few &= o->need_images > 0;
    if (o->need_images > 0)
        snprintf(need, sizeof need, "; a rank needs %g", o->need_images);
    if (read.files > 0) {
        char name[SS_FINDING_CHECK];
        snprintf(name, sizeof name, "%.24s_read", check);
        ss_find(f, SS_FINE, name, NULL, "reading files %s gives {} MB/s with %d thread%s", where,
                threads, threads > 1 ? "s" : "");
        ss_find_figure(f, read.mb, -1, "MB/s");
    }
    enum ss_verdict verdict = few || files ? SS_SLOW : SS_FINE;
    ss_find(f, verdict, check,
            verdict == SS_FINE ? NULL
            : files            ? STAGE
                               : CORES,
            "loading %s gives {} images/s with %d thread%s%s%s", where, threads,
            threads > 1 ? "s" : "", need,
            files ? ": reading files takes most of the time"
            : few ? ": decoding takes most of the time"
                  : "");
    ss_find_figure(f, images, o->need_images > 0 ? o->need_images : -1, "images/s");
}

static enum ss_status measure_set(const struct ss_doctor_options *o, const struct ss_dataset *d,
                                  const char *check, const char *where, int threads, double seconds,
                                  uint32_t stream, struct ss_findings *f)
{
    struct rate read = {0, 0}, load;
    char why[512] = "";
    enum ss_status status = SS_OK;
    if (ss_dataset_folder(d))
        status = measure(d, 1, threads, seconds, 2 * stream, &read, why, sizeof why);
    if (status == SS_OK)
        status = measure(d, 0, threads, seconds, 2 * stream + 1, &load, why, sizeof why);
    if (status != SS_OK)
        ss_find(f, SS_BROKEN, check, "repair or leave out the file", "%s", why);
    else
        judge(o, check, where, threads, read, load.files,
              read.files > 0 ? load.files / read.files : 0, f);
    return status;
}

/* Create DIR/train/all and DIR/val/all. */
static enum ss_status make_folders(const char *dir)
{
    static const char *const parts[] = {"train/all", "val/all"};
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        SS_TRY(ss_folder_join(path, sizeof path, dir, parts[i]));
        SS_TRY(ss_folder_make(path));
    }
    return SS_OK;
}

/* Write a copy to the disk and drop it from the page cache. */
static enum ss_status write_file(const char *path, const struct ss_image_file *file)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int ok = fd >= 0 && write(fd, file->bytes, file->size) == (ssize_t)file->size && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        ok &= close(fd) == 0;
    }
    return ok ? SS_OK : ss_fail(SS_ERR_IO, "%s: %s", path, strerror(error));
}

static enum ss_status copy_some(const struct ss_imagefolder *from, const char *dir, double end)
{
    struct ss_image_file file = {.bytes = NULL};
    struct ss_rng rng;
    char path[PATH_MAX];
    size_t bytes = 0;
    enum ss_status status = make_folders(dir);
    ss_rng_open(&rng, DRAWS, SS_RNG_SHUFFLE, UINT32_MAX, 0);
    for (int k = 0; k < COPIED_FILES && bytes < (size_t)COPIED_MB << 20 && status == SS_OK &&
                    (k < 2 || ss_seconds() < end);
         k++) {
        status = ss_imagefolder_read(from, ss_rng_below(&rng, (uint32_t)from->count), &file);
        if (status != SS_OK)
            break;
        snprintf(path, sizeof path, "%.4000s/val/all/%d.jpg", dir, k);
        status = write_file(path, &file);
        bytes += file.size;
        if (k == 0 && status == SS_OK) { /* the classes are those of train */
            snprintf(path, sizeof path, "%.4000s/train/all/0.jpg", dir);
            status = write_file(path, &file);
        }
    }
    free(file.bytes);
    return status;
}

/* Measure loading of copied samples from the node-local folder. */
static void probe_local(const struct ss_doctor_options *o, const struct ss_dataset *d, int threads,
                        double seconds, uint32_t stream, struct ss_findings *f)
{
    const struct ss_dataset_options how = {.channels = 0};
    struct ss_dataset *copy = NULL;
    char dir[PATH_MAX], why[512] = "";
    snprintf(dir, sizeof dir, "%.3900s/starstep-doctor-%ld-%u", o->local_dir, (long)getpid(),
             stream);
    ss_log_capture(why, sizeof why);
    enum ss_status status = copy_some(ss_dataset_folder(d), dir, ss_seconds() + seconds);
    if (status == SS_OK)
        status = ss_dataset_open(dir, SS_SPLIT_TEST, &how, &copy);
    ss_log_capture(NULL, 0);
    if (status == SS_OK)
        (void)measure_set(o, copy, "loader.local", "from the node-local folder", threads, seconds,
                          stream, f);
    else
        ss_find(f, SS_BROKEN, "loader.local", "free space there, or name another folder",
                "a sample of the data cannot be copied to the node-local folder: %s", why);
    ss_dataset_close(copy);
    ss_folder_remove(dir);
}

void ss_doctor_loader(const struct ss_doctor_options *o, struct ss_comm *comm,
                      struct ss_findings *f)
{
    struct ss_dataset_options how = {.channels = 0};
    struct ss_dataset *d = NULL;
    char why[512] = "";
    int given, has_val;
    if (ss_comm_any(comm, o->data_dir != NULL, &given, "the data folder") != SS_OK || !given)
        return;
    int threads = count_threads(o, comm);
    double begin = ss_seconds();
    ss_log_capture(why, sizeof why);
    if (o->data_dir && ss_imagefolder_is(o->data_dir, &has_val) && !has_val)
        how.val_fraction = 0.1;
    /* Use the smaller split: the other may first need a list of a million files. */
    enum ss_status status =
        o->data_dir ? ss_dataset_open(o->data_dir, SS_SPLIT_TEST, &how, &d) : SS_ERR_INVALID;
    ss_log_capture(NULL, 0);
    double took = ss_seconds() - begin;
    if (status != SS_OK) {
        ss_find(f, SS_BROKEN, "loader.opens",
                "a data folder holds train and val, or train.bin and test.bin, and is seen by all "
                "nodes",
                "%s", o->data_dir ? why : "--data-dir is given to other ranks, not to this one");
    } else {
        ss_find(f, SS_FINE, "loader.opens", NULL, "%zu samples of the test split opened in {} s",
                d->count);
        ss_find_figure(f, took, -1, "s");
    }
    /* Load on all ranks simultaneously, as in a run. */
    if (ss_comm_barrier(comm, "begin of loading") == SS_OK && d) {
        double seconds = o->seconds / 14 < 3 ? o->seconds / 14 : 3;
        uint32_t stream = (uint32_t)ss_comm_rank(comm);
        if (measure_set(o, d, "loader.data", "from the data folder", threads, seconds, stream, f) ==
                SS_OK &&
            o->local_dir && ss_dataset_folder(d))
            probe_local(o, d, threads, seconds, stream, f);
    }
    ss_dataset_close(d);
}
