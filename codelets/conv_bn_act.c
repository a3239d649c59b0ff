/* codelets/conv_bn_act.c: y = relu_out(dropout(relu(bn(conv(x, w)))) + residual), on a GPU max
 * pooled too, forward and backward; every part but the convolution may be absent.
 *
 * x  (N,Ci,H,W) read       w (native), bias, gamma, beta: in the block's bucket, read
 * z  (N,Co,P,Q) the convolution's output, kept for backward, which turns it into its own gradient
 * saved (2,Co)  batch mean and invstd            running (2,Co) updated in training
 * y  (N,Co,P,Q) written    dx (N,Ci,H,W) written  dw, ... written to the bucket's slice
 * Source: Ioffe and Szegedy 2015, eq. 1-4; running statistics as PyTorch's BatchNorm2d. */
#include "codelets/op.h"
#include "kernels/cuda/conv.h"
#include "core/log.h"

#include <stdlib.h>

struct conv_bn_act {
    struct ss_op head;
    struct ss_conv_cpu *conv; /* one of the two */
    struct ss_conv_cuda *conv_cuda;
    int acts; /* something follows the convolution: */
    struct ss_norm_act norm;
};

static enum ss_status forward_cpu(struct ss_op *head, const struct ss_task_data *d)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
    float *params = ss_role(d, SS_ROLE_PARAMS);
    float *z = ss_role(d, op->acts ? SS_ROLE_Z : SS_ROLE_Y);
    SS_TRY(ss_conv_cpu_forward(op->conv, ss_role(d, SS_ROLE_X),
                               ss_op_param(head, params, SS_PARAM_WEIGHT),
                               ss_op_param(head, params, SS_PARAM_BIAS), z));
    return op->acts ? ss_op_act_forward(head, &op->norm, d, z) : SS_OK;
}

static enum ss_status backward_cpu(struct ss_op *head, const struct ss_task_data *d)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
    float *params = ss_role(d, SS_ROLE_PARAMS), *grads = ss_role(d, SS_ROLE_GRADS);
    float *dz = ss_role(d, op->acts ? SS_ROLE_Z : SS_ROLE_DS);
    if (op->acts)
        SS_TRY(ss_op_act_backward(head, &op->norm, d, dz));
    else
        SS_TRY(ss_op_sum_dy(head, d, ss_act_elements(&op->norm.shape)));
    SS_TRY(ss_conv_cpu_backward_weights(op->conv, ss_role(d, SS_ROLE_X), dz,
                                        ss_op_param(head, grads, SS_PARAM_WEIGHT),
                                        ss_op_param(head, grads, SS_PARAM_BIAS)));
    float *dx = ss_role(d, SS_ROLE_DX);
    return dx ? ss_conv_cpu_backward_data(op->conv, dz, ss_op_param(head, params, SS_PARAM_WEIGHT),
                                          dx)
              : SS_OK;
}

#ifdef HAVE_CUDA
static enum ss_status forward_cuda(struct ss_op *head, const struct ss_task_data *d)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
    void *z = ss_role(d, op->acts ? SS_ROLE_Z : SS_ROLE_Y);
    const struct ss_region *params = ss_role_region(d, SS_ROLE_PARAMS);
    SS_TRY(ss_conv_cuda_forward(op->conv_cuda, ss_role(d, SS_ROLE_X), ss_op_weight(head, params),
                                ss_op_param(head, params->data, SS_PARAM_BIAS), z));
    return op->acts ? ss_op_act_forward_cuda(head, &op->norm, d, z) : SS_OK;
}

