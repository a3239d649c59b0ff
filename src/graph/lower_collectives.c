/* lower_collectives.c: tasks that follow a completed bucket (all-reduce, checks, update), and the
 * step's metrics. */
#include "graph/lower_internal.h"

#include <stdio.h>

/* Priority among updates and similar tasks: highest for the bucket that the next forward needs
 * first. */
static int place_of(const struct ss_plan *plan, int k)
{
    return plan->nbuckets - 1 - plan->bucket[k].need;
}

/* Returns the bucket at position `need` in the order of the next forward. */
static int needed(const struct ss_plan *plan, int need)
{
    int k = 0;
    while (plan->bucket[k].need != need)
        k++;
    return k;
}

static void lower_update(struct ss_lowerer *lo, int k)
{
    char name[SS_NAME_BYTES];
    const int states = lo->plan->options.states;
    snprintf(name, sizeof name, "update %d", k);
    struct ss_plan_task *t =
        ss_lower_add_task(lo, SS_TASK_UPDATE, name, SS_PRIORITY_UPDATE + place_of(lo->plan, k));
    if (!t)
        return;
    t->bucket = k;
    ss_lower_touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, k, SS_READ);
    ss_lower_touch(lo, t, SS_ROLE_PARAMS, SS_SPACE_PARAMS, k, SS_READ_WRITE);
    for (int s = 0; s < states; s++)
        ss_lower_touch(lo, t, (enum ss_role_kind)(SS_ROLE_STATE + s), SS_SPACE_STATE,
                       k * states + s, SS_READ_WRITE);
    if (lo->plan->options.loss_scaling)
        ss_lower_touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ);
    if (lo->plan->options.clipping)
        ss_lower_touch(lo, t, SS_ROLE_SQUARES, SS_SPACE_SQUARES, 0, SS_READ);
}

/* The norm is of the reduced gradients, so each rank computes the same one from the same values,
 * bucket by bucket in all-reduce order. With shards each rank computes that of its share. */
static void lower_squares(struct ss_lowerer *lo, int k)
{
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "squares %d", k);
    struct ss_plan_task *t =
        ss_lower_add_task(lo, SS_TASK_SQUARES, name, SS_PRIORITY_UPDATE + place_of(lo->plan, k));
    if (!t)
        return;
    t->bucket = k;
    ss_lower_touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, k, SS_READ);
    ss_lower_touch(lo, t, SS_ROLE_SQUARES, SS_SPACE_SQUARES, 0,
                   k == lo->plan->sum_order[0] ? SS_WRITE : SS_READ_WRITE);
}

/* Lowered for the last micro-batch; accumulate.c swaps the access modes for the others. */
void ss_lower_add(struct ss_lowerer *lo, int k)
{
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "add %d", k);
    struct ss_plan_task *t = ss_lower_add_task(lo, SS_TASK_ADD, name, SS_PRIORITY_ADD - k);
    if (!t)
        return;
    t->bucket = k;
    ss_lower_touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, k, SS_READ_WRITE);
    ss_lower_touch(lo, t, SS_ROLE_ACCUM, SS_SPACE_ACCUM, k, SS_READ);
}

void ss_lower_bucket(struct ss_lowerer *lo, int k)
{
    char name[SS_NAME_BYTES];
    const int shards = lo->plan->options.shards > 1;
    snprintf(name, sizeof name, shards ? "reduce-scatter %d" : "all-reduce %d", k);
    struct ss_plan_task *t = ss_lower_add_task(
        lo, shards ? SS_TASK_REDUCE_SCATTER : SS_TASK_ALLREDUCE, name, SS_PRIORITY_COMM - k);
    if (!t)
        return;
    t->bucket = k;
    ss_lower_touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, k, SS_READ_WRITE);
    ss_lower_touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ_WRITE);
    if (lo->plan->options.clipping)
        lower_squares(lo, k);
    if (!ss_lower_updates_last(lo->plan) && lo->status == SS_OK)
        lower_update(lo, k);
    if (!lo->plan->options.loss_scaling || ss_lower_checks_inf_inline(lo->plan) ||
        lo->status != SS_OK)
        return;
    snprintf(name, sizeof name, "check %d", k);
    t = ss_lower_add_task(lo, SS_TASK_CHECK, name, SS_PRIORITY_UPDATE + place_of(lo->plan, k));
    if (!t)
        return;
    t->bucket = k;
    ss_lower_touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, k, SS_READ);
    ss_lower_touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ_WRITE);
}

/* Lower a collective on data other than a bucket, in the order of all collectives. */
static void lower_small_sum(struct ss_lowerer *lo, enum ss_task_kind kind, const char *name,
                            int priority, enum ss_role_kind role, enum ss_space space)
{
    struct ss_plan_task *t = ss_lower_add_task(lo, kind, name, priority);
    if (!t)
        return;
    ss_lower_touch(lo, t, role, space, 0, SS_READ_WRITE);
    ss_lower_touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ_WRITE);
}

