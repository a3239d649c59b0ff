/* export_rows.c: builds the slices of a rank. */
#include "apps/trace/export_rows.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

int ss_export_bucket(const struct ss_trace_rank *r, const struct ss_trace_task *task)
{
    if (ss_task_sums(task->kind))
        return ss_trace_collective_of(r, task);
    if (task->bucket >= 0)
        return task->bucket;
    for (int a = 0; task->kind == SS_TASK_BACKWARD && a < task->naccess; a++) {
        const struct ss_trace_data *data = &r->data.at[task->access[a].data];
        if (task->access[a].mode != SS_READ && !strcmp(data->space, "grads") &&
            (size_t)data->index < r->bucket.count)
            return data->index;
    }
    return -1;
}

/* Events sorted by (step, task) for lookup. */
struct sorted {
    const struct ss_trace_run **run;
    const struct ss_trace_gpu **gpu;
    size_t nrun, ngpu;
    int gpu_computes; /* some computing tasks have GPU times: only those count */
    int *sum_task;    /* task of each bucket's collective, then of the metrics; -1: none */
};

static int compare(int64_t step_a, int task_a, int64_t step_b, int task_b)
{
    if (step_a != step_b)
        return step_a < step_b ? -1 : 1;
    return (task_a > task_b) - (task_a < task_b);
}

static int by_run(const void *a, const void *b)
{
    const struct ss_trace_run *x = *(const struct ss_trace_run *const *)a;
    const struct ss_trace_run *y = *(const struct ss_trace_run *const *)b;
    return compare(x->step, x->task, y->step, y->task);
}

static int by_gpu(const void *a, const void *b)
{
    const struct ss_trace_gpu *x = *(const struct ss_trace_gpu *const *)a;
    const struct ss_trace_gpu *y = *(const struct ss_trace_gpu *const *)b;
    return compare(x->step, x->task, y->step, y->task);
}

static const struct ss_trace_run *find_run(const struct sorted *s, int64_t step, int task)
{
    struct ss_trace_run key = {.step = step, .task = task};
    const struct ss_trace_run *at = &key;
    const struct ss_trace_run **found =
        s->nrun ? bsearch(&at, s->run, s->nrun, sizeof *s->run, by_run) : NULL;
    return found ? *found : NULL;
}

static int on_gpu(const struct sorted *s, int64_t step, int task)
{
    struct ss_trace_gpu key = {.step = step, .task = task};
    const struct ss_trace_gpu *at = &key;
    return s->ngpu && bsearch(&at, s->gpu, s->ngpu, sizeof *s->gpu, by_gpu);
}

static enum ss_status sort_marks(const struct ss_trace_rank *r, struct sorted *s)
{
    size_t nbuckets = r->bucket.count;
    s->run = malloc((r->run.count + 1) * sizeof *s->run);
    s->gpu = malloc((r->gpu.count + 1) * sizeof *s->gpu);
    s->sum_task = malloc((nbuckets + 1) * sizeof *s->sum_task);
    if (!s->run || !s->gpu || !s->sum_task)
        return ss_fail_memory("events of a trace", (r->run.count + r->gpu.count) * sizeof *s->run);
    for (size_t i = 0; i < r->run.count; i++)
        s->run[s->nrun++] = &r->run.at[i];
    for (size_t i = 0; i < r->gpu.count; i++) {
        s->gpu[s->ngpu++] = &r->gpu.at[i];
        s->gpu_computes |= ss_trace_gpu_computes(r, &r->gpu.at[i]);
    }
    qsort(s->run, s->nrun, sizeof *s->run, by_run);
    qsort(s->gpu, s->ngpu, sizeof *s->gpu, by_gpu);
    for (size_t b = 0; b <= nbuckets; b++)
        s->sum_task[b] = -1;
    for (size_t t = 0; t < r->task.count; t++) {
        const struct ss_trace_task *task = &r->task.at[t];
        if (task->kind == SS_TASK_REDUCE_METRICS)
            s->sum_task[nbuckets] = (int)t;
        else if (ss_trace_collective_of(r, task) >= 0)
            s->sum_task[ss_trace_collective_of(r, task)] = (int)t;
    }
    return SS_OK;
}

/* Track numbers before rows are assigned: GPU lanes, the collectives, workers. */
enum { TRACK_SUMS = SS_TRACE_LANES, TRACK_WORKERS };

