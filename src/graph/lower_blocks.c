/* lower_blocks.c: forward and backward tasks of a block. */
#include "core/log.h"
#include "graph/lower_internal.h"

#include <stdio.h>
#include <string.h>

/* Read a value in a task: a tensor, or all slices of the input slot. padded: the task can read a
 * device's padded samples. */
static void touch_value(struct ss_lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                        ss_value x, int padded)
{
    const int tensor =
        x == lo->input && !padded && lo->dense >= 0 ? lo->dense : lo->value_tensor[x];
    if (tensor >= 0) {
        ss_lower_touch_tensor(lo, t, role, tensor, SS_READ);
        return;
    }
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        ss_lower_touch(lo, t, role, SS_SPACE_IMAGES, s, SS_READ);
}

int ss_lower_other_inputs(const struct ss_plan *plan, const struct ss_block *b, const ss_value **v)
{
    const struct ss_layer *first = ss_graph_layer(plan->graph, b->first_layer);
    *v = first->input + 1;
    return b->layer[SS_PLACE_ADD] == b->first_layer ? 0 : first->ninputs - 1;
}

/* Access the parameters and statistics that another block applies to its z, for a block that
 * applies them in its place. */
static void touch_end(struct ss_lowerer *lo, struct ss_plan_task *t, int block,
                      enum ss_role_kind params, enum ss_role_kind saved)
{
    const struct ss_block *b = &lo->plan->block[block];
    if (b->bucket >= 0)
        ss_lower_touch(lo, t, params, SS_SPACE_PARAMS, b->bucket, SS_READ);
    ss_lower_touch_tensor(lo, t, saved, lo->list->task[lo->forward[block]].tensor[SS_ROLE_SAVED],
                          SS_READ);
}

/* Access x of a block and its other inputs. */
static void touch_input(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    const ss_value *others;
    const int n = ss_lower_other_inputs(lo->plan, b, &others),
              padded = ss_lower_reads_samples(lo->plan, b);
    if (!(b->in_place & 1))
        touch_value(lo, t, SS_ROLE_X, b->x, padded);
    if (b->makes >= 0)
        touch_end(lo, t, b->makes, SS_ROLE_X_PARAMS, SS_ROLE_X_SAVED);
    for (int k = 0; k < n; k++)
        if (!(b->in_place >> (k + 1) & 1))
            touch_value(lo, t, (enum ss_role_kind)(SS_ROLE_INPUT + k), others[k], padded);
}

static void touch_labels(struct ss_lowerer *lo, struct ss_plan_task *t)
{
    if (lo->plan->options.device) {
        ss_lower_touch(lo, t, SS_ROLE_STAGED, SS_SPACE_STAGED, 0, SS_READ);
        return;
    }
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        ss_lower_touch(lo, t, SS_ROLE_LABELS, SS_SPACE_LABELS, s, SS_READ);
}

/* Add a tensor that one of the block's layers saves for backward. Returns -1 if there is none. */
static int add_layer_tensor(struct ss_lowerer *lo, const struct ss_block *b,
                            const struct ss_layer *l, const struct ss_layer_tensor *t)
{
    const struct ss_plan_options *o = &lo->plan->options;
    if (!t->bytes)
        return -1;
    size_t elements = lo->plan->tensor[lo->value_tensor[b->y]].bytes / ss_dtype_bytes(o->dtype);
    size_t bytes = t->bytes(l, ss_graph_value(lo->plan->graph, b->y), o->batch, elements,
                            ss_dtype_bytes(o->dtype));
    return ss_lower_add_tensor(lo, b->name, t->name, (struct ss_plan_tensor){.bytes = bytes});
}

/* Returns the place whose layer writes the block's workspace, or -1. */
static int workspace_place(const struct ss_plan *plan, const struct ss_block *b)
{
    for (int p = SS_PLACES - 1; p >= 0; p--) {
        if (b->layer[p] < 0)
            continue;
        const struct ss_layer_tensor *t = &ss_graph_layer(plan->graph, b->layer[p])->cls->workspace;
        if (t->bytes && (!t->devices_at || (plan->options.device && t->devices_at >> p & 1)))
            return p;
    }
    return -1;
}

