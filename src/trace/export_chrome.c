/* export_chrome.c: JSON events. */
#include "trace/export_chrome.h"
#include "core/folder.h"
#include "trace/export_flow.h"
#include "trace/export_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    ss_text_put(f, ",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":", ss_task_kind_name(ss_export_kind(r, s)));
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

static void put_memory(struct ss_atomic_file *f, const struct ss_export_rank *r)
{
    char where[PLACE_ROOM];
    for (size_t i = 0; i < r->trace->memory.count; i++) {
        const struct ss_trace_memory *m = &r->trace->memory.at[i];
        ss_text_put(f,
                    ",\n{\"name\":\"memory\",\"ph\":\"C\",%s,\"ts\":", place(where, r, OF_PROCESS));
        ss_text_us(f, m->at);
        ss_text_put(f, ",\"args\":{\"host bytes\":%" PRId64, m->host);
        if (r->trace->cuda)
            ss_text_put(f, ",\"device bytes\":%" PRId64, m->device);
        ss_text_put(f, "}}");
    }
}

static void put_share(struct ss_atomic_file *f, const struct ss_export_rank *r,
                      const struct ss_export_share *s)
{
    ss_text_put(f, ",\n{\"name\":");
    char name[SS_TRACE_TEXT + 8], where[PLACE_ROOM];
    snprintf(name, sizeof name, "busy %s", s->worker);
    ss_text_string(f, name);
    ss_text_put(f, ",\"ph\":\"C\",%s,\"ts\":", place(where, r, OF_PROCESS));
    ss_text_us(f, s->at);
    ss_text_put(f, ",\"args\":{\"percent\":%.2f}}", 100 * s->share);
}

/* How busy each worker is in each step. */
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

static void put_arrow(struct ss_atomic_file *f, const struct ss_export_rank *r, const char *ph,
                      const struct ss_export_slice *s, int id)
{
    char at[PLACE_ROOM];
    ss_text_put(f,
                ",\n{\"name\":\"bucket %d\",\"cat\":\"bucket\",\"ph\":\"%s\",\"id\":%d,%s,\"ts\":",
                s->bucket, ph, id, place(at, r, s->track));
    ss_text_us(f, s->begin);
    ss_text_put(f, "%s}", *ph == 'f' ? ",\"bp\":\"e\"" : "");
}

static enum ss_status put_flows(struct ss_atomic_file *f, const struct ss_export_rank *r, int *id)
{
    struct ss_export_flow *flow;
    size_t n;
    SS_TRY(ss_export_flows(r, &flow, &n));
    for (size_t i = 0; i < n; i++) {
        put_arrow(f, r, "s", flow[i].written, ++*id);
        put_arrow(f, r, flow[i].applied ? "t" : "f", flow[i].summed, *id);
        if (flow[i].applied)
            put_arrow(f, r, "f", flow[i].applied, *id);
    }
    free(flow);
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
        put_memory(f, r);
        enum ss_status status = put_busy(f, e, r);
        if (status == SS_OK)
            status = put_flows(f, r, &id);
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