static int64_t ready_of(const struct ss_trace_run *run, int64_t begin)
{
    return run && run->ready < begin ? run->ready : begin;
}

static enum ss_status add_runs(struct ss_export_rank *r, const struct sorted *s, const char *summed)
{
    const struct ss_trace_rank *t = r->trace;
    for (size_t i = 0; i < t->run.count; i++) {
        const struct ss_trace_run *run = &t->run.at[i];
        const struct ss_trace_task *task = &t->task.at[run->task];
        /* A collective does not occupy a worker until it completes: it is shown on its own
         * track. */
        if (ss_task_sums(task->kind) && (summed[i] || on_gpu(s, run->step, run->task)))
            continue;
        const int sync = task->kind == SS_TASK_SYNC;
        struct ss_export_slice slice = {
            .step = run->step,
            .begin = run->begin,
            .end = run->end,
            .ready = ready_of(run, run->begin),
            .task = run->task,
            .bucket = ss_export_bucket(t, task),
            .track = sync ? TRACK_SUMS : TRACK_WORKERS + run->worker,
            .sums = (int8_t)sync,
            .computes = !s->gpu_computes && ss_task_computes(task->kind) &&
                        t->worker.at[run->worker].lane == SS_TRACE_COMPUTE,
        };
        SS_TRACE_ADD(&r->slice, slice);
    }
    return SS_OK;
}

static enum ss_status add_gpu(struct ss_export_rank *r, const struct sorted *s)
{
    const struct ss_trace_rank *t = r->trace;
    for (size_t i = 0; i < t->gpu.count; i++) {
        const struct ss_trace_gpu *g = &t->gpu.at[i];
        const struct ss_trace_task *task = &t->task.at[g->task];
        struct ss_export_slice slice = {
            .step = g->step,
            .begin = g->begin,
            .end = g->end,
            .ready = ready_of(find_run(s, g->step, g->task), g->begin),
            .task = g->task,
            .bucket = ss_export_bucket(t, task),
            .track = g->lane,
            .computes = (int8_t)ss_trace_gpu_computes(t, g),
            .sums = (int8_t)ss_task_sums(task->kind),
        };
        SS_TRACE_ADD(&r->slice, slice);
    }
    return SS_OK;
}

static enum ss_status add_sums(struct ss_export_rank *r, const struct sorted *s, char *summed)
{
    const struct ss_trace_rank *t = r->trace;
    for (size_t i = 0; i < t->sum.count; i++) {
        const struct ss_trace_sum *c = &t->sum.at[i];
        int task = s->sum_task[c->bucket < 0 ? t->bucket.count : (size_t)c->bucket];
        if (task >= 0 && on_gpu(s, c->step, task))
            continue;
        const struct ss_trace_run *run = find_run(s, c->step, task);
        if (run)
            summed[run - t->run.at] = 1;
        struct ss_export_slice slice = {.step = c->step,
                                        .begin = c->begin,
                                        .end = c->end,
                                        .ready = ready_of(run, c->begin),
                                        .task = task,
                                        .bucket = c->bucket,
                                        .track = TRACK_SUMS,
                                        .sums = 1};
        SS_TRACE_ADD(&r->slice, slice);
    }
    return SS_OK;
}

/* Remove the events of other steps first, so that later passes need not filter. */
static void retain_steps(struct ss_trace_rank *t, int64_t first, int64_t last)
{
    size_t n = 0;
#define KEEP(array)                                                                                \
    n = 0;                                                                                         \
    for (size_t i = 0; i < t->array.count; i++)                                                    \
        if (t->array.at[i].step >= first && (!last || t->array.at[i].step <= last))                \
            t->array.at[n++] = t->array.at[i];                                                     \
    t->array.count = n
    KEEP(run);
    KEEP(gpu);
    KEEP(sum);
    KEEP(step);
#undef KEEP
}