/* Tensors that the forward task of a block writes in addition to y; -1: none. */
struct block_tensors {
    int z, saved, workspace;
};

static struct block_tensors add_block_tensors(struct ss_lowerer *lo, const struct ss_block *b,
                                              int training)
{
    const struct ss_graph *g = lo->plan->graph;
    struct block_tensors t = {-1, -1, -1};
    const struct ss_layer *first = ss_graph_layer(g, b->first_layer);
    const int keeper = workspace_place(lo->plan, b);
    if (b->cls->keeps_z && b->made_by >= 0)
        t.z = lo->value_tensor[b->y];
    else if (b->cls->keeps_z && b->y != first->output && b->left_to < 0 && !ss_block_only_adds(b))
        t.z = training || b->layer[SS_PLACE_POOL] >= 0 || lo->part[b->y].block >= 0
                  ? ss_lower_add_activation(lo, b->name, "z", first->output)
                  : lo->value_tensor[b->y];
    for (int p = 0; p < SS_PLACES && lo->status == SS_OK; p++) {
        const struct ss_layer *l = b->layer[p] < 0 ? NULL : ss_graph_layer(g, b->layer[p]);
        if (l && t.saved < 0)
            t.saved = add_layer_tensor(lo, b, l, &l->cls->saved);
        if (l && p == keeper && (training || l == first))
            t.workspace = add_layer_tensor(lo, b, l, &l->cls->workspace);
    }
    return t;
}

/* Training only. */
static void touch_key(struct ss_lowerer *lo, struct ss_plan_task *t, int i)
{
    if (!lo->plan->options.device || !ss_plan_drops(lo->plan, i))
        return;
    ss_lower_touch(lo, t, SS_ROLE_KEYS, SS_SPACE_KEYS, 0, SS_READ);
    t->at[SS_ROLE_KEYS] = (size_t)ss_plan_count_drops(lo->plan, i) * sizeof(uint64_t);
}

static void touch_residual(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    touch_value(lo, t, SS_ROLE_RESIDUAL, b->residual, 0);
}

/* Access the data that the addition applies to its residual. */
static void touch_shortcut(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    touch_end(lo, t, b->shortcut, SS_ROLE_SHORTCUT_PARAMS, SS_ROLE_SHORTCUT_SAVED);
}

/* Access the data of the block that ends the graph. In training x is overwritten with its
 * gradient. */
static void touch_loss(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b,
                       int training)
{
    ss_lower_touch_tensor(lo, t, SS_ROLE_X, lo->value_tensor[b->x],
                          training ? SS_READ_WRITE : SS_READ);
    touch_labels(lo, t);
    /* Metrics of several batches are accumulated. */
    ss_lower_touch(lo, t, SS_ROLE_METRICS, SS_SPACE_METRICS, 0,
                   training && lo->plan->options.accumulate == 1 ? SS_WRITE : SS_READ_WRITE);
    if (training && lo->plan->options.loss_scaling)
        ss_lower_touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ);
}

/* Add a task of block i. `prefix` names the part in the task's name. */
static struct ss_plan_task *add_block_task(struct ss_lowerer *lo, enum ss_task_kind kind,
                                           enum ss_part part, const char *prefix, int i,
                                           int priority)
{
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "%s %.80s", prefix, lo->plan->block[i].name);
    struct ss_plan_task *t = ss_lower_add_task(lo, kind, name, priority);
    if (!t || lo->status != SS_OK)
        return NULL;
    t->block = i;
    t->part = part;
    return t;
}

static int channels_of(const struct ss_plan *plan, const struct ss_block *b)
{
    return ss_graph_value(plan->graph, ss_graph_layer(plan->graph, b->layer[SS_PLACE_NORM])->output)
        ->c;
}

