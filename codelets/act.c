/* codelets/act.c: an activation block without a convolution: [bn] [relu] [dropout] [add [relu]],
 * forward and backward.
 *
 * x (N,C,H,W) read   y (N,C,H,W) written   dx (N,C,H,W) written, or added to
 * All may be views of tensors. */
#include "codelets/op.h"

struct act {
    struct ss_op head;
    struct ss_norm_act norm;
};

enum ss_status ss_op_act_reserve(const struct ss_op *op, const struct ss_norm_act *norm)
{
    SS_TRY(op->kernels->norm_act_reserve(op->device, norm));
    return norm->shortcut ? op->kernels->norm_shortcut_reserve(op->device, norm) : SS_OK;
}

/* Restrict to the present images. */
static struct ss_norm_act of_present(const struct ss_op *op, const struct ss_norm_act *norm,
                                     const struct ss_task_data *d)
{
    struct ss_norm_act present = *norm;
    present.shape.n = ss_op_present(op, d);
    return present;
}

enum ss_status ss_op_act_sums(const struct ss_op *op, const struct ss_norm_act *norm,
                              const struct ss_task_data *d, const void *z)
{
    const struct ss_norm_act present = of_present(op, norm, d);
    return op->kernels->norm_act_sums(op->device, &present, z, ss_role(d, SS_ROLE_SUMS));
}

enum ss_status ss_op_act_stats(const struct ss_op *op, const struct ss_norm_act *norm,
                               const struct ss_task_data *d, const void *z, int sums)
{
    const struct ss_norm_act present = of_present(op, norm, d);
    float *saved = ss_role(d, SS_ROLE_SAVED), *running = ss_role(d, SS_ROLE_RUNNING);
    if (!norm->has_bn)
        return SS_OK;
    if (ss_op_part(d) == SS_PART_APPLY)
        return op->kernels->norm_act_stats_of_sums(op->device, &present, ss_role(d, SS_ROLE_SUMS),
                                                   saved, running);
    if (d->task->training)
        return op->kernels->norm_act_stats(op->device, &present, sums ? NULL : z, saved, running);
    return op->kernels->norm_act_stats_eval(op->device, &present, running, saved);
}

static float *param_of(const struct ss_op *op, float *base, enum ss_param_role role)
{
    return base ? ss_op_param(op, base, role) : NULL;
}

/* Returns the operation on the residual, as far as the task has it: parameters, or gradients. */
static struct ss_norm_shortcut shortcut_of(const struct ss_op *op, const struct ss_task_data *d)
{
    const struct ss_op *from = op->shortcut;
    float *params = ss_role(d, SS_ROLE_SHORTCUT_PARAMS),
          *grads = ss_role(d, SS_ROLE_SHORTCUT_GRADS);
    float *saved = ss_role(d, SS_ROLE_SHORTCUT_SAVED);
    const enum ss_param_role shift = saved ? SS_PARAM_BETA : SS_PARAM_BIAS;
    return (struct ss_norm_shortcut){.r = ss_role(d, SS_ROLE_RESIDUAL),
                                     .gamma = param_of(from, params, SS_PARAM_GAMMA),
                                     .beta = param_of(from, params, shift),
                                     .saved = saved,
                                     .dgamma = param_of(from, grads, SS_PARAM_GAMMA),
                                     .dbeta = param_of(from, grads, shift)};
}

static enum ss_status forward_present(const struct ss_op *op, const struct ss_norm_act *norm,
                                      const struct ss_task_data *d, const void *z)
{
    const struct ss_kernels *k = op->kernels;
    float *params = ss_role(d, SS_ROLE_PARAMS), *saved = ss_role(d, SS_ROLE_SAVED);
    if (norm->shortcut) {
        const struct ss_norm_shortcut s = shortcut_of(op, d);
        return k->norm_shortcut_forward(
            op->device, norm, z, ss_op_param(op, params, SS_PARAM_GAMMA),
            ss_op_param(op, params, SS_PARAM_BETA), saved, &s, ss_role(d, SS_ROLE_Y),
            ss_role(d, SS_ROLE_WORKSPACE), d->task->training, ss_op_dropout_key(d));
    }
    return k->norm_act_forward(op->device, norm, z, ss_op_param(op, params, SS_PARAM_GAMMA),
                               ss_op_param(op, params, SS_PARAM_BETA), saved,
                               ss_role(d, SS_ROLE_RESIDUAL), ss_role(d, SS_ROLE_Y),
                               ss_role(d, SS_ROLE_WORKSPACE), d->task->training,
                               ss_op_dropout_key(d));
}

