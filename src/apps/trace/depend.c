#include "apps/trace/depend.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_step(const void *a, const void *b)
{
    const struct ss_depend_run *x = a, *y = b;
    int c = compare(x->step, y->step);
    return c ? c : compare(x->task, y->task);
}

static void *new_array(size_t count, size_t size, enum ss_status *status)
{
    void *at = *status == SS_OK ? calloc(count ? count : 1, size) : NULL;
    if (!at && *status == SS_OK)
        *status = ss_fail_memory("runs of tasks in a trace", count * size);
    return at;
}

static enum ss_status take_runs(struct ss_depend *d)
{
    const struct ss_trace_rank *r = d->trace;
    for (size_t i = 0; i < r->run.count; i++) {
        const struct ss_trace_run *t = &r->run.at[i];
        d->run[i] = (struct ss_depend_run){.step = t->step,
                                           .ready = t->ready,
                                           .begin = t->begin,
                                           .end = t->end,
                                           .task = t->task,
                                           .worker = t->worker};
    }
    if (d->count)
        qsort(d->run, d->count, sizeof *d->run, by_step);
    for (size_t i = 0; i < d->count; i++) {
        if (i && !by_step(&d->run[i - 1], &d->run[i]))
            return ss_fail(SS_ERR_FORMAT, "trace of rank %d: task %d of step %lld ran twice",
                           r->rank, (int)d->run[i].task, (long long)d->run[i].step);
        if (!i || d->run[i - 1].step != d->run[i].step) {
            d->step[d->nsteps] = d->run[i].step;
            d->step_run[d->nsteps++] = i;
        }
        d->run_step[i] = d->nsteps - 1;
    }
    d->step_run[d->nsteps] = d->count;
    return SS_OK;
}

static size_t find_step(const struct ss_depend *d, int64_t step, size_t guess)
{
    if (guess < d->nsteps && d->step[guess] == step)
        return guess;
    size_t low = 0, high = d->nsteps;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->step[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->nsteps && d->step[low] == step ? low : d->nsteps;
}

static size_t find_task(const struct ss_depend *d, size_t at, int task)
{
    size_t low = d->step_run[at], high = d->step_run[at + 1];
    if (low + (size_t)task < high && d->run[low + (size_t)task].task == task)
        return low + (size_t)task; /* no run of the step is missing */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->run[middle].task < task)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->step_run[at + 1] && d->run[low].task == task ? low : SS_TRACE_NO_RUN;
}

size_t ss_depend_find(const struct ss_depend *d, size_t at, int64_t back, int task)
{
    size_t guess = (uint64_t)back <= at ? at - (size_t)back : d->nsteps;
    size_t found = back ? find_step(d, d->step[at] - back, guess) : at;
    return found < d->nsteps ? find_task(d, found, task) : SS_TRACE_NO_RUN;
}

/* Replace the times of enqueuing by the times on the GPU. */
static void take_gpu(struct ss_depend *d)
{
    const struct ss_trace_rank *r = d->trace;
    for (size_t i = 0, guess = 0; i < r->gpu.count; i++) {
        const struct ss_trace_gpu *g = &r->gpu.at[i];
        size_t at = find_step(d, g->step, guess);
        if (at == d->nsteps)
            continue;
        guess = at;
        size_t found = find_task(d, at, g->task);
        if (found == SS_TRACE_NO_RUN)
            continue;
        struct ss_depend_run *run = &d->run[found];
        run->begin = g->begin;
        run->end = g->end;
        run->worker = (int32_t)r->worker.count + g->lane;
        run->on_gpu = 1;
        if (ss_trace_gpu_computes(r, g))
            d->gpu_computes = run->computes = 1;
    }
    for (size_t i = 0; i < d->count; i++) {
        struct ss_depend_run *run = &d->run[i];
        if (run->on_gpu || !ss_task_computes(r->task.at[run->task].kind))
            continue;
        run->serves = r->worker.at[run->worker].lane == SS_TRACE_SERVICE;
        run->computes = !d->gpu_computes && r->worker.at[run->worker].lane == SS_TRACE_COMPUTE;
    }
}

