/* session_buckets.c: choose bucket sizes by measurement (interface in session.h).
 *
 * Run a few steps with --no-overlap and small buckets to measure each block's passes without
 * interference, weight gradients separately, and all-reduces of several sizes once all ranks have
 * arrived; graph/bucket_choose.h computes the best buckets from these times. Times are recorded
 * as for traces, so they have the same meaning on CPUs and GPUs. Afterwards the session is
 * rebuilt: training begins from the state and the step number that it would have without the
 * measurement. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/log.h"
#include "core/stdio_guard.h"
#include "runtime/gpu_times.h"
#include "train/journal.h"
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 2, MEASURED = 6 }; /* steps */
#define MIB 1048576.0

/* Measurements of one rank, as sent to rank 0. */
struct measures {
    int nblocks, nbuckets;
    size_t count; /* of values */
    double *value;
};
static double *forward_of(const struct measures *m)
{
    return m->value;
}
static double *backward_of(const struct measures *m)
{
    return m->value + m->nblocks;
}
/* The deferrable part of backward: weight gradients. */
static double *weights_of(const struct measures *m)
{
    return m->value + 2 * m->nblocks;
}
/* Seconds of each bucket's update, and of its all-reduce in each step. */
static double *updates_of(const struct measures *m)
{
    return m->value + 3 * m->nblocks;
}
static double *sums_of(const struct measures *m, int step)
{
    return updates_of(m) + (step + 1) * m->nbuckets;
}
/* Number of values of passes and updates, which precede those of all-reduces. */
static int passes_of(const struct measures *m)
{
    return 3 * m->nblocks + m->nbuckets;
}

struct ss_session_times {
    struct ss_hooks hooks;
    const struct ss_plan *plan;
    struct measures measures;
    double *per_step; /* of passes and updates, as in measures: MEASURED values each */
};

/* ---- measurement on each rank ---------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *value, int n)
{
    qsort(value, (size_t)n, sizeof *value, by_value);
    return n % 2 ? value[n / 2] : 0.5 * (value[n / 2 - 1] + value[n / 2]);
}

/* Run steps on the first images, which do not change the weights. */
static enum ss_status run_steps(struct ss_session *s)
{
    for (int i = 0; i < s->batch; i++)
        s->sample[i] = (uint32_t)((size_t)i % s->train->count);
    for (uint64_t step = 1; step <= WARM + MEASURED; step++) {
        struct ss_exec_step next = {.step = step,
                                    .dataset = s->train,
                                    .augment = !s->options->no_augment,
                                    .sample = s->sample};
        SS_TRY(ss_exec_submit_train(s->exec, &next));
        SS_TRY(ss_exec_wait(s->exec));
    }
    return SS_OK;
}

/* Store the time of a task in one of the measured steps. */
static void take_time(struct ss_session_times *x, const struct ss_plan_task *t, uint64_t step,
                      uint64_t ns)
{
    const struct measures *m = &x->measures;
    int at = (int)(step - WARM - 1);
    double seconds = 1e-9 * (double)ns;
    if (t->kind == SS_TASK_ALLREDUCE && t->bucket >= 0 && t->bucket < m->nbuckets)
        sums_of(m, at)[t->bucket] = seconds;
    int i = t->kind == SS_TASK_FORWARD    ? t->block
            : t->kind == SS_TASK_BACKWARD ? m->nblocks + t->block
            : t->kind == SS_TASK_UPDATE   ? 3 * m->nblocks + t->bucket
                                          : -1;
    if (i >= 0)
        x->per_step[i * MEASURED + at] += seconds; /* sum over the parts */
    if (t->part == SS_PART_WEIGHTS)
        x->per_step[(2 * m->nblocks + t->block) * MEASURED + at] = seconds;
}

static void task_ends(void *arg, const struct ss_step_args *args)
{
    take_time(arg, args->task->plan, args->step, args->times.end - args->times.begin);
}

static void ran(void *arg, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                uint64_t end_ns)
{
    struct ss_session_times *x = arg;
    (void)lane;
    take_time(x, &x->plan->train.task[index], step, end_ns - begin_ns);
}

