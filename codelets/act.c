/* codelets/act.c: an activation block that no convolution begins: [bn] [relu] [dropout] [add
 * [relu]] on its own, forward and backward.
 *
 * x (N,C,H,W) read   y (N,C,H,W) written   dx (N,C,H,W) written: first a copy of x, then its
 * gradient */
#include "codelets/op.h"

#include <stdlib.h>
#include <string.h>

struct act {
    struct ss_op head;
    struct ss_norm_act norm;
};

static enum ss_status forward(struct act *op, const struct ss_task_data *d)
{
    const float *x = ss_role(d, SS_ROLE_X);
    float *params = ss_role(d, SS_ROLE_PARAMS), *saved = ss_role(d, SS_ROLE_SAVED);
    if (op->norm.has_bn && d->task->training)
        SS_TRY(ss_norm_act_stats(op->head.cpu, &op->norm, x, saved, ss_role(d, SS_ROLE_RUNNING)));
    else if (op->norm.has_bn)
        SS_TRY(ss_norm_act_stats_eval(&op->norm, ss_role(d, SS_ROLE_RUNNING), saved));
    return ss_norm_act_forward(
        op->head.cpu, &op->norm, x, ss_op_param(&op->head, params, SS_PARAM_GAMMA),
        ss_op_param(&op->head, params, SS_PARAM_BETA), saved, ss_role(d, SS_ROLE_RESIDUAL),
        ss_role(d, SS_ROLE_Y), d->task->training, d->args->dropout_key);
}

static enum ss_status backward(struct act *op, const struct ss_task_data *d)
{
    float *params = ss_role(d, SS_ROLE_PARAMS), *grads = ss_role(d, SS_ROLE_GRADS);
    float *dx = ss_role(d, SS_ROLE_DX);
    if (dx)
        memcpy(dx, ss_role(d, SS_ROLE_X), ss_act_elements(&op->norm.shape) * sizeof(float));
    struct ss_norm_act_grad g = {
        .ndy = d->task->plan->ndy,
        .ds = ss_role(d, SS_ROLE_DS),
        .y = ss_role(d, SS_ROLE_Y),
        .z = dx,
        .gamma = ss_op_param(&op->head, params, SS_PARAM_GAMMA),
        .beta = ss_op_param(&op->head, params, SS_PARAM_BETA),
        .saved = ss_role(d, SS_ROLE_SAVED),
        .dgamma = ss_op_param(&op->head, grads, SS_PARAM_GAMMA),
        .dbeta = ss_op_param(&op->head, grads, SS_PARAM_BETA),
        .dropout_key = d->args->dropout_key,
    };
    for (int i = 0; i < g.ndy; i++)
        g.dy[i] = ss_role(d, SS_ROLE_DY + i);
    return ss_norm_act_backward(op->head.cpu, &op->norm, &g);
}

static void cpu_forward(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_data(buffers, cl_arg);
    if (ss_run_ok(d.task->run))
        ss_run_fail(d.task->run, forward((struct act *)d.task->op, &d));
}

static void cpu_backward(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_data(buffers, cl_arg);
    if (ss_run_ok(d.task->run))
        ss_run_fail(d.task->run, backward((struct act *)d.task->op, &d));
}

static struct starpu_codelet forward_codelet = SS_COMPUTE_CODELET("act_forward", cpu_forward);
static struct starpu_codelet backward_codelet = SS_COMPUTE_CODELET("act_backward", cpu_backward);

static void destroy(struct ss_op *op)
{
    free(op);
}

static enum ss_status create(const struct ss_op_context *context, int block, struct ss_op **out)
{
    struct act *op = ss_op_alloc(&ss_act_class, context, block, sizeof *op);
    if (!op)
        return SS_ERR_MEMORY;
    op->norm = ss_op_norm_act(context->plan, block);
    enum ss_status status = ss_cpu_reserve(context->cpu, ss_norm_act_scratch_bytes(&op->norm));
    if (status != SS_OK) {
        free(op);
        return status;
    }
    *out = &op->head;
    return SS_OK;
}

const struct ss_op_class ss_act_class = {.name = "act",
                                         .create = create,
                                         .destroy = destroy,
                                         .forward = &forward_codelet,
                                         .backward = &backward_codelet};