/* 1 if x comes before y. Paths are walked backward in this order, so that the walk terminates for
 * any times. */
static int earlier(const struct ss_depend_run *x, const struct ss_depend_run *y)
{
    int c = compare(x->begin, y->begin);
    return (c ? c : by_step(x, y)) < 0;
}

static int by_worker(const void *a, const void *b, void *arg)
{
    const struct ss_depend *d = arg;
    const struct ss_depend_run *x = &d->run[*(const size_t *)a], *y = &d->run[*(const size_t *)b];
    int c = compare(x->worker, y->worker);
    return c ? c : earlier(x, y) ? -1 : earlier(y, x);
}

static enum ss_status take_workers(struct ss_depend *d)
{
    enum ss_status status = SS_OK;
    size_t n = 0, *order = new_array(d->count, sizeof *order, &status);
    SS_TRY(status);
    for (size_t i = 0; i < d->count; i++) {
        const struct ss_depend_run *run = &d->run[i];
        d->before[i] = SS_TRACE_NO_RUN;
        if (run->on_gpu || !ss_task_sums(d->trace->task.at[run->task].kind))
            order[n++] = i;
    }
    qsort_r(order, n, sizeof *order, by_worker, d);
    for (size_t i = 1; i < n; i++)
        if (d->run[order[i - 1]].worker == d->run[order[i]].worker)
            d->before[order[i]] = order[i - 1];
    free(order);
    return SS_OK;
}

/* The accesses of a step to one piece of data, in submission order; one entry per task. */
struct touch {
    int task;
    unsigned mode;
};

static enum ss_status list_touches(const struct ss_trace_rank *r, size_t **from_out,
                                   struct touch **out)
{
    enum ss_status status = SS_OK;
    size_t total = 0, *from = new_array(r->data.count + 2, sizeof *from, &status);
    SS_TRY(status);
    for (size_t t = 0; t < r->task.count; t++)
        for (int a = 0; a < r->task.at[t].naccess; a++, total++)
            from[r->task.at[t].access[a].data + 2]++;
    for (size_t i = 2; i < r->data.count + 2; i++)
        from[i] += from[i - 1];
    struct touch *touch = new_array(total, sizeof *touch, &status);
    if (status != SS_OK) {
        free(from);
        return status;
    }
    for (size_t t = 0; t < r->task.count; t++)
        for (int a = 0; a < r->task.at[t].naccess; a++) {
            const struct ss_trace_access *x = &r->task.at[t].access[a];
            touch[from[x->data + 1]++] = (struct touch){(int)t, x->mode};
        }
    *from_out = from;
    *out = touch;
    return SS_OK;
}

static enum ss_status add_edge(struct ss_depend *d, int task, int target, int back)
{
    if (!back && target >= task)
        return SS_OK; /* the task itself, which lists this data twice */
    for (size_t i = d->edge_from[task]; i < d->edge.count; i++)
        if (d->edge.at[i].task == target && d->edge.at[i].back == back)
            return SS_OK;
    SS_TRACE_ADD(&d->edge, ((struct ss_depend_edge){target, back}));
    return SS_OK;
}

/* One of the n accesses to a piece of data, in the step `back` steps earlier. */
struct place {
    size_t at;
    int back;
};

/* The preceding access. Data of a slot were last used `slots` micro-batches earlier, other data
 * in the previous step. */
static struct place before(const struct ss_depend *d, const struct touch *t, size_t n, int per_slot,
                           struct place p)
{
    const struct ss_trace_rank *r = d->trace;
    const int micro = r->task.at[t[p.at].task].micro;
    if (p.at > 0 && (!per_slot || r->task.at[t[p.at - 1].task].micro == micro))
        return (struct place){p.at - 1, p.back};
    if (!per_slot)
        return (struct place){n - 1, p.back + 1};
    int was = micro - r->slots;
    for (; was < 0; was += r->micros)
        p.back++;
    for (p.at = n - 1; p.at > 0 && r->task.at[t[p.at].task].micro != was;)
        p.at--;
    return p;
}