/* Add the tensor of a block's sums for statistics, `rows` values per channel. */
static int add_sums(struct ss_lowerer *lo, const struct ss_block *b, int rows)
{
    const size_t count = (size_t)rows * (size_t)channels_of(lo->plan, b);
    return ss_lower_add_tensor(lo, b->name, "sums",
                               (struct ss_plan_tensor){.bytes = count * sizeof(double)});
}

/* Lower the all-reduce of the first two rows of block i's sums. */
static void lower_sync(struct ss_lowerer *lo, const char *prefix, int i, int sums)
{
    struct ss_plan_task *t =
        add_block_task(lo, SS_TASK_SYNC, SS_PART_WHOLE, prefix, i, SS_PRIORITY_COMM);
    if (!t)
        return;
    t->sums = 2 * channels_of(lo->plan, &lo->plan->block[i]);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SUMS, sums, SS_READ_WRITE);
    ss_lower_touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_SYNC, 0, SS_READ_WRITE);
}

/* Access z as a block with NORM reads it: the convolution's output, or x. */
static void touch_z(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b, int z,
                    enum ss_mode mode)
{
    if (z >= 0)
        ss_lower_touch_tensor(lo, t, SS_ROLE_Z, z, mode);
    else
        touch_input(lo, t, b);
}

/* Access the outputs that a forward task computes from z. */
static void touch_outputs(struct ss_lowerer *lo, struct ss_plan_task *t, int i,
                          const struct block_tensors *made, int training)
{
    const struct ss_block *b = &lo->plan->block[i];
    ss_lower_touch_tensor(lo, t, SS_ROLE_SAVED, made->saved, SS_WRITE);
    if (b->running)
        ss_lower_touch(lo, t, SS_ROLE_RUNNING, SS_SPACE_RUNNING, i,
                       training ? SS_READ_WRITE : SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_WORKSPACE, made->workspace, SS_WRITE);
    if (b->residual >= 0)
        touch_residual(lo, t, b);
    if (b->shortcut >= 0)
        touch_shortcut(lo, t, b);
    if (training)
        touch_key(lo, t, i);
    if (b->made_by < 0)
        ss_lower_touch_tensor(lo, t, SS_ROLE_Y, lo->value_tensor[b->y], SS_WRITE);
}

/* Without overlap forward waits until all gathers have ended. */
static void touch_gathers(struct ss_lowerer *lo, struct ss_plan_task *t)
{
    if (lo->plan->options.no_overlap && lo->plan->options.shards > 1)
        ss_lower_touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ);
}

static void touch_params(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    if (b->bucket >= 0)
        ss_lower_touch(lo, t, SS_ROLE_PARAMS, SS_SPACE_PARAMS, b->bucket, SS_READ);
}

/* Lower forward with the all-reduce of the sums for z's statistics. */
static void lower_synced_forward(struct ss_lowerer *lo, int i, const struct block_tensors *made)
{
    const struct ss_block *b = &lo->plan->block[i];
    const int sums = add_sums(lo, b, 2), priority = SS_PRIORITY_FORWARD - i;
    struct ss_plan_task *t =
        add_block_task(lo, SS_TASK_FORWARD, SS_PART_SUMS, "fwd sums", i, priority);
    if (!t)
        return;
    touch_input(lo, t, b);
    if (made->z >= 0)
        touch_params(lo, t, b);
    touch_gathers(lo, t);
    ss_lower_touch_tensor(lo, t, SS_ROLE_Z, made->z, SS_WRITE);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SUMS, sums, SS_WRITE);
    lower_sync(lo, "sync fwd", i, sums);
    t = lo->status == SS_OK ? add_block_task(lo, SS_TASK_FORWARD, SS_PART_APPLY, "fwd", i, priority)
                            : NULL;
    if (!t)
        return;
    lo->forward[i] = lo->list->count - 1;
    touch_params(lo, t, b);
    touch_z(lo, t, b, made->z, SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SUMS, sums, SS_READ);
    touch_outputs(lo, t, i, made, 1);
}

