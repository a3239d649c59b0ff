/* analyse.c: analysis of one rank's trace (definitions in analyse.h). */
#include "core/log.h"
#include "apps/trace/analyse_internal.h"

#include <stdlib.h>
#include <string.h>

const char *ss_idle_name(enum ss_idle kind)
{
    static const char *const names[] = {[SS_IDLE_INPUT] = "input",
                                        [SS_IDLE_COMM] = "communication",
                                        [SS_IDLE_DEPENDENCY] = "dependency",
                                        [SS_IDLE_RUNTIME] = "runtime",
                                        [SS_IDLE_NOTHING] = "nothing"};
    return names[kind];
}

const char *ss_path_kind_name(int kind)
{
    return kind == SS_PATH_WAITING       ? "waiting"
           : kind == SS_PATH_UNSUBMITTED ? "not submitted"
                                         : ss_task_kind_name((enum ss_task_kind)kind);
}

int ss_rank_path_kind(const struct ss_rank_times *r, const struct ss_path_part *part)
{
    return part->task == SS_PATH_WAIT     ? SS_PATH_WAITING
           : part->task == SS_PATH_SUBMIT ? SS_PATH_UNSUBMITTED
                                          : (int)r->task_kind[part->task];
}

static enum ss_task_kind kind_of(const struct ss_analysis *a, size_t run)
{
    return a->trace->task.at[a->depend->run[run].task].kind;
}

/* Windows. */

struct extent {
    int64_t begin, end;
    size_t first, last; /* computing tasks: the first to begin, the last to end */
    int tasks;          /* number of computing tasks */
    int serving;        /* computing tasks run by service workers */
};

static struct extent extent_of(const struct ss_depend *d, size_t at)
{
    struct extent x = {0};
    for (size_t i = d->step_run[at]; i < d->step_run[at + 1]; i++) {
        const struct ss_depend_run *run = &d->run[i];
        x.serving += run->serves;
        if (!run->computes)
            continue;
        if (!x.tasks || run->begin < x.begin) {
            x.begin = run->begin;
            x.first = i;
        }
        if (!x.tasks || run->end > x.end) {
            x.end = run->end;
            x.last = i;
        }
        x.tasks++;
    }
    return x;
}

/* Add the path to the end of run `target` (with_it), or to its begin. */
static enum ss_status add_path(struct ss_analysis *a, struct ss_step_times *s, size_t target,
                               int with_it)
{
    struct ss_path *path = &a->out->path;
    s->path_from = path->part.count;
    SS_TRY(ss_path_walk(a->depend, target, with_it, s->begin, path));
    s->path_count = path->part.count - s->path_from;
    for (size_t i = s->path_from; i < path->part.count; i++) {
        const struct ss_path_part *part = &path->part.at[i];
        s->path_kind[ss_rank_path_kind(a->out, part)] += part->end - part->begin;
    }
    if (!a->options->keep_path)
        path->part.count = 0;
    return SS_OK;
}

static int64_t load_time(const struct ss_analysis *a, size_t at)
{
    int64_t sum = 0;
    for (size_t i = a->depend->step_run[at]; i < a->depend->step_run[at + 1]; i++)
        if (kind_of(a, i) == SS_TASK_LOAD)
            sum += a->depend->run[i].end - a->depend->run[i].begin;
    return sum;
}

/* Add the step at position `at`. next has no tasks if the window ends with the step's own last
 * task. */
static enum ss_status add_step(struct ss_analysis *a, size_t at, const struct extent *x,
                               const struct extent *next, int64_t *free_from)
{
    struct ss_step_times s = {
        .step = a->depend->step[at], .begin = x->begin, .end = next->tasks ? next->begin : x->end};
    if (s.begin < *free_from)
        s.begin = *free_from;
    if (s.end < s.begin)
        s.end = s.begin;
    *free_from = s.end;
    s.load = load_time(a, at);
    SS_TRY(add_path(a, &s, next->tasks ? next->first : x->last, !next->tasks));
    a->out->window += s.end - s.begin;
    SS_TRACE_ADD(&a->out->step, s);
    return SS_OK;
}

static enum ss_status find_windows(struct ss_analysis *a)
{
    const struct ss_depend *d = a->depend;
    const struct extent none = {0};
    int expected = 0;
    int64_t free_from = INT64_MIN; /* ensures that windows do not overlap */
    for (size_t i = 0; i < a->trace->task.count; i++)
        expected += ss_task_computes(a->trace->task.at[i].kind);
    struct extent next = d->nsteps ? extent_of(d, 0) : none;
    for (size_t at = 0; at < d->nsteps; at++) {
        struct extent x = next;
        next = at + 1 < d->nsteps ? extent_of(d, at + 1) : none;
        if (!ss_analysis_wants(a, d->step[at]))
            continue;
        if (!x.tasks || x.tasks + x.serving < expected) {
            a->out->steps_broken++;
            continue;
        }
        int goes_on = next.tasks && d->step[at + 1] == d->step[at] + 1;
        SS_TRY(add_step(a, at, &x, goes_on ? &next : &none, &free_from));
    }
    return SS_OK;
}

/* Compute, and the gaps in it. */

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The time until which the worker of run i was loading, between run i's ready and begin times. */
static int64_t loading_until(const struct ss_analysis *a, size_t i, int64_t ready)
{
    const size_t before = a->depend->before[i];
    return before != SS_TRACE_NO_RUN && kind_of(a, before) == SS_TASK_LOAD
               ? clamp(a->depend->run[before].end, ready, a->depend->run[i].begin)
               : ready;
}

