/* analyse.c: one rank of a trace (definitions in analyse.h). */
#include "trace/analyse.h"
#include "core/log.h"
#include "trace/interval.h"

#include <stdlib.h>
#include <string.h>

struct analysis {
    const struct ss_trace_rank *trace;
    const struct ss_analyse_options *options;
    struct ss_depend *depend;
    struct ss_rank_times *out;
    struct ss_intervals compute, comm, overlap;
    struct ss_intervals idle[SS_IDLE_KINDS];
};

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
    return kind == SS_PATH_WAITING ? "waiting" : ss_task_kind_name((enum ss_task_kind)kind);
}

static int wanted(const struct analysis *a, int64_t step)
{
    return step >= a->options->first && (!a->options->last || step <= a->options->last);
}

static enum ss_task_kind kind_of(const struct analysis *a, size_t run)
{
    return a->trace->task.at[a->depend->run[run].task].kind;
}

/* Windows. */

struct extent {
    int64_t begin, end;
    size_t last_run; /* the computing task that ended last */
    int tasks;       /* computing ones */
};

static struct extent extent_of(const struct ss_depend *d, size_t at)
{
    struct extent x = {0};
    for (size_t i = d->step_run[at]; i < d->step_run[at + 1]; i++) {
        const struct ss_depend_run *run = &d->run[i];
        if (!run->computes)
            continue;
        if (!x.tasks || run->begin < x.begin)
            x.begin = run->begin;
        if (!x.tasks || run->end > x.end) {
            x.end = run->end;
            x.last_run = i;
        }
        x.tasks++;
    }
    return x;
}

static enum ss_status add_path(struct analysis *a, struct ss_step_times *s, size_t last_run)
{
    struct ss_path *path = &a->out->path;
    s->path_from = path->part.count;
    SS_TRY(ss_path_walk(a->depend, last_run, s->begin, path));
    s->path_count = path->part.count - s->path_from;
    for (size_t i = s->path_from; i < path->part.count; i++) {
        const struct ss_path_part *part = &path->part.at[i];
        int kind = part->task < 0 ? SS_PATH_WAITING : (int)a->trace->task.at[part->task].kind;
        s->path_kind[kind] += part->end - part->begin;
        s->path_ns += part->end - part->begin;
    }
    if (!a->options->keep_path)
        path->part.count = 0;
    return SS_OK;
}

static enum ss_status add_step(struct analysis *a, size_t at, const struct extent *x, int64_t end)
{
    struct ss_step_times s = {.step = a->depend->step[at], .begin = x->begin, .end = end};
    for (size_t i = a->depend->step_run[at]; i < a->depend->step_run[at + 1]; i++)
        if (kind_of(a, i) == SS_TASK_LOAD)
            s.load += a->depend->run[i].end - a->depend->run[i].begin;
    SS_TRY(add_path(a, &s, x->last_run));
    a->out->window += s.end - s.begin;
    SS_TRACE_ADD(&a->out->step, s);
    return SS_OK;
}

static enum ss_status find_windows(struct analysis *a)
{
    const struct ss_depend *d = a->depend;
    int expected = 0;
    int64_t free_from = INT64_MIN; /* windows do not overlap, whatever the times are */
    for (size_t i = 0; i < a->trace->task.count; i++)
        expected += ss_trace_computes(a->trace->task.at[i].kind);
    struct extent next = d->nsteps ? extent_of(d, 0) : (struct extent){0};
    for (size_t at = 0; at < d->nsteps; at++) {
        struct extent x = next;
        int64_t end = x.end;
        next = at + 1 < d->nsteps ? extent_of(d, at + 1) : (struct extent){0};
        if (next.tasks && d->step[at + 1] == d->step[at] + 1)
            end = next.begin;
        if (!wanted(a, d->step[at]))
            continue;
        if (!expected || x.tasks < expected) {
            a->out->steps_broken++;
            continue;
        }
        if (x.begin < free_from)
            x.begin = free_from;
        if (end < x.begin)
            end = x.begin;
        free_from = end;
        SS_TRY(add_step(a, at, &x, end));
    }
    return SS_OK;
}

/* Compute, and the gaps between. */

