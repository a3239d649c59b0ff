/* settings.c: the settings to try (interface in tune.h). */
#include "core/log.h"
#include "runtime/environment.h"
#include "apps/tune/tune.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_CAPACITY = 64, VALUE_CAPACITY = 256 };

/* When a setting is tried by default. */
enum { ON_CPU = 1, ON_GPU = 2, SEVERAL_RANKS = 4, WITH_MPI = 8, WITH_OPEN_MPI = 16 };

/* The numerical results do not depend on these settings, with two exceptions: `ranks` changes the
 * per-rank batch of BatchNorm's statistics, and NCCL's algorithms add in different orders. */
static const struct default_setting {
    const char *name, *values; /* NULL: derived from the number of cores */
    unsigned when;
} defaults[] = {
    {"ranks", NULL, ON_CPU | WITH_MPI},
    {"threads", NULL, ON_CPU},
    {"workers", NULL, ON_CPU | ON_GPU},
    {"slots", "2,3,6,8", ON_CPU | ON_GPU},
    {"STARPU_SCHED", "lws,eager,dmda", ON_CPU | ON_GPU},
    {"STARPU_CUDA_PIPELINE", "0,1,4,8", ON_GPU},
    {"gpu-graphs", "on,off", ON_GPU},
    {"bucket-mb", "auto,1,5,25", ON_CPU | ON_GPU | SEVERAL_RANKS},
    {"nccl-ctas", "4,8,16,32", ON_GPU | SEVERAL_RANKS},
    {"nccl-cta-policy", "efficiency,zero", ON_GPU | SEVERAL_RANKS},
    {"NCCL_ALGO", "Ring,Tree", ON_GPU | SEVERAL_RANKS},
    {"NCCL_PROTO", "LL,LL128,Simple", ON_GPU | SEVERAL_RANKS},
    {"OMPI_MCA_pml", "ob1,ucx", ON_CPU | SEVERAL_RANKS | WITH_OPEN_MPI},
    {"OMPI_MCA_btl_vader_single_copy_mechanism", "cma,none",
     ON_CPU | SEVERAL_RANKS | WITH_OPEN_MPI},
};
enum { DEFAULTS = sizeof defaults / sizeof *defaults };

/* Options that are set separately for every trial. */
static const char *const reserved[] = {
    "batch-size", "per-rank-batch-size", "epochs",      "max-steps",
    "eval-every", "target-accuracy",     "trace-steps", NULL};

static const struct default_setting *find_default(const char *name)
{
    for (size_t i = 0; i < DEFAULTS; i++)
        if (!strcmp(defaults[i].name, name))
            return &defaults[i];
    return NULL;
}

static const struct ss_option *find_option(const char *name, const char **nearest)
{
    static struct ss_train_options values;
    const struct ss_option_set sets[] = {ss_train_option_set(&values, SS_TRAIN_OF_TRAIN), {0}};
    char dashed[NAME_CAPACITY + 2];
    snprintf(dashed, sizeof dashed, "--%s", name);
    const struct ss_option *o = ss_option_find(sets, dashed);
    if (!o && nearest && (*nearest = ss_option_nearest(sets, dashed)))
        *nearest += 2;
    return o;
}

static int is_variable(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return 0;
    return isupper((unsigned char)*name);
}

static enum ss_status find_kind(const char *name, enum ss_tune_kind *kind)
{
    const char *nearest = NULL;
    *kind = SS_TUNE_RANKS;
    if (!strcmp(name, "ranks"))
        return SS_OK;
    const struct ss_option *o = find_option(name, &nearest);
    for (int i = 0; reserved[i]; i++)
        if (!strcmp(o ? o->name + 2 : name, reserved[i]))
            return ss_fail(
                SS_ERR_INVALID,
                "tune: %s cannot be tuned, it is the same in all trials; give --%s after --", name,
                name);
    if (o && (o->marks & SS_TRAIN_CALL || o->group & (SS_TRAIN_RECIPE | SS_TRAIN_CHECKPOINT)))
        return ss_fail(SS_ERR_INVALID, "tune: --%s does not affect the time of a step", name);
    *kind = o ? SS_TUNE_OPTION : SS_TUNE_VARIABLE;
    if (o || is_variable(name))
        return SS_OK;
    return nearest ? ss_fail(SS_ERR_INVALID, "tune: train has no option --%s; did you mean %s?",
                             name, nearest)
                   : ss_fail(SS_ERR_INVALID,
                             "tune: \"%s\" is neither an option of train (without --) nor an "
                             "environment variable",
                             name);
}

