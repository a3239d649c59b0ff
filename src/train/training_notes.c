/* training_notes.c: notes of a training file (interface in training_file.h). */
#include "core/folder.h"
#include "core/log.h"
#include "core/sha256.h"
#include "graph/graph_file.h"
#include "graphs/models.h"
#include "train/checkpoint.h"
#include "train/safetensors_format.h"
#include "train/training_file.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_VERSION "1"

/* struct ss_position, field by field. */
static const struct field {
    const char *key;
    /* 'i': int64_t, 0 to SS_COUNT_MAX; 'f': double; 'p': double >= 0. Uppercase: may be missing
     * in files of earlier versions; default 0 for 'I' and 'P', NaN for 'F'. */
    char type;
    size_t offset;
} fields[] = {
    {"step", 'i', offsetof(struct ss_position, step)},
    {"epoch", 'i', offsetof(struct ss_position, epoch)},
    {"batches_of_epoch", 'i', offsetof(struct ss_position, batches)},
    {"num_batches_tracked", 'i', offsetof(struct ss_position, tracked)},
    {"epochs_at_target", 'i', offsetof(struct ss_position, reached)},
    {"steps_summed", 'i', offsetof(struct ss_position, summed)},
    {"loss_sum", 'f', offsetof(struct ss_position, loss)},
    {"train_loss", 'f', offsetof(struct ss_position, train.loss)},
    {"train_correct", 'p', offsetof(struct ss_position, train.correct)},
    {"train_count", 'p', offsetof(struct ss_position, train.count)},
    {"train_bad", 'p', offsetof(struct ss_position, train.bad)},
    {"train_top5", 'F', offsetof(struct ss_position, train.top5)},
    {"validation_loss", 'f', offsetof(struct ss_position, validation.loss)},
    {"validation_correct", 'p', offsetof(struct ss_position, validation.correct)},
    {"validation_count", 'p', offsetof(struct ss_position, validation.count)},
    {"validation_bad", 'p', offsetof(struct ss_position, validation.bad)},
    {"validation_top5", 'F', offsetof(struct ss_position, validation.top5)},
    {"epoch_seconds", 'p', offsetof(struct ss_position, epoch_s)},
    {"total_seconds", 'p', offsetof(struct ss_position, total_s)},
    {"total_images", 'p', offsetof(struct ss_position, total_images)},
    {"elapsed_seconds", 'p', offsetof(struct ss_position, elapsed_s)},
    {"loss_scale", 'p', offsetof(struct ss_position, scale)},
    {"loss_scale_steps", 'i', offsetof(struct ss_position, scale_steps)},
    {"loss_scale_skipped", 'i', offsetof(struct ss_position, scale_skipped)},
    {"best_epoch", 'I', offsetof(struct ss_position, best_epoch)},
    {"best_value", 'P', offsetof(struct ss_position, best)},
    {"schedule_steps", 'I', offsetof(struct ss_position, length)},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int is_integer(const struct field *f)
{
    return f->type == 'i' || f->type == 'I';
}

/* Add a key and return the storage for its value. */
static char *add(struct ss_training_notes *m, const char *key)
{
    m->key[m->n] = key;
    m->value[m->n] = m->storage[m->n];
    return m->storage[m->n++];
}

/* Format an option's value as in a checkpoint. */
static const char *note_of(const struct ss_option *o, const void *values,
                           char text[SS_OPTION_TEXT_CAPACITY])
{
    const char *shown = ss_option_text(o, values, text);
    if (o->type == SS_OPT_FLAG)
        shown = *shown == '1' ? "given" : "not given";
    return shown;
}

/* Find the next row, from `row` on, that is stored in checkpoints. */
static const struct ss_option *next_noted(const struct ss_option *row)
{
    while (row->name && !(row->marks & (SS_TRAIN_FIXED | SS_TRAIN_WARN)))
        row++;
    return row->name ? row : NULL;
}

/* Identify a model file by a hash of its layers: at a resume the file may have moved, and another
 * file may have its path. */
static enum ss_status put_layers(const struct ss_graph *g, char value[SS_TRAINING_TEXT])
{
    unsigned char digest[SS_SHA256_BYTES];
    struct ss_sha256 hash;
    char *text;
    SS_TRY(ss_graph_text(g, &text));
    ss_sha256_begin(&hash);
    ss_sha256_add(&hash, text, strlen(text));
    ss_sha256_end(&hash, digest);
    snprintf(value, SS_TRAINING_TEXT, "a file with layers %02x%02x%02x%02x%02x%02x", digest[0],
             digest[1], digest[2], digest[3], digest[4], digest[5]);
    free(text);
    return SS_OK;
}

static enum ss_status add_options(struct ss_training_notes *m, const struct ss_session *s)
{
    for (const struct ss_option *row = ss_train_rows; (row = next_noted(row)); row++) {
        char *storage = add(m, row->name);
        if (!strcmp(row->name, "--model") && ss_model_is_file(s->options->model))
            SS_TRY(put_layers(s->graph, storage));
        else
            m->value[m->n - 1] = note_of(row, s->options, storage);
    }
    return SS_OK;
}

enum ss_status ss_training_notes_take(const struct ss_session *s, const struct ss_position *p,
                                      struct ss_training_notes *m)
{
    m->n = 0;
    snprintf(add(m, "starstep_training"), SS_TRAINING_TEXT, FILE_VERSION);
    for (size_t i = 0; i < FIELDS; i++) {
        const char *at = (const char *)p + fields[i].offset;
        char *value = add(m, fields[i].key);
        if (is_integer(&fields[i]))
            snprintf(value, SS_TRAINING_TEXT, "%lld", (long long)*(const int64_t *)at);
        else
            snprintf(value, SS_TRAINING_TEXT, "%.17g", *(const double *)at);
    }
    snprintf(add(m, "ranks"), SS_TRAINING_TEXT, "%d", ss_comm_size(s->comm));
    snprintf(add(m, "global_batch"), SS_TRAINING_TEXT, "%lld",
             (long long)s->step_batch * ss_comm_size(s->comm));
    snprintf(add(m, "training_images"), SS_TRAINING_TEXT, "%zu", s->train->count);
    snprintf(add(m, "data"), SS_TRAINING_TEXT, "%016llx",
             (unsigned long long)s->train->fingerprint);
    return add_options(m, s);
}

static const char *value_of(const struct ss_training_notes *m, const char *key)
{
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->key[i], key))
            return m->value[i];
    return "";
}

