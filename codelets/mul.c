/* codelets/mul.c: products, forward and backward.
 *
 * x (N,C,H,W) read   s read: (N,C,H,W) or (N,C,1,1), the second input, or (C) in the block's bucket
 * y (N,C,H,W) written   dx, ds written, each if needed; dy's contributions are added on the fly */
#include "codelets/op.h"

struct mul {
    struct ss_op head;
    struct ss_mul op;
};

/* Returns the parameter in one of the block's regions, or the tensor of a role. */
static void *factor(const struct mul *op, const struct ss_task_data *d, enum ss_role_kind region,
                    enum ss_role_kind tensor)
{
    return op->op.kind == SS_MUL_PARAM ? ss_op_param(&op->head, ss_role(d, region), SS_PARAM_OTHER)
                                       : ss_role(d, tensor);
}

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct mul *op = (struct mul *)head;
    return head->kernels->mul_forward(head->device, &op->op, ss_role(d, SS_ROLE_X),
                                      factor(op, d, SS_ROLE_PARAMS, SS_ROLE_INPUT),
                                      ss_role(d, SS_ROLE_Y));
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct mul *op = (struct mul *)head;
    const int n = d->task->plan->ndy;
    const void *dy[SS_PLAN_MAX_DY];
    for (int k = 0; k < n; k++)
        dy[k] = ss_role(d, SS_ROLE_DY + k);
    return head->kernels->mul_backward(head->device, &op->op, dy, n, ss_role(d, SS_ROLE_X),
                                       factor(op, d, SS_ROLE_PARAMS, SS_ROLE_INPUT),
                                       ss_role(d, SS_ROLE_DX),
                                       factor(op, d, SS_ROLE_GRADS, SS_ROLE_DINPUT));
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("mul_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("mul_backward");

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct mul *op = (struct mul *)head;
    op->op.x = ss_block_output(context->plan, block);
    if (ss_block_layer(context->plan, block, SS_PLACE_HEAD)->ninputs == 1) {
        op->op.kind = SS_MUL_PARAM;
    } else {
        op->op.s = ss_block_input_at(context->plan, block, SS_ROLE_INPUT);
        op->op.kind =
            op->op.s.h == op->op.x.h && op->op.s.w == op->op.x.w ? SS_MUL_EQUAL : SS_MUL_IMAGE;
    }
    return head->kernels->mul_reserve(head->device, &op->op);
}

#define MUL(kind)                                                                                  \
    const struct ss_op_class ss_##kind##_op = {.name = #kind,                                      \
                                               .bytes = sizeof(struct mul),                        \
                                               .init = init,                                       \
                                               .forward = forward,                                 \
                                               .backward = backward,                               \
                                               .forward_codelet = &forward_codelet,                \
                                               .backward_codelet = &backward_codelet};
MUL(mul)
MUL(scale)
