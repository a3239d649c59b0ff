/* codelets/linear.c: fully connected layer behind a flatten, forward and backward.
 *
 * x (N,C,H,W) read   w (native), bias (K): in the block's bucket, read
 * y (N,K) plain, written   dx (N,C,H,W) written   dw, dbias written to the bucket's slice */
#include "codelets/op.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cpu/linear.h"
#include "kernels/cuda/linear.h"

#include <stdlib.h>

struct linear {
    struct ss_op head;
    struct ss_linear_cpu *linear; /* one of the two */
    struct ss_linear_cuda *linear_cuda;
    struct ss_act y;
};

static enum ss_status forward_cpu(struct ss_op *head, const struct ss_task_data *d)
{
    struct linear *op = (struct linear *)head;
    float *params = ss_role(d, SS_ROLE_PARAMS);
    return ss_linear_cpu_forward(
        op->linear, ss_role(d, SS_ROLE_X), ss_op_param(&op->head, params, SS_PARAM_WEIGHT),
        ss_op_param(&op->head, params, SS_PARAM_BIAS), ss_role(d, SS_ROLE_Y));
}

static enum ss_status backward_cpu(struct ss_op *head, const struct ss_task_data *d)
{
    struct linear *op = (struct linear *)head;
    float *params = ss_role(d, SS_ROLE_PARAMS), *grads = ss_role(d, SS_ROLE_GRADS);
    SS_TRY(ss_op_sum_dy(&op->head, d, ss_act_elements(&op->y)));
    const float *dy = ss_role(d, SS_ROLE_DS);
    SS_TRY(ss_linear_cpu_backward_weights(op->linear, ss_role(d, SS_ROLE_X), dy,
                                          ss_op_param(&op->head, grads, SS_PARAM_WEIGHT),
                                          ss_op_param(&op->head, grads, SS_PARAM_BIAS)));
    float *dx = ss_role(d, SS_ROLE_DX);
    return dx ? ss_linear_cpu_backward_data(op->linear, dy,
                                            ss_op_param(&op->head, params, SS_PARAM_WEIGHT), dx)
              : SS_OK;
}

#ifdef HAVE_CUDA
static enum ss_status forward_cuda(struct ss_op *head, const struct ss_task_data *d)
{
    struct linear *op = (struct linear *)head;
    const struct ss_region *params = ss_role_region(d, SS_ROLE_PARAMS);
    return ss_linear_cuda_forward(
        op->linear_cuda, ss_role(d, SS_ROLE_X), ss_op_weight(head, params),
        ss_op_param(head, params->data, SS_PARAM_BIAS), ss_role(d, SS_ROLE_Y));
}

static enum ss_status backward_cuda(struct ss_op *head, const struct ss_task_data *d)
{
    struct linear *op = (struct linear *)head;
    float *grads = ss_role(d, SS_ROLE_GRADS);
    SS_TRY(ss_op_sum_dy_cuda(head, d, ss_act_elements(&op->y)));
    const void *dy = ss_role(d, SS_ROLE_DS);
    SS_TRY(ss_linear_cuda_backward_weights(op->linear_cuda, ss_role(d, SS_ROLE_X), dy,
                                           ss_op_param(head, grads, SS_PARAM_WEIGHT),
                                           ss_op_param(head, grads, SS_PARAM_BIAS)));
    void *dx = ss_role(d, SS_ROLE_DX);
    const struct ss_region *params = ss_role_region(d, SS_ROLE_PARAMS);
    return dx ? ss_linear_cuda_backward_data(op->linear_cuda, dy, ss_op_weight(head, params), dx)
              : SS_OK;
}
#endif

static struct starpu_codelet forward_codelet = SS_OP_FORWARD("linear_forward");
static struct starpu_codelet backward_codelet = SS_OP_BACKWARD("linear_backward");

static void destroy(struct ss_op *head)
{
    struct linear *op = (struct linear *)head;
#ifdef HAVE_CUDA
    ss_linear_cuda_destroy(op->linear_cuda);
#endif
    ss_linear_cpu_destroy(op->linear);
    free(op);
}

static enum ss_status create_linear(const struct ss_op_context *context, const struct ss_act *x,
                                    struct linear *op)
{
#ifdef HAVE_CUDA
    if (context->gpu)
        return ss_linear_cuda_create(context->gpu, x, op->y.c, context->training, &op->linear_cuda);
#endif
    return ss_linear_cpu_create(context->cpu, x, op->y.c, context->training, &op->linear);
}

static enum ss_status create(const struct ss_op_context *context, int block, struct ss_op **out)
{
    struct linear *op = ss_op_alloc(&ss_linear_class, context, block, sizeof *op);
    if (!op)
        return SS_ERR_MEMORY;
    struct ss_act x = ss_block_input(context->plan, block);
    op->y = ss_block_output(context->plan, block);
    enum ss_status status = create_linear(context, &x, op);
    if (status != SS_OK) {
        destroy(&op->head);
        return status;
    }
    *out = &op->head;
    return SS_OK;
}

static size_t weight_bytes(const struct ss_op *head)
{
    const struct linear *op = (const struct linear *)head;
#ifdef HAVE_CUDA
    if (head->gpu)
        return ss_linear_cuda_weight_elements(op->linear_cuda) * sizeof(float);
#endif
    return ss_linear_cpu_weight_bytes(op->linear);
}

static enum ss_status weight_import(struct ss_op *head, const float *plain, float *native)
{
    struct linear *op = (struct linear *)head;
#ifdef HAVE_CUDA
    if (head->gpu) {
        ss_linear_cuda_import(op->linear_cuda, plain, native);
        return SS_OK;
    }
#endif
    return ss_linear_cpu_import(op->linear, plain, native);
}

static enum ss_status weight_export(struct ss_op *head, const float *native, float *plain)
{
    struct linear *op = (struct linear *)head;
#ifdef HAVE_CUDA
    if (head->gpu) {
        ss_linear_cuda_export(op->linear_cuda, native, plain);
        return SS_OK;
    }
#endif
    return ss_linear_cpu_export(op->linear, native, plain);
}

const struct ss_op_class ss_linear_class = {
    .name = "linear",
    .create = create,
    .destroy = destroy,
    .forward_cpu = forward_cpu,
    .backward_cpu = backward_cpu,
    .forward_cuda = SS_IF_CUDA(forward_cuda),
    .backward_cuda = SS_IF_CUDA(backward_cuda),
    .forward = &forward_codelet,
    .backward = &backward_codelet,
    .weight_bytes = weight_bytes,
    .weight_import = weight_import,
    .weight_export = weight_export,
};
