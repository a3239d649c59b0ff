/* report_json.c: the analysis of a trace as one JSON object. */
#include "trace/report.h"
#include "core/log.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

/* Objects are built without looking at each insertion: jansson passes a failure on as NULL, and one
 * that is lost would be missing in the object; `failed` keeps it. */
struct build {
    int failed;
};

static void put(struct build *b, json_t *object, const char *key, json_t *value)
{
    b->failed |= json_object_set_new(object, key, value) != 0;
}

static void append(struct build *b, json_t *array, json_t *value)
{
    b->failed |= json_array_append_new(array, value) != 0;
}

static void put_ms(struct build *b, json_t *object, const char *key, double ns)
{
    put(b, object, key, json_real(ns / 1e6));
}

/* null where there is nothing to divide by. */
static void put_share(struct build *b, json_t *object, const char *key, double part, double whole)
{
    put(b, object, key, whole > 0 ? json_real(part / whole) : json_null());
}

static json_t *of_idle(struct build *b, const int64_t *idle, double n)
{
    json_t *o = json_object();
    for (int k = 0; k < SS_IDLE_KINDS; k++)
        put_ms(b, o, ss_idle_name((enum ss_idle)k), (double)idle[k] / n);
    return o;
}

static json_t *of_path_kinds(struct build *b, const int64_t *kind, double n)
{
    json_t *o = json_object();
    for (int k = 0; k < SS_PATH_KINDS; k++)
        if (kind[k])
            put_ms(b, o, ss_path_kind_name(k), (double)kind[k] / n);
    return o;
}

static json_t *of_path(struct build *b, const struct ss_rank_times *r,
                       const struct ss_step_times *s)
{
    json_t *list = json_array();
    for (size_t k = s->path_count; k-- > 0;) {
        const struct ss_path_part *p = &r->path.part.at[s->path_from + k];
        json_t *o = json_object();
        put(b, o, "kind", json_string(ss_path_kind_name(ss_rank_path_kind(r, p))));
        put(b, o, "step", json_integer(p->step));
        put(b, o, "task", p->task < 0 ? json_null() : json_string(r->task_name[p->task]));
        put_ms(b, o, "at_ms", (double)(p->begin - s->begin));
        put_ms(b, o, "ms", (double)(p->end - p->begin));
        append(b, list, o);
    }
    return list;
}

/* The workers' shares of one step, in their order. */
static json_t *of_busy(struct build *b, const struct ss_rank_times *r, size_t step)
{
    const struct ss_step_times *s = &r->step.at[step];
    json_t *list = json_array();
    for (size_t i = 0; i < r->worker.count; i++)
        append(b, list,
               json_real(s->end > s->begin
                             ? (double)r->worker.at[i].step_busy[step] / (double)(s->end - s->begin)
                             : 0));
    return list;
}

static json_t *of_steps(struct build *b, const struct ss_rank_times *r, int path)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->step.count; i++) {
        const struct ss_step_times *s = &r->step.at[i];
        json_t *o = json_object();
        put(b, o, "step", json_integer(s->step));
        put_ms(b, o, "begin_ms", (double)s->begin);
        put_ms(b, o, "window_ms", (double)(s->end - s->begin));
        put_ms(b, o, "compute_ms", (double)s->compute);
        put_ms(b, o, "communication_ms", (double)s->comm);
        put_share(b, o, "overlap", (double)s->overlap, (double)s->comm);
        put_ms(b, o, "exposed_ms", (double)s->exposed);
        put(b, o, "idle_ms", of_idle(b, s->idle, 1));
        put(b, o, "workers_busy", of_busy(b, r, i));
        put(b, o, "critical_path_kinds_ms", of_path_kinds(b, s->path_kind, 1));
        if (path)
            put(b, o, "critical_path", of_path(b, r, s));
        append(b, list, o);
    }
    return list;
}

static json_t *of_spread(struct build *b, const struct ss_spread *s)
{
    if (!s->count)
        return json_null();
    json_t *o = json_object();
    put_ms(b, o, "mean_ms", s->mean);
    put_ms(b, o, "median_ms", s->median);
    put_ms(b, o, "max_ms", s->max);
    return o;
}

static json_t *of_buckets(struct build *b, const struct ss_bucket_times *bucket, size_t n, int all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct ss_bucket_times *x = &bucket[i];
        json_t *o = json_object();
        put(b, o, "bucket", x->bucket < 0 ? json_string("metrics") : json_integer(x->bucket));
        if (x->bucket >= 0) {
            put(b, o, "bytes", json_integer(x->bytes));
            put(b, o, "wire_bytes", json_integer(x->wire_bytes));
            put(b, o, "algorithm_gb_s", json_real(x->algorithm_bw));
            put(b, o, "bus_gb_s", json_real(x->bus_bw));
        }
        put(b, o, "ready_to_start", of_spread(b, &x->delay));
        put(b, o, "duration", of_spread(b, &x->duration));
        put(b, o, "waiting_for_last_rank", json_real(x->waiting));
        if (all)
            put(b, o, "skew", of_spread(b, &x->skew));
        append(b, list, o);
    }
    return list;
}

static json_t *of_workers(struct build *b, const struct ss_rank_times *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->worker.count; i++) {
        json_t *o = json_object();
        put(b, o, "name", json_string(r->worker.at[i].name));
        put_share(b, o, "busy", (double)r->worker.at[i].busy, (double)r->window);
        put_share(b, o, "loading", (double)r->worker.at[i].load, (double)r->window);
        append(b, list, o);
    }
    return list;
}