/* Walk back from entry i of the n accesses to one piece of data. */
static enum ss_status add_edges_of(struct ss_depend *d, const struct touch *t, size_t n, size_t i,
                                   int per_slot)
{
    int readers = 0;
    struct place p = {i, 0};
    for (size_t k = 1; k <= n; k++) {
        p = before(d, t, n, per_slot, p);
        const struct touch *other = &t[p.at];
        int back = p.back;
        if (other->mode & SS_WRITE)
            return readers ? SS_OK : add_edge(d, t[i].task, other->task, back);
        if (t[i].mode & SS_WRITE) {
            SS_TRY(add_edge(d, t[i].task, other->task, back));
            readers = 1;
        }
    }
    return SS_OK;
}

static enum ss_status add_edges(struct ss_depend *d, const size_t *from, const struct touch *touch)
{
    const struct ss_trace_rank *r = d->trace;
    for (size_t task = 0; task < r->task.count; task++) {
        d->edge_from[task] = d->edge.count;
        for (int a = 0; a < r->task.at[task].naccess; a++) {
            int data = r->task.at[task].access[a].data;
            const struct touch *t = touch + from[data];
            size_t n = from[data + 1] - from[data];
            for (size_t i = 0; i < n; i++)
                if (t[i].task == (int)task)
                    SS_TRY(add_edges_of(d, t, n, i, r->data.at[data].per_slot));
        }
    }
    d->edge_from[r->task.count] = d->edge.count;
    return SS_OK;
}

static enum ss_status take_edges(struct ss_depend *d)
{
    size_t *from;
    struct touch *touch;
    SS_TRY(list_touches(d->trace, &from, &touch));
    enum ss_status status = add_edges(d, from, touch);
    free(from);
    free(touch);
    return status;
}

void ss_depend_destroy(struct ss_depend *d)
{
    if (!d)
        return;
    free(d->run);
    free(d->step);
    free(d->step_run);
    free(d->run_step);
    free(d->before);
    free(d->edge_from);
    free(d->feed_from);
    free(d->feed.at);
    free(d->edge.at);
    free(d);
}

size_t ss_depend_last(const struct ss_depend *d, size_t i)
{
    size_t last = SS_TRACE_NO_RUN, at = d->run_step[i];
    int task = d->run[i].task;
    for (size_t e = d->edge_from[task]; e < d->edge_from[task + 1]; e++) {
        size_t p = ss_depend_find(d, at, d->edge.at[e].back, d->edge.at[e].task);
        if (p != SS_TRACE_NO_RUN && (last == SS_TRACE_NO_RUN || d->run[p].end > d->run[last].end))
            last = p;
    }
    return last;
}

static int writes_same(const struct ss_trace_task *a, const struct ss_trace_task *b)
{
    for (int i = 0; i < a->naccess; i++) {
        for (int j = 0; j < b->naccess && (a->access[i].mode & SS_WRITE); j++)
            if (b->access[j].data == a->access[i].data && (b->access[j].mode & SS_WRITE))
                return 1;
    }
    return 0;
}

/* For each collective, collect the tasks of its step that write its input. */
static enum ss_status take_feeds(struct ss_depend *d)
{
    const struct ss_trace_rank *r = d->trace;
    for (size_t i = 0; i < r->task.count; i++) {
        const struct ss_trace_task *sum = &r->task.at[i];
        d->feed_from[i] = d->feed.count;
        for (size_t j = 0; j < i && ss_task_sums(sum->kind); j++) {
            enum ss_task_kind kind = r->task.at[j].kind;
            int writer = kind == SS_TASK_FORWARD || kind == SS_TASK_BACKWARD ||
                         kind == SS_TASK_ADD || kind == SS_TASK_FETCH ||
                         (kind == SS_TASK_UPDATE && sum->kind == SS_TASK_GATHER);
            if (writer && writes_same(sum, &r->task.at[j]))
                SS_TRACE_ADD(&d->feed, (int)j);
        }
    }
    d->feed_from[r->task.count] = d->feed.count;
    return SS_OK;
}

