/* planner.c: the order of trials and the comparison of settings (interface in tune.h). */
#include "core/rng.h"
#include "apps/tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROBE_WARMUP = 3,
    PROBE_STEPS = 8,
    MIN_STEPS = 10,
    MAX_STEPS = 10000,
    MAX_WARMUP = 50,
    MAX_RUNS = 1024, /* of one label in one stage */
    MAX_CANDIDATES = SS_TUNE_SETTINGS + 2,
};

/* Share of the time that is reserved for the combined stage. */
static const double COMBINED_SHARE = 0.3;

/* ---- comparison ------------------------------------------------------------------------------ */

/* Images/s of a label's successful trials; the baseline's include its repeats. */
static size_t get_rates(const struct ss_tune *t, enum ss_tune_stage stage, const char *label,
                        double out[MAX_RUNS])
{
    const int baseline = !strcmp(label, SS_TUNE_BASELINE);
    size_t n = 0;
    for (size_t i = 0; i < t->nresults && n < MAX_RUNS; i++) {
        const struct ss_tune_result *r = &t->results[i];
        if (r->trial.stage == stage && !r->error &&
            (baseline ? ss_tune_is_baseline(r->trial.label) : !strcmp(r->trial.label, label)))
            out[n++] = r->rate;
    }
    return n;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *values, size_t count)
{
    double sorted[MAX_RUNS];
    if (!count)
        return NAN;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, ascending);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

struct ss_tune_comparison ss_tune_compare(const struct ss_tune *t, enum ss_tune_stage stage,
                                          const char *label)
{
    double baseline[MAX_RUNS], own[MAX_RUNS];
    const size_t n = get_rates(t, stage, SS_TUNE_BASELINE, baseline);
    struct ss_tune_comparison v = {.runs = get_rates(t, stage, label, own)};
    v.median = median_of(own, v.runs);
    v.ratio = v.median / median_of(baseline, n);
    v.p_value = ss_tune_is_baseline(label) ? 1 : ss_tune_p_value(own, v.runs, baseline, n);
    v.least = v.most = v.runs ? own[0] : NAN;
    for (size_t i = 1; i < v.runs; i++) {
        v.least = fmin(v.least, own[i]);
        v.most = fmax(v.most, own[i]);
    }
    for (size_t i = 0; i < t->nresults; i++)
        if (!strcmp(t->results[i].trial.label, label) && t->results[i].error)
            v.error = t->results[i].error;
    return v;
}

static int is_faster(const struct ss_tune_comparison *v)
{
    return !v->error && v->ratio > 1 && v->p_value <= SS_TUNE_SIGNIFICANCE;
}

/* Images/s of each setting that is significantly faster than the baseline and the fastest value
 * of its name; 0 of the others. */
static void rate_selected(const struct ss_tune *t, double rate[SS_TUNE_SETTINGS])
{
    for (size_t i = 0; i < t->nsettings; i++) {
        const struct ss_tune_comparison v =
            ss_tune_compare(t, SS_TUNE_SINGLE, t->settings[i].label);
        rate[i] = is_faster(&v) ? v.median : 0;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(t->settings[k].name, t->settings[i].name))
                rate[rate[k] < rate[i] ? k : i] = 0;
    }
}

void ss_tune_select(const struct ss_tune *t, char all[SS_TUNE_LABEL], char best[SS_TUNE_LABEL])
{
    double rate[SS_TUNE_SETTINGS], most = 0;
    int ranks = 0;
    rate_selected(t, rate);
    *all = *best = '\0';
    for (size_t i = 0; i < t->nsettings; i++)
        ranks |= t->settings[i].kind == SS_TUNE_RANKS && rate[i] > 0;
    for (size_t i = 0; i < t->nsettings; i++) {
        const struct ss_tune_setting *s = &t->settings[i];
        const size_t n = strlen(all);
        /* Threads were measured with other cores per rank. */
        if (!(rate[i] > 0) || (ranks && !strcmp(s->name, "threads")) ||
            n + strlen(s->label) + 2 > SS_TUNE_LABEL)
            continue;
        snprintf(all + n, SS_TUNE_LABEL - n, "%s%s", n ? " " : "", s->label);
        if (rate[i] > most)
            snprintf(best, SS_TUNE_LABEL, "%s", s->label);
        most = fmax(most, rate[i]);
    }
}

int ss_tune_best(const struct ss_tune *t, char label[SS_TUNE_LABEL])
{
    char all[SS_TUNE_LABEL], one[SS_TUNE_LABEL];
    ss_tune_select(t, all, one);
    const struct ss_tune_comparison combined = ss_tune_compare(t, SS_TUNE_COMBINED, all),
                                    single = ss_tune_compare(t, SS_TUNE_COMBINED, one);
    const int use_all = is_faster(&combined), use_one = is_faster(&single);
    if (!*all || !(use_all || use_one))
        return 0;
    snprintf(label, SS_TUNE_LABEL, "%s",
             use_all && !(use_one && single.median > combined.median) ? all : one);
    return 1;
}

/* ---- durations ------------------------------------------------------------------------------- */

double ss_tune_elapsed(const struct ss_tune *t)
{
    double sum = 0;
    for (size_t i = 0; i < t->nresults; i++)
        sum += t->results[i].seconds;
    return sum;
}

static const struct ss_tune_result *find_probe(const struct ss_tune *t)
{
    for (size_t i = 0; i < t->nresults; i++)
        if (t->results[i].trial.stage == SS_TUNE_PROBE && !t->results[i].error)
            return &t->results[i];
    return NULL;
}