/* Add the tensor for y of block i; if y is not stored, the tensor that it is recomputed from. */
static int add_y(struct ss_lowerer *lo, int i)
{
    const struct ss_block *b = &lo->plan->block[i];
    if (b->made_by < 0)
        return ss_lower_add_output(lo, i);
    return b->cls->keeps_z
               ? ss_lower_add_activation(lo, b->name, "z",
                                         ss_graph_layer(lo->plan->graph, b->first_layer)->output)
               : lo->value_tensor[b->x];
}

void ss_lower_forward(struct ss_lowerer *lo, int i, int training)
{
    const struct ss_block *b = &lo->plan->block[i];
    struct block_tensors made = {-1, -1, -1};
    if (b->y >= 0)
        lo->value_tensor[b->y] = add_y(lo, i);
    if (!ss_lower_has_tasks(lo->plan, b))
        return;
    if (lo->status == SS_OK && b->y >= 0)
        made = add_block_tensors(lo, b, training);
    if (training && lo->status == SS_OK && ss_lower_syncs(lo->plan, b)) {
        lower_synced_forward(lo, i, &made);
        return;
    }
    struct ss_plan_task *t =
        add_block_task(lo, SS_TASK_FORWARD, SS_PART_WHOLE, "fwd", i, SS_PRIORITY_FORWARD - i);
    if (!t)
        return;
    lo->forward[i] = lo->list->count - 1;
    if (b->y < 0) {
        touch_loss(lo, t, b, training);
        return;
    }
    touch_input(lo, t, b);
    touch_params(lo, t, b);
    if (training)
        touch_gathers(lo, t);
    ss_lower_touch_tensor(lo, t, SS_ROLE_Z, made.z, SS_WRITE);
    touch_outputs(lo, t, i, &made, training);
}

/* Returns whether the block applies NORM to its residual. */
static int normalises_residual(const struct ss_plan *plan, const struct ss_block *b)
{
    return b->shortcut >= 0 && plan->block[b->shortcut].last == SS_PLACE_NORM;
}

/* Access the gradients of the shortcut's parameters. Returns the gradient of the residual: with
 * NORM it overwrites the residual, else it is ds. */
static int lower_shortcut_backward(struct ss_lowerer *lo, struct ss_plan_task *t,
                                   const struct ss_block *b, int ds)
{
    const struct ss_block *from = &lo->plan->block[b->shortcut];
    ss_lower_touch(lo, t, SS_ROLE_SHORTCUT_GRADS, SS_SPACE_GRADS, from->bucket, SS_READ_WRITE);
    if (!normalises_residual(lo->plan, b))
        return ds;
    touch_shortcut(lo, t, b);
    ss_lower_touch_tensor(lo, t, SS_ROLE_RESIDUAL, lo->value_tensor[b->residual], SS_READ_WRITE);
    return lo->value_tensor[b->residual];
}

/* Priorities: backward from its end, then deferred weight gradients, from the first block on.
 * With synchronized statistics, a block's SUMS part precedes the weight gradient of the following
 * block, which is computed during the all-reduce. */
static int backward_priority(const struct ss_plan *plan, int i, enum ss_part part)
{
    if (part == SS_PART_WEIGHTS && ss_plan_puts_off(plan, i))
        return SS_PRIORITY_BACKWARD - 1 - i;
    if (plan->options.sync_stats <= 1)
        return SS_PRIORITY_BACKWARD + i;
    return SS_PRIORITY_BACKWARD + 2 * i +
           (part == SS_PART_SUMS ? 3 : part == SS_PART_WHOLE || part == SS_PART_DATA);
}

/* Add the contributions to v's gradient so far into the first one, which has no other reader
 * left. i: the block that made the last contribution. */
static void lower_sum(struct ss_lowerer *lo, ss_value v, int i)
{
    const struct ss_plan *plan = lo->plan;
    const struct ss_plan_tensor *first = &plan->tensor[lo->grad[v][0]];
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "sum %.80s", first->name);
    struct ss_plan_task *t =
        ss_lower_add_task(lo, SS_TASK_SUM, name, backward_priority(plan, i, SS_PART_WHOLE));
    if (!t)
        return;
    t->ndy = lo->ngrad[v];
    t->count = first->bytes / ss_dtype_bytes(plan->options.dtype);
    for (int k = 0; k < t->ndy; k++)
        ss_lower_touch_tensor(lo, t, (enum ss_role_kind)(SS_ROLE_DY + k), lo->grad[v][k], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_DS, lo->grad[v][0], SS_READ_WRITE);
    lo->ngrad[v] = 1;
}

