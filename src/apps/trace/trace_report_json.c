/* trace_report_json.c: the analysis of a trace as one JSON object. */
#include "core/json_value.h"
#include "core/log.h"
#include "apps/trace/trace_report.h"
#include "apps/trace/verdict.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static double ms(double ns)
{
    return ns / 1e6;
}

static json_t *in_ms(double ns)
{
    return ss_json_number(ms(ns));
}

/* part / whole; null if whole is 0. */
static json_t *share(double part, double whole)
{
    return whole > 0 ? ss_json_number(part / whole) : json_null();
}

static json_t *known(int is_known, double v)
{
    return is_known ? ss_json_number(v) : json_null();
}

static json_t *of_idle(const int64_t *idle, double n)
{
    json_t *out = json_object();
    for (int k = 0; k < SS_IDLE_KINDS; k++)
        ss_json_set(&out, ss_idle_name((enum ss_idle)k), in_ms((double)idle[k] / n));
    return out;
}

static json_t *of_path_kinds(const int64_t *kind, double n)
{
    json_t *out = json_object();
    for (int k = 0; k < SS_PATH_KINDS; k++)
        if (kind[k])
            ss_json_set(&out, ss_path_kind_name(k), in_ms((double)kind[k] / n));
    return out;
}

static json_t *of_path(const struct ss_rank_times *r, const struct ss_step_times *s)
{
    json_t *out = json_array();
    for (size_t k = s->path_count; k-- > 0;) {
        const struct ss_path_part *p = &r->path.part.at[s->path_from + k];
        ss_json_append(
            &out, json_pack("{s:s,s:I,s:o,s:o,s:o}", "kind",
                            ss_path_kind_name(ss_rank_path_kind(r, p)), "step", (json_int_t)p->step,
                            "task", p->task < 0 ? json_null() : ss_json_text(r->task_name[p->task]),
                            "at_ms", in_ms((double)(p->begin - s->begin)), "ms",
                            in_ms((double)(p->end - p->begin))));
    }
    return out;
}

/* The utilization of each worker in one step, in worker order. */
static json_t *of_busy(const struct ss_rank_times *r, size_t step)
{
    const struct ss_step_times *s = &r->step.at[step];
    const double window = (double)(s->end - s->begin);
    json_t *out = json_array();
    for (size_t i = 0; i < r->worker.count; i++)
        ss_json_append(
            &out, json_real(window > 0 ? (double)r->worker.at[i].step_busy[step] / window : 0.0));
    return out;
}

static json_t *of_steps(const struct ss_rank_times *r, int path)
{
    json_t *out = json_array();
    for (size_t i = 0; i < r->step.count; i++) {
        const struct ss_step_times *s = &r->step.at[i];
        json_t *step = json_pack(
            "{s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "step", (json_int_t)s->step, "begin_ms",
            in_ms((double)s->begin), "window_ms", in_ms((double)(s->end - s->begin)), "compute_ms",
            in_ms((double)s->compute), "communication_ms", in_ms((double)s->comm), "overlap",
            share((double)s->overlap, (double)s->comm), "exposed_ms", in_ms((double)s->exposed),
            "idle_ms", of_idle(s->idle, 1), "workers_busy", of_busy(r, i), "critical_path_kinds_ms",
            of_path_kinds(s->path_kind, 1));
        if (path)
            ss_json_set(&step, "critical_path", of_path(r, s));
        ss_json_append(&out, step);
    }
    return out;
}

static json_t *of_spread(const struct ss_spread *s)
{
    return s->count ? json_pack("{s:o,s:o,s:o}", "mean_ms", in_ms(s->mean), "median_ms",
                                in_ms(s->median), "max_ms", in_ms(s->max))
                    : json_null();
}