static enum ss_status backward_cuda(struct ss_op *head, const struct ss_task_data *d)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
    float *grads = ss_role(d, SS_ROLE_GRADS);
    void *dz = ss_role(d, op->acts ? SS_ROLE_Z : SS_ROLE_DS), *dx = ss_role(d, SS_ROLE_DX);
    if (op->acts)
        SS_TRY(ss_op_act_backward_cuda(head, &op->norm, d, dz));
    else
        SS_TRY(ss_op_sum_dy_cuda(head, d, ss_act_elements(&op->norm.shape)));
    SS_TRY(ss_conv_cuda_backward_weights(op->conv_cuda, ss_role(d, SS_ROLE_X), dz,
                                         ss_op_param(head, grads, SS_PARAM_WEIGHT),
                                         ss_op_param(head, grads, SS_PARAM_BIAS)));
    const struct ss_region *params = ss_role_region(d, SS_ROLE_PARAMS);
    return dx ? ss_conv_cuda_backward_data(op->conv_cuda, dz, ss_op_weight(head, params), dx)
              : SS_OK;
}
#endif

static struct starpu_codelet forward_codelet = SS_OP_FORWARD("conv_bn_act_forward");
static struct starpu_codelet backward_codelet = SS_OP_BACKWARD("conv_bn_act_backward");

static void destroy(struct ss_op *head)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
#ifdef HAVE_CUDA
    ss_conv_cuda_destroy(op->conv_cuda);
#endif
    ss_conv_cpu_destroy(op->conv);
    free(op);
}

static enum ss_status create_conv(const struct ss_op_context *context,
                                  const struct ss_conv_shape *shape, struct conv_bn_act *op)
{
#ifdef HAVE_CUDA
    if (context->gpu)
        return ss_conv_cuda_create(context->gpu, shape, context->training, &op->conv_cuda);
#endif
    return ss_conv_cpu_create(context->cpu, shape, context->conv_algo, context->training,
                              &op->conv);
}

static enum ss_status create(const struct ss_op_context *context, int block, struct ss_op **out)
{
    struct conv_bn_act *op = ss_op_alloc(&ss_conv_bn_act_class, context, block, sizeof *op);
    if (!op)
        return SS_ERR_MEMORY;
    const struct ss_plan *plan = context->plan;
    const struct ss_layer *conv = ss_block_layer(plan, block, SS_PLACE_HEAD);
    op->acts = op->head.block->last != SS_PLACE_HEAD;
    op->norm = ss_op_norm_act(plan, block);
    struct ss_conv_shape shape = {.x = ss_block_input(plan, block),
                                  .y = op->norm.shape,
                                  .kh = conv->kernel,
                                  .kw = conv->kernel,
                                  .stride = conv->stride,
                                  .pad = conv->padding,
                                  .bias = conv->bias};
    enum ss_status status = create_conv(context, &shape, op);
    if (status == SS_OK && op->acts)
        status = ss_op_act_reserve(&op->head, &op->norm);
    if (status != SS_OK) {
        destroy(&op->head);
        return status;
    }
    *out = &op->head;
    return SS_OK;
}

static size_t weight_bytes(const struct ss_op *head)
{
    const struct conv_bn_act *op = (const struct conv_bn_act *)head;
#ifdef HAVE_CUDA
    if (head->gpu)
        return ss_conv_cuda_weight_elements(op->conv_cuda) * sizeof(float);
#endif
    return ss_conv_cpu_weight_bytes(op->conv);
}

static enum ss_status weight_import(struct ss_op *head, const float *plain, float *native)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
#ifdef HAVE_CUDA
    if (head->gpu) {
        ss_conv_cuda_import(op->conv_cuda, plain, native);
        return SS_OK;
    }
#endif
    return ss_conv_cpu_import(op->conv, plain, native);
}

static enum ss_status weight_export(struct ss_op *head, const float *native, float *plain)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
#ifdef HAVE_CUDA
    if (head->gpu) {
        ss_conv_cuda_export(op->conv_cuda, native, plain);
        return SS_OK;
    }
#endif
    return ss_conv_cpu_export(op->conv, native, plain);
}

const struct ss_op_class ss_conv_bn_act_class = {
    .name = "conv_bn_act",
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
