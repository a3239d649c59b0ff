/* export_chrome.c: JSON events. */
#include "apps/trace/export_chrome.h"
#include "core/folder.h"
#include "apps/trace/export_flow.h"
#include "trace/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events of a process rather than of a thread use the first thread's id: with an id of their own,
 * an empty thread would show up. */
enum { OF_PROCESS = 0 };

/* Microseconds with three decimals: exact to the nanosecond. */
static double us(int64_t ns)
{
    return (double)ns / 1e3;
}

/* The process under which a rank's events are shown. */
static int pid(const struct ss_export_rank *r)
{
    return r->trace->rank;
}

static int tid(const struct ss_export_rank *r, int track)
{
    return r->tid + track;
}

static void put_metadata(struct ss_atomic_file *f, const struct ss_export_rank *r)
{
    char name[2 * SS_TRACE_TEXT];
    snprintf(name, sizeof name, "rank %d (%s)", r->trace->rank, r->trace->host);
    ss_json_put(f, ",\n{'name':'process_name','ph':'M','pid':%d,'args':{'name':%s}}", pid(r), name);
    ss_json_put(f, ",\n{'name':'process_labels','ph':'M','pid':%d,'args':{'labels':%s}}", pid(r),
                r->trace->cuda ? "cuda" : "cpu");
    ss_json_put(f, ",\n{'name':'process_sort_index','ph':'M','pid':%d,'args':{'sort_index':%d}}",
                pid(r), r->trace->rank);
    for (size_t i = 0; i < r->track.count; i++) {
        ss_json_put(f, ",\n{'name':'thread_name','ph':'M','pid':%d,'tid':%d,'args':{'name':%s}}",
                    pid(r), tid(r, (int)i), r->track.at[i].name);
        ss_json_put(f,
                    ",\n{'name':'thread_sort_index','ph':'M','pid':%d,'tid':%d,"
                    "'args':{'sort_index':%zu}}",
                    pid(r), tid(r, (int)i), i);
    }
}

static void put_slice(struct ss_atomic_file *f, const struct ss_export_rank *r,
                      const struct ss_export_slice *s)
{
    ss_json_put(f, ",\n{'name':%s,'cat':%s,'ph':'X','ts':%.3f,'dur':%.3f,'pid':%d,'tid':%d,",
                ss_export_name(r, s), ss_task_kind_name(ss_export_kind(r, s)), us(s->begin),
                us(s->end - s->begin), pid(r), tid(r, s->track));
    ss_json_put(f, "'args':{'step':%" PRId64 ",'ready_us':%.3f", s->step, us(s->begin - s->ready));
    if (s->bucket >= 0)
        ss_json_put(f, ",'bucket':%d", r->trace->bucket.at[s->bucket].of);
    if (s->bucket >= 0 && s->sums)
        ss_json_put(f, ",'bytes':%" PRId64, r->trace->bucket.at[s->bucket].wire_bytes);
    ss_json_put(f, "}}");
}

static void put_step(struct ss_atomic_file *f, const struct ss_export *e,
                     const struct ss_export_rank *r, const struct ss_trace_step *s)
{
    if (s->reported < s->submitted) /* the run ended earlier */
        return;
    for (int end = 0; end < 2; end++)
        ss_json_put(f,
                    ",\n{'name':'step %" PRId64 "','cat':'step','ph':'%c','id2':{'local':'%" PRId64
                    "'},'pid':%d,'tid':%d,'ts':%.3f}",
                    s->step, end ? 'e' : 'b', s->step, pid(r), tid(r, OF_PROCESS),
                    us(ss_export_time(e, r, end ? s->reported : s->submitted)));
}

static void put_memory(struct ss_atomic_file *f, const struct ss_export_rank *r)
{
    for (size_t i = 0; i < r->trace->memory.count; i++) {
        const struct ss_trace_memory *m = &r->trace->memory.at[i];
        ss_json_put(f,
                    ",\n{'name':'memory','ph':'C','pid':%d,'tid':%d,'ts':%.3f,"
                    "'args':{'host bytes':%" PRId64,
                    pid(r), tid(r, OF_PROCESS), us(m->at), m->host);
        if (r->trace->cuda)
            ss_json_put(f, ",'device bytes':%" PRId64, m->device);
        ss_json_put(f, "}}");
    }
}

