/* codelets/pool.c: max and average pooling, forward and backward.
 *
 * x (N,C,H,W) read   y (N,C,P,Q) written   dx (N,C,H,W) written
 * workspace: max pooling's argmax, written, read in backward */
#include "codelets/op.h"
#include "core/log.h"

struct pool {
    struct ss_op head;
    struct ss_pool_kernel *pool;
    struct ss_act y;
};

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    return head->kernels->pool_forward(((struct pool *)head)->pool, ss_role(d, SS_ROLE_X),
                                       ss_role(d, SS_ROLE_Y), ss_role(d, SS_ROLE_WORKSPACE));
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct pool *op = (struct pool *)head;
    void *dx = ss_role(d, SS_ROLE_DX);
    SS_TRY(ss_op_sum_dy(head, d, ss_act_elements(&op->y)));
    return dx ? head->kernels->pool_backward(op->pool, ss_role(d, SS_ROLE_DS),
                                             ss_role(d, SS_ROLE_WORKSPACE), dx)
              : SS_OK;
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("pool_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("pool_backward");

static void destroy(struct ss_op *head)
{
    head->kernels->pool_destroy(((struct pool *)head)->pool);
}

static enum ss_status check_workspace(const struct ss_plan *plan, int block, const struct pool *op)
{
    int workspace = ss_block_forward(plan, block, SS_PART_WHOLE)->tensor[SS_ROLE_WORKSPACE];
    size_t need = op->head.kernels->pool_workspace_bytes(op->pool);
    size_t have = workspace < 0 ? 0 : plan->tensor[workspace].bytes;
    if (need > have)
        return ss_fail(SS_ERR_LIBRARY,
                       "%s: the plan reserves %zu bytes for argmax, the library requires %zu",
                       op->head.block->name, have, need);
    return SS_OK;
}

static enum ss_status init_kind(struct pool *op, enum ss_pool_kind kind,
                                const struct ss_op_context *context, int block)
{
    const struct ss_plan *plan = context->plan;
    const struct ss_layer *l = ss_block_layer(plan, block, SS_PLACE_HEAD);
    op->y = ss_block_output(plan, block);
    struct ss_pool_shape shape = {.kind = kind,
                                  .x = ss_block_input(plan, block),
                                  .y = op->y,
                                  .kernel = {l->kernel[0], l->kernel[1]},
                                  .stride = {l->stride[0], l->stride[1]},
                                  .pad = {l->padding[0], l->padding[1]},
                                  .count_pad = l->count_include_pad};
    /* With an argmax output, evaluation runs the same pass as training. */
    enum ss_status status = op->head.kernels->pool_create(op->head.device, &shape, 1, &op->pool);
    return status == SS_OK ? check_workspace(plan, block, op) : status;
}

static enum ss_status init_max(struct ss_op *op, const struct ss_op_context *context, int block)
{
    return init_kind((struct pool *)op, SS_POOL_MAX, context, block);
}

static enum ss_status init_avg(struct ss_op *op, const struct ss_op_context *context, int block)
{
    const struct ss_layer *l = ss_block_layer(context->plan, block, SS_PLACE_HEAD);
    return init_kind((struct pool *)op, l->kernel[0] ? SS_POOL_AVG : SS_POOL_ADAPTIVE, context,
                     block);
}

const struct ss_op_class ss_maxpool_op = {.name = "maxpool",
                                          .bytes = sizeof(struct pool),
                                          .init = init_max,
                                          .destroy = destroy,
                                          .forward = forward,
                                          .backward = backward,
                                          .forward_codelet = &forward_codelet,
                                          .backward_codelet = &backward_codelet};
const struct ss_op_class ss_avgpool_op = {.name = "avgpool",
                                          .bytes = sizeof(struct pool),
                                          .init = init_avg,
                                          .destroy = destroy,
                                          .forward = forward,
                                          .backward = backward,
                                          .forward_codelet = &forward_codelet,
                                          .backward_codelet = &backward_codelet};
