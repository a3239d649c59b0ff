/* export_chrome.c: JSON events. */
#include "trace/export_chrome.h"
#include "core/folder.h"
#include "trace/export_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What arrows connect, in this order: gradients, their sum, the update. */
enum { FLOW_WRITTEN, FLOW_SUMMED, FLOW_APPLIED };

struct stop {
    const struct ss_export_slice *slice;
    int what;
};

/* What is not of a thread, but of its process, names the first one: a thread of its own would show
 * up empty. */
enum { OF_PROCESS = 0, PLACE_ROOM = 48 };

static const char *place(char room[PLACE_ROOM], const struct ss_export_rank *r, int track)
{
    snprintf(room, PLACE_ROOM, "\"pid\":%d,\"tid\":%d", r->trace->rank, r->tid + track);
    return room;
}

static void put_metadata(struct ss_atomic_file *f, const struct ss_export_rank *r)
{
    char pid[32], at[PLACE_ROOM];
    snprintf(pid, sizeof pid, "\"pid\":%d", r->trace->rank);
    ss_text_put(f, ",\n{\"name\":\"process_name\",\"ph\":\"M\",%s,\"args\":{\"name\":", pid);
    char name[2 * SS_TRACE_TEXT];
    snprintf(name, sizeof name, "rank %d (%s)", r->trace->rank, r->trace->host);
    ss_text_string(f, name);
    ss_text_put(f, "}},\n{\"name\":\"process_labels\",\"ph\":\"M\",%s,\"args\":{\"labels\":", pid);
    ss_text_string(f, r->trace->cuda ? "cuda" : "cpu");
    ss_text_put(
        f, "}},\n{\"name\":\"process_sort_index\",\"ph\":\"M\",%s,\"args\":{\"sort_index\":%d}}",
        pid, r->trace->rank);
    for (size_t i = 0; i < r->track.count; i++) {
        place(at, r, (int)i);
        ss_text_put(f, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",%s,\"args\":{\"name\":", at);
        ss_text_string(f, r->track.at[i].name);
        ss_text_put(f,
                    "}},\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",%s,"
                    "\"args\":{\"sort_index\":%zu}}",
                    at, i);
    }
}

