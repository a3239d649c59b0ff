/* analyse_use.c: facts about one rank and the utilization of its workers. */
#include "core/log.h"
#include "apps/trace/analyse_internal.h"

#include <stdlib.h>
#include <string.h>

/* Add the merged times of a worker's tasks (or of a lane, numbered after the workers) inside
 * windows to *out and, if each is not NULL, per step to each. loading: load tasks only. */
static enum ss_status busy_time(const struct ss_analysis *a, int worker, int loading, int64_t *out,
                                int64_t *each)
{
    const struct ss_trace_rank *r = a->trace;
    struct ss_intervals list = {0};
    enum ss_status status = SS_OK;
    int lane = worker - (int)r->worker.count;
    for (size_t i = 0; lane < 0 && status == SS_OK && i < r->run.count; i++) {
        const struct ss_trace_run *t = &r->run.at[i];
        enum ss_task_kind kind = r->task.at[t->task].kind;
        if (t->worker == worker && !ss_task_sums(kind) && (!loading || kind == SS_TASK_LOAD))
            status = ss_intervals_add(&list, t->begin, t->end);
    }
    for (size_t i = 0; lane >= 0 && status == SS_OK && i < r->gpu.count; i++)
        if (r->gpu.at[i].lane == lane)
            status = ss_intervals_add(&list, r->gpu.at[i].begin, r->gpu.at[i].end);
    ss_intervals_merge(&list);
    for (size_t i = 0; i < a->out->step.count; i++) {
        const struct ss_step_times *s = &a->out->step.at[i];
        int64_t busy = ss_intervals_length_in(&list, s->begin, s->end);
        *out += busy;
        if (each)
            each[i] = busy;
    }
    ss_intervals_free(&list);
    return status;
}

static enum ss_status add_worker(struct ss_analysis *a, int worker, const char *name,
                                 const char *what)
{
    struct ss_worker_times w = {0};
    snprintf(w.name, sizeof w.name, "%s%s", name, what);
    SS_TRACE_ADD(&a->out->worker, w);
    struct ss_worker_times *added = &a->out->worker.at[a->out->worker.count - 1];
    added->step_busy = calloc(a->out->step.count + 1, sizeof *added->step_busy);
    if (!added->step_busy)
        return ss_fail_memory("times of workers", a->out->step.count * sizeof *added->step_busy);
    SS_TRY(busy_time(a, worker, 0, &added->busy, added->step_busy));
    return worker < (int)a->trace->worker.count ? busy_time(a, worker, 1, &added->load, NULL)
                                                : SS_OK;
}

/* Whether updates have a lane of their own. With one rank they run on the compute lane. */
static int updates_apart(const struct ss_trace_rank *r)
{
    int any = 0;
    for (size_t i = 0; i < r->gpu.count; i++)
        any |= r->gpu.at[i].lane == SS_TRACE_UPDATE;
    return any;
}

enum ss_status ss_analysis_workers(struct ss_analysis *a)
{
    const struct ss_trace_rank *r = a->trace;
    for (int i = 0; i < (int)r->worker.count; i++) {
        SS_TRY(add_worker(a, i, r->worker.at[i].name, ""));
        a->out->loaders += r->worker.at[i].lane == SS_TRACE_SERVICE;
    }
    for (int lane = 0; r->gpu.count && lane < SS_TRACE_LANES; lane++)
        if (lane != SS_TRACE_UPDATE || updates_apart(r))
            SS_TRY(add_worker(a, (int)r->worker.count + lane, ss_trace_lanes[lane], " lane"));
    return SS_OK;
}

enum ss_status ss_analysis_facts(struct ss_analysis *a)
{
    const struct ss_trace_rank *t = a->trace;
    struct ss_rank_times *r = a->out;
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
    strcpy(r->machine, t->machine);
    r->tasks = t->task.count;
    r->task_name = calloc(r->tasks + 1, sizeof *r->task_name);
    r->task_kind = calloc(r->tasks + 1, sizeof *r->task_kind);
    r->task_time = calloc(r->tasks + 1, sizeof *r->task_time);
    if (!r->task_name || !r->task_kind || !r->task_time)
        return ss_fail_memory("tasks of a trace", r->tasks * sizeof *r->task_name);
    for (size_t i = 0; i < r->tasks; i++) {
        strcpy(r->task_name[i], t->task.at[i].name);
        r->task_kind[i] = t->task.at[i].kind;
        r->task_time[i].predicted = t->task.at[i].predicted;
    }
    for (size_t i = 0; i < t->gpu.count; i++) {
        const struct ss_trace_gpu *g = &t->gpu.at[i];
        if (!ss_trace_on_computing_lane(g) || !ss_analysis_wants(a, g->step))
            continue;
        r->task_time[g->task].sum += g->end - g->begin;
        r->task_time[g->task].count++;
    }
    for (size_t i = 0; i < t->run.count && !t->cuda; i++) {
        const struct ss_trace_run *run = &t->run.at[i];
        if (!t->task.at[run->task].predicted || !ss_analysis_wants(a, run->step))
            continue;
        r->task_time[run->task].sum += run->end - run->begin;
        r->task_time[run->task].count++;
    }
    for (size_t i = 0; i < t->bucket.count; i++)
        SS_TRACE_ADD(&r->bucket, t->bucket.at[i]);
    for (size_t i = 0; i < t->memory.count; i++)
        SS_TRACE_ADD(&r->memory, t->memory.at[i]);
    return SS_OK;
}