/* Classify the gap from `begin` until run i began. */
static enum ss_status add_gap(struct ss_analysis *a, int64_t begin, size_t i)
{
    const struct ss_depend_run *x = &a->depend->run[i];
    size_t p = ss_depend_last(a->depend, i);
    enum ss_idle kind = SS_IDLE_DEPENDENCY;
    int64_t ready = x->on_gpu ? INT64_MIN : x->ready;
    if (p != SS_TRACE_NO_RUN) {
        enum ss_task_kind cause = kind_of(a, p);
        if (cause == SS_TASK_LOAD || cause == SS_TASK_UPLOAD)
            kind = SS_IDLE_INPUT;
        else if (ss_task_sums(cause))
            kind = SS_IDLE_COMM;
        if (a->depend->run[p].end > ready)
            ready = a->depend->run[p].end;
    }
    int64_t submitted = clamp(ss_trace_submitted(a->trace, x->step), begin, x->begin);
    ready = clamp(ready, submitted, x->begin);
    SS_TRY(ss_intervals_add(&a->idle[SS_IDLE_NOTHING], begin, submitted));
    SS_TRY(ss_intervals_add(&a->idle[kind], submitted, ready));
    const int64_t loaded = loading_until(a, i, ready);
    SS_TRY(ss_intervals_add(&a->idle[SS_IDLE_INPUT], ready, loaded));
    return ss_intervals_add(&a->idle[SS_IDLE_RUNTIME], loaded, x->begin);
}

static int by_begin(const void *a, const void *b, void *arg)
{
    const struct ss_depend *d = arg;
    const struct ss_depend_run *x = &d->run[*(const size_t *)a], *y = &d->run[*(const size_t *)b];
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static enum ss_status add_runs(struct ss_analysis *a, const size_t *order, size_t n)
{
    int64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ss_depend_run *run = &a->depend->run[order[i]];
        if (i && run->begin > end)
            SS_TRY(add_gap(a, end, order[i]));
        if (!i || run->end > end)
            end = run->end;
        SS_TRY(ss_intervals_add(&a->compute, run->begin, run->end));
    }
    return SS_OK;
}

static enum ss_status find_compute(struct ss_analysis *a)
{
    struct ss_depend *d = a->depend;
    size_t n = 0, *order = malloc((d->count + 1) * sizeof *order);
    if (!order)
        return ss_fail_memory("tasks that compute", (d->count + 1) * sizeof *order);
    for (size_t i = 0; i < d->count; i++)
        if (d->run[i].computes)
            order[n++] = i;
    qsort_r(order, n, sizeof *order, by_begin, d);
    enum ss_status status = add_runs(a, order, n);
    free(order);
    ss_intervals_merge(&a->compute);
    for (int k = 0; k < SS_IDLE_KINDS; k++)
        ss_intervals_merge(&a->idle[k]);
    return status;
}

static void fill_steps(struct ss_analysis *a)
{
    for (size_t i = 0; i < a->out->step.count; i++) {
        struct ss_step_times *s = &a->out->step.at[i];
        s->compute = ss_intervals_length_in(&a->compute, s->begin, s->end);
        s->comm = ss_intervals_length_in(&a->comm, s->begin, s->end);
        s->overlap = ss_intervals_length_in(&a->overlap, s->begin, s->end);
        s->exposed = ss_intervals_length_in(&a->exposed, s->begin, s->end);
        for (int k = 0; k < SS_IDLE_KINDS; k++)
            s->idle[k] = ss_intervals_length_in(&a->idle[k], s->begin, s->end);
    }
}

static enum ss_status analyse(struct ss_analysis *a)
{
    SS_TRY(ss_analysis_facts(a));
    SS_TRY(ss_depend_create(a->trace, &a->depend));
    SS_TRY(find_windows(a));
    SS_TRY(find_compute(a));
    SS_TRY(ss_analysis_sums(a));
    fill_steps(a);
    return ss_analysis_workers(a);
}

enum ss_status ss_analyse_rank(const struct ss_trace_rank *trace,
                               const struct ss_analyse_options *options, struct ss_rank_times **out)
{
    struct ss_rank_times *r = calloc(1, sizeof *r);
    if (!r)
        return ss_fail_memory("a rank's times", sizeof *r);
    struct ss_analysis a = {.trace = trace, .options = options, .out = r};
    enum ss_status status = analyse(&a);
    ss_depend_destroy(a.depend);
    ss_intervals_free(&a.compute);
    ss_intervals_free(&a.comm);
    ss_intervals_free(&a.overlap);
    ss_intervals_free(&a.exposed);
    for (int k = 0; k < SS_IDLE_KINDS; k++)
        ss_intervals_free(&a.idle[k]);
    if (status != SS_OK) {
        ss_rank_times_free(r);
        return status;
    }
    *out = r;
    return SS_OK;
}

void ss_rank_times_free(struct ss_rank_times *r)
{
    if (!r)
        return;
    free(r->task_name);
    free(r->task_kind);
    free(r->task_time);
    free(r->step.at);
    free(r->sum.at);
    for (size_t i = 0; i < r->worker.count; i++)
        free(r->worker.at[i].step_busy);
    free(r->worker.at);
    free(r->bucket.at);
    free(r->memory.at);
    free(r->path.part.at);
    free(r);
}