/* Default of an option or a field that is newer than the checkpoint; NULL: it has none. */
static const char *default_of(const char *key, char text[SS_OPTION_TEXT_CAPACITY])
{
    for (size_t i = 0; i < FIELDS; i++)
        if (!strcmp(fields[i].key, key))
            return strchr("IP", fields[i].type) ? "0" : fields[i].type == 'F' ? "nan" : NULL;
    const struct ss_train_options defaults = ss_train_defaults();
    for (const struct ss_option *row = ss_train_rows; (row = next_noted(row)); row++)
        if (!strcmp(row->name, key))
            return note_of(row, &defaults, text);
    return NULL;
}

/* Reject unknown options in a file: they may have changed the results. */
static enum ss_status check_known(const struct ss_safetensors *st, const char *path)
{
    const char *key, *value;
    char text[SS_OPTION_TEXT_CAPACITY];
    for (size_t i = 0; ss_safetensors_metadata_at(st, i, &key, &value); i++)
        if (!strncmp(key, "--", 2) && !default_of(key, text))
            return ss_fail(SS_ERR_FORMAT, "%s: field %s is unknown: another version wrote it", path,
                           ss_st_show(key).text);
    return SS_OK;
}

enum ss_status ss_training_notes_read(const struct ss_safetensors *st, const char *path,
                                      struct ss_training_notes *m)
{
    const char *version = ss_safetensors_metadata(st, m->key[0]);
    if (!version)
        return ss_fail(SS_ERR_FORMAT, "%s: field %s is missing: this is not a training state", path,
                       m->key[0]);
    if (strcmp(version, FILE_VERSION))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: field %s is not " FILE_VERSION ": another version wrote it", path,
                       m->key[0]);
    for (size_t i = 0; i < m->n; i++) {
        const char *value = ss_safetensors_metadata(st, m->key[i]);
        if (!value)
            value = default_of(m->key[i], m->storage[i]);
        if (!value)
            return ss_fail(SS_ERR_FORMAT, "%s: field %s is missing", path, m->key[i]);
        m->value[i] = value;
    }
    return check_known(st, path);
}

