/* Lowers blocks to tasks: the training step and the evaluation step. */
#include "core/log.h"
#include "graph/lower_internal.h"

#include <stdlib.h>
#include <string.h>

static void lower_loads(struct ss_lowerer *lo)
{
    for (int s = 0; s < lo->plan->options.slices && lo->status == SS_OK; s++) {
        char name[32];
        snprintf(name, sizeof name, "load.%d", s);
        struct ss_plan_task *t = ss_lower_add_task(lo, SS_TASK_LOAD, name, SS_PRIORITY_LOAD);
        if (!t)
            return;
        t->slice = s;
        ss_lower_touch(lo, t, SS_ROLE_X, SS_SPACE_IMAGES, s, SS_WRITE);
        ss_lower_touch(lo, t, SS_ROLE_LABELS, SS_SPACE_LABELS, s, SS_WRITE);
    }
}

/* Returns whether a block reads the input: as padded samples, or else without padding. */
static int reads_input(const struct ss_lowerer *lo, const struct ss_block *b, int padded)
{
    const ss_value *others;
    const int n = ss_lower_other_inputs(lo->plan, b, &others);
    int reads = b->x == lo->input;
    for (int k = 0; k < n; k++)
        reads |= others[k] == lo->input;
    const int as_padded = ss_lower_reads_samples(lo->plan, b);
    if (padded)
        return reads && as_padded;
    return (reads && !as_padded) || b->residual == lo->input;
}

/* Lower the conversion of bytes to activations: padded for blocks that can read padded samples,
 * which suit convolutions best, and without padding for the others. Work launched on a device may
 * be replayed with the same arguments, so the conversion also writes the dropout keys, which
 * change per step, to where later tasks read them. */
static void lower_convert(struct ss_lowerer *lo, int training)
{
    const struct ss_plan *plan = lo->plan;
    const int c = ss_graph_value(plan->graph, lo->input)->c, block = ss_plan_input_block(plan, c);
    int padded = block == c, plain = 0, *x = &lo->value_tensor[lo->input];
    for (int i = 0; i < plan->nblocks; i++) {
        padded |= reads_input(lo, &plan->block[i], 1);
        plain |= block != c && reads_input(lo, &plan->block[i], 0);
    }
    if (padded)
        *x = ss_lower_add_blocked(lo, "convert", "y", lo->input, block);
    if (plain)
        lo->dense = ss_lower_add_blocked(lo, "convert", "plain", lo->input, c);
    struct ss_plan_task *t =
        ss_lower_add_task(lo, SS_TASK_CONVERT, "convert", SS_PRIORITY_FORWARD + 1);
    if (!t || lo->status != SS_OK)
        return;
    ss_lower_touch(lo, t, SS_ROLE_STAGED, SS_SPACE_STAGED, 0, SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_Y, *x, SS_WRITE);
    ss_lower_touch_tensor(lo, t, SS_ROLE_Z, lo->dense, SS_WRITE);
    if (training && ss_plan_count_drops(plan, plan->nblocks))
        ss_lower_touch(lo, t, SS_ROLE_KEYS, SS_SPACE_KEYS, 0, SS_WRITE);
    *x = padded ? *x : lo->dense;
}

/* Lower the upload to the device and the conversion to activations. The upload is a separate task
 * so that it can run steps ahead; the conversion writes a buffer of the step. */
static void lower_input(struct ss_lowerer *lo, int training)
{
    lower_loads(lo);
    if (!lo->plan->options.device || lo->status != SS_OK)
        return;
    struct ss_plan_task *t = ss_lower_add_task(lo, SS_TASK_UPLOAD, "upload", SS_PRIORITY_UPLOAD);
    if (!t)
        return;
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        ss_lower_touch(lo, t, SS_ROLE_X, SS_SPACE_IMAGES, s, SS_READ);
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        ss_lower_touch(lo, t, SS_ROLE_LABELS, SS_SPACE_LABELS, s, SS_READ);
    ss_lower_touch(lo, t, SS_ROLE_STAGED, SS_SPACE_STAGED, 0, SS_WRITE);
    if (lo->status == SS_OK)
        lower_convert(lo, training);
}

/* Returns whether block i completes the gradients of its bucket. */
static int bucket_ends_at(const struct ss_plan *plan, int i)
{
    int at = plan->nblocks - 1;
    while (plan->block[plan->finished[at]].bucket != plan->block[i].bucket)
        at--;
    return plan->block[i].bucket >= 0 && plan->block[i].bucket < plan->nbuckets &&
           plan->finished[at] == i;
}

