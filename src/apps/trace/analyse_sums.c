/* analyse_sums.c: analysis of one rank's collectives (definitions in analyse.h). */
#include "core/log.h"
#include "apps/trace/analyse_internal.h"

/* Collectives are those timed on the comm lane, and those timed by threads for all others. */

static enum ss_status add_sum(struct ss_analysis *a, size_t run, int64_t step, int bucket,
                              int64_t begin, int64_t end)
{
    const struct ss_trace_rank *r = a->trace;
    SS_TRY(ss_intervals_add(&a->comm, begin, end));
    if (!ss_analysis_wants(a, step))
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

/* The task of a collective (bucket -1: the all-reduce of metrics), or -1. */
static int sum_task(const struct ss_trace_rank *r, int bucket)
{
    for (size_t t = 0; t < r->task.count; t++) {
        const struct ss_trace_task *task = &r->task.at[t];
        if (bucket < 0 ? task->kind == SS_TASK_REDUCE_METRICS
                       : ss_trace_collective_of(r, task) == bucket)
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

enum ss_status ss_analysis_sums(struct ss_analysis *a)
{
    const struct ss_trace_rank *r = a->trace;
    for (size_t i = 0; i < a->depend->count; i++) {
        const struct ss_depend_run *run = &a->depend->run[i];
        const struct ss_trace_task *task = &r->task.at[run->task];
        /* All-reduces of statistics and of squares belong to no bucket and are not timed by
         * threads. */
        if (task->kind == SS_TASK_SYNC || (task->kind == SS_TASK_REDUCE_SQUARES && !run->on_gpu))
            SS_TRY(ss_intervals_add(&a->comm, run->begin, run->end));
        if (!run->on_gpu || !ss_task_sums(task->kind) || task->kind == SS_TASK_SYNC)
            continue;
        int bucket = ss_trace_collective_of(r, task);
        if (bucket < 0 && (ss_task_sums_bucket(task->kind) || task->kind == SS_TASK_GATHER))
            return ss_fail(SS_ERR_FORMAT, "trace of rank %d: task %d: bucket %d is not described",
                           r->rank, (int)run->task, task->bucket);
        SS_TRY(add_sum(a, i, run->step, bucket, run->begin, run->end));
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
    SS_TRY(ss_intervals_intersect(&a->compute, &a->comm, &a->overlap));
    return ss_intervals_subtract(&a->comm, &a->compute, &a->exposed);
}