struct ss_train_options ss_tune_train_options(const struct ss_tune *t, const char *label)
{
    struct ss_train_options o = t->train;
    const struct ss_tune_setting *s;
    while ((s = ss_tune_next_setting(t, &label)))
        if (s->kind == SS_TUNE_OPTION) /* validated before */
            (void)ss_option_set(find_option(s->name, NULL), &o, "tune", s->value);
    return o;
}

/* Validate as at start-up, with the variable in the environment for the duration of the check. */
static enum ss_status check_variable(const char *name, const char *value)
{
    const char *now = getenv(name);
    char *before = now ? strdup(now) : NULL;
    enum ss_status status = SS_ERR_MEMORY;
    if ((!now || before) && !setenv(name, value, 1)) {
        status = ss_environment_check();
        if (before)
            (void)setenv(name, before, 1);
        else
            (void)unsetenv(name);
    }
    free(before);
    return status == SS_ERR_MEMORY ? ss_fail_memory("a variable", strlen(value)) : status;
}

static enum ss_status check_ranks(const struct ss_tune *t, const char *value)
{
    char *end;
    const long n = strtol(value, &end, 10);
    struct ss_train_options o = t->train;
    int each;
    if (end == value || *end || n < 1 || n > SS_TUNE_MAX_COUNT)
        return ss_fail(SS_ERR_INVALID, "tune: ranks: \"%s\" is not a number of ranks per node",
                       value);
    o.per_rank_batch_size = 0;
    o.batch_size = t->batch;
    return ss_train_rank_batch(&o, (int)(n * t->options->nodes), &each);
}

static enum ss_status check_option(const struct ss_tune *t, const char *name, const char *value,
                                   int *is_set)
{
    char text[2][SS_OPTION_TEXT_CAPACITY];
    struct ss_train_options o = t->train;
    const struct ss_option *row = find_option(name, NULL);
    SS_TRY(ss_option_set(row, &o, "tune", value));
    *is_set = !strcmp(ss_option_text(row, &o, text[0]), ss_option_text(row, &t->train, text[1]));
    return SS_OK;
}

/* *is_set: the baseline has this value already. */
static enum ss_status check_value(const struct ss_tune *t, enum ss_tune_kind kind, const char *name,
                                  const char *value, int *is_set)
{
    *is_set = 0;
    if (strpbrk(value, " \t\n'"))
        return ss_fail(SS_ERR_INVALID, "tune: %s: \"%s\": values must not contain blanks or quotes",
                       name, value);
    switch (kind) {
    case SS_TUNE_OPTION:
        return check_option(t, name, value, is_set);
    case SS_TUNE_VARIABLE:
        *is_set = getenv(name) && !strcmp(getenv(name), value);
        return check_variable(name, value);
    case SS_TUNE_RANKS:
        *is_set = strtol(value, NULL, 10) == t->options->ranks;
        return check_ranks(t, value);
    }
    return SS_OK;
}

static int is_listed(const struct ss_tune *t, const char *label)
{
    for (size_t i = 0; i < t->nsettings; i++)
        if (!strcmp(t->settings[i].label, label))
            return 1;
    return 0;
}

/* optional: skip the value if it is invalid here. */
static enum ss_status add_value(struct ss_tune *t, const char *name, const char *value,
                                int optional)
{
    char label[NAME_CAPACITY + VALUE_CAPACITY + 2], ignored[512];
    enum ss_tune_kind kind;
    int is_set;
    SS_TRY(find_kind(name, &kind));
    if (optional)
        ss_log_capture(ignored, sizeof ignored);
    enum ss_status status = check_value(t, kind, name, value, &is_set);
    if (optional)
        ss_log_capture(NULL, 0);
    snprintf(label, sizeof label, "%s=%s", name, value);
    if (status != SS_OK || is_set || is_listed(t, label))
        return optional ? SS_OK : status;
    if (t->nsettings == SS_TUNE_SETTINGS)
        return ss_fail(SS_ERR_INVALID, "tune: more than %d settings", SS_TUNE_SETTINGS);
    struct ss_tune_setting *s = &t->settings[t->nsettings++];
    *s = (struct ss_tune_setting){.kind = kind, .label = strdup(label), .name = strdup(name)};
    if (!s->label || !s->name)
        return ss_fail_memory("a setting", sizeof label);
    s->value = s->label + strlen(name) + 1;
    return SS_OK;
}

static enum ss_status add_list(struct ss_tune *t, const char *name, const char *list, int optional)
{
    const char *between = strchr(list, '|') ? "|" : ",";
    char value[VALUE_CAPACITY];
    for (const char *at = list; *at;) {
        const size_t n = strcspn(at, between);
        if (n >= sizeof value)
            return ss_fail(SS_ERR_INVALID, "tune: %s: a value is longer than %d characters", name,
                           VALUE_CAPACITY - 1);
        snprintf(value, sizeof value, "%.*s", (int)n, at);
        if (n)
            SS_TRY(add_value(t, name, value, optional));
        at += n + (at[n] != '\0');
    }
    return SS_OK;
}

