/* export.c: loading of all ranks of a trace for export. */
#include "apps/trace/export.h"
#include "core/log.h"
#include "apps/trace/export_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *ss_export_name(const struct ss_export_rank *r, const struct ss_export_slice *s)
{
    return s->task >= 0 ? r->trace->task.at[s->task].name : "collective";
}

enum ss_task_kind ss_export_kind(const struct ss_export_rank *r, const struct ss_export_slice *s)
{
    if (s->task >= 0)
        return r->trace->task.at[s->task].kind;
    return s->bucket < 0 ? SS_TASK_REDUCE_METRICS : r->trace->bucket.at[s->bucket].kind;
}

int64_t ss_export_time(const struct ss_export *e, const struct ss_export_rank *r, int64_t at)
{
    return ss_trace_common(r->trace, at) - e->base;
}

static void drop_marks(struct ss_trace_rank *t)
{
    free(t->run.at);
    free(t->gpu.at);
    free(t->sum.at);
    memset(&t->run, 0, sizeof t->run);
    memset(&t->gpu, 0, sizeof t->gpu);
    memset(&t->sum, 0, sizeof t->sum);
}

static enum ss_status load_rank(const char *dir, int rank, int64_t first, int64_t last,
                                struct ss_export_rank *out)
{
    const struct ss_analyse_options options = {.first = first, .last = last, .keep_path = 1};
    SS_TRY(ss_trace_read(dir, rank, &out->trace));
    SS_TRY(ss_analyse_rank(out->trace, &options, &out->times));
    SS_TRY(ss_export_fill(out, first, last));
    drop_marks(out->trace);
    return SS_OK;
}

/* Drop memory samples outside the time of the slices, with a margin because sampling is
 * infrequent. */
static void cut_memory(const struct ss_export *e, struct ss_export_rank *r)
{
    enum { MARGIN_NS = 250000000 };
    int64_t begin = INT64_MAX, end = INT64_MIN;
    struct ss_trace_memory *m = r->trace->memory.at;
    size_t n = 0;
    for (size_t i = 0; i < r->slice.count; i++) {
        if (r->slice.at[i].begin < begin)
            begin = r->slice.at[i].begin;
        if (r->slice.at[i].end > end)
            end = r->slice.at[i].end;
    }
    for (size_t i = 0; r->slice.count && i < r->trace->memory.count; i++) {
        m[n] = m[i];
        m[n].at = ss_export_time(e, r, m[i].at);
        n += m[n].at >= begin - MARGIN_NS && m[n].at <= end + MARGIN_NS;
    }
    r->trace->memory.count = n;
}

/* Convert the times of all ranks to one clock. */
static void align(struct ss_export *e)
{
    e->base = INT64_MAX;
    for (int i = 0; i < e->count; i++) {
        const struct ss_trace_rank *t = e->rank[i].trace;
        int64_t epoch = ss_trace_common(t, 0);
        if (epoch < e->base)
            e->base = epoch;
    }
    for (int i = 0; i < e->count; i++) {
        struct ss_export_rank *r = &e->rank[i];
        for (size_t k = 0; k < r->slice.count; k++) {
            struct ss_export_slice *s = &r->slice.at[k];
            s->begin = ss_export_time(e, r, s->begin);
            s->end = ss_export_time(e, r, s->end);
            s->ready = ss_export_time(e, r, s->ready);
        }
        cut_memory(e, r);
    }
}

/* Process ids are rank numbers. Perfetto takes a thread with the same number, or with number 0,
 * for its process, so thread ids follow them. A rank without tracks gets a number too. */
static void number_threads(struct ss_export *e)
{
    int tid = e->ranks;
    for (int i = 0; i < e->count; i++) {
        e->rank[i].tid = tid;
        tid += e->rank[i].track.count ? (int)e->rank[i].track.count : 1;
    }
}

static enum ss_status load_ranks(const char *dir, const char *present, int64_t first, int64_t last,
                                 struct ss_export *e)
{
    size_t slices = 0;
    e->rank = calloc((size_t)e->ranks, sizeof *e->rank);
    e->times = calloc((size_t)e->ranks, sizeof *e->times);
    if (!e->rank || !e->times)
        return ss_fail_memory("ranks of a trace", (size_t)e->ranks * sizeof *e->rank);
    for (int rank = 0; rank < e->ranks; rank++) {
        if (!present[rank])
            continue;
        struct ss_export_rank *r = &e->rank[e->count++];
        SS_TRY(load_rank(dir, rank, first, last, r));
        e->times[e->count - 1] = r->times;
        slices += r->slice.count;
    }
    if (!slices)
        return ss_fail(SS_ERR_INVALID,
                       "%s: no task of these steps is in the trace, which was recorded from step "
                       "%" PRId64 " on",
                       dir, e->rank[0].trace->first_step);
    align(e);
    number_threads(e);
    return ss_analyse_run(e->times, e->count, &e->run);
}

enum ss_status ss_export_load(const char *dir, int64_t first, int64_t last, struct ss_export **out)
{
    char *present = NULL;
    struct ss_export *e = calloc(1, sizeof *e);
    if (!e)
        return ss_fail_memory("a trace", sizeof *e);
    enum ss_status status = ss_trace_find(dir, &e->ranks, &present);
    if (status == SS_OK)
        status = load_ranks(dir, present, first, last, e);
    free(present);
    if (status != SS_OK) {
        ss_export_free(e);
        return status;
    }
    *out = e;
    return SS_OK;
}

void ss_export_free(struct ss_export *e)
{
    if (!e)
        return;
    ss_run_times_free(e->run);
    for (int i = 0; i < e->count; i++) {
        ss_trace_free(e->rank[i].trace);
        ss_rank_times_free(e->rank[i].times);
        free(e->rank[i].track.at);
        free(e->rank[i].slice.at);
    }
    free(e->rank);
    free(e->times);
    free(e);
}
