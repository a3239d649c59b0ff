#include "apps/commands/cmd_data_verb.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/stdio_guard.h"
#include "data/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The command's options, for both splits. */
struct job {
    const char *dir, *cache;
    long threads, val_seed;
    double val_fraction;
    int skip_corrupt, force;
    struct ss_progress progress;
};

static const struct ss_option rows[] = {
    SS_OPTION_TEXT(struct job, dir, "--data-dir", NULL, "DIR",
                   "folder with train and val, or a folder for each class"),
    SS_OPTION_TEXT(struct job, cache, "--cache", NULL, "DIR",
                   "output folder for train.pack and val.pack"),
    SS_OPTION_FLOAT(struct job, val_fraction, "--val-fraction", 0, 0, 0.999, "F",
                    "same as for train"),
    SS_OPTION_INT(struct job, val_seed, "--val-seed", 0, 0, 1L << 53, "N", "same as for train"),
    SS_OPTION_INT(struct job, threads, "--threads", 0, 0, 1024, "N",
                  "decoding threads; 0: one per core"),
    SS_OPTION_FLAG(struct job, skip_corrupt, "--skip-corrupt",
                   "skip and report files that cannot be decoded"),
    SS_OPTION_FLAG(struct job, force, "--force", "rebuild packs that are up to date"),
    {0}};

/* Show progress. The cursor stays at the begin of the bar, where a warning overwrites it. */
static void show(struct job *job, const char *name, size_t done, size_t count, double seconds)
{
    if (!ss_progress_due(&job->progress))
        return;
    fprintf(stderr, "%s: %zu of %zu files, %.0f files/s%s", name, done, count,
            (double)done / seconds, job->progress.bar ? "    \r" : "\n");
    fflush(stderr);
}

static void end_progress(struct job *job)
{
    if (job->progress.bar)
        fprintf(stderr, "%60s\r", "");
    ss_progress_rest(&job->progress);
}

static enum ss_status build(struct job *job, const char *name, const char *path,
                            const struct ss_imagefolder *folder)
{
    struct ss_pack_builder *builder;
    const double start = ss_seconds();
    SS_TRY(ss_pack_begin(path, folder, (int)job->threads, job->skip_corrupt, &builder));
    enum ss_status status = SS_OK;
    for (size_t done = 0; status == SS_OK && done < folder->count;) {
        status = ss_pack_continue(builder, 0.2, &done);
        if (status == SS_OK)
            show(job, name, done, folder->count, ss_seconds() - start);
        if (status == SS_OK && data_is_stopped())
            status = ss_fail(SS_ERR_INTERRUPTED, "%s: stopped by a signal after %zu of %zu files",
                             path, done, folder->count);
    }
    end_progress(job);
    if (status == SS_OK)
        return ss_pack_commit(builder);
    ss_pack_abort(builder);
    return status;
}

/* Open an existing pack unless it is outdated; print the reason. */
static enum ss_status find(const struct job *job, const char *name, const char *path,
                           const struct ss_imagefolder *folder, struct ss_pack **out)
{
    char why[300];
    *out = NULL;
    if (job->force)
        return SS_OK;
    SS_TRY(ss_pack_open(path, folder, why, sizeof why, out));
    if (*out && ss_pack_corrupt(*out) > 0 && !job->skip_corrupt) {
        snprintf(why, sizeof why, "it omits %zu corrupt files", ss_pack_corrupt(*out));
        ss_pack_close(*out);
        *out = NULL;
    }
    if (!*out && *why)
        printf("%s: %s is built again: %s\n", name, path, why);
    return SS_OK;
}

static enum ss_status pack_folder(struct job *job, const char *name, const char *path,
                                  const struct ss_imagefolder *folder)
{
    struct ss_pack *pack;
    char why[300] = "";
    double seconds = 0;
    SS_TRY(find(job, name, path, folder, &pack));
    const int found = pack != NULL;
    if (!found) {
        seconds = -ss_seconds();
        SS_TRY(build(job, name, path, folder));
        seconds += ss_seconds();
        SS_TRY(ss_pack_open(path, folder, why, sizeof why, &pack));
    }
    if (!pack)
        return ss_fail(SS_ERR_FORMAT, "%s: was built and does not fit: %s", path, why);
    printf("%s: %s %s %zu files, %zu corrupt, %.1f MiB", name, path, found ? "fits:" : "holds",
           folder->count, ss_pack_corrupt(pack), (double)ss_pack_bytes(pack) / 0x1p20);
    if (!found)
        printf(", %.1f s, %.0f files/s", seconds, (double)folder->count / seconds);
    printf("\n");
    ss_stdio_flush();
    ss_pack_close(pack);
    return SS_OK;
}

static enum ss_status pack_split(struct job *job, enum ss_split split, const char *name)
{
    char path[4096];
    struct ss_imagefolder *folder;
    SS_TRY(ss_pack_path(path, sizeof path, job->cache, split));
    const struct ss_dataset_options how = {.val_fraction = job->val_fraction,
                                           .val_seed = (uint64_t)job->val_seed};
    SS_TRY(ss_imagefolder_open(job->dir, split, &how, &folder));
    enum ss_status status = pack_folder(job, name, path, folder);
    ss_imagefolder_close(folder);
    return status;
}

int data_run_pack_images(const struct data_verb *verb, int argc, char **argv)
{
    struct job job = {0};
    int code = data_verb_parse(verb, rows, &job, argc, argv);
    if (code >= 0)
        return code;
    if (ss_progress_open(&job.progress) != SS_OK)
        return SS_EXIT_USAGE;
    data_catch_signals();
    if (pack_split(&job, SS_SPLIT_TRAIN, "train") != SS_OK ||
        pack_split(&job, SS_SPLIT_TEST, "val") != SS_OK)
        return SS_EXIT_FAILED;
    return SS_EXIT_OK;
}
