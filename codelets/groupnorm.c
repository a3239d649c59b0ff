/* codelets/groupnorm.c: group normalization and an activation, forward and backward.
 *
 * x (N,C,H,W) read   y (N,C,H,W) written   gamma, beta (C): in the block's bucket, read
 * saved (2,N,groups) mean and invstd of each image's groups
 * dx (N,C,H,W) written: first a copy of x, then its gradient   dgamma, dbeta written */
#include "codelets/op.h"

struct groupnorm {
    struct ss_op head;
    struct ss_norm_act op; /* shape, eps and activation */
    int groups;
};

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct groupnorm *op = (struct groupnorm *)head;
    float *params = ss_role(d, SS_ROLE_PARAMS);
    return head->kernels->groupnorm_forward(
        head->device, &op->op, op->groups, ss_role(d, SS_ROLE_X),
        ss_op_param(head, params, SS_PARAM_GAMMA), ss_op_param(head, params, SS_PARAM_BETA),
        ss_role(d, SS_ROLE_SAVED), ss_role(d, SS_ROLE_Y));
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct groupnorm *op = (struct groupnorm *)head;
    const struct ss_kernels *k = head->kernels;
    float *params = ss_role(d, SS_ROLE_PARAMS), *grads = ss_role(d, SS_ROLE_GRADS);
    void *dx = ss_role(d, SS_ROLE_DX);
    size_t elements = ss_act_elements(&op->op.shape);
    SS_TRY(ss_op_sum_dy(head, d, elements));
    SS_TRY(k->copy_async(dx, ss_role(d, SS_ROLE_X), elements * head->element,
                         k->stream(head->device)));
    return k->groupnorm_backward(
        head->device, &op->op, op->groups, ss_role(d, SS_ROLE_DS), dx,
        ss_op_param(head, params, SS_PARAM_GAMMA), ss_op_param(head, params, SS_PARAM_BETA),
        ss_role(d, SS_ROLE_SAVED), ss_op_param(head, grads, SS_PARAM_GAMMA),
        ss_op_param(head, grads, SS_PARAM_BETA));
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("groupnorm_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("groupnorm_backward");

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct groupnorm *op = (struct groupnorm *)head;
    const struct ss_layer *l = ss_block_layer(context->plan, block, SS_PLACE_HEAD);
    op->op = ss_op_norm_act(context->plan, block);
    op->op.eps = l->eps;
    op->groups = l->groups;
    return head->kernels->groupnorm_reserve(head->device, &op->op, op->groups);
}

const struct ss_op_class ss_groupnorm_op = {.name = "groupnorm",
                                            .bytes = sizeof(struct groupnorm),
                                            .init = init,
                                            .forward = forward,
                                            .backward = backward,
                                            .forward_codelet = &forward_codelet,
                                            .backward_codelet = &backward_codelet};