static void put_slice(struct ss_atomic_file *f, const struct ss_export_rank *r,
                      const struct ss_export_slice *s)
{
    char at[PLACE_ROOM];
    ss_text_put(f, ",\n{\"name\":");
    ss_text_string(f, ss_export_name(r, s));
    ss_text_put(f, ",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":", ss_export_kind(r, s));
    ss_text_us(f, s->begin);
    ss_text_put(f, ",\"dur\":");
    ss_text_us(f, s->end - s->begin);
    ss_text_put(f, ",%s,\"args\":{\"step\":%" PRId64 ",\"ready_us\":", place(at, r, s->track),
                s->step);
    ss_text_us(f, s->begin - s->ready);
    if (s->bucket >= 0)
        ss_text_put(f, ",\"bucket\":%d", s->bucket);
    if (s->bucket >= 0 && s->sums)
        ss_text_put(f, ",\"bytes\":%" PRId64, r->trace->bucket.at[s->bucket].wire_bytes);
    ss_text_put(f, "}}");
}

static void put_step(struct ss_atomic_file *f, const struct ss_export *e,
                     const struct ss_export_rank *r, const struct ss_trace_step *s)
{
    char at[PLACE_ROOM];
    if (s->reported < s->submitted) /* the run ended before */
        return;
    for (int end = 0; end < 2; end++) {
        ss_text_put(f,
                    ",\n{\"name\":\"step %" PRId64
                    "\",\"cat\":\"step\",\"ph\":\"%c\",\"id2\":{\"local\":\"%" PRId64
                    "\"},%s,\"ts\":",
                    s->step, end ? 'e' : 'b', s->step, place(at, r, OF_PROCESS));
        ss_text_us(f, ss_export_time(e, r, end ? s->reported : s->submitted));
        ss_text_put(f, "}");
    }
}

static void put_memory(struct ss_atomic_file *f, const struct ss_export *e,
                       const struct ss_export_rank *r)
{
    char where[PLACE_ROOM];
    int64_t begin, end;
    ss_export_memory_span(r, &begin, &end);
    for (size_t i = 0; i < r->trace->memory.count; i++) {
        const struct ss_trace_memory *m = &r->trace->memory.at[i];
        int64_t at = ss_export_time(e, r, m->at);
        if (at < begin || at > end)
            continue;
        ss_text_put(f,
                    ",\n{\"name\":\"memory\",\"ph\":\"C\",%s,\"ts\":", place(where, r, OF_PROCESS));
        ss_text_us(f, at);
        ss_text_put(f, ",\"args\":{\"host bytes\":%" PRId64, m->host);
        if (r->trace->cuda)
            ss_text_put(f, ",\"device bytes\":%" PRId64, m->device);
        ss_text_put(f, "}}");
    }
}

static void put_share(struct ss_atomic_file *f, const struct ss_export *e,
                      const struct ss_export_rank *r, const char *worker, int64_t at, double share)
{
    ss_text_put(f, ",\n{\"name\":");
    char name[SS_TRACE_TEXT + 8], where[PLACE_ROOM];
    snprintf(name, sizeof name, "busy %s", worker);
    ss_text_string(f, name);
    ss_text_put(f, ",\"ph\":\"C\",%s,\"ts\":", place(where, r, OF_PROCESS));
    ss_text_us(f, ss_export_time(e, r, at));
    ss_text_put(f, ",\"args\":{\"percent\":%.2f}}", 100 * share);
}

/* How busy each worker is in each step. */
static void put_busy(struct ss_atomic_file *f, const struct ss_export *e,
                     const struct ss_export_rank *r)
{
    size_t n = r->times->step.count;
    for (size_t w = 0; w < r->times->worker.count; w++) {
        const struct ss_worker_times *worker = &r->times->worker.at[w];
        for (size_t i = 0; worker->busy > 0 && i < n; i++) {
            const struct ss_step_times *s = &r->times->step.at[i];
            if (s->end <= s->begin)
                continue;
            put_share(f, e, r, worker->name, s->begin,
                      (double)worker->step_busy[i] / (double)(s->end - s->begin));
            if (i + 1 == n || r->times->step.at[i + 1].begin != s->end)
                put_share(f, e, r, worker->name, s->end, 0);
        }
    }
}

/* Arrows. */

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

/* On a GPU a task also has a slice on the thread that enqueued it, to which no arrow leads. */
static int flow_of(const struct ss_export_rank *r, const struct ss_export_slice *s)
{
    if (s->bucket < 0 || s->task < 0)
        return -1;
    enum ss_task_kind kind = r->trace->task.at[s->task].kind;
    if (s->sums)
        return FLOW_SUMMED;
    if (kind == SS_TASK_BACKWARD && s->computes)
        return FLOW_WRITTEN;
    return kind == SS_TASK_UPDATE && s->computes ? FLOW_APPLIED : -1;
}

static void put_arrow(struct ss_atomic_file *f, const struct ss_export_rank *r, const char *ph,
                      const struct stop *stop, int id)
{
    char at[PLACE_ROOM];
    ss_text_put(f,
                ",\n{\"name\":\"bucket %d\",\"cat\":\"bucket\",\"ph\":\"%s\",\"id\":%d,%s,\"ts\":",
                stop->slice->bucket, ph, id, place(at, r, stop->slice->track));
    ss_text_us(f, stop->slice->begin);
    ss_text_put(f, "%s}", *ph == 'f' ? ",\"bp\":\"e\"" : "");
}

/* stop[0..n) are of one bucket and step. The last writer counts, the first update. */
static void put_flow(struct ss_atomic_file *f, const struct ss_export_rank *r,
                     const struct stop *stop, size_t n, int id)
{
    const struct stop *part[3] = {0};
    for (size_t i = 0; i < n; i++)
        if (stop[i].what == FLOW_WRITTEN || !part[stop[i].what])
            part[stop[i].what] = &stop[i];
    if (!part[FLOW_WRITTEN] || !part[FLOW_SUMMED])
        return;
    put_arrow(f, r, "s", part[FLOW_WRITTEN], id);
    put_arrow(f, r, part[FLOW_APPLIED] ? "t" : "f", part[FLOW_SUMMED], id);
    if (part[FLOW_APPLIED])
        put_arrow(f, r, "f", part[FLOW_APPLIED], id);
}

static enum ss_status put_flows(struct ss_atomic_file *f, const struct ss_export_rank *r, int *id)
{
    struct stop *stop = malloc((r->slice.count + 1) * sizeof *stop);
    size_t n = 0;
    if (!stop)
        return ss_fail_memory("arrows of a trace", r->slice.count * sizeof *stop);
    for (size_t i = 0; i < r->slice.count; i++) {
        int what = flow_of(r, &r->slice.at[i]);
        if (what >= 0)
            stop[n++] = (struct stop){&r->slice.at[i], what};
    }
    qsort(stop, n, sizeof *stop, by_bucket);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && stop[to].slice->step == stop[from].slice->step &&
                            stop[to].slice->bucket == stop[from].slice->bucket;
             to++)
            ;
        put_flow(f, r, &stop[from], to - from, ++*id);
    }
    free(stop);
    return SS_OK;
}