static void put_share(struct ss_atomic_file *f, const struct ss_export_rank *r,
                      const struct ss_export_share *s)
{
    char name[SS_TRACE_TEXT + 8];
    snprintf(name, sizeof name, "busy %s", s->worker);
    ss_json_put(f, ",\n{'name':%s,'ph':'C','pid':%d,'tid':%d,'ts':%.3f,'args':{'percent':%.2f}}",
                name, pid(r), tid(r, OF_PROCESS), us(s->at), 100 * s->share);
}

/* Write the utilization of each worker per step. */
static enum ss_status put_busy(struct ss_atomic_file *f, const struct ss_export *e,
                               const struct ss_export_rank *r)
{
    struct ss_export_share *share;
    size_t n;
    SS_TRY(ss_export_shares(e, r, &share, &n));
    for (size_t i = 0; i < n; i++)
        put_share(f, r, &share[i]);
    free(share);
    return SS_OK;
}

static void put_arrow(struct ss_atomic_file *f, const struct ss_export_rank *r, char ph,
                      const struct ss_export_slice *s, int id)
{
    ss_json_put(f,
                ",\n{'name':'bucket %d','cat':'bucket','ph':'%c','id':%d,'pid':%d,'tid':%d,"
                "'ts':%.3f",
                s->bucket, ph, id, pid(r), tid(r, s->track), us(s->begin));
    ss_json_put(f, ph == 'f' ? ",'bp':'e'}" : "}");
}

static enum ss_status put_flows(struct ss_atomic_file *f, const struct ss_export_rank *r, int *id)
{
    struct ss_export_flow *flow;
    size_t n;
    SS_TRY(ss_export_flows(r, &flow, &n));
    for (size_t i = 0; i < n; i++) {
        put_arrow(f, r, 's', flow[i].written, ++*id);
        put_arrow(f, r, flow[i].applied ? 't' : 'f', flow[i].summed, *id);
        if (flow[i].applied)
            put_arrow(f, r, 'f', flow[i].applied, *id);
    }
    free(flow);
    return SS_OK;
}

static void put_head(struct ss_atomic_file *f, const struct ss_export *e,
                     const struct ss_export_rank *r)
{
    /* One key per line, with blanks: some programs search the text for the rank. */
    ss_json_put(f,
                "{\n'schemaVersion': 1,\n'distributedInfo': {'backend': %s, 'rank': %d, "
                "'world_size': %d},\n",
                r->trace->backend, r->trace->rank, e->ranks);
    ss_json_put(f, "'otherData': {'program': 'starstep', 'model': %s, 'device': %s},\n",
                r->trace->model, r->trace->cuda ? "cuda" : "cpu");
    ss_json_put(f, "'displayTimeUnit': 'ms',\n'traceEvents': [\n");
    ss_json_put(f, "{'name':'trace','ph':'M','pid':%d,'args':{}}", pid(r));
}

enum ss_status ss_export_chrome(const struct ss_export *e, const char *file)
{
    struct ss_atomic_file *f;
    int id = 0;
    SS_TRY(ss_atomic_open(file, &f));
    put_head(f, e, &e->rank[0]);
    for (int i = 0; i < e->count; i++) {
        const struct ss_export_rank *r = &e->rank[i];
        put_metadata(f, r);
        for (size_t k = 0; k < r->slice.count; k++)
            put_slice(f, r, &r->slice.at[k]);
        for (size_t k = 0; k < r->trace->step.count; k++)
            put_step(f, e, r, &r->trace->step.at[k]);
        put_memory(f, r);
        enum ss_status status = put_busy(f, e, r);
        if (status == SS_OK)
            status = put_flows(f, r, &id);
        if (status != SS_OK) {
            ss_atomic_abort(f);
            return status;
        }
    }
    ss_json_put(f, "\n]}\n");
    return ss_atomic_commit(f);
}

/* Thread ids in HTA files. */
enum { HTA_STEPS, HTA_COMPUTE, HTA_SUMS, HTA_LAUNCHES };