static enum ss_status read_integer(const char *path, const char *key, const char *text,
                                   int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || v < 0 || v > SS_COUNT_MAX)
        return ss_fail(SS_ERR_FORMAT, "%s: field %s is \"%s\", not a whole number from 0 to 2^62",
                       path, key, ss_st_show(text).text);
    *out = v;
    return SS_OK;
}

static enum ss_status read_number(const char *path, const char *key, const char *text, char type,
                                  double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || (strchr("pP", type) && !(v >= 0 && isfinite(v))))
        return ss_fail(SS_ERR_FORMAT, "%s: field %s is \"%s\", not a number%s", path, key,
                       ss_st_show(text).text, strchr("pP", type) ? " >= 0" : "");
    *out = v;
    return SS_OK;
}

static enum ss_status read_position(const char *path, const struct ss_training_notes *m,
                                    struct ss_position *p)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        const char *text = value_of(m, f->key);
        void *at = (char *)p + f->offset;
        SS_TRY(is_integer(f) ? read_integer(path, f->key, text, at)
                             : read_number(path, f->key, text, f->type, at));
    }
    return SS_OK;
}

/* Compare values. Versions up to 0.2.0 truncated them. */
static int same(const char *was, const char *is)
{
    const size_t cut = SS_TRAINING_TEXT - 1;
    return !strcmp(was, is) || (strlen(was) == cut && !strncmp(was, is, cut));
}

/* 1 if the layers beside a checkpoint's weights equal this session's, even if another version
 * wrote them in another way. */
static int same_layers(const struct ss_session *s, const char *model)
{
    char path[PATH_MAX], was[SS_TRAINING_TEXT], is[SS_TRAINING_TEXT], why[256];
    struct ss_graph *g = NULL;
    if (!ss_folder_beside(path, sizeof path, model, SS_CHECKPOINT_GRAPH))
        return 0;
    ss_log_capture(why, sizeof why);
    const int read = ss_graph_read(path, 0, &g) == SS_OK && put_layers(g, was) == SS_OK &&
                     put_layers(s->graph, is) == SS_OK;
    ss_log_capture(NULL, 0);
    ss_graph_destroy(g);
    return read && !strcmp(was, is);
}

/* Check the options and the data set, which must not change at a resume. */
static enum ss_status check_fixed(const struct ss_session *s, const char *path, const char *model,
                                  const struct ss_training_notes *own,
                                  const struct ss_training_notes *m)
{
    for (const struct ss_option *row = ss_train_rows; (row = next_noted(row)); row++) {
        const char *was = value_of(m, row->name), *is = value_of(own, row->name);
        if (row->marks & SS_TRAIN_FIXED && !same(was, is) &&
            (strcmp(row->name, "--model") || !same_layers(s, model)))
            return ss_fail(SS_ERR_MISMATCH,
                           "%s: %s was %s and is now %s; continue with the former, or start again "
                           "from its weights with --init %s",
                           path, row->name, ss_st_show(was).text, ss_st_show(is).text, model);
    }
    if (strcmp(value_of(m, "data"), value_of(own, "data")))
        return ss_fail(SS_ERR_MISMATCH,
                       "%s: field data: --data-dir was another data set (%s training images) than "
                       "now (%s); continue with that one, or start again from its weights with "
                       "--init %s",
                       path, ss_st_show(value_of(m, "training_images")).text,
                       value_of(own, "training_images"), model);
    return SS_OK;
}