static void put_head(struct ss_atomic_file *f, const struct ss_export *e,
                     const struct ss_export_rank *r)
{
    /* Each on a line of its own, with blanks: some programs look for the rank in the text. */
    ss_text_put(f, "{\n\"schemaVersion\": 1,\n\"distributedInfo\": {\"backend\": ");
    ss_text_string(f, r->trace->backend);
    ss_text_put(f, ", \"rank\": %d, \"world_size\": %d},\n", r->trace->rank, e->ranks);
    ss_text_put(f, "\"otherData\": {\"program\": \"starstep\", \"model\": ");
    ss_text_string(f, r->trace->model);
    ss_text_put(f, ", \"device\": \"%s\"},\n", r->trace->cuda ? "cuda" : "cpu");
    ss_text_put(f, "\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n");
    ss_text_put(f, "{\"name\":\"trace\",\"ph\":\"M\",\"pid\":%d,\"args\":{}}", r->trace->rank);
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
        put_memory(f, e, r);
        put_busy(f, e, r);
        enum ss_status status = put_flows(f, r, &id);
        if (status != SS_OK) {
            ss_atomic_abort(f);
            return status;
        }
    }
    ss_text_put(f, "\n]}\n");
    return ss_atomic_commit(f);
}

static void put_kernel(struct ss_atomic_file *f, const struct ss_export_rank *r,
                       const struct ss_export_slice *s, size_t number)
{
    char name[2 * SS_NAME_BYTES];
    int stream = s->sums ? 2 : 1;
    snprintf(name, sizeof name, "%s%s", s->sums ? "ncclDevKernel_AllReduce " : "",
             ss_export_name(r, s));
    ss_text_put(f, ",\n{\"name\":");
    ss_text_string(f, name);
    ss_text_put(f, ",\"cat\":\"kernel\",\"ph\":\"X\",\"ts\":");
    ss_text_us(f, s->begin);
    ss_text_put(f, ",\"dur\":");
    ss_text_us(f, s->end - s->begin);
    ss_text_put(f,
                ",\"pid\":%d,\"tid\":%d,\"args\":{\"device\":%d,\"stream\":%d,\"correlation\":%zu,"
                "\"External id\":%zu,\"step\":%" PRId64 ",\"bucket\":%d}}",
                r->trace->rank, stream, r->trace->rank, stream, number, number, s->step, s->bucket);
}

static enum ss_status write_hta(const struct ss_export *e, const struct ss_export_rank *r,
                                const char *file)
{
    struct ss_atomic_file *f;
    SS_TRY(ss_atomic_open(file, &f));
    put_head(f, e, r);
    for (size_t k = 0; k < r->slice.count; k++)
        if (r->slice.at[k].computes || r->slice.at[k].sums)
            put_kernel(f, r, &r->slice.at[k], k + 1);
    ss_text_put(f, "\n]}\n");
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
