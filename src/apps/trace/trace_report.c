#include "apps/trace/trace_report.h"
#include "apps/trace/verdict.h"
#include "core/log.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { MANY_STEPS = 64, FURTHEST = 10 };

static double ms(double ns)
{
    return ns / 1e6;
}

/* "12.3", or "-" without communication. */
static const char *percent(int64_t part, int64_t whole, char text[16])
{
    if (whole > 0)
        snprintf(text, 16, "%.1f", 100.0 * (double)part / (double)whole);
    else
        strcpy(text, "-");
    return text;
}

static int shown(const struct ss_trace_report_options *o, const struct ss_rank_times *r)
{
    return o->rank < 0 || o->rank == r->rank;
}

static void print_times_head(const char *first, FILE *out)
{
    fprintf(out, "%-62s   %s\n", "", "idle, waiting for:");
    fprintf(out, "%-12s %9s %9s %9s %9s %9s  %9s %9s %9s %9s %9s\n", first, "ms/step", "compute",
            "comm", "overlap %", "exposed", "input", "comm", "depend.", "runtime", "nothing");
}

/* Means of n steps. */
static void print_times(const char *first, double n, const struct ss_rank_sums *s, FILE *out)
{
    char text[16];
    fprintf(out, "%-12s %9.3f %9.3f %9.3f %9s %9.3f ", first, ms((double)s->window / n),
            ms((double)s->compute / n), ms((double)s->comm / n), percent(s->overlap, s->comm, text),
            ms((double)s->exposed / n));
    for (int k = 0; k < SS_IDLE_KINDS; k++)
        fprintf(out, " %9.3f", ms((double)s->idle[k] / n));
    fprintf(out, "\n");
}

static void print_heading(const struct ss_run_times *run, FILE *out)
{
    const struct ss_rank_times *r = run->rank[0];
    fprintf(out, "model %.48s, %s, %d rank%s by %.16s, overlap %s\n", r->model,
            r->cuda ? "GPU" : "CPU", run->ranks, run->ranks > 1 ? "s" : "", r->backend,
            r->overlap ? "on" : "off");
    for (int i = 0; i < run->count; i++) {
        r = run->rank[i];
        if (r->cut || !r->ended)
            fprintf(out,
                    "rank %d: the file ends early%s: the run was killed; using the valid part\n",
                    r->rank, r->cut ? ", inside a line" : "");
        if (r->lost)
            fprintf(out, "rank %d: %lld events were lost: out of memory\n", r->rank,
                    (long long)r->lost);
        if (r->steps_broken)
            fprintf(out, "rank %d: %lld step%s incomplete: excluded\n", r->rank,
                    (long long)r->steps_broken, r->steps_broken > 1 ? "s are" : " is");
        if (!r->has_clock && run->ranks > 1)
            fprintf(out, "rank %d: no clock line: assuming rank 0's clock\n", r->rank);
    }
}

/* Print text, wrapped between words. */
static void print_words(const char *text, int column, FILE *out)
{
    for (int at = column; *text;) {
        const int n = (int)strcspn(text, " ");
        if (at > column && at + 1 + n > 118) {
            fprintf(out, "\n%*s", column, "");
            at = column;
        }
        at += fprintf(out, "%s%.*s", at > column ? " " : "", n, text);
        text += n;
        text += strspn(text, " ");
    }
}

static void print_verdict(const struct ss_run_times *run, FILE *out)
{
    const struct ss_trace_verdict v = ss_trace_judge(run);
    if (!v.steps)
        return;
    fprintf(out, "\nStep:    %.3f ms, computing for %.1f %%", v.step_ms, 100 * v.computing);
    if (!strcmp(v.bound, "compute"))
        fprintf(out, " (compute-bound)\n");
    else
        fprintf(out, "; for %.1f %% %s (the bottleneck)\n", 100 * v.waiting, v.meanwhile);
    if (v.comm_ms > 0)
        fprintf(out, "Exposed: %.3f of %.3f ms of communication per step", v.exposed_ms, v.comm_ms);
    else
        fprintf(out, "Exposed: none (no communication)");
    if (ss_trace_is_late(&v))
        fprintf(out, ", mostly waiting for rank %d", v.last);
    fprintf(out, "\nTry:     ");
    print_words(v.advice, 9, out);
    fprintf(out, "\n");
}

