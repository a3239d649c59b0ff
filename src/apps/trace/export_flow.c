/* export_flow.c: flows of buckets between slices, and worker utilization per step. */
#include "apps/trace/export_flow.h"
#include "core/log.h"

#include <stdlib.h>

enum { WRITTEN, SUMMED, APPLIED };

struct stop {
    const struct ss_export_slice *slice;
    int what;
};

static int by_bucket(const void *a, const void *b)
{
    const struct stop *x = a, *y = b;
    if (x->slice->step != y->slice->step)
        return x->slice->step < y->slice->step ? -1 : 1;
    if (x->slice->bucket != y->slice->bucket)
        return x->slice->bucket < y->slice->bucket ? -1 : 1;
    if (x->what != y->what)
        return x->what - y->what;
    return (x->slice->end > y->slice->end) - (x->slice->end < y->slice->end);
}

/* On a GPU a task also has a slice on the thread that enqueued it; arrows do not lead there. */
static int stop_of(const struct ss_export_rank *r, const struct ss_export_slice *s)
{
    if (s->bucket < 0 || s->task < 0)
        return -1;
    enum ss_task_kind kind = r->trace->task.at[s->task].kind;
    if (s->sums)
        return kind == SS_TASK_GATHER ? -1 : SUMMED;
    if ((kind == SS_TASK_BACKWARD || kind == SS_TASK_ADD) && s->computes)
        return WRITTEN;
    return kind == SS_TASK_UPDATE && s->computes ? APPLIED : -1;
}

/* stop[0..n) belong to one bucket and step. The last writer and the first update are used. */
static int find_flow(const struct stop *stop, size_t n, struct ss_export_flow *out)
{
    const struct ss_export_slice *part[3] = {0};
    for (size_t i = 0; i < n; i++)
        if (stop[i].what == WRITTEN || !part[stop[i].what])
            part[stop[i].what] = stop[i].slice;
    *out = (struct ss_export_flow){part[WRITTEN], part[SUMMED], part[APPLIED]};
    return part[WRITTEN] && part[SUMMED];
}

enum ss_status ss_export_flows(const struct ss_export_rank *r, struct ss_export_flow **out,
                               size_t *count)
{
    size_t capacity = r->slice.count + 1, n = 0, found = 0;
    struct stop *stop = malloc(capacity * sizeof *stop);
    struct ss_export_flow *flow = malloc(capacity * sizeof *flow);
    if (!stop || !flow) {
        free(stop);
        free(flow);
        return ss_fail_memory("arrows of a trace", capacity * sizeof *flow);
    }
    for (size_t i = 0; i < r->slice.count; i++) {
        int what = stop_of(r, &r->slice.at[i]);
        if (what >= 0)
            stop[n++] = (struct stop){&r->slice.at[i], what};
    }
    qsort(stop, n, sizeof *stop, by_bucket);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && stop[to].slice->step == stop[from].slice->step &&
                            stop[to].slice->bucket == stop[from].slice->bucket;
             to++)
            ;
        found += (size_t)find_flow(&stop[from], to - from, &flow[found]);
    }
    free(stop);
    *out = flow;
    *count = found;
    return SS_OK;
}

enum ss_status ss_export_shares(const struct ss_export *e, const struct ss_export_rank *r,
                                struct ss_export_share **out, size_t *count)
{
    size_t n = r->times->step.count, capacity = 2 * n * r->times->worker.count + 1, found = 0;
    struct ss_export_share *share = malloc(capacity * sizeof *share);
    if (!share)
        return ss_fail_memory("shares of a trace", capacity * sizeof *share);
    for (size_t w = 0; w < r->times->worker.count; w++) {
        const struct ss_worker_times *worker = &r->times->worker.at[w];
        for (size_t i = 0; worker->busy > 0 && i < n; i++) {
            const struct ss_step_times *s = &r->times->step.at[i];
            if (s->end <= s->begin)
                continue;
            share[found++] = (struct ss_export_share){ss_export_time(e, r, s->begin), worker->name,
                                                      (double)worker->step_busy[i] /
                                                          (double)(s->end - s->begin)};
            if (i + 1 == n || r->times->step.at[i + 1].begin != s->end)
                share[found++] =
                    (struct ss_export_share){ss_export_time(e, r, s->end), worker->name, 0};
        }
    }
    *out = share;
    *count = found;
    return SS_OK;
}