static json_t *of_bucket(const struct ss_bucket_times *x, int all)
{
    json_t *out =
        x->bucket < 0
            ? json_pack("{s:s}", "bucket", "metrics")
            : json_pack("{s:i,s:I,s:I,s:o,s:o}", "bucket", x->of, "bytes", (json_int_t)x->bytes,
                        "wire_bytes", (json_int_t)x->wire_bytes, "algorithm_gb_s",
                        ss_json_number(x->algorithm_bw), "bus_gb_s", ss_json_number(x->bus_bw));
    if (x->bucket >= 0 && x->kind != SS_TASK_ALLREDUCE)
        ss_json_set(&out, "collective", json_string(ss_task_kind_name(x->kind)));
    ss_json_set(&out, "ready_to_start", of_spread(&x->delay));
    ss_json_set(&out, "duration", of_spread(&x->duration));
    ss_json_set(&out, "waiting_for_last_rank", ss_json_number(x->waiting));
    if (all)
        ss_json_set(&out, "skew", of_spread(&x->skew));
    return out;
}

static json_t *of_buckets(const struct ss_bucket_times *bucket, size_t n, int all)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        ss_json_append(&out, of_bucket(&bucket[i], all));
    return out;
}

static json_t *of_workers(const struct ss_rank_times *r)
{
    json_t *out = json_array();
    for (size_t i = 0; i < r->worker.count; i++)
        ss_json_append(
            &out, json_pack("{s:o,s:o,s:o}", "name", ss_json_text(r->worker.at[i].name), "busy",
                            share((double)r->worker.at[i].busy, (double)r->window), "loading",
                            share((double)r->worker.at[i].load, (double)r->window)));
    return out;
}

/* Tasks of a GPU's compute lane, or CPU tasks that have a prediction. */
static json_t *of_tasks(const struct ss_rank_times *r)
{
    json_t *out = json_array();
    for (size_t i = 0; i < r->tasks; i++) {
        const struct ss_compared x = ss_rank_compare(r, i);
        if (x.measured > 0 || x.predicted > 0)
            ss_json_append(&out,
                           json_pack("{s:o,s:s,s:o,s:o}", "task", ss_json_text(r->task_name[i]),
                                     "kind", ss_task_kind_name(r->task_kind[i]), "measured_ms",
                                     known(x.measured > 0, ms(x.measured)), "predicted_ms",
                                     known(x.predicted > 0, ms(x.predicted))));
    }
    return out;
}

static json_t *of_memory(const struct ss_rank_times *r)
{
    json_t *out = json_array();
    for (size_t i = 0; i < r->memory.count; i++)
        ss_json_append(&out, json_pack("{s:o,s:I,s:I}", "at_ms", in_ms((double)r->memory.at[i].at),
                                       "host_bytes", (json_int_t)r->memory.at[i].host,
                                       "device_bytes", (json_int_t)r->memory.at[i].device));
    return out;
}

static json_t *of_loader(const struct ss_rank_times *r, const struct ss_rank_sums *s)
{
    return json_pack("{s:i,s:o,s:o,s:o}", "workers", r->loaders, "headroom",
                     known(s->headroom > 0, s->headroom), "images_s",
                     known(s->headroom > 0 && r->batch, s->load_rate), "training_images_s",
                     known(r->batch != 0, s->train_rate));
}

