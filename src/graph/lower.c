/* From blocks to tasks: the training step and the evaluation step. */
#include "core/log.h"
#include "graph/lower_internal.h"

#include <stdlib.h>
#include <string.h>

/* Priorities: a collective that can start must start; then the backward pass from its end, updates
 * (those the next forward needs first), forward, loading. */
enum {
    PRIORITY_COMM = 100000,
    PRIORITY_REPORT = 90000,
    PRIORITY_BACKWARD = 50000,
    PRIORITY_UPDATE = 30000,
    PRIORITY_FORWARD = 20000,
    PRIORITY_UPLOAD = 1,
    PRIORITY_LOAD = 0
};

struct lowerer {
    struct ss_plan *plan;
    struct ss_task_list *list;
    int capacity;      /* of plan->tensor */
    int *value_tensor; /* per value: its tensor in the list being built; -1: the input slot */
    int (*grad)[SS_PLAN_MAX_DY]; /* per value: contributions to its gradient */
    int *ngrad;
    int input;         /* the input value */
    int first_forward; /* index of the forward task of block 0 in `list` */
    enum ss_status status;
};

static int add_tensor(struct lowerer *lo, const char *block, const char *what,
                      struct ss_plan_tensor t)
{
    struct ss_plan *plan = lo->plan;
    if (plan->ntensors == lo->capacity) {
        int capacity = lo->capacity ? 2 * lo->capacity : 64;
        struct ss_plan_tensor *p = realloc(plan->tensor, (size_t)capacity * sizeof *p);
        if (!p) {
            lo->status = ss_fail_memory("tensors of the plan", (size_t)capacity * sizeof *p);
            return -1;
        }
        plan->tensor = p;
        lo->capacity = capacity;
    }
    struct ss_plan_tensor *p = &plan->tensor[plan->ntensors];
    *p = t;
    snprintf(p->name, sizeof p->name, "%.70s.%s", block, what);
    p->first = p->last = p->buffer = -1;
    return plan->ntensors++;
}

/* The channel block of a value's layout. On a device the input is padded NHWC. */
static int layout_block(const struct ss_plan *plan, ss_value v)
{
    const struct ss_value_info *info = ss_graph_value(plan->graph, v);
    const struct ss_layer *l = ss_graph_layer(plan->graph, info->producer);
    switch (l->cls->layout) {
    case SS_LAYOUT_SAMPLES:
        return plan->options.device ? plan->options.input_block : 1;
    case SS_LAYOUT_PLAIN:
        return info->c;
    case SS_LAYOUT_CHOSEN:
        return plan->options.channel_block ? plan->options.channel_block : info->c;
    case SS_LAYOUT_KEPT:
        break;
    }
    return layout_block(plan, l->input[0]);
}

/* An activation of value v's shape. */
static int add_activation(struct lowerer *lo, const char *block, const char *what, ss_value v)
{
    const struct ss_graph *g = lo->plan->graph;
    const struct ss_value_info *info = ss_graph_value(g, v);
    struct ss_plan_tensor t = {
        .n = lo->plan->options.batch, .c = info->c, .h = info->h, .w = info->w};
    t.block = layout_block(lo->plan, v);
    size_t blocks = (size_t)(t.c + t.block - 1) / (size_t)t.block;
    t.bytes = ss_dtype_bytes(lo->plan->options.dtype) * (size_t)t.n * blocks * (size_t)t.block *
              (size_t)t.h * (size_t)t.w;
    return add_tensor(lo, block, what, t);
}

static struct ss_plan_task *add_task(struct lowerer *lo, enum ss_task_kind kind, const char *name,
                                     int priority)
{
    struct ss_task_list *list = lo->list;
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        struct ss_plan_task *p = realloc(list->task, (size_t)capacity * sizeof *p);
        if (!p) {
            lo->status = ss_fail_memory("tasks of the plan", (size_t)capacity * sizeof *p);
            return NULL;
        }
        list->task = p;
        list->capacity = capacity;
    }
    struct ss_plan_task *t = &list->task[list->count++];
    *t = (struct ss_plan_task){
        .kind = kind, .block = -1, .bucket = -1, .slice = -1, .priority = priority};
    snprintf(t->name, sizeof t->name, "%s", name);
    for (int r = 0; r < SS_ROLE_COUNT; r++)
        t->role[r] = t->tensor[r] = -1;
    return t;
}