enum ss_status ss_depend_create(const struct ss_trace_rank *trace, struct ss_depend **out)
{
    struct ss_depend *d = calloc(1, sizeof *d);
    if (!d)
        return ss_fail_memory("runs of tasks in a trace", sizeof *d);
    enum ss_status status = SS_OK;
    d->trace = trace;
    d->count = trace->run.count;
    d->run = new_array(d->count, sizeof *d->run, &status);
    d->step = new_array(d->count + 1, sizeof *d->step, &status);
    d->step_run = new_array(d->count + 1, sizeof *d->step_run, &status);
    d->run_step = new_array(d->count, sizeof *d->run_step, &status);
    d->before = new_array(d->count, sizeof *d->before, &status);
    d->edge_from = new_array(trace->task.count + 1, sizeof *d->edge_from, &status);
    d->feed_from = new_array(trace->task.count + 1, sizeof *d->feed_from, &status);
    if (status == SS_OK)
        status = take_runs(d);
    if (status == SS_OK) {
        take_gpu(d);
        status = take_workers(d);
    }
    if (status == SS_OK)
        status = take_edges(d);
    if (status == SS_OK)
        status = take_feeds(d);
    if (status != SS_OK) {
        ss_depend_destroy(d);
        return status;
    }
    *out = d;
    return SS_OK;
}

int ss_depend_summed_ready(const struct ss_depend *d, size_t i, int64_t *out)
{
    int found = 0, task = d->run[i].task;
    for (size_t f = d->feed_from[task]; f < d->feed_from[task + 1]; f++) {
        size_t w = ss_depend_find(d, d->run_step[i], 0, d->feed.at[f]);
        if (w != SS_TRACE_NO_RUN && (!found || d->run[w].end > *out)) {
            *out = d->run[w].end;
            found = 1;
        }
    }
    return found;
}

static enum ss_status add_part(struct ss_path *path, const struct ss_depend_run *run, int task,
                               int64_t begin, int64_t end)
{
    struct ss_path_part part = {run->step, begin, end, task, run->worker};
    if (end > begin)
        SS_TRACE_ADD(&path->part, part);
    return SS_OK;
}

/* Add the time between begin and end as waiting, or as not submitted until the step's
 * submission. */
static enum ss_status add_wait(const struct ss_depend *d, struct ss_path *path,
                               const struct ss_depend_run *run, int64_t begin, int64_t end)
{
    int64_t submitted = ss_trace_submitted(d->trace, run->step);
    submitted = submitted < begin ? begin : submitted > end ? end : submitted;
    SS_TRY(add_part(path, run, SS_PATH_WAIT, submitted, end));
    return add_part(path, run, SS_PATH_SUBMIT, begin, submitted);
}

/* The run that run i followed: a dependency, or the preceding run on its worker. */
static size_t path_before(const struct ss_depend *d, size_t i)
{
    size_t last = ss_depend_last(d, i), before = d->before[i];
    if (last != SS_TRACE_NO_RUN && !earlier(&d->run[last], &d->run[i]))
        last = SS_TRACE_NO_RUN;
    if (last == SS_TRACE_NO_RUN ||
        (before != SS_TRACE_NO_RUN && d->run[before].end > d->run[last].end))
        last = before;
    return last;
}

enum ss_status ss_path_walk(const struct ss_depend *d, size_t i, int with_i, int64_t from,
                            struct ss_path *out)
{
    int64_t until = with_i ? d->run[i].end : d->run[i].begin;
    while (until > from) {
        const struct ss_depend_run *run = &d->run[i];
        int64_t begin = run->begin < from ? from : run->begin;
        SS_TRY(add_part(out, run, run->task, begin, until));
        until = begin < until ? begin : until;
        i = path_before(d, i);
        int64_t end = i == SS_TRACE_NO_RUN || d->run[i].end < from ? from : d->run[i].end;
        if (end < until) {
            SS_TRY(add_wait(d, out, run, end, until));
            until = end;
        }
        if (i == SS_TRACE_NO_RUN)
            break;
    }
    return SS_OK;
}