void ss_lower_contribute(struct ss_lowerer *lo, ss_value v, int tensor, int i)
{
    if (lo->ngrad[v] == SS_PLAN_MAX_DY)
        lower_sum(lo, v, i);
    if (lo->status == SS_OK)
        lo->grad[v][lo->ngrad[v]++] = tensor;
}

static void touch_token(struct ss_lowerer *lo, struct ss_plan_task *t)
{
    if (lo->plan->options.no_overlap)
        ss_lower_touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ);
}

static void touch_grads(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    const int trained = b->bucket < lo->plan->nbuckets;
    ss_lower_touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, trained ? b->bucket : lo->plan->nbuckets,
                   SS_READ_WRITE);
    if (trained && ss_lower_checks_inf_inline(lo->plan))
        ss_lower_touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ_WRITE);
}

/* Access the contributions to dy and their sum. Returns the residual's gradient. */
static int touch_dy(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    const int out = b->layer[SS_PLACE_OUT] >= 0, pool = b->layer[SS_PLACE_POOL] >= 0;
    t->ndy = lo->ngrad[b->y];
    /* The sum of the contributions overwrites the first one, which has no other reader. */
    int writes_sum = (t->ndy > 1 || out) && !normalises_residual(lo->plan, b);
    for (int k = 0; k < t->ndy; k++)
        ss_lower_touch_tensor(lo, t, (enum ss_role_kind)(SS_ROLE_DY + k), lo->grad[b->y][k],
                              SS_READ);
    /* With a pool the sum is smaller than the residual's gradient, which has a separate tensor. */
    int ds = lo->grad[b->y][0];
    if (pool)
        ds = b->residual >= 0 ? ss_lower_add_activation(lo, b->name, "ds", b->residual) : -1;
    ss_lower_touch_tensor(lo, t, SS_ROLE_DS, ds,
                          pool         ? SS_WRITE
                          : writes_sum ? SS_READ_WRITE
                                       : SS_READ);
    return ds;
}

/* Access the saved output that determines the second activation's slope. */
static void touch_out(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    if (b->layer[SS_PLACE_OUT] >= 0 && workspace_place(lo->plan, b) != SS_PLACE_OUT)
        ss_lower_touch_tensor(lo, t, SS_ROLE_Y, lo->value_tensor[b->y], SS_READ);
}

void ss_lower_weights(struct ss_lowerer *lo, int i)
{
    const struct ss_block *b = &lo->plan->block[i];
    const int dz = lo->list->task[lo->forward[i]].tensor[SS_ROLE_Z];
    struct ss_plan_task *t = add_block_task(lo, SS_TASK_BACKWARD, SS_PART_WEIGHTS, "bwd weights", i,
                                            backward_priority(lo->plan, i, SS_PART_WEIGHTS));
    if (!t)
        return;
    touch_input(lo, t, b);
    if (dz >= 0)
        ss_lower_touch_tensor(lo, t, SS_ROLE_Z, dz, SS_READ);
    else
        ss_lower_touch_tensor(lo, t, SS_ROLE_DS, lo->grad[b->y][0], SS_READ);
    touch_grads(lo, t, b);
    touch_token(lo, t);
}

void ss_lower_deferred_weights(struct ss_lowerer *lo)
{
    const int i = lo->weights;
    lo->weights = -1;
    if (i >= 0 && lo->status == SS_OK)
        ss_lower_weights(lo, i);
}

