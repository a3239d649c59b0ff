/* codelets/attention.c: scaled dot-product attention, forward and backward.
 *
 * x (N,3E,H,W) q, k, v, read   y (N,E,H,W) written
 * saved (N,heads,H W): log of each query's sum of exponentials   dx (N,3E,H,W) written */
#include "codelets/op.h"

struct attention {
    struct ss_op head;
    struct ss_attention_kernel *attention;
    struct ss_act y;
};

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    return head->kernels->attention_forward(((struct attention *)head)->attention,
                                            ss_role(d, SS_ROLE_X), ss_role(d, SS_ROLE_SAVED),
                                            ss_role(d, SS_ROLE_Y));
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct attention *op = (struct attention *)head;
    void *dx = ss_role(d, SS_ROLE_DX);
    SS_TRY(ss_op_sum_dy(head, d, ss_act_elements(&op->y)));
    return dx ? head->kernels->attention_backward(op->attention, ss_role(d, SS_ROLE_X),
                                                  ss_role(d, SS_ROLE_DS), ss_role(d, SS_ROLE_SAVED),
                                                  dx)
              : SS_OK;
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("attention_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("attention_backward");

static void destroy(struct ss_op *head)
{
    head->kernels->attention_destroy(((struct attention *)head)->attention);
}

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct attention *op = (struct attention *)head;
    op->y = ss_block_output(context->plan, block);
    const struct ss_attention_shape shape = {
        .x = ss_block_input(context->plan, block),
        .y = op->y,
        .heads = ss_block_layer(context->plan, block, SS_PLACE_HEAD)->heads};
    return head->kernels->attention_create(head->device, &shape, context->training, &op->attention);
}

const struct ss_op_class ss_attention_op = {.name = "attention",
                                            .bytes = sizeof(struct attention),
                                            .init = init,
                                            .destroy = destroy,
                                            .forward = forward,
                                            .backward = backward,
                                            .forward_codelet = &forward_codelet,
                                            .backward_codelet = &backward_codelet};
