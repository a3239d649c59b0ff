/* session_data.c: data sets of a session (interface in session.h). */
#include "core/clock.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/stdio_guard.h"
#include "data/pack.h"
#include "train/checkpoint.h"
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A builder reports to the ranks that wait for its pack several times within their timeout. */
enum { PORTIONS_PER_TIMEOUT = 8, MAX_PORTION_S = 5 };

/* Set the number of channels and the usual size that a model file requires. */
static enum ss_status choose_images(const struct ss_train_options *o,
                                    struct ss_dataset_options *how)
{
    const int *channels = &how->channels;
    SS_TRY(ss_model_images(o->model, &how->channels, &how->usual));
    if (*channels && *channels != 1 && *channels != 3)
        return ss_fail(SS_ERR_MISMATCH,
                       "%s: its images have %d channels, which no data set here has: CIFAR-100 and "
                       "JPEG files have 3, and JPEG files can be read in gray, as 1",
                       o->model, *channels);
    return SS_OK;
}

enum { PATH_CAPACITY = 4096 };

/* Read the data.json beside the weights of --init, which describes their training data. *found is
 * 0 if there is none. */
static enum ss_status describe_data(struct ss_session *s, char path[PATH_CAPACITY], int *found)
{
    *found = ss_folder_beside(path, PATH_CAPACITY, s->options->init, SS_CHECKPOINT_DATA);
    return *found ? ss_data_file_read(path, &s->data) : SS_OK;
}

/* Preprocess as data.json specifies, or as for ImageNet if it is missing. */
static enum ss_status describe_images(struct ss_session *s)
{
    char path[PATH_CAPACITY];
    int found;
    SS_TRY(describe_data(s, path, &found));
    if (found)
        return SS_OK;
    if (!ss_model_is_file(s->options->model))
        return ss_fail(SS_ERR_INVALID,
                       "--init %s: no " SS_CHECKPOINT_DATA
                       " beside it gives the number of classes; "
                       "give a checkpoint, or a model file (starstep plan --export writes one)",
                       s->options->init);
    if (ss_comm_rank(s->comm) == 0)
        ss_note("no %s: images are preprocessed as for ImageNet", path);
    return SS_OK;
}

/* Resize target for samples of `size`, scaled as in training; 0 if not known. */
static struct ss_size least_as_trained(const struct ss_session *s, struct ss_size size)
{
    const struct ss_data_file *f = &s->data;
    if (!f->size.height)
        return (struct ss_size){0};
    return (struct ss_size){size.height * f->least.height / f->size.height,
                            size.width * f->least.width / f->size.width};
}

/* Preprocessing as in training; --image-size overrides the size. */
static struct ss_dataset_options how_to_prepare(const struct ss_session *s)
{
    const struct ss_train_options *o = s->options;
    const struct ss_data_file *f = &s->data;
    struct ss_dataset_options how = {.size = o->image_size.height ? o->image_size : f->size,
                                     .channels = f->channels,
                                     .reduced = o->reduced_decode,
                                     .skip_corrupt = o->skip_corrupt};
    how.least = least_as_trained(s, how.size);
    return how;
}

/* Set mean and std: from --mean and --std, else as in the training of the weights, else the usual
 * values of the data set. */
static enum ss_status normalise_as(const struct ss_session *s, struct ss_dataset *d)
{
    const struct ss_train_options *o = s->options;
    if (s->data.classes) {
        memcpy(d->mean, s->data.mean, sizeof d->mean);
        memcpy(d->std, s->data.std, sizeof d->std);
    }
    if (o->mean)
        SS_TRY(ss_parse_float_list("mean", o->mean, d->channels, -1e6, 1e6, d->mean));
    if (o->std)
        SS_TRY(ss_parse_float_list("std", o->std, d->channels, 1e-6, 1e6, d->std));
    ss_dataset_fill_table(d);
    return SS_OK;
}

static enum ss_status open_images(struct ss_session *s)
{
    SS_TRY(describe_images(s));
    struct ss_dataset_options how = how_to_prepare(s);
    SS_TRY(choose_images(s->options, &how));
    SS_TRY(ss_images_open(s->options->images, &how, &s->test));
    s->test->classes = s->data.classes;
    return normalise_as(s, s->test);
}