static int64_t submitted_at(const struct ss_trace_rank *r, int64_t step)
{
    size_t low = 0, high = r->step.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->step.at[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->step.count && r->step.at[low].step == step ? r->step.at[low].submitted
                                                               : INT64_MIN;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The gap from `begin` until run i began. */
static enum ss_status add_gap(struct analysis *a, int64_t begin, size_t i)
{
    const struct ss_depend_run *x = &a->depend->run[i];
    size_t p = ss_depend_last(a->depend, i);
    enum ss_idle kind = SS_IDLE_DEPENDENCY;
    int64_t ready = x->on_gpu ? INT64_MIN : x->ready;
    if (p != SS_TRACE_NO_RUN) {
        enum ss_task_kind cause = kind_of(a, p);
        if (cause == SS_TASK_LOAD || cause == SS_TASK_UPLOAD)
            kind = SS_IDLE_INPUT;
        else if (ss_trace_sums(cause))
            kind = SS_IDLE_COMM;
        if (a->depend->run[p].end > ready)
            ready = a->depend->run[p].end;
    }
    int64_t submitted = clamp(submitted_at(a->trace, x->step), begin, x->begin);
    ready = clamp(ready, submitted, x->begin);
    SS_TRY(ss_intervals_add(&a->idle[SS_IDLE_NOTHING], begin, submitted));
    SS_TRY(ss_intervals_add(&a->idle[kind], submitted, ready));
    return ss_intervals_add(&a->idle[SS_IDLE_RUNTIME], ready, x->begin);
}

static int by_begin(const void *a, const void *b, void *arg)
{
    const struct ss_depend *d = arg;
    const struct ss_depend_run *x = &d->run[*(const size_t *)a], *y = &d->run[*(const size_t *)b];
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static enum ss_status add_runs(struct analysis *a, const size_t *order, size_t n)
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

static enum ss_status find_compute(struct analysis *a)
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

/* Collectives: those of the comm lane, and of the others those that threads marked. */

static enum ss_status add_sum(struct analysis *a, size_t run, int64_t step, int bucket,
                              int64_t begin, int64_t end)
{
    const struct ss_trace_rank *r = a->trace;
    SS_TRY(ss_intervals_add(&a->comm, begin, end));
    if (!wanted(a, step))
        return SS_OK;
    struct ss_sum_times s = {.step = step,
                             .begin = ss_trace_common(r, begin),
                             .end = ss_trace_common(r, end),
                             .bucket = bucket,
                             .rank = r->rank};
    int64_t ready;
    s.has_delay =
        run != SS_TRACE_NO_RUN && ss_depend_summed_ready(a->depend, run, &ready) && ready <= begin;
    if (s.has_delay)
        s.delay = begin - ready;
    SS_TRACE_ADD(&a->out->sum, s);
    return SS_OK;
}

/* The task that sums a bucket (-1: the metrics); -1: none. */
static int sum_task(const struct ss_trace_rank *r, int bucket)
{
    for (size_t t = 0; t < r->task.count; t++) {
        const struct ss_trace_task *task = &r->task.at[t];
        if (bucket < 0 ? task->kind == SS_TASK_REDUCE_METRICS
                       : task->kind == SS_TASK_ALLREDUCE && task->bucket == bucket)
            return (int)t;
    }
    return -1;
}

static size_t find_run(const struct ss_depend *d, int64_t step, int task)
{
    size_t low = 0, high = d->nsteps;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->step[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    if (task < 0 || low == d->nsteps || d->step[low] != step)
        return SS_TRACE_NO_RUN;
    return ss_depend_find(d, low, 0, task);
}

static enum ss_status find_comm(struct analysis *a)
{
    const struct ss_trace_rank *r = a->trace;
    for (size_t i = 0; i < a->depend->count; i++) {
        const struct ss_depend_run *run = &a->depend->run[i];
        const struct ss_trace_task *task = &r->task.at[run->task];
        if (run->on_gpu && ss_trace_sums(task->kind))
            SS_TRY(add_sum(a, i, run->step, task->kind == SS_TASK_ALLREDUCE ? task->bucket : -1,
                           run->begin, run->end));
    }
    int bucket = -1, task = sum_task(r, bucket);
    for (size_t i = 0; i < r->sum.count; i++) {
        const struct ss_trace_sum *c = &r->sum.at[i];
        if (c->bucket != bucket)
            task = sum_task(r, bucket = c->bucket);
        size_t run = find_run(a->depend, c->step, task);
        if (run == SS_TRACE_NO_RUN || !a->depend->run[run].on_gpu)
            SS_TRY(add_sum(a, run, c->step, bucket, c->begin, c->end));
    }
    ss_intervals_merge(&a->comm);
    return ss_intervals_intersect(&a->compute, &a->comm, &a->overlap);
}

static void fill_steps(struct analysis *a)
{
    for (size_t i = 0; i < a->out->step.count; i++) {
        struct ss_step_times *s = &a->out->step.at[i];
        s->compute = ss_intervals_length_in(&a->compute, s->begin, s->end);
        s->comm = ss_intervals_length_in(&a->comm, s->begin, s->end);
        s->overlap = ss_intervals_length_in(&a->overlap, s->begin, s->end);
        for (int k = 0; k < SS_IDLE_KINDS; k++)
            s->idle[k] = ss_intervals_length_in(&a->idle[k], s->begin, s->end);
    }
}

/* Workers. */

/* Merged times of a worker's tasks (or of a lane's, numbered behind the workers), inside windows;
 * loading: of its load tasks only. */
static enum ss_status busy_time(const struct analysis *a, int worker, int loading, int64_t *out)
{
    const struct ss_trace_rank *r = a->trace;
    struct ss_intervals list = {0};
    enum ss_status status = SS_OK;
    int lane = worker - (int)r->worker.count;
    for (size_t i = 0; lane < 0 && status == SS_OK && i < r->run.count; i++) {
        const struct ss_trace_run *t = &r->run.at[i];
        enum ss_task_kind kind = r->task.at[t->task].kind;
        if (t->worker == worker && !ss_trace_sums(kind) && (!loading || kind == SS_TASK_LOAD))
            status = ss_intervals_add(&list, t->begin, t->end);
    }
    for (size_t i = 0; lane >= 0 && status == SS_OK && i < r->gpu.count; i++)
        if (r->gpu.at[i].lane == lane)
            status = ss_intervals_add(&list, r->gpu.at[i].begin, r->gpu.at[i].end);
    ss_intervals_merge(&list);
    for (size_t i = 0; i < a->out->step.count; i++)
        *out += ss_intervals_length_in(&list, a->out->step.at[i].begin, a->out->step.at[i].end);
    ss_intervals_free(&list);
    return status;
}

static enum ss_status find_workers(struct analysis *a)
{
    static const char *const lanes[] = {"compute lane", "comm lane", "copy lane"};
    const struct ss_trace_rank *r = a->trace;
    for (int i = 0; i < (int)r->worker.count; i++) {
        struct ss_worker_times w = {0};
        strcpy(w.name, r->worker.at[i].name);
        SS_TRY(busy_time(a, i, 0, &w.busy));
        SS_TRY(busy_time(a, i, 1, &w.load));
        SS_TRACE_ADD(&a->out->worker, w);
        a->out->loaders += r->worker.at[i].lane == SS_TRACE_SERVICE;
    }
    for (int lane = 0; r->gpu.count && lane < 3; lane++) {
        struct ss_worker_times w = {0};
        strcpy(w.name, lanes[lane]);
        SS_TRY(busy_time(a, (int)r->worker.count + lane, 0, &w.busy));
        SS_TRACE_ADD(&a->out->worker, w);
    }
    return SS_OK;
}

/* What the report says of a rank that is in the trace as such. */
static enum ss_status copy_facts(const struct ss_trace_rank *t, struct ss_rank_times *r)
{
    r->rank = t->rank;
    r->ranks = t->ranks;
    r->cuda = t->cuda;
    r->overlap = t->overlap;
    r->ended = t->ended;
    r->cut = t->cut;
    r->batch = t->batch;
    r->lost = t->lost;
    r->has_clock = t->clock.count > 0;
    r->clock_error = ss_trace_error(t);
    strcpy(r->host, t->host);
    strcpy(r->model, t->model);
    strcpy(r->backend, t->backend);
    r->tasks = t->task.count;
    r->task_name = calloc(r->tasks + 1, sizeof *r->task_name);
    r->task_kind = calloc(r->tasks + 1, sizeof *r->task_kind);
    if (!r->task_name || !r->task_kind)
        return ss_fail_memory("tasks of a trace", r->tasks * sizeof *r->task_name);
    for (size_t i = 0; i < r->tasks; i++) {
        strcpy(r->task_name[i], t->task.at[i].name);
        r->task_kind[i] = t->task.at[i].kind;
    }
    for (size_t i = 0; i < t->bucket.count; i++)
        SS_TRACE_ADD(&r->bucket, t->bucket.at[i]);
    for (size_t i = 0; i < t->memory.count; i++)
        SS_TRACE_ADD(&r->memory, t->memory.at[i]);
    return SS_OK;
}

static enum ss_status analyse(struct analysis *a)
{
    SS_TRY(copy_facts(a->trace, a->out));
    SS_TRY(ss_depend_create(a->trace, &a->depend));
    SS_TRY(find_windows(a));
    SS_TRY(find_compute(a));
    SS_TRY(find_comm(a));
    fill_steps(a);
    return find_workers(a);
}

enum ss_status ss_analyse_rank(const struct ss_trace_rank *trace,
                               const struct ss_analyse_options *options, struct ss_rank_times **out)
{
    struct ss_rank_times *r = calloc(1, sizeof *r);
    if (!r)
        return ss_fail_memory("a rank's times", sizeof *r);
    struct analysis a = {.trace = trace, .options = options, .out = r};
    enum ss_status status = analyse(&a);
    ss_depend_destroy(a.depend);
    ss_intervals_free(&a.compute);
    ss_intervals_free(&a.comm);
    ss_intervals_free(&a.overlap);
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
    free(r->step.at);
    free(r->sum.at);
    free(r->worker.at);
    free(r->bucket.at);
    free(r->memory.at);
    free(r->path.part.at);
    free(r);
}