/* Lower the tasks that follow a completed bucket, if block i's gradients complete one. */
static void finish_block(struct ss_lowerer *lo, int i)
{
    struct ss_plan *plan = lo->plan;
    const int k = plan->block[i].bucket;
    if (lo->status != SS_OK || !bucket_ends_at(plan, i))
        return;
    ss_lower_deferred_weights(lo);
    if (plan->options.accumulate > 1)
        ss_lower_add(lo, k);
    plan->bucket[k].ready_task = lo->list->count - 1;
    while (!plan->options.no_overlap && lo->summed < plan->nbuckets &&
           plan->sum_order[lo->summed] <= k && lo->status == SS_OK)
        ss_lower_bucket(lo, plan->sum_order[lo->summed++]);
}

static void lower_backward(struct ss_lowerer *lo)
{
    const struct ss_plan *plan = lo->plan;
    for (int i = plan->nblocks - 2; i >= 0 && lo->status == SS_OK; i--) {
        ss_lower_backward(lo, i);
        if (!ss_plan_puts_off(plan, i))
            finish_block(lo, i);
    }
    ss_lower_deferred_weights(lo);
    for (int i = 0; i < plan->nblocks && lo->status == SS_OK; i++)
        if (ss_plan_puts_off(plan, i)) {
            ss_lower_weights(lo, i);
            finish_block(lo, i);
        }
}

static void lower_training(struct ss_lowerer *lo)
{
    struct ss_plan *plan = lo->plan;
    lo->list = &plan->train;
    lower_input(lo, 1);
    for (int i = 0; i < plan->nblocks && lo->status == SS_OK; i++)
        ss_lower_forward(lo, i, 1);
    if (!plan->options.no_overlap && lo->status == SS_OK)
        ss_lower_metrics(lo);
    if (lo->status != SS_OK)
        return;

    ss_value logits = plan->block[plan->nblocks - 1].x;
    if (plan->nbuckets)
        ss_lower_contribute(lo, logits, lo->value_tensor[logits], plan->nblocks - 1);
    lower_backward(lo);
    while (plan->options.no_overlap && lo->summed < plan->nbuckets && lo->status == SS_OK)
        ss_lower_bucket(lo, plan->sum_order[lo->summed++]);
    if (plan->options.no_overlap && lo->status == SS_OK)
        ss_lower_metrics(lo);
    if (ss_lower_updates_last(plan) && lo->status == SS_OK)
        ss_lower_last_updates(lo);
    if (plan->options.shards > 1 && lo->status == SS_OK)
        ss_lower_gathers(lo);
}

static void lower_evaluation(struct ss_lowerer *lo)
{
    struct ss_plan *plan = lo->plan;
    lo->list = &plan->eval;
    lo->dense = -1;
    for (int v = 0; v < ss_graph_values(plan->graph); v++)
        lo->value_tensor[v] = -1;
    lower_input(lo, 0);
    for (int i = 0; i < plan->nblocks && lo->status == SS_OK; i++)
        ss_lower_forward(lo, i, 0);
}

