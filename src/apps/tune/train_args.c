/* train_args.c: a trial's options (interface in tune.h). */
#include "core/json_value.h"
#include "core/log.h"
#include "apps/tune/tune.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static enum ss_status add(struct ss_tune_args *args, const char *format, ...) SS_PRINTF(2, 3);
static enum ss_status add(struct ss_tune_args *args, const char *format, ...)
{
    va_list values;
    char *word;
    va_start(values, format);
    const int n = vasprintf(&word, format, values);
    va_end(values);
    if (n < 0)
        return ss_fail_memory("options of a trial", 1);
    char **more = realloc(args->at, (args->count + 2) * sizeof *more);
    if (!more) {
        free(word);
        return ss_fail_memory("options of a trial", (args->count + 2) * sizeof *more);
    }
    args->at = more;
    args->at[args->count++] = word;
    args->at[args->count] = NULL;
    return SS_OK;
}

static int is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names))
        names++;
    return *names != NULL;
}

/* 1 if a trial inherits the option: not a default, not an output file, and not the batch size,
 * which is set separately. */
static int is_inherited(const struct ss_option *o, const struct ss_train_options *train)
{
    const unsigned excluded = SS_TRAIN_RECIPE | SS_TRAIN_CHECKPOINT | SS_TRAIN_OUTPUT;
    static const char *const names[] = {
        "--trace-steps", "--roofline", "--ranks", "--batch-size", "--per-rank-batch-size", NULL};
    if (o->marks & SS_TRAIN_CALL || o->group & excluded || ss_train_is_default(train, o->name))
        return 0;
    return !is_one_of(o->name, names);
}

static enum ss_status add_all(const struct ss_tune *t, const char *label, const char *log,
                              long steps, struct ss_tune_args *args)
{
    const struct ss_train_options o = ss_tune_train_options(t, label);
    char text[SS_OPTION_TEXT_CAPACITY];
    SS_TRY(add(args, "train"));
    for (const struct ss_option *row = ss_train_rows; row->name; row++)
        if (is_inherited(row, &o))
            SS_TRY(add(args, "%s=%s", row->name,
                       row->type == SS_OPT_FLAG ? "true" : ss_option_text(row, &o, text)));
    SS_TRY(add(args, "--batch-size=%ld", t->batch));
    SS_TRY(add(args, "--epochs=%d", 1 << 24));
    SS_TRY(add(args, "--max-steps=%ld", steps));
    SS_TRY(add(args, "--eval-every=0"));
    SS_TRY(add(args, "--target-accuracy=2"));
    SS_TRY(add(args, "--overwrite"));
    return add(args, "--log-json=%s", log);
}

enum ss_status ss_tune_train_args(const struct ss_tune *t, const char *label, const char *log,
                                  long steps, struct ss_tune_args *out)
{
    *out = (struct ss_tune_args){0};
    enum ss_status status = add_all(t, label, log, steps, out);
    if (status != SS_OK)
        ss_tune_args_free(out);
    return status;
}

void ss_tune_args_free(struct ss_tune_args *args)
{
    for (size_t i = 0; i < args->count; i++)
        free(args->at[i]);
    free(args->at);
    *args = (struct ss_tune_args){0};
}

long ss_tune_rank_batch(const struct ss_tune *t, const char *label)
{
    const long ranks = ss_tune_ranks(t, label) * t->options->nodes;
    return t->train.per_rank_batch_size ? t->batch / ranks : 0;
}

static json_t *option_json(const struct ss_option *row, const struct ss_train_options *o)
{
    char text[SS_OPTION_TEXT_CAPACITY];
    const char *value = ss_option_text(row, o, text);
    switch (row->type) {
    case SS_OPT_FLAG:
        return json_true();
    case SS_OPT_INT:
        return json_integer(strtol(value, NULL, 10));
    case SS_OPT_FLOAT:
        return ss_json_number(strtod(value, NULL));
    case SS_OPT_TEXT:
    case SS_OPT_WORD:
    case SS_OPT_SIZE:
        break;
    }
    return ss_json_text(value);
}

json_t *ss_tune_recipe(const struct ss_tune *t, const char *label)
{
    const struct ss_train_options o = ss_tune_train_options(t, label);
    const long each = ss_tune_rank_batch(t, label);
    static const char *const folders[] = {"--data-dir", "--cache", NULL};
    json_t *recipe = json_object();
    for (const struct ss_option *row = ss_train_rows; row->name; row++)
        if (is_inherited(row, &o) && !is_one_of(row->name, folders))
            ss_json_set(&recipe, row->name + 2, option_json(row, &o));
    if (each)
        ss_json_set(&recipe, "per-rank-batch-size", json_integer(each));
    else
        ss_json_set(&recipe, "batch-size", json_integer(t->batch));
    return recipe;
}
