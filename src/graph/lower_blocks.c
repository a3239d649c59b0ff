/* lower_blocks.c: forward and backward tasks of a block. */
#include "core/log.h"
#include "graph/lower_internal.h"

#include <stdio.h>

/* x of a block: a tensor, or all slices of the input slot. */
static void touch_input(struct ss_lowerer *lo, struct ss_plan_task *t, ss_value x)
{
    if (lo->value_tensor[x] >= 0) {
        ss_lower_touch_tensor(lo, t, SS_ROLE_X, lo->value_tensor[x], SS_READ);
        return;
    }
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        ss_lower_touch(lo, t, SS_ROLE_X, SS_SPACE_IMAGES, s, SS_READ);
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

/* A tensor that one of the block's layers makes for backward, or -1. */
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

/* The place whose layer makes the block's workspace, or -1. */
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

/* Tensors that the forward task of a block makes beside y; -1: none. */
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
    if (b->cls->keeps_z && b->y != first->output && b->left_to < 0)
        t.z = training || b->layer[SS_PLACE_POOL] >= 0
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

static void touch_residual(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    if (b->residual == lo->input ||
        ss_lower_layout_block(lo->plan, b->residual) != ss_lower_layout_block(lo->plan, b->y)) {
        lo->status = ss_fail(SS_ERR_UNSUPPORTED,
                             "model %s: %s adds values of different layouts (the input, flat "
                             "values, maps); " SS_LAYOUT_REMEDY,
                             ss_graph_name(lo->plan->graph), b->name);
        return;
    }
    ss_lower_touch_tensor(lo, t, SS_ROLE_RESIDUAL, lo->value_tensor[b->residual], SS_READ);
}

/* What the addition applies to its residual. */
static void touch_shortcut(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    const struct ss_block *from = &lo->plan->block[b->shortcut];
    const int *made = lo->list->task[lo->first_forward + b->shortcut].tensor;
    ss_lower_touch(lo, t, SS_ROLE_SHORTCUT_PARAMS, SS_SPACE_PARAMS, from->bucket, SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SHORTCUT_SAVED, made[SS_ROLE_SAVED], SS_READ);
}

/* The block that ends the graph. In training x becomes its own gradient. */
static void touch_loss(struct ss_lowerer *lo, struct ss_plan_task *t, const struct ss_block *b,
                       int training)
{
    ss_lower_touch_tensor(lo, t, SS_ROLE_X, lo->value_tensor[b->x],
                          training ? SS_READ_WRITE : SS_READ);
    touch_labels(lo, t);
    /* Those of several batches are added up. */
    ss_lower_touch(lo, t, SS_ROLE_METRICS, SS_SPACE_METRICS, 0,
                   training && lo->plan->options.accumulate == 1 ? SS_WRITE : SS_READ_WRITE);
    if (training && lo->plan->options.loss_scaling)
        ss_lower_touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ);
}

void ss_lower_forward(struct ss_lowerer *lo, int i, int training)
{
    const struct ss_block *b = &lo->plan->block[i];
    struct block_tensors made = {-1, -1, -1};
    if (b->y >= 0)
        lo->value_tensor[b->y] = ss_lower_add_activation(lo, b->name, "y", b->y);
    if (lo->status == SS_OK && b->y >= 0)
        made = add_block_tensors(lo, b, training);
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "fwd %.80s", b->name);
    struct ss_plan_task *t = ss_lower_add_task(lo, SS_TASK_FORWARD, name, SS_PRIORITY_FORWARD - i);
    if (!t || lo->status != SS_OK)
        return;
    t->block = i;
    if (b->y < 0) {
        touch_loss(lo, t, b, training);
        return;
    }
    if (lo->plan->options.device && b->x == lo->input && !b->cls->reads_samples)
        lo->status = ss_fail(SS_ERR_UNSUPPORTED,
                             "model %s: %s reads the images, whose channels are padded on a GPU, "
                             "which kind %s cannot; " SS_LAYOUT_REMEDY,
                             ss_graph_name(lo->plan->graph), b->name, b->cls->name);
    touch_input(lo, t, b->x);
    if (b->bucket >= 0)
        ss_lower_touch(lo, t, SS_ROLE_PARAMS, SS_SPACE_PARAMS, b->bucket, SS_READ);
    if (training && lo->plan->options.no_overlap && lo->plan->options.shards > 1)
        ss_lower_touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ); /* all gathers are over */
    ss_lower_touch_tensor(lo, t, SS_ROLE_Z, made.z, SS_WRITE);
    ss_lower_touch_tensor(lo, t, SS_ROLE_SAVED, made.saved, SS_WRITE);
    if (b->running)
        ss_lower_touch(lo, t, SS_ROLE_RUNNING, SS_SPACE_RUNNING, i,
                       training ? SS_READ_WRITE : SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_WORKSPACE, made.workspace, SS_WRITE);
    if (b->residual >= 0)
        touch_residual(lo, t, b);
    if (b->shortcut >= 0)
        touch_shortcut(lo, t, b);
    ss_lower_touch_tensor(lo, t, SS_ROLE_Y, lo->value_tensor[b->y], SS_WRITE);
}