struct ss_tune_steps ss_tune_steps(const struct ss_tune *t, enum ss_tune_stage stage)
{
    double rate = 0; /* the baseline's best one: the probe may have run with cold caches */
    for (size_t i = 0; i < t->nresults; i++)
        if (ss_tune_is_baseline(t->results[i].trial.label))
            rate = fmax(rate, t->results[i].rate);
    if (stage == SS_TUNE_PROBE || rate <= 0)
        return (struct ss_tune_steps){PROBE_WARMUP, PROBE_STEPS};
    const double steps = ceil(t->options->seconds * rate / (double)t->batch);
    const long measured = (long)fmin(MAX_STEPS, fmax(MIN_STEPS, steps));
    const long warmup = measured / 10;
    return (struct ss_tune_steps){warmup < PROBE_WARMUP ? PROBE_WARMUP
                                  : warmup > MAX_WARMUP ? MAX_WARMUP
                                                        : warmup,
                                  measured};
}

static double estimate_seconds(const struct ss_tune *t)
{
    const struct ss_tune_result *r = find_probe(t);
    const struct ss_tune_steps first = {PROBE_WARMUP, PROBE_STEPS},
                               all = ss_tune_steps(t, SS_TUNE_SINGLE);
    const long more = all.warmup + all.measured - first.warmup - first.measured;
    return r ? r->seconds + (double)more * (double)t->batch / r->rate : 0;
}

double ss_tune_deadline(const struct ss_tune *t)
{
    return find_probe(t) ? 60 + 5 * estimate_seconds(t) : 60 * t->options->minutes;
}

/* Duration of a trial: the longest one with this label so far, or an estimate from the probe. */
static double expected_seconds(const struct ss_tune *t, const char *label)
{
    double most = 0;
    for (size_t i = 0; i < t->nresults; i++) {
        const struct ss_tune_result *r = &t->results[i];
        if (r->trial.stage != SS_TUNE_PROBE && !r->error && !strcmp(r->trial.label, label))
            most = fmax(most, r->seconds);
    }
    return most > 0 ? most : estimate_seconds(t);
}

/* ---- order ---------------------------------------------------------------------------------- */

static int has_run(const struct ss_tune *t, enum ss_tune_stage stage, long round, const char *label)
{
    for (size_t i = 0; i < t->nresults; i++) {
        const struct ss_tune_trial *w = &t->results[i].trial;
        if (w->stage == stage && w->round == round && !strcmp(w->label, label))
            return 1;
    }
    return 0;
}

/* 1 if the label failed, or if each of its runs was slower than each run of the baseline. */
static int is_dropped(const struct ss_tune *t, enum ss_tune_stage stage, const char *label)
{
    double baseline[MAX_RUNS];
    const struct ss_tune_comparison v = ss_tune_compare(t, stage, label);
    const size_t n = get_rates(t, stage, SS_TUNE_BASELINE, baseline);
    if (v.error && !ss_tune_is_baseline(label))
        return 1;
    if (ss_tune_is_baseline(label) || v.runs < SS_TUNE_MIN_RUNS || n < SS_TUNE_MIN_RUNS)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (baseline[i] <= v.most)
            return 0;
    return 1;
}

struct stage {
    enum ss_tune_stage stage;
    long rounds;
    double until; /* in seconds of elapsed time */
    const char *candidate[MAX_CANDIDATES];
    uint32_t count;
};

static void shuffle(const struct ss_tune *t, const struct stage *s, long round, const char **order)
{
    struct ss_rng rng;
    ss_rng_open(&rng, (uint64_t)t->options->seed, SS_RNG_SHUFFLE, (uint32_t)s->stage,
                (uint32_t)round);
    memcpy(order, s->candidate, s->count * sizeof *order);
    for (uint32_t i = s->count; i > 1; i--) {
        const uint32_t k = ss_rng_below(&rng, i);
        const char *one = order[i - 1];
        order[i - 1] = order[k];
        order[k] = one;
    }
}

static int next_in_stage(const struct ss_tune *t, const struct stage *s, struct ss_tune_trial *out)
{
    const char *order[MAX_CANDIDATES];
    for (long round = 1; round <= s->rounds; round++) {
        shuffle(t, s, round, order);
        for (uint32_t i = 0; i < s->count; i++) {
            if (has_run(t, s->stage, round, order[i]) || is_dropped(t, s->stage, order[i]))
                continue;
            if (ss_tune_elapsed(t) + expected_seconds(t, order[i]) > s->until)
                return 0;
            *out = (struct ss_tune_trial){.stage = s->stage, .round = round};
            snprintf(out->label, sizeof out->label, "%s", order[i]);
            return 1;
        }
    }
    return 0;
}

int ss_tune_next_trial(const struct ss_tune *t, struct ss_tune_trial *out)
{
    char all[SS_TUNE_LABEL], best[SS_TUNE_LABEL];
    const double seconds = 60 * t->options->minutes;
    struct stage single = {.stage = SS_TUNE_SINGLE,
                           .rounds = t->options->rounds,
                           .until = (1 - COMBINED_SHARE) * seconds,
                           .candidate = {SS_TUNE_BASELINE, SS_TUNE_REPEAT},
                           .count = 2};
    *out = (struct ss_tune_trial){.stage = SS_TUNE_PROBE, .round = 1, .label = SS_TUNE_BASELINE};
    if (!find_probe(t))
        return 1;
    for (size_t i = 0; i < t->nsettings; i++)
        single.candidate[single.count++] = t->settings[i].label;
    if (next_in_stage(t, &single, out))
        return 1;
    ss_tune_select(t, all, best);
    const struct stage combined = {.stage = SS_TUNE_COMBINED,
                                   .rounds = 2 * t->options->rounds,
                                   .until = seconds,
                                   .candidate = {SS_TUNE_BASELINE, all, best},
                                   .count = !strcmp(all, best) ? 2 : 3};
    return *all && next_in_stage(t, &combined, out);
}
