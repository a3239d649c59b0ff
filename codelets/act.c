/* codelets/act.c: an activation block that no convolution begins: [bn] [relu] [dropout] [add
 * [relu]] on its own, forward and backward.
 *
 * x (N,C,H,W) read   y (N,C,H,W) written
 * dx (N,C,H,W) written: first a copy of x, then its gradient */
#include "codelets/op.h"
#include "kernels/cuda/norm_act.h"

#include <stdlib.h>
#include <string.h>

struct act {
    struct ss_op head;
    struct ss_norm_act norm;
};

enum ss_status ss_op_act_reserve(const struct ss_op *op, const struct ss_norm_act *norm)
{
#ifdef HAVE_CUDA
    if (op->gpu)
        return ss_norm_act_cuda_reserve(op->gpu, norm);
#endif
    return ss_cpu_reserve(op->cpu, ss_norm_act_scratch_bytes(norm));
}

enum ss_status ss_op_act_forward(const struct ss_op *op, const struct ss_norm_act *norm,
                                 const struct ss_task_data *d, const float *z)
{
    float *params = ss_role(d, SS_ROLE_PARAMS), *saved = ss_role(d, SS_ROLE_SAVED);
    float *running = ss_role(d, SS_ROLE_RUNNING);
    if (norm->has_bn && d->task->training)
        SS_TRY(ss_norm_act_stats(op->cpu, norm, z, saved, running));
    else if (norm->has_bn)
        SS_TRY(ss_norm_act_stats_eval(norm, running, saved));
    return ss_norm_act_forward(op->cpu, norm, z, ss_op_param(op, params, SS_PARAM_GAMMA),
                               ss_op_param(op, params, SS_PARAM_BETA), saved,
                               ss_role(d, SS_ROLE_RESIDUAL), ss_role(d, SS_ROLE_Y),
                               d->task->training, d->args->dropout_key);
}

enum ss_status ss_op_act_backward(const struct ss_op *op, const struct ss_norm_act *norm,
                                  const struct ss_task_data *d, float *z)
{
    float *params = ss_role(d, SS_ROLE_PARAMS), *grads = ss_role(d, SS_ROLE_GRADS);
    struct ss_norm_act_grad g = {
        .ndy = d->task->plan->ndy,
        .ds = ss_role(d, SS_ROLE_DS),
        .y = ss_role(d, SS_ROLE_Y),
        .z = z,
        .gamma = ss_op_param(op, params, SS_PARAM_GAMMA),
        .beta = ss_op_param(op, params, SS_PARAM_BETA),
        .saved = ss_role(d, SS_ROLE_SAVED),
        .dgamma = ss_op_param(op, grads, SS_PARAM_GAMMA),
        .dbeta = ss_op_param(op, grads, SS_PARAM_BETA),
        .dropout_key = d->args->dropout_key,
    };
    for (int i = 0; i < g.ndy; i++)
        g.dy[i] = ss_role(d, SS_ROLE_DY + i);
    return ss_norm_act_backward(op->cpu, norm, &g);
}

#ifdef HAVE_CUDA
enum ss_status ss_op_act_forward_cuda(const struct ss_op *op, const struct ss_norm_act *norm,
                                      const struct ss_task_data *d, const void *z)
{
    float *params = ss_role(d, SS_ROLE_PARAMS), *saved = ss_role(d, SS_ROLE_SAVED);
    float *running = ss_role(d, SS_ROLE_RUNNING);
    if (norm->has_bn && d->task->training)
        SS_TRY(ss_norm_act_cuda_stats(op->gpu, norm, z, saved, running));
    else if (norm->has_bn)
        SS_TRY(ss_norm_act_cuda_stats_eval(op->gpu, norm, running, saved));
    return ss_norm_act_cuda_forward(op->gpu, norm, z, ss_op_param(op, params, SS_PARAM_GAMMA),
                                    ss_op_param(op, params, SS_PARAM_BETA), saved,
                                    ss_role(d, SS_ROLE_RESIDUAL), ss_role(d, SS_ROLE_Y),
                                    ss_role(d, SS_ROLE_WORKSPACE), d->task->training,
                                    d->args->dropout_key);
}

enum ss_status ss_op_act_backward_cuda(const struct ss_op *op, const struct ss_norm_act *norm,
                                       const struct ss_task_data *d, void *z)
{
    float *params = ss_role(d, SS_ROLE_PARAMS), *grads = ss_role(d, SS_ROLE_GRADS);
    struct ss_norm_act_cuda_grad g = {
        .ndy = d->task->plan->ndy,
        .ds = ss_role(d, SS_ROLE_DS),
        .y = ss_role(d, SS_ROLE_Y),
        .argmax = ss_role(d, SS_ROLE_WORKSPACE),
        .z = z,
        .gamma = ss_op_param(op, params, SS_PARAM_GAMMA),
        .beta = ss_op_param(op, params, SS_PARAM_BETA),
        .saved = ss_role(d, SS_ROLE_SAVED),
        .dgamma = ss_op_param(op, grads, SS_PARAM_GAMMA),
        .dbeta = ss_op_param(op, grads, SS_PARAM_BETA),
        .dropout_key = d->args->dropout_key,
    };
    for (int i = 0; i < g.ndy; i++)
        g.dy[i] = ss_role(d, SS_ROLE_DY + i);
    return ss_norm_act_cuda_backward(op->gpu, norm, &g);
}

static enum ss_status forward_cuda(struct ss_op *head, const struct ss_task_data *d)
{
    return ss_op_act_forward_cuda(head, &((struct act *)head)->norm, d, ss_role(d, SS_ROLE_X));
}

static enum ss_status backward_cuda(struct ss_op *head, const struct ss_task_data *d)
{
    const struct ss_norm_act *norm = &((struct act *)head)->norm;
    void *dx = ss_role(d, SS_ROLE_DX);
    size_t bytes = ss_act_elements(&norm->shape) * ss_dtype_bytes(ss_gpu_dtype(head->gpu));
    SS_TRY(ss_gpu_copy_async(dx, ss_role(d, SS_ROLE_X), bytes, ss_gpu_stream(head->gpu)));
    return ss_op_act_backward_cuda(head, norm, d, dx);
}
#endif

static enum ss_status forward_cpu(struct ss_op *head, const struct ss_task_data *d)
{
    return ss_op_act_forward(head, &((struct act *)head)->norm, d, ss_role(d, SS_ROLE_X));
}

static enum ss_status backward_cpu(struct ss_op *head, const struct ss_task_data *d)
{
    const struct ss_norm_act *norm = &((struct act *)head)->norm;
    float *dx = ss_role(d, SS_ROLE_DX);
    memcpy(dx, ss_role(d, SS_ROLE_X), ss_act_elements(&norm->shape) * sizeof(float));
    return ss_op_act_backward(head, norm, d, dx);
}

static struct starpu_codelet forward_codelet = SS_OP_FORWARD("act_forward");
static struct starpu_codelet backward_codelet = SS_OP_BACKWARD("act_backward");

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
    enum ss_status status = ss_op_act_reserve(&op->head, &op->norm);
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
                                         .forward_cpu = forward_cpu,
                                         .backward_cpu = backward_cpu,
                                         .forward_cuda = SS_IF_CUDA(forward_cuda),
                                         .backward_cuda = SS_IF_CUDA(backward_cuda),
                                         .forward = &forward_codelet,
                                         .backward = &backward_codelet};
