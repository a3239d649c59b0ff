/* export_html.c: the page's data, in the form that its data.js reads. */
#include "apps/trace/export_html.h"
#include "apps/trace/export_rows.h"
#include "trace/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Write slices as five numbers each: the gap since the previous one, its length, the time it was
 * ready, its task, and the increment of its step. */
static void put_track(struct ss_atomic_file *f, const struct ss_export_rank *r, size_t track,
                      size_t from, size_t to)
{
    int64_t time = 0, step = 0;
    ss_json_put(f, "%.1s\n{'name':%s,'n':%zu,'data':[", track ? "," : "", r->track.at[track].name,
                to - from);
    for (size_t i = from; i < to; i++) {
        const struct ss_export_slice *s = &r->slice.at[i];
        /* Collectives without a task are numbered after the tasks, by bucket. */
        int64_t task = s->task >= 0 ? s->task : (int64_t)r->trace->task.count + s->bucket + 1;
        ss_json_put(f, "%.2s%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64,
                    i > from ? "," : "", s->begin - time, s->end - s->begin, s->begin - s->ready,
                    task, s->step - step);
        time = s->end;
        step = s->step;
    }
    ss_json_put(f, "]}");
}

static void put_tracks(struct ss_atomic_file *f, const struct ss_export_rank *r)
{
    size_t from = 0;
    ss_json_put(f, ",\n'tracks':[");
    for (size_t t = 0; t < r->track.count; t++) {
        size_t to = from;
        while (to < r->slice.count && (size_t)r->slice.at[to].track == t)
            to++;
        put_track(f, r, t, from, to);
        from = to;
    }
    ss_json_put(f, "]");
}

/* Per task: name, kind, bucket; then the collectives without a task. */
static void put_tasks(struct ss_atomic_file *f, const struct ss_export_rank *r)
{
    const struct ss_trace_rank *t = r->trace;
    int nbuckets = (int)t->bucket.count;
    ss_json_put(f, ",\n'name':[");
    for (size_t i = 0; i < t->task.count; i++)
        ss_json_put(f, "%s,", t->task.at[i].name);
    ss_json_put(f, "'metrics'");
    for (int b = 0; b < nbuckets; b++)
        ss_json_put(f, ",'bucket %d'", b);
    ss_json_put(f, "],\n'kind':[");
    for (size_t i = 0; i < t->task.count; i++)
        ss_json_put(f, "%d,", (int)t->task.at[i].kind);
    ss_json_put(f, "%d", (int)SS_TASK_REDUCE_METRICS);
    for (int b = 0; b < nbuckets; b++)
        ss_json_put(f, ",%d", (int)t->bucket.at[b].kind);
    ss_json_put(f, "],\n'bucket':[");
    for (size_t i = 0; i < t->task.count; i++)
        ss_json_put(f, "%d,", ss_export_bucket(t, &t->task.at[i]));
    ss_json_put(f, "-1");
    for (int b = 0; b < nbuckets; b++)
        ss_json_put(f, ",%d", b);
    ss_json_put(f, "]");
}

static void put_steps(struct ss_atomic_file *f, const struct ss_export *e,
                      const struct ss_export_rank *r)
{
    ss_json_put(f, ",\n'steps':[");
    for (size_t i = 0; i < r->times->step.count; i++) {
        const struct ss_step_times *s = &r->times->step.at[i];
        ss_json_put(f, "%.2s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64,
                    i ? "," : "", s->step, ss_export_time(e, r, s->begin),
                    ss_export_time(e, r, s->end), s->compute, s->comm, s->overlap);
        for (int k = 0; k < SS_IDLE_KINDS; k++)
            ss_json_put(f, ",%" PRId64, s->idle[k]);
        ss_json_put(f, "]");
    }
    ss_json_put(f, "],\n'path':[");
    int64_t step = 0;
    int any = 0;
    for (size_t i = 0; i < r->times->path.part.count; i++) {
        const struct ss_path_part *part = &r->times->path.part.at[i];
        if (part->task < 0)
            continue;
        ss_json_put(f, "%.2s%" PRId64 ",%d", any ? "," : "", part->step - step, (int)part->task);
        step = part->step;
        any = 1;
    }
    ss_json_put(f, "]");
}