enum ss_status ss_plan_touch(struct ss_plan_task *t, enum ss_role_kind role, enum ss_space space,
                             int index, enum ss_mode mode)
{
    int i = 0;
    while (i < t->naccess && (t->access[i].space != space || t->access[i].index != index))
        i++;
    if (i == SS_PLAN_MAX_ACCESSES)
        return ss_fail(SS_ERR_UNSUPPORTED, "task %s touches more than %d data", t->name, i);
    if (i == t->naccess)
        t->access[t->naccess++] = (struct ss_access){space, index, 0};
    t->access[i].mode |= mode;
    t->role[role] = i;
    return SS_OK;
}

static void touch(struct lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                  enum ss_space space, int index, enum ss_mode mode)
{
    enum ss_status status = ss_plan_touch(t, role, space, index, mode);
    if (status != SS_OK)
        lo->status = status;
}

/* The same for a tensor. Until buffers are assigned, the index is the tensor's, made negative. */
static void touch_tensor(struct lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                         int tensor, enum ss_mode mode)
{
    if (tensor < 0)
        return;
    int at = (int)(t - lo->list->task);
    struct ss_plan_tensor *p = &lo->plan->tensor[tensor];
    if (p->first < 0)
        p->first = at;
    p->last = at;
    t->tensor[role] = tensor;
    touch(lo, t, role, SS_SPACE_BUFFER, -1 - tensor, mode);
}

/* x of a block: a tensor, or all slices of the input slot. */
static void touch_input(struct lowerer *lo, struct ss_plan_task *t, ss_value x)
{
    if (lo->value_tensor[x] >= 0) {
        touch_tensor(lo, t, SS_ROLE_X, lo->value_tensor[x], SS_READ);
        return;
    }
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        touch(lo, t, SS_ROLE_X, SS_SPACE_IMAGES, s, SS_READ);
}

static void touch_labels(struct lowerer *lo, struct ss_plan_task *t)
{
    if (lo->plan->options.device) {
        touch(lo, t, SS_ROLE_STAGED, SS_SPACE_STAGED, 0, SS_READ);
        return;
    }
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        touch(lo, t, SS_ROLE_LABELS, SS_SPACE_LABELS, s, SS_READ);
}

static void lower_loads(struct lowerer *lo)
{
    for (int s = 0; s < lo->plan->options.slices && lo->status == SS_OK; s++) {
        char name[32];
        snprintf(name, sizeof name, "load.%d", s);
        struct ss_plan_task *t = add_task(lo, SS_TASK_LOAD, name, PRIORITY_LOAD);
        if (!t)
            return;
        t->slice = s;
        touch(lo, t, SS_ROLE_X, SS_SPACE_IMAGES, s, SS_WRITE);
        touch(lo, t, SS_ROLE_LABELS, SS_SPACE_LABELS, s, SS_WRITE);
    }
}

/* To the device, and there to activations. The upload is a task of its own so that it can run steps
 * ahead; the conversion writes a buffer of the step. */
static void lower_input(struct lowerer *lo)
{
    lower_loads(lo);
    if (!lo->plan->options.device || lo->status != SS_OK)
        return;
    struct ss_plan_task *t = add_task(lo, SS_TASK_UPLOAD, "upload", PRIORITY_UPLOAD);
    if (!t)
        return;
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        touch(lo, t, SS_ROLE_X, SS_SPACE_IMAGES, s, SS_READ);
    for (int s = lo->plan->options.slices - 1; s >= 0; s--)
        touch(lo, t, SS_ROLE_LABELS, SS_SPACE_LABELS, s, SS_READ);
    touch(lo, t, SS_ROLE_STAGED, SS_SPACE_STAGED, 0, SS_WRITE);
    lo->value_tensor[lo->input] = add_activation(lo, "convert", "y", lo->input);
    t = add_task(lo, SS_TASK_CONVERT, "convert", PRIORITY_FORWARD + 1);
    if (!t || lo->status != SS_OK)
        return;
    touch(lo, t, SS_ROLE_STAGED, SS_SPACE_STAGED, 0, SS_READ);
    touch_tensor(lo, t, SS_ROLE_Y, lo->value_tensor[lo->input], SS_WRITE);
}