/* Lower the part up to this rank's sums. Returns the residual's gradient. */
static int lower_backward_sums(struct ss_lowerer *lo, int i, const int *made, int sums)
{
    const struct ss_block *b = &lo->plan->block[i];
    struct ss_plan_task *t = add_block_task(lo, SS_TASK_BACKWARD, SS_PART_SUMS, "bwd sums", i,
                                            backward_priority(lo->plan, i, SS_PART_SUMS));
    if (!t)
        return -1;
    const int ds = touch_dy(lo, t, b);
    touch_params(lo, t, b);
    touch_token(lo, t);
    touch_out(lo, t, b);
    touch_key(lo, t, i);
    touch_z(lo, t, b, made[SS_ROLE_Z], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SAVED, made[SS_ROLE_SAVED], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_WORKSPACE, made[SS_ROLE_WORKSPACE], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SUMS, sums, SS_WRITE);
    return ds;
}

/* Returns whether the gradient with respect to input x of block b is needed. */
static int wanted(const struct ss_lowerer *lo, const struct ss_block *b, ss_value x)
{
    return ss_graph_value(lo->plan->graph, x)->graded && !b->cls->detaches;
}

/* Returns whether the block reads a view and adds its gradient to the existing one. */
static int adds_to_part(const struct ss_lowerer *lo, const struct ss_block *b)
{
    return !b->cls->concatenates && lo->part[b->x].block >= 0 && wanted(lo, b, b->x);
}

static void touch_dx(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b,
                     int dx)
{
    t->adds_dx = adds_to_part(lo, b);
    ss_lower_touch_tensor(lo, t, SS_ROLE_DX, dx, SS_WRITE);
}

/* Lower backward with an all-reduce in it. The weight gradient is deferred until the next block's
 * all-reduce has started, or until the bucket ends. */
static int lower_synced_backward(struct ss_lowerer *lo, int i, int dx)
{
    const struct ss_block *b = &lo->plan->block[i];
    /* A copy, as tasks move when the list grows. */
    int made[SS_ROLE_COUNT];
    memcpy(made, lo->list->task[lo->forward[i]].tensor, sizeof made);
    const int sums = add_sums(lo, b, 4), ds = lower_backward_sums(lo, i, made, sums);
    if (lo->status == SS_OK)
        lower_sync(lo, "sync bwd", i, sums);
    ss_lower_deferred_weights(lo);
    struct ss_plan_task *t = lo->status == SS_OK
                                 ? add_block_task(lo, SS_TASK_BACKWARD, SS_PART_APPLY, "bwd", i,
                                                  backward_priority(lo->plan, i, SS_PART_APPLY))
                                 : NULL;
    if (!t)
        return ds;
    ss_lower_touch_tensor(lo, t, SS_ROLE_DS, ds, SS_READ);
    touch_params(lo, t, b);
    touch_grads(lo, t, b);
    touch_token(lo, t);
    touch_key(lo, t, i);
    touch_z(lo, t, b, made[SS_ROLE_Z], SS_READ_WRITE);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SAVED, made[SS_ROLE_SAVED], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SUMS, sums, SS_READ);
    touch_dx(lo, t, b, dx);
    if (made[SS_ROLE_Z] >= 0 && !b->frozen_head && !ss_plan_puts_off(lo->plan, i))
        lo->weights = i;
    return ds;
}

/* Lower backward as one task, or everything except the weight gradient. Returns the residual's
 * gradient. */