/* Busy time per worker and lane and step; memory: time, host, device. */
static void put_use(struct ss_atomic_file *f, const struct ss_export_rank *r)
{
    ss_json_put(f, ",\n'workers':[");
    for (size_t w = 0; w < r->times->worker.count; w++) {
        ss_json_put(f, "%.1s{'name':%s,'busy':[", w ? "," : "", r->times->worker.at[w].name);
        for (size_t i = 0; i < r->times->step.count; i++)
            ss_json_put(f, "%.2s%" PRId64, i ? "," : "", r->times->worker.at[w].step_busy[i]);
        ss_json_put(f, "]}");
    }
    ss_json_put(f, "],\n'memory':[");
    for (size_t i = 0; i < r->trace->memory.count; i++) {
        const struct ss_trace_memory *m = &r->trace->memory.at[i];
        ss_json_put(f, "%.2s%" PRId64 ",%" PRId64 ",%" PRId64, i ? "," : "", m->at, m->host,
                    m->device);
    }
    ss_json_put(f, "]");
}

static void put_rank(struct ss_atomic_file *f, const struct ss_export *e,
                     const struct ss_export_rank *r)
{
    ss_json_put(f, "{'rank':%d,'host':%s,'lost':%" PRId64 ",'ended':%.5s", r->trace->rank,
                r->trace->host, r->trace->lost, r->trace->ended ? "true" : "false");
    put_tasks(f, r);
    put_steps(f, e, r);
    put_use(f, r);
    put_tracks(f, r);
    ss_json_put(f, "}");
}

static double number(double x)
{
    return isfinite(x) ? x : 0;
}

static void put_bucket(struct ss_atomic_file *f, int rank, const struct ss_bucket_times *b,
                       int first)
{
    ss_json_put(f, "%.2s[%d,%d,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.6g,%.6g,%.6g,%zu]",
                first ? "" : ",\n", rank, b->bucket, number(b->delay.mean), number(b->delay.median),
                number(b->delay.max), number(b->duration.mean), number(b->duration.median),
                number(b->duration.max), number(b->skew.mean), number(b->skew.max),
                number(b->algorithm_bw), number(b->bus_bw), number(b->waiting), b->duration.count);
}

static void put_run(struct ss_atomic_file *f, const struct ss_export *e)
{
    const struct ss_trace_rank *t = e->rank[0].trace;
    ss_json_put(f, "{'ranks':%d,'device':%s,'overlap':%.5s,'clock_error':%" PRId64, e->ranks,
                t->cuda ? "cuda" : "cpu", t->overlap ? "true" : "false", e->run->clock_error);
    ss_json_put(f, ",'model':%s,'backend':%s,\n'kinds':[", t->model, t->backend);
    for (int k = 0; k <= SS_TASK_REPORT; k++)
        ss_json_put(f, "%.1s%s", k ? "," : "", ss_task_kind_name((enum ss_task_kind)k));
    ss_json_put(f, "],\n'buckets':[");
    for (size_t b = 0; b < t->bucket.count; b++)
        ss_json_put(f, "%.2s[%" PRId64 ",%" PRId64 ",%d,%d]", b ? "," : "", t->bucket.at[b].bytes,
                    t->bucket.at[b].wire_bytes, t->bucket.at[b].of, (int)t->bucket.at[b].kind);
    ss_json_put(f, "],\n'times':[");
    for (size_t b = 0; b < e->run->nbuckets; b++)
        put_bucket(f, -1, &e->run->bucket[b], b == 0);
    for (int r = 0; r < e->count; r++)
        for (size_t b = 0; b < e->run->nbuckets; b++)
            put_bucket(f, e->rank[r].trace->rank,
                       &e->run->of_rank[r * (int)e->run->nbuckets + (int)b], 0);
    ss_json_put(f, "],\n'rank':[");
}

enum ss_status ss_export_html(const struct ss_export *e, const char *file)
{
    struct ss_atomic_file *f;
    SS_TRY(ss_atomic_open(file, &f));
    ss_atomic_write(f, ss_page_head, strlen(ss_page_head));
    put_run(f, e);
    for (int i = 0; i < e->count; i++) {
        ss_json_put(f, "%.2s\n", i ? "," : "");
        put_rank(f, e, &e->rank[i]);
    }
    ss_json_put(f, "]}\n");
    ss_atomic_write(f, ss_page_tail, strlen(ss_page_tail));
    return ss_atomic_commit(f);
}
