/* codelets/linear.c: fully connected layer behind a flatten, forward and backward.
 *
 * x (N,C,H,W) read   w (native), bias (K): in the block's bucket, read
 * y (N,K) plain, written   dx (N,C,H,W) written   dw, dbias written to the bucket's slice */
#include "codelets/op.h"
#include "codelets/kernels/linear_cpu.h"

#include <stdlib.h>

struct linear {
    struct ss_op head;
    struct ss_linear_cpu *linear;
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

static struct starpu_codelet forward_codelet = SS_COMPUTE_CODELET("linear_forward", ss_op_forward);
static struct starpu_codelet backward_codelet =
    SS_COMPUTE_CODELET("linear_backward", ss_op_backward);

static void destroy(struct ss_op *head)
{
    ss_linear_cpu_destroy(((struct linear *)head)->linear);
    free(head);
}

static enum ss_status create(const struct ss_op_context *context, int block, struct ss_op **out)
{
    struct linear *op = ss_op_alloc(&ss_linear_class, context, block, sizeof *op);
    if (!op)
        return SS_ERR_MEMORY;
    struct ss_act x = ss_block_input(context->plan, block);
    op->y = ss_block_output(context->plan, block);
    enum ss_status status =
        ss_linear_cpu_create(context->cpu, &x, op->y.c, context->training, &op->linear);
    if (status != SS_OK) {
        destroy(&op->head);
        return status;
    }
    *out = &op->head;
    return SS_OK;
}

static size_t weight_bytes(const struct ss_op *op)
{
    return ss_linear_cpu_weight_bytes(((const struct linear *)op)->linear);
}

static enum ss_status weight_import(struct ss_op *op, const float *plain, float *native)
{
    return ss_linear_cpu_import(((struct linear *)op)->linear, plain, native);
}

static enum ss_status weight_export(struct ss_op *op, const float *native, float *plain)
{
    return ss_linear_cpu_export(((struct linear *)op)->linear, native, plain);
}

const struct ss_op_class ss_linear_class = {
    .name = "linear",
    .create = create,
    .destroy = destroy,
    .forward_cpu = forward_cpu,
    .backward_cpu = backward_cpu,
    .forward = &forward_codelet,
    .backward = &backward_codelet,
    .weight_bytes = weight_bytes,
    .weight_import = weight_import,
    .weight_export = weight_export,
};