/* The gathers follow all reduce-scatters, in the order in which the next forward needs the
 * weights. Collectives run one after the other; a gather in between, which waits for its update
 * and that for backward, would delay those after it. A block waits for its own bucket only. */
void ss_lower_gathers(struct ss_lowerer *lo)
{
    const struct ss_plan *plan = lo->plan;
    for (int n = 0; n < plan->nbuckets && lo->status == SS_OK; n++) {
        const int k = needed(plan, n);
        char name[SS_NAME_BYTES];
        snprintf(name, sizeof name, "gather %d", k);
        struct ss_plan_task *t = ss_lower_add_task(
            lo, SS_TASK_GATHER, name, SS_PRIORITY_COMM - 2 * plan->nbuckets + place_of(plan, k));
        if (!t)
            return;
        t->bucket = k;
        ss_lower_touch(lo, t, SS_ROLE_PARAMS, SS_SPACE_PARAMS, k, SS_READ_WRITE);
        ss_lower_touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ_WRITE);
    }
}

/* With loss scaling or clipping, an update depends on the gradients of all buckets: they
 * determine the gradient norm and whether the step is skipped. All updates therefore come last,
 * those that the next forward needs first at the front. */
void ss_lower_last_updates(struct ss_lowerer *lo)
{
    const int priority = SS_PRIORITY_COMM - lo->plan->nbuckets;
    /* Each rank has checked only its share of the sums. */
    if (lo->plan->options.shards > 1 && lo->plan->options.loss_scaling)
        lower_small_sum(lo, SS_TASK_REDUCE_FOUND, "all-reduce found", priority, SS_ROLE_SCALER,
                        SS_SPACE_SCALER);
    /* On the CPU this is a small all-reduce in a separate channel (comm.h), ordered with those of
     * statistics: after all of the step's backward, before all of its updates. */
    if (lo->plan->options.shards > 1 && lo->plan->options.clipping && lo->status == SS_OK)
        lower_small_sum(lo, SS_TASK_REDUCE_SQUARES, "all-reduce squares", priority, SS_ROLE_SQUARES,
                        SS_SPACE_SQUARES);
    for (int n = 0; n < lo->plan->nbuckets && lo->status == SS_OK; n++)
        lower_update(lo, needed(lo->plan, n));
    if (!lo->plan->options.loss_scaling || lo->status != SS_OK)
        return;
    struct ss_plan_task *t =
        ss_lower_add_task(lo, SS_TASK_SCALE, "loss scale", SS_PRIORITY_UPDATE - 1);
    if (t)
        ss_lower_touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ_WRITE);
}

static void lower_reduce_metrics(struct ss_lowerer *lo, enum ss_role_kind role, enum ss_space space)
{
    lower_small_sum(lo, SS_TASK_REDUCE_METRICS, "all-reduce metrics", SS_PRIORITY_COMM, role,
                    space);
}

/* Lower the all-reduce and the report of the step's metrics. They are all-reduced where gradients
 * are: there is one order of collectives, and none waits for the host. */
void ss_lower_metrics(struct ss_lowerer *lo)
{
    enum ss_space space = SS_SPACE_METRICS;
    enum ss_role_kind role = SS_ROLE_METRICS;
    int on_device = lo->plan->options.device && lo->plan->options.device_sums;
    if (on_device)
        lower_reduce_metrics(lo, role, space);
    if (lo->plan->options.device && lo->status == SS_OK) {
        struct ss_plan_task *t =
            ss_lower_add_task(lo, SS_TASK_FETCH, "fetch metrics", SS_PRIORITY_COMM);
        if (!t)
            return;
        ss_lower_touch(lo, t, SS_ROLE_METRICS, SS_SPACE_METRICS, 0, SS_READ);
        ss_lower_touch(lo, t, SS_ROLE_FETCHED, SS_SPACE_FETCHED, 0, SS_WRITE);
        /* Reads no data there: makes the next upload wait until this point of the step. */
        ss_lower_touch(lo, t, SS_ROLE_STAGED, SS_SPACE_STAGED, 0, SS_READ);
        space = SS_SPACE_FETCHED;
        role = SS_ROLE_FETCHED;
    }
    if (!on_device && lo->status == SS_OK)
        lower_reduce_metrics(lo, role, space);
    struct ss_plan_task *t =
        lo->status == SS_OK ? ss_lower_add_task(lo, SS_TASK_REPORT, "report", SS_PRIORITY_REPORT)
                            : NULL;
    if (!t)
        return;
    ss_lower_touch(lo, t, role, space, 0, SS_READ);
    ss_lower_touch(lo, t, SS_ROLE_LOG, SS_SPACE_LOG, 0, SS_READ_WRITE);
}