static void put_kernel(struct ss_atomic_file *f, const struct ss_export_rank *r,
                       const struct ss_export_slice *s, size_t number)
{
    char name[2 * SS_NAME_BYTES];
    int stream = s->sums ? HTA_SUMS : HTA_COMPUTE;
    /* Kernel names used before NCCL 2.19: HTA's straggler search recognizes no others. */
    const char *nccl = !s->sums ? ""
                       : ss_export_kind(r, s) == SS_TASK_REDUCE_SCATTER
                           ? "ncclKernel_ReduceScatter "
                       : ss_export_kind(r, s) == SS_TASK_GATHER ? "ncclKernel_AllGather "
                                                                : "ncclKernel_AllReduce ";
    snprintf(name, sizeof name, "%s%s", nccl, ss_export_name(r, s));
    ss_json_put(f, ",\n{'name':%s,'cat':'kernel','ph':'X','ts':%.3f,'dur':%.3f,", name,
                us(s->begin), us(s->end - s->begin));
    ss_json_put(f,
                "'pid':%d,'tid':%d,'args':{'device':%d,'stream':%d,'correlation':%zu,"
                "'External id':%zu,'step':%" PRId64 ",'bucket':%d}}",
                pid(r), stream, pid(r), stream, number, number, s->step, s->bucket);
}

static int by_step(const void *key, const void *at)
{
    const int64_t step = *(const int64_t *)key, other = ((const struct ss_step_times *)at)->step;
    return (step > other) - (step < other);
}

/* Write the launch event that ties a kernel to its step. */
static void put_launch(struct ss_atomic_file *f, const struct ss_export *e,
                       const struct ss_export_rank *r, const struct ss_export_slice *s,
                       size_t number)
{
    const struct ss_step_times *step = bsearch(&s->step, r->times->step.at, r->times->step.count,
                                               sizeof *r->times->step.at, by_step);
    if (!step) /* the step is incomplete */
        return;
    const int64_t begin = ss_export_time(e, r, step->begin), end = ss_export_time(e, r, step->end);
    const int64_t at = s->ready < begin ? begin : s->ready >= end ? end - 1 : s->ready;
    ss_json_put(f,
                ",\n{'name':'cudaLaunchKernel','cat':'cuda_runtime','ph':'X','ts':%.3f,'dur':0,"
                "'pid':%d,'tid':%d,'args':{'correlation':%zu,'External id':%zu}}",
                us(at), pid(r), HTA_LAUNCHES, number, number);
}

static void put_profiler_step(struct ss_atomic_file *f, const struct ss_export *e,
                              const struct ss_export_rank *r, const struct ss_step_times *s)
{
    ss_json_put(f,
                ",\n{'name':'ProfilerStep#%" PRId64 "','cat':'user_annotation','ph':'X','ts':%.3f,"
                "'dur':%.3f,'pid':%d,'tid':%d,'args':{}}",
                s->step, us(ss_export_time(e, r, s->begin)), us(s->end - s->begin), pid(r),
                HTA_STEPS);
}

static enum ss_status write_hta(const struct ss_export *e, const struct ss_export_rank *r,
                                const char *file)
{
    struct ss_atomic_file *f;
    SS_TRY(ss_atomic_open(file, &f));
    put_head(f, e, r);
    for (size_t k = 0; k < r->times->step.count; k++)
        put_profiler_step(f, e, r, &r->times->step.at[k]);
    for (size_t k = 0; k < r->slice.count; k++) {
        if (!r->slice.at[k].computes && !r->slice.at[k].sums)
            continue;
        put_launch(f, e, r, &r->slice.at[k], k + 1);
        put_kernel(f, r, &r->slice.at[k], k + 1);
    }
    ss_json_put(f, "\n]}\n");
    return ss_atomic_commit(f);
}

enum ss_status ss_export_hta(const struct ss_export *e, const char *dir)
{
    char path[4096], name[32];
    SS_TRY(ss_folder_make(dir));
    for (int i = 0; i < e->count; i++) {
        snprintf(name, sizeof name, "rank-%d.json", e->rank[i].trace->rank);
        SS_TRY(ss_folder_join(path, sizeof path, dir, name));
        SS_TRY(write_hta(e, &e->rank[i], path));
    }
    return SS_OK;
}