static json_t *of_memory(struct build *b, const struct ss_rank_times *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->memory.count; i++) {
        json_t *o = json_object();
        put_ms(b, o, "at_ms", (double)r->memory.at[i].at);
        put(b, o, "host_bytes", json_integer(r->memory.at[i].host));
        put(b, o, "device_bytes", json_integer(r->memory.at[i].device));
        append(b, list, o);
    }
    return list;
}

static json_t *of_loader(struct build *b, const struct ss_rank_times *r,
                         const struct ss_rank_sums *s)
{
    json_t *o = json_object();
    put(b, o, "workers", json_integer(r->loaders));
    put(b, o, "headroom", s->headroom > 0 ? json_real(s->headroom) : json_null());
    put(b, o, "images_s", r->batch && s->headroom > 0 ? json_real(s->load_rate) : json_null());
    put(b, o, "training_images_s", r->batch ? json_real(s->train_rate) : json_null());
    return o;
}

static void put_facts(struct build *b, json_t *o, const struct ss_rank_times *r)
{
    put(b, o, "rank", json_integer(r->rank));
    put(b, o, "host", json_string(r->host));
    put(b, o, "ended", json_boolean(r->ended));
    put(b, o, "lost_marks", json_integer(r->lost));
    put(b, o, "steps_left_out", json_integer(r->steps_broken));
    put(b, o, "clock_error_ms",
        r->has_clock ? json_real((double)r->clock_error / 1e6) : json_null());
}

static json_t *of_rank(struct build *b, const struct ss_run_times *run, int i, int path)
{
    const struct ss_rank_times *r = run->rank[i];
    struct ss_rank_sums s = ss_rank_sum(r);
    double n = s.steps ? (double)s.steps : 1, all = (double)run->step.count;
    json_t *o = json_object();
    put_facts(b, o, r);
    put(b, o, "steps", json_integer((json_int_t)s.steps));
    put_ms(b, o, "window_ms", (double)s.window / n);
    put_ms(b, o, "compute_ms", (double)s.compute / n);
    put_ms(b, o, "communication_ms", (double)s.comm / n);
    put_share(b, o, "overlap", (double)s.overlap, (double)s.comm);
    put_ms(b, o, "exposed_ms", (double)s.exposed / n);
    put(b, o, "idle_ms", of_idle(b, s.idle, n));
    put(b, o, "critical_path_kinds_ms", of_path_kinds(b, s.path_kind, n));
    put(b, o, "loader", of_loader(b, r, &s));
    put_share(b, o, "waited_for_others_ms", (double)run->straggler[i].waited_ns / 1e6, all);
    put_share(b, o, "others_waited_ms", (double)run->straggler[i].caused_ns / 1e6, all);
    put(b, o, "steps_last", json_integer(run->straggler[i].steps));
    put(b, o, "buckets", of_buckets(b, run->of_rank + (size_t)i * run->nbuckets, run->nbuckets, 0));
    put(b, o, "workers", of_workers(b, r));
    put(b, o, "memory", of_memory(b, r));
    put(b, o, "each_step", of_steps(b, r, path));
    return o;
}

static json_t *of_stragglers(struct build *b, const struct ss_run_times *run)
{
    json_t *list = json_array();
    for (size_t i = 0; i < run->step.count; i++) {
        const struct ss_straggler *s = &run->step.at[i];
        json_t *o = json_object();
        put(b, o, "step", json_integer(s->step));
        put(b, o, "rank", s->rank < 0 ? json_null() : json_integer(s->rank));
        put_ms(b, o, "others_waited_ms", (double)s->caused_ns);
        append(b, list, o);
    }
    return list;
}

static json_t *of_run(struct build *b, const struct ss_run_times *run,
                      const struct ss_report_options *o)
{
    const struct ss_rank_times *r = run->rank[0];
    json_t *root = json_object(), *ranks = json_array();
    put(b, root, "model", json_string(r->model));
    put(b, root, "device", json_string(r->cuda ? "cuda" : "cpu"));
    put(b, root, "backend", json_string(r->backend));
    put(b, root, "overlap_wanted", json_boolean(r->overlap));
    put(b, root, "ranks_of_run", json_integer(run->ranks));
    put_ms(b, root, "clock_error_ms", (double)run->clock_error);
    put(b, root, "buckets", of_buckets(b, run->bucket, run->nbuckets, 1));
    put(b, root, "stragglers", of_stragglers(b, run));
    for (int i = 0; i < run->count; i++)
        if (o->rank < 0 || o->rank == run->rank[i]->rank)
            append(b, ranks, of_rank(b, run, i, o->path));
    put(b, root, "ranks", ranks);
    return root;
}

static enum ss_status write_json(const json_t *root, const char *file)
{
    FILE *f = fopen(file, "w");
    if (!f)
        return ss_fail(SS_ERR_IO, "--json %s: cannot write: %s", file, strerror(errno));
    int bad = json_dumpf(root, f, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) != 0;
    bad |= fputc('\n', f) == EOF;
    bad |= fclose(f) != 0;
    if (bad)
        return ss_fail(SS_ERR_IO, "--json %s: cannot write: disk full, perhaps", file);
    return SS_OK;
}

enum ss_status ss_report_json(const struct ss_run_times *run, const struct ss_report_options *o,
                              const char *file)
{
    struct build b = {0};
    json_t *root = of_run(&b, run, o);
    enum ss_status status = b.failed ? ss_fail_memory("the report", 0) : write_json(root, file);
    json_decref(root);
    return status;
}