static json_t *of_rank(const struct ss_run_times *run, int i, int path)
{
    const struct ss_rank_times *r = run->rank[i];
    const struct ss_straggling *wait = &run->straggler[i];
    struct ss_rank_sums s = ss_rank_sum(r);
    const double n = s.steps ? (double)s.steps : 1, all = (double)run->step.count;
    json_t *out = json_pack(
        "{s:i,s:o,s:b,s:I,s:I,s:o,s:I,s:o,s:o,s:o,s:o,s:o}", "rank", r->rank, "host",
        ss_json_text(r->host), "ended", r->ended, "lost_marks", (json_int_t)r->lost,
        "steps_left_out", (json_int_t)r->steps_broken, "clock_error_ms",
        known(r->has_clock, ms((double)r->clock_error)), "steps", (json_int_t)s.steps, "window_ms",
        in_ms((double)s.window / n), "compute_ms", in_ms((double)s.compute / n), "communication_ms",
        in_ms((double)s.comm / n), "overlap", share((double)s.overlap, (double)s.comm),
        "exposed_ms", in_ms((double)s.exposed / n));
    ss_json_set(&out, "idle_ms", of_idle(s.idle, n));
    ss_json_set(&out, "critical_path_kinds_ms", of_path_kinds(s.path_kind, n));
    ss_json_set(&out, "loader", of_loader(r, &s));
    ss_json_set(&out, "waited_for_others_ms", share(ms((double)wait->waited_ns), all));
    ss_json_set(&out, "others_waited_ms", share(ms((double)wait->caused_ns), all));
    ss_json_set(&out, "steps_last", json_integer((json_int_t)wait->steps));
    ss_json_set(&out, "buckets",
                of_buckets(run->of_rank + (size_t)i * run->nbuckets, run->nbuckets, 0));
    ss_json_set(&out, "workers", of_workers(r));
    ss_json_set(&out, "predicted_for", r->machine[0] ? ss_json_text(r->machine) : json_null());
    ss_json_set(&out, "gpu_tasks", of_tasks(r));
    ss_json_set(&out, "memory", of_memory(r));
    ss_json_set(&out, "each_step", of_steps(r, path));
    return out;
}

static json_t *of_stragglers(const struct ss_run_times *run)
{
    json_t *out = json_array();
    for (size_t i = 0; i < run->step.count; i++) {
        const struct ss_straggler *s = &run->step.at[i];
        ss_json_append(&out, json_pack("{s:I,s:o,s:o}", "step", (json_int_t)s->step, "rank",
                                       s->rank < 0 ? json_null() : json_integer(s->rank),
                                       "others_waited_ms", in_ms((double)s->caused_ns)));
    }
    return out;
}

static json_t *of_verdict(const struct ss_trace_verdict *v)
{
    return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "bound", v->bound, "step_ms",
                     ss_json_number(v->step_ms), "computing", ss_json_number(v->computing),
                     "waiting", ss_json_number(v->waiting), "communication_ms",
                     ss_json_number(v->comm_ms), "exposed_ms", ss_json_number(v->exposed_ms),
                     "last_rank", v->last < 0 ? json_null() : json_integer(v->last),
                     "waited_for_last_ms", ss_json_number(v->for_last_ms), "try",
                     ss_json_text(v->advice));
}

static json_t *of_run(const struct ss_run_times *run, const struct ss_trace_report_options *o)
{
    const struct ss_rank_times *r = run->rank[0];
    const struct ss_trace_verdict v = ss_trace_judge(run);
    json_t *ranks = json_array();
    json_t *out = json_pack("{s:o,s:s,s:o,s:b,s:i,s:o}", "model", ss_json_text(r->model), "device",
                            r->cuda ? "cuda" : "cpu", "backend", ss_json_text(r->backend),
                            "overlap_wanted", r->overlap, "ranks_of_run", run->ranks,
                            "clock_error_ms", in_ms((double)run->clock_error));
    if (v.steps)
        ss_json_set(&out, "verdict", of_verdict(&v));
    ss_json_set(&out, "buckets", of_buckets(run->bucket, run->nbuckets, 1));
    ss_json_set(&out, "stragglers", of_stragglers(run));
    for (int i = 0; i < run->count; i++)
        if (o->rank < 0 || o->rank == run->rank[i]->rank)
            ss_json_append(&ranks, of_rank(run, i, o->path));
    ss_json_set(&out, "ranks", ranks);
    return out;
}

enum ss_status ss_trace_report_json(const struct ss_run_times *run,
                                    const struct ss_trace_report_options *o, const char *file)
{
    FILE *f = fopen(file, "w");
    if (!f)
        return ss_fail(SS_ERR_IO, "--json %s: cannot write: %s", file, strerror(errno));
    enum ss_status status = ss_json_write(of_run(run, o), f);
    int bad = ferror(f);
    bad |= fclose(f) != 0;
    if (status == SS_OK && bad)
        return ss_fail(SS_ERR_IO, "--json %s: write failed (disk full?)", file);
    return status;
}
