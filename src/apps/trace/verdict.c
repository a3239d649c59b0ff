#include "apps/trace/verdict.h"
#include "apps/trace/rank_sums.h"

#include <stdio.h>

/* Idle shares below this count as insignificant: the step is compute-bound. */
static const double matters = 0.1;

static struct ss_rank_sums sum_of_ranks(const struct ss_run_times *run)
{
    struct ss_rank_sums all = {0};
    for (int i = 0; i < run->count; i++) {
        const struct ss_rank_sums s = ss_rank_sum(run->rank[i]);
        all.steps += s.steps;
        all.window += s.window;
        all.compute += s.compute;
        all.comm += s.comm;
        all.exposed += s.exposed;
        for (int k = 0; k < SS_IDLE_KINDS; k++)
            all.idle[k] += s.idle[k];
        if (s.headroom > 0 && (all.headroom <= 0 || s.headroom < all.headroom))
            all.headroom = s.headroom;
    }
    return all;
}

static enum ss_idle longest_idle(const struct ss_rank_sums *s)
{
    int longest = 0;
    for (int k = 1; k < SS_IDLE_KINDS; k++)
        if (s->idle[k] > s->idle[longest])
            longest = k;
    return (enum ss_idle)longest;
}

static const char *const meanwhile[] = {
    [SS_IDLE_INPUT] = "waiting for input",
    [SS_IDLE_COMM] = "waiting for communication",
    [SS_IDLE_DEPENDENCY] = "waiting for other tasks",
    [SS_IDLE_RUNTIME] = "waiting for a worker to start the next task",
    [SS_IDLE_NOTHING] = "no task to run",
};

static void find_last(const struct ss_run_times *run, struct ss_trace_verdict *v)
{
    int64_t most = 0;
    for (int i = 0; i < run->count; i++)
        if (run->straggler[i].caused_ns > most) {
            most = run->straggler[i].caused_ns;
            v->last = run->rank[i]->rank;
        }
    if (run->count > 1 && run->step.count)
        v->for_last_ms = 1e-6 * (double)most / (double)run->step.count / (run->count - 1);
}

static const struct ss_rank_times *rank_of(const struct ss_run_times *run, int rank)
{
    int i = 0;
    while (run->rank[i]->rank != rank)
        i++;
    return run->rank[i];
}

static double compute_ms(const struct ss_rank_times *r)
{
    const struct ss_rank_sums s = ss_rank_sum(r);
    return s.steps ? 1e-6 * (double)s.compute / (double)s.steps : 0;
}

static void advise_on_sums(const struct ss_run_times *run, struct ss_trace_verdict *v)
{
    if (ss_trace_is_late(v)) {
        const struct ss_rank_times *r = rank_of(run, v->last);
        double others = 0;
        for (int i = 0; i < run->count; i++)
            others += run->rank[i] == r ? 0 : compute_ms(run->rank[i]) / (run->count - 1);
        snprintf(v->advice, sizeof v->advice,
                 "find out why rank %d on %.64s is slow: it computes for %.3f ms per step, the "
                 "others for %.3f",
                 v->last, r->host, compute_ms(r), others);
        return;
    }
    snprintf(v->advice, sizeof v->advice, "%s",
             run->rank[0]->overlap
                 ? "--bucket-mb auto, then --grad-dtype bf16, which halves the traffic; starstep "
                   "doctor measures the links"
                 : "run without --no-overlap");
}

static void advise(const struct ss_run_times *run, double headroom, struct ss_trace_verdict *v,
                   int bound)
{
    const int cuda = run->rank[0]->cuda;
    const char *text = "";
    switch (bound) {
    case SS_IDLE_COMM:
        advise_on_sums(run, v);
        return;
    case SS_IDLE_INPUT:
        snprintf(v->advice, sizeof v->advice,
                 "more cores for loading (--workers; a rank could load at %.2f times the rate of "
                 "training), --cache DIR for images, data on the node's own disk",
                 headroom);
        return;
    case SS_IDLE_RUNTIME:
        text = cuda ? "--gpu-graphs on: tasks wait to be enqueued"
                    : "one compute thread fewer (--threads): its cores run other work";
        break;
    case SS_IDLE_NOTHING:
        text = "more --slots: steps are submitted too late";
        break;
    case SS_IDLE_DEPENDENCY:
        text = "starstep trace export, then inspect the tasks that precede the gaps";
        break;
    default:
        text = cuda ? "--precision bf16 instead of fp32, a larger batch per rank; starstep plan "
                      "--roofline predicts the limit of the GPU"
                    : "more cores or ranks: the run is compute-bound";
    }
    snprintf(v->advice, sizeof v->advice, "%s", text);
}

struct ss_trace_verdict ss_trace_judge(const struct ss_run_times *run)
{
    struct ss_trace_verdict v = {.last = -1};
    const struct ss_rank_sums s = sum_of_ranks(run);
    if (!s.steps || s.window <= 0)
        return v;
    const enum ss_idle longest = longest_idle(&s);
    const double n = 1e6 * (double)s.steps, window = (double)s.window;
    v.steps = (int)s.steps;
    v.step_ms = window / n;
    v.computing = (double)s.compute / window;
    v.waiting = (double)s.idle[longest] / window;
    v.comm_ms = (double)s.comm / n;
    v.exposed_ms = (double)s.exposed / n;
    const int bound = v.waiting < matters ? SS_IDLE_KINDS : (int)longest;
    v.bound = bound == SS_IDLE_KINDS ? "compute" : ss_idle_name(longest);
    v.meanwhile = meanwhile[longest];
    find_last(run, &v);
    advise(run, s.headroom, &v, bound);
    return v;
}
