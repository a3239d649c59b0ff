/* report_json.c: the analysis of a trace as one JSON object. */
#include "core/json_text.h"
#include "core/log.h"
#include "trace/report.h"
#include "trace/verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Members of an object and items of a list have a comma in front, but for the first. */
static const char *comma(size_t before)
{
    return before ? "," : "";
}

static double ms(double ns)
{
    return ns / 1e6;
}

/* null where there is nothing to divide by. */
static double share(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

static void put_idle(FILE *f, const int64_t *idle, double n)
{
    ss_json_print(f, ",\n'idle_ms':{");
    for (int k = 0; k < SS_IDLE_KINDS; k++)
        ss_json_print(f, "%.1s%s:%.12g", comma((size_t)k), ss_idle_name((enum ss_idle)k),
                      ms((double)idle[k] / n));
    ss_json_print(f, "}");
}

static void put_path_kinds(FILE *f, const int64_t *kind, double n)
{
    size_t before = 0;
    ss_json_print(f, ",\n'critical_path_kinds_ms':{");
    for (int k = 0; k < SS_PATH_KINDS; k++)
        if (kind[k])
            ss_json_print(f, "%.1s%s:%.12g", comma(before++), ss_path_kind_name(k),
                          ms((double)kind[k] / n));
    ss_json_print(f, "}");
}

static void put_path(FILE *f, const struct ss_rank_times *r, const struct ss_step_times *s)
{
    ss_json_print(f, ",\n'critical_path':[");
    for (size_t k = s->path_count; k-- > 0;) {
        const struct ss_path_part *p = &r->path.part.at[s->path_from + k];
        ss_json_print(f,
                      "%.1s\n{'kind':%s,'step':%" PRId64 ",'task':", comma(k + 1 < s->path_count),
                      ss_path_kind_name(ss_rank_path_kind(r, p)), p->step);
        ss_json_print(f, p->task < 0 ? "null" : "%s", p->task < 0 ? "" : r->task_name[p->task]);
        ss_json_print(f, ",'at_ms':%.12g,'ms':%.12g}", ms((double)(p->begin - s->begin)),
                      ms((double)(p->end - p->begin)));
    }
    ss_json_print(f, "]");
}

/* The workers' shares of one step, in their order. */
static void put_busy(FILE *f, const struct ss_rank_times *r, size_t step)
{
    const struct ss_step_times *s = &r->step.at[step];
    double window = (double)(s->end - s->begin);
    ss_json_print(f, ",\n'workers_busy':[");
    for (size_t i = 0; i < r->worker.count; i++)
        ss_json_print(f, "%.1s%.12g", comma(i),
                      window > 0 ? (double)r->worker.at[i].step_busy[step] / window : 0.0);
    ss_json_print(f, "]");
}

static void put_steps(FILE *f, const struct ss_rank_times *r, int path)
{
    ss_json_print(f, ",\n'each_step':[");
    for (size_t i = 0; i < r->step.count; i++) {
        const struct ss_step_times *s = &r->step.at[i];
        ss_json_print(f, "%.1s\n{'step':%" PRId64 ",'begin_ms':%.12g,'window_ms':%.12g", comma(i),
                      s->step, ms((double)s->begin), ms((double)(s->end - s->begin)));
        ss_json_print(f, ",'compute_ms':%.12g,'communication_ms':%.12g", ms((double)s->compute),
                      ms((double)s->comm));
        ss_json_print(f, ",'overlap':%.12g,'exposed_ms':%.12g",
                      share((double)s->overlap, (double)s->comm), ms((double)s->exposed));
        put_idle(f, s->idle, 1);
        put_busy(f, r, i);
        put_path_kinds(f, s->path_kind, 1);
        if (path)
            put_path(f, r, s);
        ss_json_print(f, "}");
    }
    ss_json_print(f, "]");
}

static void put_spread(FILE *f, const char *key, const struct ss_spread *s)
{
    if (!s->count)
        ss_json_print(f, ",%s:null", key);
    else
        ss_json_print(f, ",%s:{'mean_ms':%.12g,'median_ms':%.12g,'max_ms':%.12g}", key, ms(s->mean),
                      ms(s->median), ms(s->max));
}

static void put_buckets(FILE *f, const struct ss_bucket_times *bucket, size_t n, int all)
{
    ss_json_print(f, ",\n'buckets':[");
    for (size_t i = 0; i < n; i++) {
        const struct ss_bucket_times *x = &bucket[i];
        if (x->bucket < 0)
            ss_json_print(f, "%.1s\n{'bucket':'metrics'", comma(i));
        else
            ss_json_print(f,
                          "%.1s\n{'bucket':%d,'bytes':%" PRId64 ",'wire_bytes':%" PRId64
                          ",'algorithm_gb_s':%.12g,'bus_gb_s':%.12g",
                          comma(i), x->of, x->bytes, x->wire_bytes, x->algorithm_bw, x->bus_bw);
        if (x->bucket >= 0 && x->kind != SS_TASK_ALLREDUCE)
            ss_json_print(f, ",'collective':%s", ss_task_kind_name(x->kind));
        put_spread(f, "ready_to_start", &x->delay);
        put_spread(f, "duration", &x->duration);
        ss_json_print(f, ",'waiting_for_last_rank':%.12g", x->waiting);
        if (all)
            put_spread(f, "skew", &x->skew);
        ss_json_print(f, "}");
    }
    ss_json_print(f, "]");
}

static void put_workers(FILE *f, const struct ss_rank_times *r)
{
    ss_json_print(f, ",\n'workers':[");
    for (size_t i = 0; i < r->worker.count; i++)
        ss_json_print(f, "%.1s\n{'name':%s,'busy':%.12g,'loading':%.12g}", comma(i),
                      r->worker.at[i].name, share((double)r->worker.at[i].busy, (double)r->window),
                      share((double)r->worker.at[i].load, (double)r->window));
    ss_json_print(f, "]");
}

/* Tasks of a GPU's compute lane. */
static void put_tasks(FILE *f, const struct ss_rank_times *r)
{
    size_t before = 0;
    ss_json_print(f, ",\n'predicted_for':");
    ss_json_print(f, r->machine[0] ? "%s" : "null", r->machine);
    ss_json_print(f, ",'gpu_tasks':[");
    for (size_t i = 0; i < r->tasks; i++) {
        const struct ss_gpu_compared x = ss_rank_compare(r, i);
        if (x.measured > 0 || x.predicted > 0)
            ss_json_print(f, "%.1s\n{'task':%s,'kind':%s,'measured_ms':%.12g,'predicted_ms':%.12g}",
                          comma(before++), r->task_name[i], ss_task_kind_name(r->task_kind[i]),
                          x.measured > 0 ? ms(x.measured) : (double)NAN,
                          x.predicted > 0 ? ms(x.predicted) : (double)NAN);
    }
    ss_json_print(f, "]");
}

static void put_memory(FILE *f, const struct ss_rank_times *r)
{
    ss_json_print(f, ",\n'memory':[");
    for (size_t i = 0; i < r->memory.count; i++)
        ss_json_print(
            f, "%.1s\n{'at_ms':%.12g,'host_bytes':%" PRId64 ",'device_bytes':%" PRId64 "}",
            comma(i), ms((double)r->memory.at[i].at), r->memory.at[i].host, r->memory.at[i].device);
    ss_json_print(f, "]");
}

static void put_loader(FILE *f, const struct ss_rank_times *r, const struct ss_rank_sums *s)
{
    const int known = s->headroom > 0;
    ss_json_print(f,
                  ",\n'loader':{'workers':%d,'headroom':%.12g,'images_s':%.12g,"
                  "'training_images_s':%.12g}",
                  r->loaders, known ? s->headroom : (double)NAN,
                  known && r->batch ? s->load_rate : (double)NAN,
                  r->batch ? s->train_rate : (double)NAN);
}

static void put_facts(FILE *f, const struct ss_rank_times *r)
{
    ss_json_print(f, "{'rank':%d,'host':%s,'ended':%.5s,'lost_marks':%" PRId64, r->rank, r->host,
                  r->ended ? "true" : "false", r->lost);
    ss_json_print(f, ",'steps_left_out':%zu,'clock_error_ms':%.12g", (size_t)r->steps_broken,
                  r->has_clock ? ms((double)r->clock_error) : (double)NAN);
}

static void put_rank(FILE *f, const struct ss_run_times *run, int i, int path)
{
    const struct ss_rank_times *r = run->rank[i];
    struct ss_rank_sums s = ss_rank_sum(r);
    double n = s.steps ? (double)s.steps : 1, all = (double)run->step.count;
    put_facts(f, r);
    ss_json_print(f, ",'steps':%zu,'window_ms':%.12g,'compute_ms':%.12g", (size_t)s.steps,
                  ms((double)s.window / n), ms((double)s.compute / n));
    ss_json_print(f, ",'communication_ms':%.12g,'overlap':%.12g,'exposed_ms':%.12g",
                  ms((double)s.comm / n), share((double)s.overlap, (double)s.comm),
                  ms((double)s.exposed / n));
    put_idle(f, s.idle, n);
    put_path_kinds(f, s.path_kind, n);
    put_loader(f, r, &s);
    ss_json_print(f, ",\n'waited_for_others_ms':%.12g,'others_waited_ms':%.12g,'steps_last':%zu",
                  share(ms((double)run->straggler[i].waited_ns), all),
                  share(ms((double)run->straggler[i].caused_ns), all),
                  (size_t)run->straggler[i].steps);
    put_buckets(f, run->of_rank + (size_t)i * run->nbuckets, run->nbuckets, 0);
    put_workers(f, r);
    put_tasks(f, r);
    put_memory(f, r);
    put_steps(f, r, path);
    ss_json_print(f, "}");
}

static void put_stragglers(FILE *f, const struct ss_run_times *run)
{
    ss_json_print(f, ",\n'stragglers':[");
    for (size_t i = 0; i < run->step.count; i++) {
        const struct ss_straggler *s = &run->step.at[i];
        ss_json_print(f, "%.1s\n{'step':%" PRId64, comma(i), s->step);
        ss_json_print(f, s->rank < 0 ? ",'rank':null" : ",'rank':%d", s->rank);
        ss_json_print(f, ",'others_waited_ms':%.12g}", ms((double)s->caused_ns));
    }
    ss_json_print(f, "]");
}

static void put_verdict(FILE *f, const struct ss_run_times *run)
{
    const struct ss_trace_verdict v = ss_trace_judge(run);
    if (!v.steps)
        return;
    ss_json_print(f,
                  ",\n'verdict':{'bound':%s,'step_ms':%.12g,'computing':%.12g,'waiting':%.12g,"
                  "'communication_ms':%.12g,'exposed_ms':%.12g",
                  v.bound, v.step_ms, v.computing, v.waiting, v.comm_ms, v.exposed_ms);
    ss_json_print(f, v.last < 0 ? ",'last_rank':null" : ",'last_rank':%d", v.last);
    ss_json_print(f, ",'waited_for_last_ms':%.12g,'try':%s}", v.for_last_ms, v.advice);
}

static void put_run(FILE *f, const struct ss_run_times *run, const struct ss_report_options *o)
{
    const struct ss_rank_times *r = run->rank[0];
    size_t before = 0;
    ss_json_print(f, "{'model':%s,'device':%s,'backend':%s,'overlap_wanted':%.5s", r->model,
                  r->cuda ? "cuda" : "cpu", r->backend, r->overlap ? "true" : "false");
    ss_json_print(f, ",'ranks_of_run':%d,'clock_error_ms':%.12g", run->ranks,
                  ms((double)run->clock_error));
    put_verdict(f, run);
    put_buckets(f, run->bucket, run->nbuckets, 1);
    put_stragglers(f, run);
    ss_json_print(f, ",\n'ranks':[");
    for (int i = 0; i < run->count; i++)
        if (o->rank < 0 || o->rank == run->rank[i]->rank) {
            ss_json_print(f, "%.1s\n", comma(before++));
            put_rank(f, run, i, o->path);
        }
    ss_json_print(f, "]}\n");
}

enum ss_status ss_report_json(const struct ss_run_times *run, const struct ss_report_options *o,
                              const char *file)
{
    FILE *f = fopen(file, "w");
    if (!f)
        return ss_fail(SS_ERR_IO, "--json %s: cannot write: %s", file, strerror(errno));
    put_run(f, run, o);
    int bad = ferror(f);
    bad |= fclose(f) != 0;
    if (bad)
        return ss_fail(SS_ERR_IO, "--json %s: cannot write: disk full, perhaps", file);
    return SS_OK;
}