enum ss_status ss_op_act_forward(const struct ss_op *op, const struct ss_norm_act *norm,
                                 const struct ss_task_data *d, const void *z, int sums)
{
    const struct ss_norm_act present = of_present(op, norm, d);
    SS_TRY(ss_op_act_stats(op, norm, d, z, sums));
    if (op->block->made_by >= 0) /* the reader does the rest */
        return SS_OK;
    SS_TRY(forward_present(op, &present, d, z));
    return ss_op_clear_absent(op, d, SS_ROLE_Y);
}

static enum ss_status backward_present(const struct ss_op *op, const struct ss_norm_act *norm,
                                       const struct ss_task_data *d, const void *z, void *dz)
{
    float *params = ss_role(d, SS_ROLE_PARAMS), *grads = ss_role(d, SS_ROLE_GRADS);
    struct ss_norm_act_grad g = {
        .ndy = d->task->plan->ndy,
        .ds = ss_role(d, SS_ROLE_DS),
        .y = ss_role(d, SS_ROLE_Y),
        .workspace = ss_role(d, SS_ROLE_WORKSPACE),
        .z = z,
        .dz = dz,
        .adds = d->task->plan->adds_dx,
        .gamma = ss_op_param(op, params, SS_PARAM_GAMMA),
        .beta = ss_op_param(op, params, SS_PARAM_BETA),
        .saved = ss_role(d, SS_ROLE_SAVED),
        .dgamma = param_of(op, grads, SS_PARAM_GAMMA),
        .dbeta = param_of(op, grads, SS_PARAM_BETA),
        .dropout_key = ss_op_dropout_key(d),
    };
    for (int i = 0; i < g.ndy; i++)
        g.dy[i] = ss_role(d, SS_ROLE_DY + i);
    if (norm->shortcut) {
        const struct ss_norm_shortcut s = shortcut_of(op, d);
        return op->kernels->norm_shortcut_backward(op->device, norm, &g, &s);
    }
    if (ss_op_part(d) == SS_PART_SUMS)
        return op->kernels->norm_act_backward_sums(op->device, norm, &g, ss_role(d, SS_ROLE_SUMS));
    if (ss_op_part(d) == SS_PART_APPLY)
        return op->kernels->norm_act_backward_apply(op->device, norm, &g, ss_role(d, SS_ROLE_SUMS));
    return op->kernels->norm_act_backward(op->device, norm, &g);
}

enum ss_status ss_op_act_backward(const struct ss_op *op, const struct ss_norm_act *norm,
                                  const struct ss_task_data *d, const void *z, void *dz)
{
    const struct ss_norm_act present = of_present(op, norm, d);
    const struct ss_plan_task *t = d->task->plan;
    SS_TRY(backward_present(op, &present, d, z, dz));
    if (norm->pool) /* else ds is one of dy */
        SS_TRY(ss_op_clear_absent(op, d, SS_ROLE_DS));
    if (norm->shortcut)
        SS_TRY(ss_op_clear_absent(op, d, SS_ROLE_RESIDUAL));
    if (t->role[SS_ROLE_Z] >= 0)
        return t->part == SS_PART_SUMS ? SS_OK : ss_op_clear_absent(op, d, SS_ROLE_Z);
    return t->adds_dx ? SS_OK : ss_op_clear_absent(op, d, SS_ROLE_DX);
}

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct ss_norm_act *norm = &((struct act *)head)->norm;
    const void *x = ss_role(d, SS_ROLE_X);
    return ss_op_part(d) == SS_PART_SUMS ? ss_op_act_sums(head, norm, d, x)
                                         : ss_op_act_forward(head, norm, d, x, 0);
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct ss_norm_act *norm = &((struct act *)head)->norm;
    /* If no derivative needs x, pass dy instead: it exists and is finite. */
    const int needs_x = norm->has_bn || norm->act != SS_ACT_NONE;
    const void *x = ss_role(d, needs_x ? SS_ROLE_X : SS_ROLE_DY);
    void *dx = ss_role(d, SS_ROLE_DX);
    if (norm->shortcut) { /* works in place */
        SS_TRY(head->kernels->copy_async(dx, x, ss_act_elements(&norm->shape) * head->element,
                                         head->kernels->stream(head->device)));
        x = dx;
    }
    return ss_op_act_backward(head, norm, d, x, dx);
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("act_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("act_backward");

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct act *op = (struct act *)head;
    op->norm = ss_op_norm_act(context->plan, block);
    op->norm.z_pitch = ss_block_pitch(context->plan, block, SS_ROLE_X);
    return ss_op_act_reserve(head, &op->norm);
}

const struct ss_op_class ss_act_op = {.name = "act",
                                      .bytes = sizeof(struct act),
                                      .init = init,
                                      .forward = forward,
                                      .backward = backward,
                                      .forward_codelet = &forward_codelet,
                                      .backward_codelet = &backward_codelet};