static enum ss_status alloc_times(struct ss_session *s)
{
    struct ss_session_times *x = calloc(1, sizeof *x);
    if (!x)
        return ss_fail_memory("times of blocks", sizeof *x);
    s->times = x;
    x->plan = s->plan;
    struct measures *m = &x->measures;
    *m = (struct measures){.nblocks = s->plan->nblocks, .nbuckets = s->plan->nbuckets};
    size_t places = (size_t)passes_of(m);
    m->count = places + MEASURED * (size_t)m->nbuckets;
    m->value = calloc(m->count, sizeof *m->value);
    x->per_step = calloc(places * MEASURED, sizeof *x->per_step);
    if (!m->value || !x->per_step)
        return ss_fail_memory("times of blocks", places * MEASURED * sizeof *m->value);
    return SS_OK;
}

void ss_session_free_times(struct ss_session *s)
{
    if (!s->times)
        return;
    free(s->times->measures.value);
    free(s->times->per_step);
    free(s->times);
    s->times = NULL;
}

/* Start recording times; a GPU's times are from its own clock. */
static enum ss_status begin_times(struct ss_session *s)
{
    struct ss_session_times *x = s->times;
    x->hooks = (struct ss_hooks){.arg = x,
                                 .first = WARM + 1,
                                 .last = WARM + MEASURED,
                                 .ended = SS_HOOKS_ALL,
                                 .task_ends = task_ends};
    struct ss_gpu_times_listener listener = {ran, x};
    if (s->device.gpu)
        return ss_session_time_gpu(s, x->hooks.first, x->hooks.last, listener);
    ss_exec_hook(s->exec, &x->hooks);
    return SS_OK;
}

/* Medians over the steps. */
static void end_times(struct ss_session_times *x)
{
    struct measures *m = &x->measures;
    for (int i = 0; i < passes_of(m); i++)
        m->value[i] = median(x->per_step + i * MEASURED, MEASURED);
}

/* A failure in the steps concerns this rank alone and ends the run; other failures are agreed on
 * by all ranks. */
static enum ss_status measure(struct ss_session *s)
{
    enum ss_status status = alloc_times(s);
    if (status == SS_OK)
        status = begin_times(s);
    SS_TRY(ss_session_agree(s, status, "measuring for --bucket-mb auto"));
    /* After a failure tasks may still run and be timed; ss_session_close() waits for them. */
    SS_TRY(run_steps(s));
    ss_exec_unhook(s->exec, &s->times->hooks);
    status = ss_session_close_trace(s);
    end_times(s->times);
    return ss_session_agree(s, status, "measuring for --bucket-mb auto");
}

/* ---- choice on rank 0 ------------------------------------------------------------------------ */

/* Combine the ranks' times: the maximum for passes; for an all-reduce the minimum, which is that
 * of the last rank to arrive and contains no waiting. */
static void combine(const struct measures *all, int ranks, struct measures *m)
{
    for (int r = 0; r < ranks; r++) {
        const double *v = all->value + (size_t)r * m->count;
        for (int i = 0; i < passes_of(m); i++)
            if (v[i] > m->value[i])
                m->value[i] = v[i];
        for (size_t i = (size_t)passes_of(m); i < m->count; i++)
            if (v[i] < m->value[i])
                m->value[i] = v[i];
    }
}

/* Fit t = a + b x with least squares of the relative deviation, a and b >= 0. */
static void fit_line(const double *x, const double *t, int n, double *a, double *b)
{
    double s0 = 0, s1 = 0, s2 = 0, r0 = 0, r1 = 0;
    for (int i = 0; i < n; i++) {
        double w = t[i] > 0 ? 1 / t[i] : 0;
        s0 += w * w;
        s1 += w * w * x[i];
        s2 += w * w * x[i] * x[i];
        r0 += w;
        r1 += w * x[i];
    }
    double det = s0 * s2 - s1 * s1;
    *a = det > 1e-9 * s0 * s2 ? (r0 * s2 - r1 * s1) / det : 0;
    *b = det > 1e-9 * s0 * s2 ? (r1 * s0 - r0 * s1) / det : s2 > 0 ? r1 / s2 : 0;
    if (*a < 0) {
        *a = 0;
        *b = s2 > 0 ? r1 / s2 : 0;
    }
    if (*b < 0) {
        *b = 0;
        *a = s0 > 0 ? r0 / s0 : 0;
    }
}

