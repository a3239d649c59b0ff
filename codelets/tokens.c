/* codelets/tokens.c: converts a feature map's positions to a sequence, and selects one token of a
 * sequence, forward and backward.
 *
 * tokens  x (N,C,H,W) read   y (N,C,S,1) written   class_token (C), positions (S,C): in the block's
 *         bucket, read   dx (N,C,H,W) and their gradients written
 * token   x (N,C,H,W) read   y (N,C,1,1) written   dx (N,C,H,W) written */
#include "codelets/op.h"

struct tokens {
    struct ss_op head;
    struct ss_tokens_shape shape;
    int index; /* token */
};

static enum ss_status tokens_forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct tokens *op = (struct tokens *)head;
    float *params = ss_role(d, SS_ROLE_PARAMS);
    return head->kernels->tokens_forward(
        head->device, &op->shape, ss_role(d, SS_ROLE_X), ss_op_param(head, params, SS_PARAM_OTHER),
        ss_op_param(head, params, SS_PARAM_OTHER_2), ss_role(d, SS_ROLE_Y));
}

static enum ss_status tokens_backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct tokens *op = (struct tokens *)head;
    float *grads = ss_role(d, SS_ROLE_GRADS);
    SS_TRY(ss_op_sum_dy(head, d, ss_act_elements(&op->shape.y)));
    return head->kernels->tokens_backward(
        head->device, &op->shape, ss_role(d, SS_ROLE_DS), ss_role(d, SS_ROLE_DX),
        ss_op_param(head, grads, SS_PARAM_OTHER), ss_op_param(head, grads, SS_PARAM_OTHER_2));
}

static enum ss_status token_forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct tokens *op = (struct tokens *)head;
    return head->kernels->token_forward(head->device, &op->shape.x, op->index,
                                        ss_role(d, SS_ROLE_X), ss_role(d, SS_ROLE_Y));
}

static enum ss_status token_backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct tokens *op = (struct tokens *)head;
    void *dx = ss_role(d, SS_ROLE_DX);
    SS_TRY(ss_op_sum_dy(head, d, ss_act_elements(&op->shape.y)));
    return dx ? head->kernels->token_backward(head->device, &op->shape.x, op->index,
                                              ss_role(d, SS_ROLE_DS), dx)
              : SS_OK;
}

static struct ss_codelet tokens_forward_codelet = SS_OP_FORWARD("tokens_forward");
static struct ss_codelet tokens_backward_codelet = SS_OP_BACKWARD("tokens_backward");
static struct ss_codelet token_forward_codelet = SS_OP_FORWARD("token_forward");
static struct ss_codelet token_backward_codelet = SS_OP_BACKWARD("token_backward");

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct tokens *op = (struct tokens *)head;
    const struct ss_layer *l = ss_block_layer(context->plan, block, SS_PLACE_HEAD);
    op->shape = (struct ss_tokens_shape){.x = ss_block_input(context->plan, block),
                                         .y = ss_block_output(context->plan, block),
                                         .class_token = l->class_token,
                                         .positions = l->positions};
    op->index = l->index;
    return SS_OK;
}

const struct ss_op_class ss_tokens_op = {.name = "tokens",
                                         .bytes = sizeof(struct tokens),
                                         .init = init,
                                         .forward = tokens_forward,
                                         .backward = tokens_backward,
                                         .forward_codelet = &tokens_forward_codelet,
                                         .backward_codelet = &tokens_backward_codelet};
const struct ss_op_class ss_token_op = {.name = "token",
                                        .bytes = sizeof(struct tokens),
                                        .init = init,
                                        .forward = token_forward,
                                        .backward = token_backward,
                                        .forward_codelet = &token_forward_codelet,
                                        .backward_codelet = &token_backward_codelet};