static void print_ranks(const struct ss_run_times *run, const struct ss_trace_report_options *o,
                        FILE *out)
{
    fprintf(out, "\nTimes per step, in ms: means of each rank's steps\n");
    print_times_head("rank   steps", out);
    for (int i = 0; i < run->count; i++) {
        if (!shown(o, run->rank[i]))
            continue;
        struct ss_rank_sums s = ss_rank_sum(run->rank[i]);
        char first[32];
        snprintf(first, sizeof first, "%4d %7zu", run->rank[i]->rank, s.steps);
        print_times(first, s.steps ? (double)s.steps : 1, &s, out);
    }
}

static void print_steps(const struct ss_run_times *run, const struct ss_trace_report_options *o,
                        FILE *out)
{
    size_t lines = 0;
    for (int i = 0; i < run->count; i++)
        lines += shown(o, run->rank[i]) ? run->rank[i]->step.count : 0;
    if (lines > MANY_STEPS && !o->steps) {
        fprintf(out, "\n%zu steps in all: --steps A-B or --rank R prints a line for each\n", lines);
        return;
    }
    fprintf(out, "\nEach step, in ms\n");
    print_times_head("rank    step", out);
    for (int i = 0; i < run->count; i++)
        for (size_t k = 0; shown(o, run->rank[i]) && k < run->rank[i]->step.count; k++) {
            const struct ss_step_times *s = &run->rank[i]->step.at[k];
            struct ss_rank_sums one = {0};
            char first[32];
            ss_rank_add_step(&one, s);
            snprintf(first, sizeof first, "%4d %7lld", run->rank[i]->rank, (long long)s->step);
            print_times(first, 1, &one, out);
        }
}

/* "0.120 0.130 0.500" */
static void print_spread(const struct ss_spread *s, FILE *out)
{
    if (s->count)
        fprintf(out, " %8.3f %8.3f %8.3f ", ms(s->mean), ms(s->median), ms(s->max));
    else
        fprintf(out, " %8s %8s %8s ", "-", "-", "-");
}

static void print_buckets(const struct ss_run_times *run, const struct ss_trace_report_options *o,
                          FILE *out)
{
    const struct ss_bucket_times *bucket = run->bucket;
    for (int i = 0; i < run->count; i++)
        if (o->rank == run->rank[i]->rank)
            bucket = run->of_rank + (size_t)i * run->nbuckets;
    if (run->ranks < 2 || !run->nbuckets)
        return;
    fprintf(out, "\nCollectives, in ms: mean, median, maximum%s; GB/s at the mean duration\n",
            o->rank < 0 ? " over ranks and steps" : " over the steps of this rank");
    fprintf(out, "%-9s %9s  %-26s  %-26s  %-17s %7s %7s %7s\n", "bucket", "MB sent",
            "ready to start", "duration", "skew of starts", "wait %", "alg.bw", "bus bw");
    for (size_t b = 0; b < run->nbuckets; b++) {
        const struct ss_bucket_times *x = &bucket[b];
        char name[24] = "metrics";
        if (x->bucket >= 0)
            snprintf(name, sizeof name, x->kind == SS_TASK_GATHER ? "gather %d" : "%d", x->of);
        fprintf(out, "%-9s %9.3f ", name, (double)x->wire_bytes / 1e6);
        print_spread(&x->delay, out);
        print_spread(&x->duration, out);
        fprintf(out, " %8.3f %8.3f %7.1f", ms(run->bucket[b].skew.mean),
                ms(run->bucket[b].skew.max), 100 * x->waiting);
        if (x->wire_bytes)
            fprintf(out, " %7.3f %7.3f\n", x->algorithm_bw, x->bus_bw);
        else
            fprintf(out, " %7s %7s\n", "-", "-");
    }
    fprintf(out,
            "skew: mean, maximum; wait: share of the duration spent waiting for the "
            "last rank.\nThe clock error is %.3f ms: smaller skews are not significant.\n",
            ms((double)run->clock_error));
}