/* A tensor that one of the block's layers makes for backward, or -1. */
static int add_layer_tensor(struct lowerer *lo, const struct ss_block *b, const struct ss_layer *l,
                            const struct ss_layer_tensor *t)
{
    const struct ss_plan_options *o = &lo->plan->options;
    if (!t->bytes)
        return -1;
    size_t elements = lo->plan->tensor[lo->value_tensor[b->y]].bytes / ss_dtype_bytes(o->dtype);
    size_t bytes = t->bytes(l, ss_graph_value(lo->plan->graph, b->y), o->batch, elements,
                            ss_dtype_bytes(o->dtype));
    return add_tensor(lo, b->name, t->name, (struct ss_plan_tensor){.bytes = bytes});
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

static struct block_tensors add_block_tensors(struct lowerer *lo, const struct ss_block *b,
                                              int training)
{
    const struct ss_graph *g = lo->plan->graph;
    struct block_tensors t = {-1, -1, -1};
    const struct ss_layer *first = ss_graph_layer(g, b->first_layer);
    const int keeper = workspace_place(lo->plan, b);
    if (b->cls->keeps_z && b->y != first->output && b->left_to < 0)
        t.z = training || b->layer[SS_PLACE_POOL] >= 0
                  ? add_activation(lo, b->name, "z", first->output)
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

static void touch_residual(struct lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    if (b->residual == lo->input ||
        layout_block(lo->plan, b->residual) != layout_block(lo->plan, b->y)) {
        lo->status = ss_fail(SS_ERR_UNSUPPORTED,
                             "model %s: %s adds values of different layouts (the input, flat "
                             "values, maps); " SS_LAYOUT_REMEDY,
                             ss_graph_name(lo->plan->graph), b->name);
        return;
    }
    touch_tensor(lo, t, SS_ROLE_RESIDUAL, lo->value_tensor[b->residual], SS_READ);
}

/* What the addition applies to its residual. */
static void touch_shortcut(struct lowerer *lo, struct ss_plan_task *t, const struct ss_block *b)
{
    const struct ss_block *from = &lo->plan->block[b->shortcut];
    const int *made = lo->list->task[lo->first_forward + b->shortcut].tensor;
    touch(lo, t, SS_ROLE_SHORTCUT_PARAMS, SS_SPACE_PARAMS, from->bucket, SS_READ);
    touch_tensor(lo, t, SS_ROLE_SHORTCUT_SAVED, made[SS_ROLE_SAVED], SS_READ);
}

/* The block that ends the graph. In training x becomes its own gradient. */
static void touch_loss(struct lowerer *lo, struct ss_plan_task *t, const struct ss_block *b,
                       int training)
{
    touch_tensor(lo, t, SS_ROLE_X, lo->value_tensor[b->x], training ? SS_READ_WRITE : SS_READ);
    touch_labels(lo, t);
    touch(lo, t, SS_ROLE_METRICS, SS_SPACE_METRICS, 0, training ? SS_WRITE : SS_READ_WRITE);
    if (training && lo->plan->options.loss_scaling)
        touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ);
}

static void lower_forward(struct lowerer *lo, int i, int training)
{
    const struct ss_block *b = &lo->plan->block[i];
    struct block_tensors made = {-1, -1, -1};
    if (b->y >= 0)
        lo->value_tensor[b->y] = add_activation(lo, b->name, "y", b->y);
    if (lo->status == SS_OK && b->y >= 0)
        made = add_block_tensors(lo, b, training);
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "fwd %.80s", b->name);
    struct ss_plan_task *t = add_task(lo, SS_TASK_FORWARD, name, PRIORITY_FORWARD - i);
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
        touch(lo, t, SS_ROLE_PARAMS, SS_SPACE_PARAMS, b->bucket, SS_READ);
    touch_tensor(lo, t, SS_ROLE_Z, made.z, SS_WRITE);
    touch_tensor(lo, t, SS_ROLE_SAVED, made.saved, SS_WRITE);
    if (b->running)
        touch(lo, t, SS_ROLE_RUNNING, SS_SPACE_RUNNING, i, training ? SS_READ_WRITE : SS_READ);
    touch_tensor(lo, t, SS_ROLE_WORKSPACE, made.workspace, SS_WRITE);
    if (b->residual >= 0)
        touch_residual(lo, t, b);
    if (b->shortcut >= 0)
        touch_shortcut(lo, t, b);
    touch_tensor(lo, t, SS_ROLE_Y, lo->value_tensor[b->y], SS_WRITE);
}

/* With loss scaling, does a backward task itself look for infinities in the gradients that it makes?
 * Only where these stay as they are: a sum over ranks has other ranks' infinities too, and in 2 bytes
 * may become infinite on its way. */
static int looks_at_once(const struct ss_plan *plan)
{
    return plan->options.loss_scaling && !plan->options.device_sums;
}

