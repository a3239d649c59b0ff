#include "codelets/lane.h"
#include "codelets/op.h"

struct ss_act ss_tensor_act(const struct ss_plan *plan, int tensor)
{
    const struct ss_plan_tensor *t = &plan->tensor[tensor];
    return (struct ss_act){t->n, t->c, t->h, t->w, t->block};
}

const struct ss_layer *ss_block_layer(const struct ss_plan *plan, int block, enum ss_place place)
{
    int i = plan->block[block].layer[place];
    return i < 0 ? NULL : ss_graph_layer(plan->graph, i);
}

const struct ss_plan_task *ss_block_forward(const struct ss_plan *plan, int block,
                                            enum ss_part part)
{
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        if (t->kind == SS_TASK_FORWARD && t->block == block &&
            (t->part == part || t->part == SS_PART_WHOLE))
            return t;
    }
    return NULL;
}

int ss_block_pitch(const struct ss_plan *plan, int block, enum ss_role_kind role)
{
    const int tensor = ss_block_forward(plan, block, SS_PART_APPLY)->tensor[role];
    const int of = tensor < 0 ? -1 : plan->tensor[tensor].of;
    return of < 0 ? 0 : plan->tensor[of].c;
}

struct ss_act ss_block_input_at(const struct ss_plan *plan, int block, enum ss_role_kind role)
{
    int tensor = ss_block_forward(plan, block, SS_PART_SUMS)->tensor[role];
    if (tensor >= 0)
        return ss_tensor_act(plan, tensor);
    const struct ss_value_info *v =
        ss_graph_value(plan->graph, ss_graph_layer(plan->graph, 0)->output);
    return (struct ss_act){plan->options.batch, v->c, v->h, v->w, 1}; /* the plain input slot */
}

struct ss_act ss_block_input(const struct ss_plan *plan, int block)
{
    return ss_block_input_at(plan, block, SS_ROLE_X);
}

struct ss_act ss_block_output(const struct ss_plan *plan, int block)
{
    const int *tensor = ss_block_forward(plan, block, SS_PART_APPLY)->tensor;
    enum ss_role_kind role = SS_ROLE_Y;
    if (plan->block[block].made_by >= 0) /* the tensor that y is recomputed from has its shape */
        role = tensor[SS_ROLE_Z] >= 0 ? SS_ROLE_Z : SS_ROLE_X;
    return ss_tensor_act(plan, tensor[role]);
}

static enum ss_status forward(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream; /* the device has the stream */
    return d->task->op->cls->forward(d->task->op, d);
}

enum ss_status ss_op_backward(const struct ss_task_data *d)
{
    const struct ss_op *op = d->task->op;
    if (op->kernels->watch_gradients)
        op->kernels->watch_gradients(op->device, ss_role(d, SS_ROLE_SCALER));
    return op->cls->backward(d->task->op, d);
}

static enum ss_status backward(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream;
    return ss_op_backward(d);
}

void ss_op_run_forward(void *buffers[], void *cl_arg)
{
    ss_lane_run(buffers, cl_arg, SS_LANE_COMPUTE, forward);
}

void ss_op_run_backward(void *buffers[], void *cl_arg)
{
    ss_lane_run(buffers, cl_arg, SS_LANE_COMPUTE, backward);
}

enum ss_status ss_op_submit(const struct ss_step_args *args)
{
    const struct ss_op_class *cls = args->task->op->cls;
    int forward = args->task->plan->kind == SS_TASK_FORWARD;
    return ss_task_submit(forward ? cls->forward_codelet : cls->backward_codelet, args,
                          sizeof *args);
}

void *ss_op_weight(const struct ss_op *op, const struct ss_task_data *d)
{
    const size_t at = op->offset[SS_PARAM_WEIGHT];
    char *copy = ss_role_copy(d, SS_ROLE_PARAMS);
    if (!copy)
        return (float *)ss_role(d, SS_ROLE_PARAMS) + at;
    return copy + at * op->element;
}

enum ss_status ss_op_clear_absent(const struct ss_op *op, const struct ss_task_data *d, int role)
{
    const int i = d->task->plan->tensor[role];
    if (!d->args->absent || i < 0)
        return SS_OK;
    const struct ss_plan_tensor *t = &op->plan->tensor[i],
                                *whole = t->of < 0 ? t : &op->plan->tensor[t->of];
    const size_t image = whole->bytes / (size_t)whole->n;
    return op->kernels->zero_async(ss_role_buffer(d, role) + image * (size_t)ss_op_present(op, d),
                                   image * (size_t)d->args->absent,
                                   op->kernels->stream(op->device));
}

struct ss_norm_act ss_op_norm_act(const struct ss_plan *plan, int block)
{
    const struct ss_layer *at[SS_PLACES];
    for (int p = 0; p < SS_PLACES; p++)
        at[p] = ss_block_layer(plan, block, (enum ss_place)p);
    struct ss_norm_act norm = {.shape = ss_block_output(plan, block),
                               .y_pitch = ss_block_pitch(plan, block, SS_ROLE_Y),
                               .has_bn = at[SS_PLACE_NORM] != NULL,
                               .act = at[SS_PLACE_ACT] ? at[SS_PLACE_ACT]->cls->act : SS_ACT_NONE,
                               .residual = at[SS_PLACE_ADD] != NULL,
                               .relu_out = at[SS_PLACE_OUT] != NULL};
    const int shortcut = plan->block[block].shortcut;
    if (shortcut >= 0)
        norm.shortcut =
            ss_block_layer(plan, shortcut, SS_PLACE_NORM) ? SS_SHORTCUT_BN : SS_SHORTCUT_BIAS;
    if (at[SS_PLACE_ACT])
        norm.slope = at[SS_PLACE_ACT]->slope;
    if (at[SS_PLACE_DROP]) {
        norm.dropout = at[SS_PLACE_DROP]->p;
        norm.drop = (enum ss_drop)at[SS_PLACE_DROP]->drop;
    }
    if (at[SS_PLACE_POOL]) { /* the normalized tensor is larger than the output */
        const struct ss_value_info *z = ss_graph_value(plan->graph, at[SS_PLACE_HEAD]->output);
        norm.pool = at[SS_PLACE_POOL]->kernel[0];
        norm.shape.h = z->h;
        norm.shape.w = z->w;
    }
    if (at[SS_PLACE_NORM]) {
        norm.ranks = plan->options.sync_stats;
        norm.eps = at[SS_PLACE_NORM]->eps;
        norm.momentum = at[SS_PLACE_NORM]->momentum;
    }
    return norm;
}

enum ss_status ss_op_sum_dy(const struct ss_op *op, const struct ss_task_data *d, size_t elements)
{
    int n = d->task->plan->ndy;
    if (n == 1)
        return SS_OK;
    const void *dy[SS_PLAN_MAX_DY];
    for (int i = 0; i < n; i++)
        dy[i] = ss_role(d, SS_ROLE_DY + i);
    return op->kernels->sum(op->device, dy, n, ss_role(d, SS_ROLE_DS), elements);
}