static void print_stragglers(const struct ss_run_times *run, FILE *out)
{
    if (run->count < 2)
        return;
    fprintf(out, "\nRanks against each other, in ms per step\n");
    fprintf(out, "%-5s %-24s %12s %16s %16s %18s\n", "rank", "host", "compute", "it waited",
            "others waited", "steps it was last");
    for (int i = 0; i < run->count; i++) {
        const struct ss_rank_times *r = run->rank[i];
        struct ss_rank_sums s = ss_rank_sum(r);
        double n = s.steps ? (double)s.steps : 1, all = (double)run->step.count;
        fprintf(out, "%-5d %-24.24s %12.3f %16.3f %16.3f %11lld of %3zu\n", r->rank, r->host,
                ms((double)s.compute / n),
                all > 0 ? ms((double)run->straggler[i].waited_ns / all) : 0,
                all > 0 ? ms((double)run->straggler[i].caused_ns / all) : 0,
                (long long)run->straggler[i].steps, run->step.count);
    }
}

/* Kinds are grouped into columns, so that a line fits. */
static const struct {
    const char *name;
    unsigned kinds; /* bit mask */
} columns[] = {{"load", 1u << SS_TASK_LOAD | 1u << SS_TASK_UPLOAD},
               {"convert", 1u << SS_TASK_CONVERT},
               {"forward", 1u << SS_TASK_FORWARD},
               {"backward", 1u << SS_TASK_BACKWARD | 1u << SS_TASK_SUM | 1u << SS_TASK_ADD},
               {"all-reduce", 1u << SS_TASK_SYNC | 1u << SS_TASK_ALLREDUCE |
                                  1u << SS_TASK_REDUCE_SCATTER | 1u << SS_TASK_GATHER |
                                  1u << SS_TASK_REDUCE_METRICS | 1u << SS_TASK_REDUCE_FOUND |
                                  1u << SS_TASK_REDUCE_SQUARES},
               {"update", 1u << SS_TASK_CHECK | 1u << SS_TASK_SQUARES | 1u << SS_TASK_UPDATE |
                              1u << SS_TASK_SCALE},
               {"report", 1u << SS_TASK_FETCH | 1u << SS_TASK_REPORT},
               {"waiting", 1u << SS_PATH_WAITING},
               {"unsubmit.", 1u << SS_PATH_UNSUBMITTED}};

static void print_path_kinds(const struct ss_run_times *run,
                             const struct ss_trace_report_options *o, FILE *out)
{
    const size_t n = sizeof columns / sizeof *columns;
    fprintf(out, "\nCritical path per step, in ms, by kind of task\n%-5s %10s", "rank", "ms/step");
    for (size_t c = 0; c < n; c++)
        fprintf(out, " %10s", columns[c].name);
    fprintf(out, "\n");
    for (int i = 0; i < run->count; i++) {
        struct ss_rank_sums s = ss_rank_sum(run->rank[i]);
        double steps = s.steps ? (double)s.steps : 1;
        if (!shown(o, run->rank[i]))
            continue;
        fprintf(out, "%-5d %10.3f", run->rank[i]->rank, ms((double)s.window / steps));
        for (size_t c = 0; c < n; c++) {
            int64_t sum = 0;
            for (int k = 0; k < SS_PATH_KINDS; k++)
                sum += columns[c].kinds >> k & 1 ? s.path_kind[k] : 0;
            fprintf(out, " %10.3f", ms((double)sum / steps));
        }
        fprintf(out, "\n");
    }
}