static enum ss_status check_options(const struct ss_plan_options *o)
{
    if (o->batch < 1)
        return ss_fail(SS_ERR_INVALID, "batch size per rank is %d; it must be at least 1",
                       o->batch);
    if (o->accumulate < 0)
        return ss_fail(SS_ERR_INVALID, "a step cannot have %d micro-batches", o->accumulate);
    if (o->defer_weight_grads < -1)
        return ss_fail(SS_ERR_INVALID, "cannot defer the weight gradients of %d blocks",
                       o->defer_weight_grads);
    if (!(o->bucket_mb >= 0) || !(o->first_bucket_mb >= 0) || !(o->last_bucket_mb >= 0))
        return ss_fail(SS_ERR_INVALID,
                       "bucket sizes cannot be below 0 MB (--bucket-mb %g, --first-bucket-mb %g, "
                       "--last-bucket-mb %g)",
                       o->bucket_mb, o->first_bucket_mb, o->last_bucket_mb);
    if (o->slices < 1 || o->slices > SS_PLAN_MAX_SLICES || o->slices > o->batch)
        return ss_fail(SS_ERR_INVALID, "a batch of %d cannot be loaded in %d slices", o->batch,
                       o->slices);
    if (o->sync_stats < 0)
        return ss_fail(SS_ERR_INVALID, "cannot synchronize BatchNorm statistics over %d ranks",
                       o->sync_stats);
    if (o->states < 0 || o->states > SS_PLAN_MAX_STATES)
        return ss_fail(SS_ERR_INVALID, "a plan does not support %d optimizer states", o->states);
    if (o->grad_dtype != SS_DTYPE_F32 && o->grad_dtype != SS_DTYPE_F16 &&
        o->grad_dtype != SS_DTYPE_BF16)
        return ss_fail(SS_ERR_INVALID, "gradients cannot be sent in number format %d",
                       (int)o->grad_dtype);
    if (o->shards < 0 || (o->shards > 1 && o->device && !o->device_sums))
        return ss_fail(
            SS_ERR_INVALID,
            "cannot shard the optimizer over %d ranks: GPUs require all-reduces on the device",
            o->shards);
    if (o->device && o->input_block < 1)
        return ss_fail(SS_ERR_INVALID, "input_block of a device must be at least 1");
    return SS_OK;
}

enum ss_status ss_plan_lower(const struct ss_graph *graph, const struct ss_plan_options *options,
                             struct ss_plan **out)
{
    SS_TRY(check_options(options));
    struct ss_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return ss_fail_memory("step plan", sizeof *plan);
    plan->graph = graph;
    plan->options = *options;
    plan->options.accumulate = options->accumulate ? options->accumulate : 1;
    for (int s = 0; s <= options->slices; s++)
        plan->slice_begin[s] = (int)((long)options->batch * s / options->slices);

    size_t values = (size_t)ss_graph_values(graph);
    struct ss_lowerer lo = {.plan = plan,
                            .input = ss_graph_layer(graph, 0)->output,
                            .dense = -1,
                            .weights = -1,
                            .status = SS_OK};
    lo.value_tensor = malloc(values * sizeof *lo.value_tensor);
    lo.grad = malloc(values * sizeof *lo.grad);
    lo.ngrad = calloc(values, sizeof *lo.ngrad);
    lo.part = malloc(values * sizeof *lo.part);
    lo.forward = calloc((size_t)ss_graph_layers(graph), sizeof *lo.forward);
    if (!lo.forward || !lo.value_tensor || !lo.grad || !lo.ngrad || !lo.part)
        lo.status = ss_fail_memory("step plan", values * sizeof *lo.grad);
    if (lo.status == SS_OK)
        lo.status = ss_plan_fuse(plan);
    if (lo.status == SS_OK)
        lo.status = ss_plan_make_buckets(plan);
    if (lo.status == SS_OK) {
        ss_lower_place_views(&lo);
        ss_lower_leave_unstored(&lo);
        memset(lo.value_tensor, -1, values * sizeof *lo.value_tensor);
        lower_training(&lo);
    }
    if (lo.status == SS_OK)
        lower_evaluation(&lo);
    if (lo.status == SS_OK)
        lo.status = ss_plan_assign_buffers(plan);
    if (lo.status == SS_OK)
        lo.status = ss_plan_accumulate(plan);
    free(lo.value_tensor);
    free(lo.grad);
    free(lo.ngrad);
    free(lo.part);
    free(lo.forward);
    if (lo.status != SS_OK) {
        ss_plan_destroy(plan);
        return lo.status;
    }
    *out = plan;
    return SS_OK;
}

void ss_plan_destroy(struct ss_plan *plan)
{
    if (!plan)
        return;
    free(plan->block);
    free(plan->finished);
    free(plan->param);
    free(plan->bucket);
    free(plan->sum_order);
    free(plan->tensor);
    free(plan->buffer_bytes);
    free(plan->train.task);
    free(plan->eval.task);
    free(plan);
}

size_t ss_plan_buffer_bytes(const struct ss_plan *plan)
{
    size_t sum = 0;
    for (int i = 0; i < plan->nbuffers; i++)
        sum += plan->buffer_bytes[i];
    return sum;
}

size_t ss_plan_tensor_bytes(const struct ss_plan *plan)
{
    size_t sum = 0;
    for (int i = 0; i < plan->ntensors; i++)
        sum += plan->tensor[i].of < 0 ? plan->tensor[i].bytes : 0;
    return sum;
}
