/* tune_report.c: output for people and for scripts (interface in tune.h). */
#include "apps/tune/tune.h"

#include <math.h>
#include <string.h>

/* ---- for scripts ----------------------------------------------------------------------------- */

static void print_quoted(FILE *out, const char *word)
{
    fputc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

enum ss_status ss_tune_print_next(const struct ss_tune *t, const struct ss_tune_trial *trial,
                                  FILE *out)
{
    char path[SS_TUNE_PATH];
    const struct ss_tune_steps steps = ss_tune_steps(t, trial->stage);
    const char *label = trial->label;
    const struct ss_tune_setting *s;
    struct ss_tune_args args;
    const long ranks = ss_tune_ranks(t, label);
    SS_TRY(ss_tune_path(t, SS_TUNE_LOG, path));
    SS_TRY(ss_tune_train_args(t, label, path, steps.warmup + steps.measured, &args));
    fprintf(out, "ranks=%ld cores=%ld deadline=%.0f\nenvironment=(", ranks, t->cores / ranks,
            ceil(ss_tune_deadline(t)));
    while ((s = ss_tune_next_setting(t, &label)))
        if (s->kind == SS_TUNE_VARIABLE) {
            print_quoted(out, s->label);
            fputc(' ', out);
        }
    fputs(")\noptions=(", out);
    for (size_t i = 0; i < args.count; i++) {
        print_quoted(out, args.at[i]);
        fputc(' ', out);
    }
    ss_tune_args_free(&args);
    fputs(")\noutput=", out);
    SS_TRY(ss_tune_path(t, SS_TUNE_OUT, path));
    print_quoted(out, path);
    fputs(" end=", out);
    SS_TRY(ss_tune_path(t, SS_TUNE_END, path));
    print_quoted(out, path);
    fputc('\n', out);
    return SS_OK;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_nodes(const struct ss_tune *t, FILE *out)
{
    const long nodes = t->options->nodes, ranks = t->options->ranks;
    fprintf(out, "%ld node%s of %ld core%s with %ld rank%s, global batch size %ld", nodes,
            nodes == 1 ? "" : "s", t->cores, t->cores == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s",
            t->batch);
}

void ss_tune_print_plan(const struct ss_tune *t, FILE *out)
{
    print_nodes(t, out);
    fputs("\nSettings:\n", out);
    for (size_t i = 0; i < t->nsettings; i++)
        fprintf(out, "  %s\n", t->settings[i].label);
    fprintf(
        out,
        "%zu runs per round, up to %ld rounds, then the combination of the faster ones; up to %g "
        "minutes\n",
        t->nsettings + 2, t->options->rounds, t->options->minutes);
}

void ss_tune_print_result(const struct ss_tune *t, FILE *out)
{
    const struct ss_tune_result *r = &t->results[t->nresults - 1];
    fprintf(out, "[%.0f s] %s, round %ld: %s: ", ss_tune_elapsed(t),
            ss_tune_stage_names[r->trial.stage], r->trial.round, r->trial.label);
    if (r->error)
        fprintf(out, "failed: %s\n", r->error);
    else
        fprintf(out, "%.1f images/s\n", r->rate);
}

static const char *verdict_of(const struct ss_tune_comparison *v)
{
    if (v->p_value <= SS_TUNE_SIGNIFICANCE)
        return v->ratio > 1 ? "faster" : "slower";
    return v->runs < SS_TUNE_MIN_RUNS ? "too few runs" : "not significant";
}

static int label_width(const struct ss_tune *t)
{
    size_t width = 31;
    for (size_t i = 0; i < t->nsettings; i++)
        width = strlen(t->settings[i].label) > width ? strlen(t->settings[i].label) : width;
    return (int)width;
}

static void print_row(const struct ss_tune *t, enum ss_tune_stage stage, const char *label,
                      FILE *out)
{
    struct ss_tune_comparison v = ss_tune_compare(t, stage, label);
    const int compared = !ss_tune_is_baseline(label);
    fprintf(out, "%-*s ", label_width(t), label);
    if (v.error && compared) {
        fprintf(out, "failed: %s\n", v.error);
        return;
    }
    if (!v.runs) {
        fputs("not measured\n", out);
        return;
    }
    fprintf(out, "%4zu %10.1f %10.1f %10.1f %6.3f", v.runs, v.median, v.least, v.most, v.ratio);
    if (compared && v.p_value < 0.0001)
        fprintf(out, "  <.0001  %s", verdict_of(&v));
    else if (compared)
        fprintf(out, " %7.4f  %s", v.p_value, verdict_of(&v));
    fputc('\n', out);
}

static void print_head(const struct ss_tune *t, const char *title, FILE *out)
{
    fprintf(out, "\n%-*s %4s %10s %10s %10s %6s %7s\n", label_width(t), title, "runs", "images/s",
            "least", "most", "ratio", "p-value");
}

static void print_best(const struct ss_tune *t, FILE *out)
{
    char label[SS_TUNE_LABEL], all[SS_TUNE_LABEL], one[SS_TUNE_LABEL];
    ss_tune_select(t, all, one);
    if (ss_tune_best(t, label))
        fprintf(out, "\nBest: %s: %.3f times the baseline's images/s\n", label,
                ss_tune_compare(t, SS_TUNE_COMBINED, label).ratio);
    else if (*all)
        fprintf(out, "\nBest: the baseline. Fresh runs did not confirm that %s is faster.\n", all);
    else
        fputs("\nBest: the baseline. No setting is significantly faster.\n", out);
}

void ss_tune_print_table(const struct ss_tune *t, FILE *out)
{
    char all[SS_TUNE_LABEL], best[SS_TUNE_LABEL];
    fprintf(out, "%s, ", t->train.model);
    print_nodes(t, out);
    fprintf(out, "; %zu runs in %.1f minutes\n", t->nresults, ss_tune_elapsed(t) / 60);
    print_head(t, "one setting changed", out);
    print_row(t, SS_TUNE_SINGLE, SS_TUNE_BASELINE, out);
    print_row(t, SS_TUNE_SINGLE, SS_TUNE_REPEAT, out);
    for (size_t i = 0; i < t->nsettings; i++)
        print_row(t, SS_TUNE_SINGLE, t->settings[i].label, out);
    ss_tune_select(t, all, best);
    if (*all) {
        print_head(t, "selected settings, fresh runs", out);
        print_row(t, SS_TUNE_COMBINED, SS_TUNE_BASELINE, out);
        print_row(t, SS_TUNE_COMBINED, all, out);
        if (strcmp(all, best))
            print_row(t, SS_TUNE_COMBINED, best, out);
    }
    fprintf(out,
            "\nimages/s: median, lowest and highest run; the row \"%s\" includes its repeats. "
            "p-value:\n"
            "Mann-Whitney U test against the baseline, two-sided; significant: at most %g. With "
            "%zu settings\n"
            "about %.1f would be significant by chance, therefore fresh runs confirm the selected "
            "ones.\n",
            SS_TUNE_BASELINE, SS_TUNE_SIGNIFICANCE, t->nsettings,
            SS_TUNE_SIGNIFICANCE * (double)t->nsettings);
    print_best(t, out);
}