static void print_compared(const char *kind, const char *task, struct ss_compared x, FILE *out)
{
    fprintf(out, "%-12s %-46.46s %10.3f %10.3f %8.2f\n", kind, task, ms(x.measured),
            ms(x.predicted), x.measured / x.predicted);
}

static double off(struct ss_compared x)
{
    return x.measured > 0 && x.predicted > 0 ? fabs(x.measured - x.predicted) : 0;
}

/* Print the tasks with the largest prediction errors, in task order. */
static void print_furthest(const struct ss_rank_times *r, FILE *out)
{
    double last = INFINITY;
    for (int n = 0; n < FURTHEST; n++) {
        size_t worst = r->tasks;
        for (size_t i = 0; i < r->tasks; i++)
            if (off(ss_rank_compare(r, i)) > 0 && off(ss_rank_compare(r, i)) < last &&
                (worst == r->tasks || off(ss_rank_compare(r, i)) > off(ss_rank_compare(r, worst))))
                worst = i;
        if (worst == r->tasks)
            return;
        last = off(ss_rank_compare(r, worst));
        print_compared(ss_task_kind_name(r->task_kind[worst]), r->task_name[worst],
                       ss_rank_compare(r, worst), out);
    }
}

/* Print predictions for the first rank shown: all ranks have the same kind of machine. */
static void print_predictions(const struct ss_run_times *run,
                              const struct ss_trace_report_options *o, FILE *out)
{
    int i = 0;
    while (i < run->count && !shown(o, run->rank[i]))
        i++;
    const struct ss_rank_times *r = i < run->count ? run->rank[i] : NULL;
    if (!r || !r->machine[0])
        return;
    struct ss_compared all = {0, 0}, kind[SS_TASK_REPORT + 1] = {{0, 0}};
    for (size_t t = 0; t < r->tasks; t++) {
        const struct ss_compared x = ss_rank_compare(r, t);
        if (off(x) <= 0)
            continue;
        kind[r->task_kind[t]].measured += x.measured;
        kind[r->task_kind[t]].predicted += x.predicted;
        all.measured += x.measured;
        all.predicted += x.predicted;
    }
    fprintf(out, "\nTasks on rank %d%s, in ms: the mean over steps, and ", r->rank,
            r->cuda ? "'s GPU" : "");
    if (!strcmp(r->machine, "measured"))
        fprintf(out, "StarPU's earlier measurements\n");
    else if (!strcmp(r->machine, "host"))
        fprintf(out, "the prediction for this CPU, from its speed at the start\n");
    else
        fprintf(out, "the prediction for one %.16s (no measurement)\n", r->machine);
    fprintf(out, "%-12s %-46s %10s %10s %8s\n", "kind", "task", "measured", "predicted", "ratio");
    for (int k = 0; k <= SS_TASK_REPORT; k++)
        if (kind[k].predicted > 0)
            print_compared(ss_task_kind_name((enum ss_task_kind)k), "all", kind[k], out);
    if (all.predicted > 0)
        print_compared("all", "", all, out);
    print_furthest(r, out);
}

static void print_path(const struct ss_rank_times *r, FILE *out)
{
    for (size_t i = 0; i < r->step.count; i++) {
        const struct ss_step_times *s = &r->step.at[i];
        fprintf(out, "\nCritical path of step %lld on rank %d: %.3f ms\n", (long long)s->step,
                r->rank, ms((double)(s->end - s->begin)));
        fprintf(out, "%10s %10s  %-14s %8s  %s\n", "at ms", "ms", "kind", "of step", "task");
        for (size_t k = s->path_count; k-- > 0;) {
            const struct ss_path_part *p = &r->path.part.at[s->path_from + k];
            fprintf(out, "%10.3f %10.3f  %-14s %8lld  %.70s\n", ms((double)(p->begin - s->begin)),
                    ms((double)(p->end - p->begin)), ss_path_kind_name(ss_rank_path_kind(r, p)),
                    (long long)p->step, p->task < 0 ? "" : r->task_name[p->task]);
        }
    }
}