static enum ss_status choose(struct ss_session *s, const struct measures *m)
{
    const struct ss_plan *p = s->plan;
    const int deferred = (int)s->options->defer_weight_grads;
    struct ss_bucket_costs costs = {.nblocks = m->nblocks,
                                    .forward_s = forward_of(m),
                                    .backward_s = backward_of(m),
                                    .weights_s = weights_of(m),
                                    .deferred = deferred ? &deferred : NULL,
                                    .updates_last = p->options.loss_scaling || p->options.clipping,
                                    .updates_beside = s->device.sums,
                                    .no_overlap = s->options->no_overlap};
    size_t *bytes = calloc((size_t)m->nblocks, sizeof *bytes);
    double *x = calloc(2 * (size_t)m->nbuckets, sizeof *x), *t = x + m->nbuckets;
    if (!bytes || !x) {
        free(bytes);
        free(x);
        return ss_fail_memory("a choice of buckets", (size_t)m->nblocks * sizeof *bytes);
    }
    size_t total = 0;
    double updates = 0, compute = 0;
    for (int i = 0; i < m->nblocks; i++) {
        total += bytes[i] = ss_plan_block_bytes(p, i);
        compute += costs.forward_s[i] + costs.backward_s[i];
    }
    for (int k = 0; k < m->nbuckets; k++) {
        double each[MEASURED];
        for (int i = 0; i < MEASURED; i++)
            each[i] = sums_of(m, i)[k];
        x[k] = (double)p->bucket[k].bytes;
        t[k] = median(each, MEASURED);
        updates += updates_of(m)[k];
    }
    costs.bytes = bytes;
    costs.update_s_per_byte = updates / (double)total;
    fit_line(x, t, m->nbuckets, &costs.sum_s, &costs.sum_s_per_byte);
    printf("Buckets: a step computes for %.2f ms; an all-reduce takes %.3f ms + %.3f ms per MiB\n",
           1e3 * (compute + updates), 1e3 * costs.sum_s, 1e3 * MIB * costs.sum_s_per_byte);
    struct ss_bucket_caps plain = ss_bucket_default_caps(total, 0, 0, 0), one = {1e6, 1e6, 0};
    struct ss_bucket_choice by_default = {0}, whole = {0};
    enum ss_status status = ss_bucket_choose(&costs, &s->buckets);
    if (status == SS_OK)
        status = ss_bucket_rate(&costs, &plain, &by_default);
    if (status == SS_OK)
        status = ss_bucket_rate(&costs, &one, &whole);
    if (status == SS_OK)
        printf("Buckets: %d, for a step of %.2f ms, %.2f ms of it exposed; the default would take "
               "%.2f ms, one bucket %.2f ms\n",
               s->buckets.buckets, 1e3 * s->buckets.step_s, 1e3 * s->buckets.exposed_s,
               1e3 * by_default.step_s, 1e3 * whole.step_s);
    free(bytes);
    free(x);
    return status;
}

/* Gather all ranks' times, choose on rank 0, and broadcast the choice. */
static enum ss_status choose_for_all(struct ss_session *s, const struct measures *m)
{
    int ranks = ss_comm_size(s->comm), first = ss_comm_rank(s->comm) == 0;
    struct measures all = {.value = NULL};
    size_t bytes = m->count * sizeof *m->value;
    enum ss_status status = SS_OK;
    if (first && !(all.value = malloc((size_t)ranks * bytes)))
        status = ss_fail_memory("times of all ranks", (size_t)ranks * bytes);
    status = ss_session_agree(s, status, "measuring for --bucket-mb auto");
    if (status == SS_OK)
        status = ss_comm_gather(s->comm, m->value, bytes, all.value, "times of blocks");
    if (status == SS_OK && first) {
        struct measures joint = *m;
        combine(&all, ranks, &joint);
        status = choose(s, &joint);
    }
    free(all.value);
    SS_TRY(ss_session_agree(s, status, "choice of buckets"));
    return ss_comm_bcast(s->comm, &s->buckets, sizeof s->buckets, 0, "choice of buckets");
}