/* Make an evaluation use the labels and the resize of the weights' training. */
static enum ss_status match_training(struct ss_session *s)
{
    char path[PATH_CAPACITY];
    int found, changed, own = s->test->classes;
    SS_TRY(describe_data(s, path, &found));
    if (!found)
        return SS_OK;
    if (s->options->crop == SS_CROP_AUTO)
        s->test->least = least_as_trained(s, (struct ss_size){s->test->height, s->test->width});
    if (s->data.names && ss_dataset_class(s->test, 0)) {
        SS_TRY(ss_dataset_label_by(s->test, s->data.classes, s->data.names, &changed));
        if (changed && ss_comm_rank(s->comm) == 0)
            ss_note("%s: %d of the %d classes of %s, labeled by their names", s->test->path, own,
                    s->data.classes, path);
        return SS_OK;
    }
    if (own != s->data.classes)
        return ss_fail(SS_ERR_MISMATCH,
                       "%s has %d classes, but the weights were trained with the %d of %s",
                       s->test->path, own, s->data.classes, path);
    return SS_OK;
}

/* Warn about hidden folders: Jupyter creates .ipynb_checkpoints, with images, among the
 * classes. */
static void warn_of_hidden(const struct ss_session *s)
{
    for (int k = 0; k < s->train->classes && ss_comm_rank(s->comm) == 0; k++) {
        const char *name = ss_dataset_class(s->train, k);
        if (name && name[0] == '.')
            ss_warn("%s/%s: this hidden folder is class %d, as in torchvision; remove it unless "
                    "this is intended",
                    s->train->path, name, k);
    }
}

enum ss_status ss_session_open_sets(struct ss_session *s, int training)
{
    const struct ss_train_options *o = s->options;
    struct ss_dataset_options how = {.size = o->image_size,
                                     .reduced = o->reduced_decode,
                                     .skip_corrupt = o->skip_corrupt,
                                     .crop = (enum ss_image_crop)o->crop,
                                     .val_fraction = o->val_fraction,
                                     .val_seed = (uint64_t)o->val_seed};
    if (o->images)
        return open_images(s);
    if (!o->data_dir)
        return ss_fail(SS_ERR_INVALID, "--data-dir is missing; name the folder with train.bin and "
                                       "test.bin, with train and val, or "
                                       "with a folder for each class");
    SS_TRY(choose_images(o, &how));
    if (training)
        SS_TRY(ss_dataset_open(o->data_dir, SS_SPLIT_TRAIN, &how, &s->train));
    SS_TRY(ss_dataset_open(o->data_dir, SS_SPLIT_TEST, &how, &s->test));
    if (!training)
        SS_TRY(match_training(s));
    SS_TRY(normalise_as(s, s->test));
    if (training) {
        SS_TRY(normalise_as(s, s->train));
        warn_of_hidden(s);
    }
    if (o->cache && !ss_dataset_folder(s->test))
        return ss_fail(SS_ERR_INVALID,
                       "--cache %s: %s holds no folders of images; leave the option out", o->cache,
                       o->data_dir);
    return SS_OK;
}

/* Check that all ranks have the same data and device kind, after all have opened their data. */
static enum ss_status check_choices(struct ss_session *s)
{
    static const char advice[] = "copy the same data set to all nodes";
    char train[32] = "", test[32];
    if (s->train)
        snprintf(train, sizeof train, "%016llx", (unsigned long long)s->train->fingerprint);
    snprintf(test, sizeof test, "%016llx", (unsigned long long)s->test->fingerprint);
    const struct ss_comm_fact facts[] = {
        {.name = "content of the training set", .value = train, .advice = advice},
        {.name = "content of the test set", .value = test, .advice = advice},
        {.name = "compute device", .value = s->device.gpu ? "GPU" : "CPU"},
    };
    return ss_comm_check_facts(s->comm, "comparison of data sets", facts,
                               sizeof facts / sizeof *facts);
}

/* One split and its pack. */
struct packing {
    struct ss_session *s;
    struct ss_dataset *d;
    char path[4096], why[128];
    int have;
    struct ss_pack_builder *builder; /* NULL: this rank does not build */
    double begin;
};

static enum ss_status open_pack(struct packing *p)
{
    struct ss_pack *pack;
    SS_TRY(ss_pack_open(p->path, ss_dataset_folder(p->d), p->why, sizeof p->why, &pack));
    p->have = pack != NULL;
    if (pack)
        ss_dataset_use_pack(p->d, pack);
    return SS_OK;
}

static enum ss_status begin_pack(struct packing *p)
{
    const struct ss_train_options *o = p->s->options;
    p->begin = ss_seconds();
    SS_TRY(ss_pack_begin(p->path, ss_dataset_folder(p->d), 0, o->skip_corrupt, &p->builder));
    printf("Packing %zu images of %s into %s%s%s\n", p->d->count, p->d->path, p->path,
           *p->why ? ": the pack there is " : "", p->why);
    ss_stdio_flush();
    return SS_OK;
}