static void print_loader(const struct ss_rank_times *r, const struct ss_rank_sums *s, FILE *out)
{
    if (s->headroom <= 0)
        return;
    fprintf(out, "  loader: %.2f times the rate of training", s->headroom);
    if (r->batch)
        fprintf(out, " (%.0f of %.0f images/s)", s->load_rate, s->train_rate);
    fprintf(out, ", by %d worker%s; %.3f ms per step waiting for input\n", r->loaders,
            r->loaders == 1 ? "" : "s",
            ms((double)s->idle[SS_IDLE_INPUT] / (s->steps ? (double)s->steps : 1)));
}

static void print_memory(const struct ss_rank_times *r, FILE *out)
{
    int64_t host = 0, device = 0;
    if (!r->memory.count)
        return;
    for (size_t i = 0; i < r->memory.count; i++) {
        host = r->memory.at[i].host > host ? r->memory.at[i].host : host;
        device = r->memory.at[i].device > device ? r->memory.at[i].device : device;
    }
    const struct ss_trace_memory *first = &r->memory.at[0],
                                 *last = &r->memory.at[r->memory.count - 1];
    fprintf(out, "  memory in MB, first, last, most: host %.1f %.1f %.1f",
            (double)first->host / 1e6, (double)last->host / 1e6, (double)host / 1e6);
    if (device)
        fprintf(out, "; device %.1f %.1f %.1f", (double)first->device / 1e6,
                (double)last->device / 1e6, (double)device / 1e6);
    fprintf(out, "\n");
}

static void print_workers(const struct ss_rank_times *r, FILE *out)
{
    if (r->window <= 0)
        return;
    int column = fprintf(out, "  busy %%:");
    for (size_t i = 0; i < r->worker.count; i++) {
        const struct ss_worker_times *w = &r->worker.at[i];
        char text[SS_TRACE_TEXT + 64];
        int n = snprintf(text, sizeof text, "%s %.1f", w->name,
                         100 * (double)w->busy / (double)r->window);
        if (w->load)
            snprintf(text + n, sizeof text - (size_t)n, " (loading %.1f)",
                     100 * (double)w->load / (double)r->window);
        if (column + (int)strlen(text) + 3 > 118)
            column = fprintf(out, ",\n        ") - 2;
        else if (i)
            column += fprintf(out, ",");
        column += fprintf(out, " %s", text);
    }
    fprintf(out, "\n");
}

static void print_use(const struct ss_run_times *run, const struct ss_trace_report_options *o,
                      FILE *out)
{
    fprintf(out, "\nLoader, workers and memory\n");
    for (int i = 0; i < run->count; i++) {
        const struct ss_rank_times *r = run->rank[i];
        if (!shown(o, r))
            continue;
        struct ss_rank_sums s = ss_rank_sum(r);
        fprintf(out, "rank %d on %s\n", r->rank, r->host);
        print_loader(r, &s, out);
        print_workers(r, out);
        print_memory(r, out);
    }
}

enum ss_status ss_trace_report_text(const struct ss_run_times *run,
                                    const struct ss_trace_report_options *o, FILE *out)
{
    print_heading(run, out);
    print_verdict(run, out);
    print_ranks(run, o, out);
    print_steps(run, o, out);
    print_buckets(run, o, out);
    print_stragglers(run, out);
    print_path_kinds(run, o, out);
    print_predictions(run, o, out);
    print_use(run, o, out);
    for (int i = 0; o->path && i < run->count; i++)
        if (shown(o, run->rank[i]))
            print_path(run->rank[i], out);
    if (fflush(out) || ferror(out))
        return ss_fail(SS_ERR_IO, "writing the report: %s", strerror(errno));
    return SS_OK;
}