static int by_track(const void *a, const void *b)
{
    const struct ss_export_slice *x = a, *y = b;
    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* The order of tracks on the page: compute, then collectives, then service workers. */
static void list_tracks(const struct ss_trace_rank *t, int *order)
{
    int n = 0;
    for (int lane = 0; lane < TRACK_SUMS; lane++)
        order[n++] = lane;
    for (int pass = 0; pass < 2; pass++) {
        for (int w = 0; w < (int)t->worker.count; w++)
            if ((t->worker.at[w].lane == SS_TRACE_COMPUTE) == !pass)
                order[n++] = TRACK_WORKERS + w;
        if (!pass)
            order[n++] = TRACK_SUMS;
    }
}

static struct ss_export_track track_of(const struct ss_trace_rank *t, int track, int row)
{
    static const char *const lanes[] = {"GPU compute", "GPU communication", "GPU copies",
                                        "GPU updates"};
    struct ss_export_track out;
    const char *name = track < TRACK_SUMS    ? lanes[track]
                       : track == TRACK_SUMS ? "collectives"
                                             : t->worker.at[track - TRACK_WORKERS].name;
    /* A worker of a GPU only enqueues; the enqueued work is on the lane. */
    int enqueues = track >= TRACK_WORKERS && t->cuda &&
                   t->worker.at[track - TRACK_WORKERS].lane != SS_TRACE_SERVICE;
    char suffix[16] = "";
    if (row)
        snprintf(suffix, sizeof suffix, " (%d)", row + 1);
    snprintf(out.name, sizeof out.name, "%s%s%s", enqueues ? "enqueues " : "", name, suffix);
    return out;
}

/* Distribute slices from..to of one track over rows without overlaps; append the rows. */
static enum ss_status lay_rows(struct ss_export_rank *r, size_t from, size_t to, int track)
{
    SS_TRACE_ARRAY(int64_t) end = {0};
    size_t first = r->track.count;
    enum ss_status status = SS_OK;
    for (size_t i = from; status == SS_OK && i < to; i++) {
        struct ss_export_slice *s = &r->slice.at[i];
        size_t row = 0;
        while (row < end.count && end.at[row] > s->begin)
            row++;
        if (row == end.count) {
            status = ss_trace_grow(&end.at, &end.capacity, end.count, sizeof *end.at);
            if (status == SS_OK)
                status = ss_trace_grow(&r->track.at, &r->track.capacity, r->track.count,
                                       sizeof *r->track.at);
            if (status != SS_OK)
                break;
            end.count++;
            r->track.at[r->track.count++] = track_of(r->trace, track, (int)row);
        }
        end.at[row] = s->end;
        s->track = (int32_t)(first + row);
    }
    free(end.at);
    return status;
}

static enum ss_status lay_tracks(struct ss_export_rank *r)
{
    int ntracks = TRACK_WORKERS + (int)r->trace->worker.count;
    size_t *from = calloc((size_t)ntracks + 1, sizeof *from);
    int *order = calloc((size_t)ntracks, sizeof *order);
    enum ss_status status =
        from && order ? SS_OK : ss_fail_memory("tracks", (size_t)ntracks * sizeof *from);
    if (status == SS_OK) {
        if (r->slice.count)
            qsort(r->slice.at, r->slice.count, sizeof *r->slice.at, by_track);
        for (size_t i = 0; i < r->slice.count; i++)
            from[r->slice.at[i].track + 1]++;
        for (int k = 0; k < ntracks; k++)
            from[k + 1] += from[k];
        list_tracks(r->trace, order);
    }
    for (int k = 0; status == SS_OK && k < ntracks; k++)
        status = lay_rows(r, from[order[k]], from[order[k] + 1], order[k]);
    if (status == SS_OK && r->slice.count)
        qsort(r->slice.at, r->slice.count, sizeof *r->slice.at, by_track);
    free(from);
    free(order);
    return status;
}

enum ss_status ss_export_fill(struct ss_export_rank *r, int64_t first, int64_t last)
{
    retain_steps(r->trace, first, last);
    struct sorted s = {0};
    char *summed = calloc(r->trace->run.count + 1, 1); /* runs shown as collectives */
    enum ss_status status = summed ? SS_OK : ss_fail_memory("events", r->trace->run.count);
    if (status == SS_OK)
        status = sort_marks(r->trace, &s);
    if (status == SS_OK)
        status = add_sums(r, &s, summed);
    if (status == SS_OK)
        status = add_runs(r, &s, summed);
    if (status == SS_OK)
        status = add_gpu(r, &s);
    if (status == SS_OK)
        status = lay_tracks(r);
    free(summed);
    free(s.run);
    free(s.gpu);
    free(s.sum_task);
    return status;
}