/* Build for a limited time. p->builder is NULL when building has ended, successfully or not. */
static enum ss_status build_portion(struct packing *p)
{
    double seconds = p->s->options->timeout / PORTIONS_PER_TIMEOUT;
    size_t done;
    enum ss_status status =
        ss_pack_continue(p->builder, seconds < MAX_PORTION_S ? seconds : MAX_PORTION_S, &done);
    if (status == SS_OK && done < p->d->count)
        return SS_OK;
    if (status == SS_OK)
        status = ss_pack_commit(p->builder);
    else
        ss_pack_abort(p->builder);
    p->builder = NULL;
    if (status == SS_OK)
        printf("Packed %zu images in %.1f s\n", p->d->count, ss_seconds() - p->begin);
    return status;
}

/* Build a missing pack if this rank is a builder, while the others wait; then try to open it
 * again. */
static enum ss_status build_missing(struct packing *p, int builder)
{
    int going = builder && !p->have, any;
    enum ss_status status = going ? begin_pack(p) : SS_OK;
    for (any = 1; any;) {
        if (status == SS_OK && p->builder)
            status = build_portion(p);
        status = ss_session_agree(p->s, status, "building a packed cache");
        if (status != SS_OK) {
            ss_pack_abort(p->builder);
            return status;
        }
        SS_TRY(ss_comm_any(p->s->comm, p->builder != NULL, &any, "building a packed cache"));
    }
    if (!p->have)
        status = open_pack(p);
    return ss_session_agree(p->s, status, "opening a packed cache");
}

/* Open a pack; if it is missing, rank 0 builds it, then one rank of each node that does not see
 * rank 0's file. */
static enum ss_status use_pack(struct ss_session *s, struct ss_dataset *d, enum ss_split split)
{
    struct packing p = {.s = s, .d = d};
    enum ss_status status = ss_pack_path(p.path, sizeof p.path, s->options->cache, split);
    if (status == SS_OK)
        status = open_pack(&p);
    SS_TRY(ss_session_agree(s, status, "opening a packed cache"));
    int missing;
    for (int phase = 0; phase < 2; phase++) {
        SS_TRY(ss_comm_any(s->comm, !p.have, &missing, "opening a packed cache"));
        if (missing)
            SS_TRY(build_missing(&p, phase ? ss_comm_local_rank(s->comm) == 0
                                           : ss_comm_rank(s->comm) == 0));
    }
    if (!p.have)
        status = ss_fail(SS_ERR_IO, "%s: was built, but is %s; try another folder", p.path,
                         *p.why ? p.why : "not there");
    return ss_session_agree(s, status, "opening a packed cache");
}

enum ss_status ss_session_open_data(struct ss_session *s, int training)
{
    SS_TRY(ss_session_agree(s, ss_session_open_sets(s, training), "opening the data set"));
    SS_TRY(check_choices(s));
    int cache;
    SS_TRY(ss_comm_any(s->comm, s->options->cache != NULL, &cache, "choice of a cache"));
    if (!cache)
        return SS_OK;
    enum ss_status status = SS_OK;
    if (!s->options->cache)
        status = ss_fail(SS_ERR_INVALID, "--cache is given to other ranks; give it to all or none");
    SS_TRY(ss_session_agree(s, status, "choice of a cache"));
    if (s->train)
        SS_TRY(use_pack(s, s->train, SS_SPLIT_TRAIN));
    return use_pack(s, s->test, SS_SPLIT_TEST);
}

/* Count on rank 0 the samples of d that were skipped on any rank; gathers one byte per sample. */
static enum ss_status count_in(struct ss_session *s, const struct ss_dataset *d, size_t *skipped)
{
    size_t ranks = (size_t)ss_comm_size(s->comm);
    char *own = malloc(d->count);
    void *gathered;
    for (size_t i = 0; own && i < d->count; i++)
        own[i] = (char)ss_dataset_skipped(d, i);
    enum ss_status status =
        ss_comm_gather_alloc(s->comm, own, d->count, &gathered, "skipped files");
    const char *all = gathered;
    for (size_t i = 0; all && i < d->count; i++) {
        int any = 0;
        for (size_t r = 0; r < ranks; r++)
            any |= all[r * d->count + i];
        *skipped += (size_t)any;
    }
    free(gathered);
    free(own);
    return status;
}

enum ss_status ss_session_count_skipped(struct ss_session *s, size_t *skipped)
{
    *skipped = 0;
    if (!s->options->skip_corrupt)
        return SS_OK;
    if (s->train)
        SS_TRY(count_in(s, s->train, skipped));
    return count_in(s, s->test, skipped);
}