static int lower_whole_backward(struct ss_lowerer *lo, int i, int dx, const int *dothers)
{
    const struct ss_block *b = &lo->plan->block[i];
    const int parts = b->frozen_head ? b->cls->parts_weights
                      : lo->plan->options.defer_weight_grads < 0
                          ? ss_plan_parts_weights(lo->plan, i)
                          : ss_plan_puts_off(lo->plan, i);
    const enum ss_part part = parts ? SS_PART_DATA : SS_PART_WHOLE;
    struct ss_plan_task *t =
        add_block_task(lo, SS_TASK_BACKWARD, part, "bwd", i, backward_priority(lo->plan, i, part));
    if (!t)
        return -1;
    const int *made = lo->list->task[lo->forward[i]].tensor;
    const int ds = touch_dy(lo, t, b);
    if (b->cls->reads_x && !parts)
        touch_input(lo, t, b);
    if (b->cls->reads_y)
        ss_lower_touch_tensor(lo, t, SS_ROLE_Y, lo->value_tensor[b->y], SS_READ);
    touch_params(lo, t, b);
    if (b->bucket >= 0)
        touch_grads(lo, t, b);
    touch_token(lo, t);
    touch_out(lo, t, b);
    touch_key(lo, t, i);
    ss_lower_touch_tensor(lo, t, SS_ROLE_Z, made[SS_ROLE_Z],
                          SS_READ_WRITE); /* becomes its gradient */
    ss_lower_touch_tensor(lo, t, SS_ROLE_SAVED, made[SS_ROLE_SAVED], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_WORKSPACE, made[SS_ROLE_WORKSPACE], SS_READ);
    touch_dx(lo, t, b, dx);
    for (int k = 0; k < SS_MAX_INPUTS - 1; k++)
        ss_lower_touch_tensor(lo, t, (enum ss_role_kind)(SS_ROLE_DINPUT + k), dothers[k], SS_WRITE);
    if (parts && !b->frozen_head && !ss_plan_puts_off(lo->plan, i))
        lo->weights = i;
    return b->shortcut >= 0 ? lower_shortcut_backward(lo, t, b, ds) : ds;
}

/* Returns the tensor for the gradient of input k of block b, value x; -1: it is not needed, or it
 * is a view of the gradient of y. If x is a view, it is the view's gradient, which exists already
 * as that of the whole tensor is computed first. */
static int add_dx(struct ss_lowerer *lo, const struct ss_block *b, int k, ss_value x)
{
    if (b->in_place >> k & 1 || (!wanted(lo, b, x) && !b->cls->needs_dx))
        return -1;
    return adds_to_part(lo, b) ? lo->grad[x][0] : ss_lower_add_activation(lo, b->name, "dx", x);
}

/* Add block i's contribution to the gradient of input k, value x. If x is a view of y, the
 * contributions are views of those to the gradient of y. */
static void contribute(struct ss_lowerer *lo, int i, int k, ss_value x, int dx)
{
    const struct ss_block *b = &lo->plan->block[i];
    if (lo->status != SS_OK || !wanted(lo, b, x) || adds_to_part(lo, b))
        return;
    if (!(b->in_place >> k & 1)) {
        ss_lower_contribute(lo, x, dx, i);
        return;
    }
    for (int g = 0; g < lo->ngrad[b->y] && lo->status == SS_OK; g++)
        ss_lower_contribute(
            lo, x, ss_lower_add_view(lo, b->name, "dx", x, lo->grad[b->y][g], lo->part[x].at), i);
}

void ss_lower_backward(struct ss_lowerer *lo, int i)
{
    const struct ss_block *b = &lo->plan->block[i];
    const ss_value *others;
    if (!ss_graph_value(lo->plan->graph, b->y)->graded)
        return;
    if (lo->ngrad[b->y] > 1 && ss_lower_adds_to_views(lo, i))
        lower_sum(lo, b->y, i);
    const int n = ss_lower_other_inputs(lo->plan, b, &others), dx = add_dx(lo, b, 0, b->x);
    int ds = -1, dothers[SS_MAX_INPUTS - 1];
    for (int k = 0; k < SS_MAX_INPUTS - 1; k++)
        dothers[k] = k < n ? add_dx(lo, b, k + 1, others[k]) : -1;
    if (lo->status != SS_OK)
        return;
    if (ss_lower_syncs(lo->plan, b)) {
        ds = lower_synced_backward(lo, i, dx);
    } else if (ss_lower_has_tasks(lo->plan, b)) {
        ss_lower_deferred_weights(lo);
        ds = lower_whole_backward(lo, i, dx, dothers);
    }
    contribute(lo, i, 0, b->x, dx);
    for (int k = 0; k < n; k++)
        contribute(lo, i, k + 1, others[k], dothers[k]);
    if (lo->status == SS_OK && b->residual >= 0 && wanted(lo, b, b->residual))
        ss_lower_contribute(lo, b->residual, ds, i);
}