/* Set the options that reproduce this choice. */
static void set_options(struct ss_session *s)
{
    struct ss_train_options *o = s->options;
    const struct ss_bucket_choice *c = &s->buckets;
    snprintf(s->bucket_mb, sizeof s->bucket_mb, "%.6g", c->caps.mb);
    o->bucket_mb = s->bucket_mb;
    o->first_bucket_mb = c->caps.first_mb;
    o->last_bucket_mb = c->caps.last_mb;
    o->bucket_order = *c->order ? c->order : NULL;
    o->defer_weight_grads = c->deferred;
    if (ss_comm_rank(s->comm) != 0)
        return;
    printf("Buckets: to repeat this choice: --bucket-mb %s --first-bucket-mb %.6g --last-bucket-mb "
           "%.6g --defer-weight-grads %ld%s%s\n",
           s->bucket_mb, o->first_bucket_mb, o->last_bucket_mb, o->defer_weight_grads,
           o->bucket_order ? " --bucket-order " : "", o->bucket_order ? o->bucket_order : "");
    ss_stdio_flush();
}

static void no_report(void *arg, uint64_t step, double lr, const struct ss_step_facts *facts)
{
    (void)arg;
    (void)step;
    (void)lr;
    (void)facts;
}

/* Bucket caps of the trial: half of the gradients in one bucket and small buckets for the rest,
 * to measure all-reduces of many sizes. */
static enum ss_status set_trial(struct ss_session *s, struct ss_train_options *trial)
{
    struct ss_model_options images = ss_session_images(s);
    struct ss_graph *graph;
    struct ss_plan *plan;
    double mb = 0;
    trial->bucket_mb = NULL;
    SS_TRY(ss_train_make_plan(trial, &s->device, &images, s->batch, 0, &graph, &plan));
    for (int i = 0; i < plan->nblocks; i++)
        mb += (double)ss_plan_block_bytes(plan, i) / MIB;
    ss_plan_destroy(plan);
    ss_graph_destroy(graph);
    snprintf(s->bucket_mb, sizeof s->bucket_mb, "%.6g", mb / 24);
    trial->bucket_mb = s->bucket_mb;
    trial->first_bucket_mb = mb / 2;
    trial->defer_weight_grads = -1;
    trial->no_overlap = 1;
    trial->accumulate = 1; /* all-reduces belong to the last micro-batch */
    trial->init = NULL;
    return SS_OK;
}

enum ss_status ss_session_choose_buckets(struct ss_session *s, int training)
{
    struct ss_train_options trial = *s->options;
    struct ss_report report = {no_report, NULL};
    s->options->bucket_mb = NULL;
    if (!training)
        return SS_OK;
    if (ss_comm_size(s->comm) == 1) {
        printf("Buckets: a single rank has no all-reduce; nothing to choose\n");
        return SS_OK;
    }
    enum ss_status status = set_trial(s, &trial);
    if (status == SS_OK)
        status = ss_session_bind(s, &trial, 1, report);
    status = ss_session_agree(s, status, "start-up");
    if (status == SS_OK)
        status = ss_session_check_collectives(s);
    if (status == SS_OK)
        status = measure(s);
    if (status == SS_OK)
        status = choose_for_all(s, &s->times->measures);
    SS_TRY(status);
    ss_session_unbind(s);
    ss_session_free_times(s);
    set_options(s);
    return SS_OK;
}

void ss_session_log_buckets(const struct ss_session *s, struct ss_journal *journal)
{
    const struct ss_bucket_choice *c = &s->buckets;
    if (c->buckets)
        ss_journal_event(journal, "buckets", "bucket_mb", 's', s->bucket_mb, "first_bucket_mb", 'f',
                         c->caps.first_mb, "last_bucket_mb", 'f', c->caps.last_mb, "bucket_order",
                         's', c->order, "defer_weight_grads", 'i', (int64_t)c->deferred, "step_ms",
                         'f', 1e3 * c->step_s, "exposed_ms", 'f', 1e3 * c->exposed_s, NULL);
}