static enum ss_status add_number(struct ss_tune *t, const char *name, long n)
{
    char value[VALUE_CAPACITY];
    snprintf(value, sizeof value, "%ld", n);
    return add_value(t, name, value, 1);
}

static enum ss_status add_by_cores(struct ss_tune *t, const char *name)
{
    const long each = t->cores / t->options->ranks, fewer[] = {each - 1, each / 2, each / 4};
    const long most = !strcmp(name, "ranks") ? t->cores : each < 2 ? 2 : each;
    if (!strcmp(name, "threads")) {
        for (int i = 0; i < 3; i++)
            if (fewer[i] > 0)
                SS_TRY(add_number(t, name, fewer[i]));
        return SS_OK;
    }
    for (long n = 1; n <= most && n <= 64; n *= 2)
        SS_TRY(add_number(t, name, n));
    return SS_OK;
}

static enum ss_status add_default(struct ss_tune *t, const struct default_setting *d)
{
    return d->values ? add_list(t, d->name, d->values, 1) : add_by_cores(t, d->name);
}

static enum ss_status add_word(struct ss_tune *t, const char *word)
{
    char name[NAME_CAPACITY];
    const size_t n = strcspn(word, "=");
    enum ss_tune_kind kind;
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    if (n >= sizeof name)
        return ss_fail(SS_ERR_INVALID, "tune: %s: name too long", name);
    SS_TRY(find_kind(name, &kind));
    if (word[n])
        return add_list(t, name, word + n + 1, 0);
    const struct default_setting *d = find_default(name);
    return d ? add_default(t, d)
             : ss_fail(SS_ERR_INVALID, "tune: %s has no default values; give %s=VALUE,VALUE...",
                       name, name);
}

/* Which defaults apply. */
static unsigned conditions(const struct ss_tune *t)
{
    const char *mpi = ss_comm_library();
    unsigned bits = ss_train_choose_device(&t->train).gpu ? ON_GPU : ON_CPU;
    if (t->options->ranks * t->options->nodes > 1)
        bits |= SEVERAL_RANKS;
    if (strcmp(mpi, "none"))
        bits |= WITH_MPI;
    if (!strncmp(mpi, "Open MPI", 8))
        bits |= WITH_OPEN_MPI;
    return bits;
}

enum ss_status ss_tune_add(struct ss_tune *t, char *const *word, size_t words)
{
    const unsigned devices = ON_CPU | ON_GPU, bits = conditions(t);
    t->settings = calloc(SS_TUNE_SETTINGS, sizeof *t->settings);
    if (!t->settings)
        return ss_fail_memory("settings", SS_TUNE_SETTINGS * sizeof *t->settings);
    for (size_t i = 0; i < words; i++)
        SS_TRY(add_word(t, word[i]));
    for (size_t i = 0; !words && i < DEFAULTS; i++)
        if (defaults[i].when & bits & devices && !(defaults[i].when & ~(bits | devices)))
            SS_TRY(add_default(t, &defaults[i]));
    return t->nsettings ? SS_OK
                        : ss_fail(SS_ERR_INVALID,
                                  "tune: nothing to try: the baseline has these values already");
}

int ss_tune_is_baseline(const char *label)
{
    return !strcmp(label, SS_TUNE_BASELINE) || !strcmp(label, SS_TUNE_REPEAT);
}

const struct ss_tune_setting *ss_tune_next_setting(const struct ss_tune *t, const char **rest)
{
    if (ss_tune_is_baseline(*rest))
        return NULL;
    while (**rest) {
        const char *label = *rest;
        const size_t n = strcspn(label, " ");
        *rest += n + (label[n] == ' ');
        for (size_t i = 0; i < t->nsettings; i++)
            if (strlen(t->settings[i].label) == n && !strncmp(t->settings[i].label, label, n))
                return &t->settings[i];
    }
    return NULL;
}

long ss_tune_ranks(const struct ss_tune *t, const char *label)
{
    const struct ss_tune_setting *s;
    long ranks = t->options->ranks;
    while ((s = ss_tune_next_setting(t, &label)))
        if (s->kind == SS_TUNE_RANKS)
            ranks = strtol(s->value, NULL, 10);
    return ranks;
}

void ss_tune_close(struct ss_tune *t)
{
    for (size_t i = 0; i < t->nsettings; i++) {
        free(t->settings[i].label);
        free(t->settings[i].name);
    }
    for (size_t i = 0; i < t->nresults; i++)
        free(t->results[i].error);
    free(t->settings);
    free(t->results);
    *t = (struct ss_tune){0};
}