static void contribute(struct lowerer *lo, ss_value v, int tensor)
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
static int lower_shortcut_backward(struct lowerer *lo, struct ss_plan_task *t,
                                   const struct ss_block *b, int ds)
{
    const struct ss_block *from = &lo->plan->block[b->shortcut];
    touch(lo, t, SS_ROLE_SHORTCUT_GRADS, SS_SPACE_GRADS, from->bucket, SS_READ_WRITE);
    if (!normalises_residual(lo->plan, b))
        return ds;
    touch_shortcut(lo, t, b);
    touch_tensor(lo, t, SS_ROLE_RESIDUAL, lo->value_tensor[b->residual], SS_READ_WRITE);
    return lo->value_tensor[b->residual];
}

static void lower_backward(struct lowerer *lo, int i)
{
    const struct ss_block *b = &lo->plan->block[i];
    int out = b->layer[SS_PLACE_OUT] >= 0, pool = b->layer[SS_PLACE_POOL] >= 0;
    int dx = b->x == lo->input && !b->cls->needs_dx ? -1 : add_activation(lo, b->name, "dx", b->x);
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "bwd %.80s", b->name);
    struct ss_plan_task *t = add_task(lo, SS_TASK_BACKWARD, name, PRIORITY_BACKWARD + i);
    if (!t || lo->status != SS_OK)
        return;
    const int *made = lo->list->task[lo->first_forward + i].tensor;
    t->block = i;
    t->ndy = lo->ngrad[b->y];
    /* The sum of the contributions goes where the first one is; nobody else reads it. */
    int writes_sum = (t->ndy > 1 || out) && !normalises_residual(lo->plan, b);
    for (int k = 0; k < t->ndy; k++)
        touch_tensor(lo, t, (enum ss_role_kind)(SS_ROLE_DY + k), lo->grad[b->y][k], SS_READ);
    /* Behind a pool the sum is smaller than what the residual gets, which has its own place. */
    int ds = lo->grad[b->y][0];
    if (pool)
        ds = b->residual >= 0 ? add_activation(lo, b->name, "ds", b->residual) : -1;
    touch_tensor(lo, t, SS_ROLE_DS, ds, pool ? SS_WRITE : writes_sum ? SS_READ_WRITE : SS_READ);
    if (b->cls->reads_x)
        touch_input(lo, t, b->x);
    if (b->bucket >= 0) {
        touch(lo, t, SS_ROLE_PARAMS, SS_SPACE_PARAMS, b->bucket, SS_READ);
        touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, b->bucket, SS_READ_WRITE);
        if (looks_at_once(lo->plan))
            touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ_WRITE);
    }
    if (lo->plan->options.no_overlap)
        touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ);
    if (out && workspace_place(lo->plan, b) != SS_PLACE_OUT)
        touch_tensor(lo, t, SS_ROLE_Y, lo->value_tensor[b->y], SS_READ);
    touch_tensor(lo, t, SS_ROLE_Z, made[SS_ROLE_Z], SS_READ_WRITE); /* becomes its gradient */
    touch_tensor(lo, t, SS_ROLE_SAVED, made[SS_ROLE_SAVED], SS_READ);
    touch_tensor(lo, t, SS_ROLE_WORKSPACE, made[SS_ROLE_WORKSPACE], SS_READ);
    touch_tensor(lo, t, SS_ROLE_DX, dx, SS_WRITE);
    if (b->x != lo->input)
        contribute(lo, b->x, dx);
    if (b->shortcut >= 0)
        ds = lower_shortcut_backward(lo, t, b, ds);
    if (b->residual >= 0 && b->residual != lo->input)
        contribute(lo, b->residual, ds);
}

static void lower_update(struct lowerer *lo, int k)
{
    char name[SS_NAME_BYTES];
    const int states = lo->plan->options.states;
    snprintf(name, sizeof name, "update %d", k);
    struct ss_plan_task *t = add_task(lo, SS_TASK_UPDATE, name, PRIORITY_UPDATE + k);
    if (!t)
        return;
    t->bucket = k;
    touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, k, SS_READ);
    touch(lo, t, SS_ROLE_PARAMS, SS_SPACE_PARAMS, k, SS_READ_WRITE);
    for (int s = 0; s < states; s++)
        touch(lo, t, (enum ss_role_kind)(SS_ROLE_STATE + s), SS_SPACE_STATE, k * states + s,
              SS_READ_WRITE);
    if (lo->plan->options.loss_scaling)
        touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ);
}

