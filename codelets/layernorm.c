/* codelets/layernorm.c: layer normalization over channels, forward and backward.
 *
 * x (N,C,H,W) read   y (N,C,H,W) written   gamma, beta (C): in the block's bucket, read
 * saved (2,N,H,W) mean and invstd of each position   dx (N,C,H,W), dgamma, dbeta written */
#include "codelets/op.h"

struct layernorm {
    struct ss_op head;
    struct ss_act shape;
    float eps;
};

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct layernorm *op = (struct layernorm *)head;
    float *params = ss_role(d, SS_ROLE_PARAMS);
    return head->kernels->layernorm_forward(
        head->device, &op->shape, op->eps, ss_role(d, SS_ROLE_X),
        ss_op_param(head, params, SS_PARAM_GAMMA), ss_op_param(head, params, SS_PARAM_BETA),
        ss_role(d, SS_ROLE_SAVED), ss_role(d, SS_ROLE_Y));
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct layernorm *op = (struct layernorm *)head;
    float *params = ss_role(d, SS_ROLE_PARAMS), *grads = ss_role(d, SS_ROLE_GRADS);
    SS_TRY(ss_op_sum_dy(head, d, ss_act_elements(&op->shape)));
    return head->kernels->layernorm_backward(
        head->device, &op->shape, ss_role(d, SS_ROLE_DS), ss_role(d, SS_ROLE_X),
        ss_op_param(head, params, SS_PARAM_GAMMA), ss_role(d, SS_ROLE_SAVED),
        ss_role(d, SS_ROLE_DX), ss_op_param(head, grads, SS_PARAM_GAMMA),
        ss_op_param(head, grads, SS_PARAM_BETA));
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("layernorm_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("layernorm_backward");

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct layernorm *op = (struct layernorm *)head;
    op->shape = ss_block_output(context->plan, block);
    op->eps = ss_block_layer(context->plan, block, SS_PLACE_HEAD)->eps;
    return head->kernels->layernorm_reserve(head->device, &op->shape);
}

const struct ss_op_class ss_layernorm_op = {.name = "layernorm",
                                            .bytes = sizeof(struct layernorm),
                                            .init = init,
                                            .forward = forward,
                                            .backward = backward,
                                            .forward_codelet = &forward_codelet,
                                            .backward_codelet = &backward_codelet};