static void report_changes(const char *path, const struct ss_training_notes *own,
                           const struct ss_training_notes *m)
{
    for (const struct ss_option *row = ss_train_rows; (row = next_noted(row)); row++) {
        const char *was = value_of(m, row->name), *is = value_of(own, row->name);
        if (row->marks & SS_TRAIN_WARN && !same(was, is))
            ss_warn("%s: %s was %s and is now %s; the run continues with the new value", path,
                    row->name, ss_st_show(was).text, ss_st_show(is).text);
    }
}

/* Steps of an epoch on `ranks` ranks; -1 if ranks or global_batch is invalid. */
static int64_t steps_of(const struct ss_session *s, int64_t ranks, int64_t global_batch)
{
    if (ranks < 1 || ranks > INT_MAX || global_batch < ranks)
        return -1;
    return (int64_t)ss_sampler_steps(s->train->count, (int)ranks, (size_t)(global_batch / ranks),
                                     ss_train_end(s->options));
}

/* Adjust the position in the epoch to a changed global batch, which divides the samples into
 * other batches. */
static enum ss_status place_in_epoch(const struct ss_session *s, const char *path,
                                     const struct ss_training_origin *origin, struct ss_position *p)
{
    const int ranks = ss_comm_size(s->comm);
    const int64_t is = s->step_batch * ranks, was = origin->global_batch,
                  steps = steps_of(s, origin->ranks, was);
    if (p->batches > steps)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: field batches_of_epoch is %lld, but an epoch has %zu images in batches "
                       "of %lld (global_batch) on %lld ranks",
                       path, (long long)p->batches, s->train->count, (long long)was,
                       (long long)origin->ranks);
    if (was == is)
        return SS_OK;
    if (p->batches == steps) {
        p->batches = steps_of(s, ranks, is); /* only the evaluation is left */
        return SS_OK;
    }
    if (!p->batches) {
        ss_warn(
            "%s: the global batch was %lld and is now %lld; the run continues with the new value",
            path, (long long)was, (long long)is);
        return SS_OK;
    }
    ss_warn("%s: the global batch was %lld and is now %lld: epoch %lld restarts, so %lld "
            "images are trained on twice",
            path, (long long)was, (long long)is, (long long)p->epoch + 1,
            (long long)(p->batches * was));
    p->total_s += p->epoch_s;
    p->total_images += (double)(p->batches * was);
    p->batches = p->summed = 0;
    p->loss = p->epoch_s = 0;
    p->train = (struct ss_metrics){0};
    return SS_OK;
}

enum ss_status ss_training_notes_understand(const struct ss_session *s, const char *path,
                                            const char *model, const struct ss_training_notes *own,
                                            const struct ss_training_notes *m,
                                            struct ss_position *p,
                                            struct ss_training_origin *origin)
{
    *p = (struct ss_position){0};
    SS_TRY(read_position(path, m, p));
    SS_TRY(read_integer(path, "ranks", value_of(m, "ranks"), &origin->ranks));
    SS_TRY(read_integer(path, "global_batch", value_of(m, "global_batch"), &origin->global_batch));
    SS_TRY(check_fixed(s, path, model, own, m));
    SS_TRY(place_in_epoch(s, path, origin, p));
    if (strcmp(value_of(m, "--target-accuracy"), value_of(own, "--target-accuracy")))
        p->reached = 0;
    if (strcmp(value_of(m, "--best"), value_of(own, "--best")))
        p->best_epoch = 0;
    report_changes(path, own, m);
    return SS_OK;
}