static void lower_bucket(struct lowerer *lo, int k)
{
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "all-reduce %d", k);
    struct ss_plan_task *t = add_task(lo, SS_TASK_ALLREDUCE, name, PRIORITY_COMM - k);
    if (!t)
        return;
    t->bucket = k;
    touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, k, SS_READ_WRITE);
    touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ_WRITE);
    if (!lo->plan->options.loss_scaling) {
        lower_update(lo, k);
        return;
    }
    if (looks_at_once(lo->plan))
        return;
    snprintf(name, sizeof name, "check %d", k);
    t = add_task(lo, SS_TASK_CHECK, name, PRIORITY_UPDATE + k);
    if (!t)
        return;
    t->bucket = k;
    touch(lo, t, SS_ROLE_GRADS, SS_SPACE_GRADS, k, SS_READ);
    touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ_WRITE);
}

/* Whether the step counts is known once all its gradients are: with loss scaling all updates come
 * last, those that the next forward needs first in front. */
static void lower_scaled_updates(struct lowerer *lo)
{
    for (int k = lo->plan->nbuckets - 1; k >= 0 && lo->status == SS_OK; k--)
        lower_update(lo, k);
    struct ss_plan_task *t = add_task(lo, SS_TASK_SCALE, "loss scale", PRIORITY_UPDATE - 1);
    if (t)
        touch(lo, t, SS_ROLE_SCALER, SS_SPACE_SCALER, 0, SS_READ_WRITE);
}

static void lower_reduce_metrics(struct lowerer *lo, enum ss_role_kind role, enum ss_space space)
{
    struct ss_plan_task *t =
        add_task(lo, SS_TASK_REDUCE_METRICS, "all-reduce metrics", PRIORITY_COMM);
    if (!t)
        return;
    touch(lo, t, role, space, 0, SS_READ_WRITE);
    touch(lo, t, SS_ROLE_TOKEN, SS_SPACE_TOKEN, 0, SS_READ_WRITE);
}

/* The step's metrics to all ranks' sum and the report. Summed where gradients are: one order of
 * collectives, and none of it waits for the host. */
static void lower_metrics(struct lowerer *lo)
{
    enum ss_space space = SS_SPACE_METRICS;
    enum ss_role_kind role = SS_ROLE_METRICS;
    int on_device = lo->plan->options.device && lo->plan->options.device_sums;
    if (on_device)
        lower_reduce_metrics(lo, role, space);
    if (lo->plan->options.device && lo->status == SS_OK) {
        struct ss_plan_task *t = add_task(lo, SS_TASK_FETCH, "fetch metrics", PRIORITY_COMM);
        if (!t)
            return;
        touch(lo, t, SS_ROLE_METRICS, SS_SPACE_METRICS, 0, SS_READ);
        touch(lo, t, SS_ROLE_FETCHED, SS_SPACE_FETCHED, 0, SS_WRITE);
        /* Reads nothing there: the next upload waits until this step has come so far. */
        touch(lo, t, SS_ROLE_STAGED, SS_SPACE_STAGED, 0, SS_READ);
        space = SS_SPACE_FETCHED;
        role = SS_ROLE_FETCHED;
    }
    if (!on_device && lo->status == SS_OK)
        lower_reduce_metrics(lo, role, space);
    struct ss_plan_task *t =
        lo->status == SS_OK ? add_task(lo, SS_TASK_REPORT, "report", PRIORITY_REPORT) : NULL;
    if (!t)
        return;
    touch(lo, t, role, space, 0, SS_READ);
    touch(lo, t, SS_ROLE_LOG, SS_SPACE_LOG, 0, SS_READ_WRITE);
}

static int bucket_ends_at(const struct ss_plan *plan, int i)
{
    for (int j = 0; j < i; j++)
        if (plan->block[j].bucket == plan->block[i].bucket)
            return 0;
    return plan->block[i].bucket >= 0;
}