void ss_lower_contribute(struct ss_lowerer *lo, ss_value v, int tensor)
{
    if (lo->ngrad[v] == SS_PLAN_MAX_DY) {
        lo->status = ss_fail(SS_ERR_UNSUPPORTED, "model %s: more than %d layers read one value",
                             ss_graph_name(lo->plan->graph), SS_PLAN_MAX_DY);
        return;
    }
    lo->grad[v][lo->ngrad[v]++] = tensor;
}

/* Does the block apply NORM to its residual? */
static int normalises_residual(const struct ss_plan *plan, const struct ss_block *b)
{
    return b->shortcut >= 0 && plan->block[b->shortcut].last == SS_PLACE_NORM;
}

/* The gradients of what this block applied to its residual. Returns the gradient of the residual
 * itself: with NORM it takes the residual's place, else it is ds. */
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

void ss_lower_backward(struct ss_lowerer *lo, int i)
{
    const struct ss_block *b = &lo->plan->block[i];
    int out = b->layer[SS_PLACE_OUT] >= 0, pool = b->layer[SS_PLACE_POOL] >= 0;
    int dx = b->x == lo->input && !b->cls->needs_dx
                 ? -1
                 : ss_lower_add_activation(lo, b->name, "dx", b->x);
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "bwd %.80s", b->name);
    struct ss_plan_task *t =
        ss_lower_add_task(lo, SS_TASK_BACKWARD, name, SS_PRIORITY_BACKWARD + i);
    if (!t || lo->status != SS_OK)
        return;
    const int *made = lo->list->task[lo->first_forward + i].tensor;
    t->block = i;
    t->ndy = lo->ngrad[b->y];
    /* The sum of the contributions goes where the first one is; nobody else reads it. */
    int writes_sum = (t->ndy > 1 || out) && !normalises_residual(lo->plan, b);
    for (int k = 0; k < t->ndy; k++)
        ss_lower_touch_tensor(lo, t, (enum ss_role_kind)(SS_ROLE_DY + k), lo->grad[b->y][k],
                              SS_READ);
    /* Behind a pool the sum is smaller than what the residual gets, which has its own place. */
    int ds = lo->grad[b->y][0];
    if (pool)
        ds = b->residual >= 0 ? ss_lower_add_activation(lo, b->name, "ds", b->residual) : -1;
    ss_lower_touch_tensor(lo, t, SS_ROLE_DS, ds,
                          pool         ? SS_WRITE
                          : writes_sum ? SS_READ_WRITE
                                       : SS_READ);
    if (b->cls->reads_x)
        touch_input(lo, t, b->x);
    if (b->bucket >= 0) {
        ss_lower_touch(lo, t, SS_ROLE_PARAMS, SS_SPACE_PARAMS, b->bucket, SS_READ);
        ss_lower_touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, b->bucket, SS_READ_WRITE);
        if (ss_lower_looks_at_once(lo->plan))
            ss_lower_touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ_WRITE);
    }
    if (lo->plan->options.no_overlap)
        ss_lower_touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ);
    if (out && workspace_place(lo->plan, b) != SS_PLACE_OUT)
        ss_lower_touch_tensor(lo, t, SS_ROLE_Y, lo->value_tensor[b->y], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_Z, made[SS_ROLE_Z],
                          SS_READ_WRITE); /* becomes its gradient */
    ss_lower_touch_tensor(lo, t, SS_ROLE_SAVED, made[SS_ROLE_SAVED], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_WORKSPACE, made[SS_ROLE_WORKSPACE], SS_READ);
    ss_lower_touch_tensor(lo, t, SS_ROLE_DX, dx, SS_WRITE);
    if (b->x != lo->input)
        ss_lower_contribute(lo, b->x, dx);
    if (b->shortcut >= 0)
        ds = lower_shortcut_backward(lo, t, b, ds);
    if (b->residual >= 0 && b->residual != lo->input)
        ss_lower_contribute(lo, b->residual, ds);
}