static void lower_training(struct lowerer *lo)
{
    struct ss_plan *plan = lo->plan;
    lo->list = &plan->train;
    lower_input(lo);
    lo->first_forward = lo->list->count;
    for (int i = 0; i < plan->nblocks && lo->status == SS_OK; i++)
        lower_forward(lo, i, 1);
    if (!plan->options.no_overlap && lo->status == SS_OK)
        lower_metrics(lo);
    if (lo->status != SS_OK)
        return;

    int ready = 0, summed = 0; /* buckets */
    ss_value logits = plan->block[plan->nblocks - 1].x;
    contribute(lo, logits, lo->value_tensor[logits]);
    for (int i = plan->nblocks - 2; i >= 0 && lo->status == SS_OK; i--) {
        lower_backward(lo, i);
        if (lo->status != SS_OK || !bucket_ends_at(plan, i))
            continue;
        /* The bucket is full once the earliest of its blocks has run backward. */
        plan->bucket[plan->block[i].bucket].ready_task = lo->list->count - 1;
        ready++;
        while (!plan->options.no_overlap && summed < plan->nbuckets &&
               plan->sum_order[summed] < ready && lo->status == SS_OK)
            lower_bucket(lo, plan->sum_order[summed++]);
    }
    while (plan->options.no_overlap && summed < plan->nbuckets && lo->status == SS_OK)
        lower_bucket(lo, plan->sum_order[summed++]);
    if (plan->options.no_overlap && lo->status == SS_OK)
        lower_metrics(lo);
    if (plan->options.loss_scaling && lo->status == SS_OK)
        lower_scaled_updates(lo);
}

static void lower_evaluation(struct lowerer *lo)
{
    struct ss_plan *plan = lo->plan;
    lo->list = &plan->eval;
    for (int v = 0; v < ss_graph_values(plan->graph); v++)
        lo->value_tensor[v] = -1;
    lower_input(lo);
    lo->first_forward = lo->list->count;
    for (int i = 0; i < plan->nblocks && lo->status == SS_OK; i++)
        lower_forward(lo, i, 0);
}

static enum ss_status check_options(const struct ss_plan_options *o)
{
    if (o->batch < 1)
        return ss_fail(SS_ERR_INVALID, "batch size per rank is %d; it must be at least 1",
                       o->batch);
    if (!(o->bucket_mb >= 0) || !(o->first_bucket_mb >= 0) || !(o->last_bucket_mb >= 0))
        return ss_fail(SS_ERR_INVALID,
                       "bucket sizes cannot be below 0 MB (--bucket-mb %g, --first-bucket-mb %g, "
                       "--last-bucket-mb %g)",
                       o->bucket_mb, o->first_bucket_mb, o->last_bucket_mb);
    if (o->slices < 1 || o->slices > SS_PLAN_MAX_SLICES || o->slices > o->batch)
        return ss_fail(SS_ERR_INVALID, "a batch of %d cannot be loaded in %d slices", o->batch,
                       o->slices);
    if (o->states < 0 || o->states > SS_PLAN_MAX_STATES)
        return ss_fail(SS_ERR_INVALID, "a plan has no room for %d states of the optimizer",
                       o->states);
    if (o->grad_dtype != SS_DTYPE_F32 && o->grad_dtype != SS_DTYPE_F16 &&
        o->grad_dtype != SS_DTYPE_BF16)
        return ss_fail(SS_ERR_INVALID, "gradients cannot travel in number format %d",
                       (int)o->grad_dtype);
    if (o->device && o->input_block < 1)
        return ss_fail(SS_ERR_INVALID, "a device's input needs a channel block of at least 1");
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
    for (int s = 0; s <= options->slices; s++)
        plan->slice_begin[s] = (int)((long)options->batch * s / options->slices);

    size_t values = (size_t)ss_graph_values(graph);
    struct lowerer lo = {.plan = plan, .input = ss_graph_layer(graph, 0)->output, .status = SS_OK};
    lo.value_tensor = malloc(values * sizeof *lo.value_tensor);
    lo.grad = malloc(values * sizeof *lo.grad);
    lo.ngrad = calloc(values, sizeof *lo.ngrad);
    if (!lo.value_tensor || !lo.grad || !lo.ngrad)
        lo.status = ss_fail_memory("step plan", values * sizeof *lo.grad);
    if (lo.status == SS_OK)
        lo.status = ss_plan_fuse(plan);
    if (lo.status == SS_OK)
        lo.status = ss_plan_make_buckets(plan);
    if (lo.status == SS_OK) {
        memset(lo.value_tensor, -1, values * sizeof *lo.value_tensor);
        lower_training(&lo);
    }
    if (lo.status == SS_OK)
        lower_evaluation(&lo);
    if (lo.status == SS_OK)
        lo.status = ss_plan_assign_buffers(plan);
    free(lo.value_tensor);
    free(lo.grad);
    free(lo.ngrad);
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
        sum += plan->tensor[i].bytes;
    return sum;
}
