/* codelets/linear.c: fully connected layer after a flatten, forward and backward.
 *
 * x (N,C,H,W) read   w (native), bias (K), optional: in the block's bucket, read
 * y (N,K) plain, written   dx (N,C,H,W) written   dw, dbias written to the bucket's slice */
#include "codelets/op.h"

struct linear {
    struct ss_op head;
    struct ss_linear_kernel *linear;
    struct ss_act y;
};

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct linear *op = (struct linear *)head;
    return head->kernels->linear_forward(
        op->linear, ss_role(d, SS_ROLE_X), ss_op_weight(head, d),
        ss_op_param(head, ss_role(d, SS_ROLE_PARAMS), SS_PARAM_BIAS), ss_role(d, SS_ROLE_Y));
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct linear *op = (struct linear *)head;
    float *grads = ss_role(d, SS_ROLE_GRADS);
    SS_TRY(ss_op_sum_dy(head, d, ss_act_elements(&op->y)));
    const void *dy = ss_role(d, SS_ROLE_DS);
    void *dx = ss_role(d, SS_ROLE_DX);
    SS_TRY(head->kernels->linear_backward_weights(op->linear, ss_role(d, SS_ROLE_X), dy,
                                                  ss_op_param(head, grads, SS_PARAM_WEIGHT),
                                                  ss_op_param(head, grads, SS_PARAM_BIAS)));
    return dx ? head->kernels->linear_backward_data(op->linear, dy, ss_op_weight(head, d), dx)
              : SS_OK;
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("linear_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("linear_backward");

static void destroy(struct ss_op *head)
{
    head->kernels->linear_destroy(((struct linear *)head)->linear);
}

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct linear *op = (struct linear *)head;
    struct ss_act x = ss_block_input(context->plan, block);
    op->y = ss_block_output(context->plan, block);
    const int bias = ss_block_layer(context->plan, block, SS_PLACE_HEAD)->bias;
    return head->kernels->linear_create(head->device, &x, op->y.c, bias, context->training,
                                        &op->linear);
}

static size_t weight_bytes(const struct ss_op *head)
{
    return head->kernels->linear_weight_bytes(((const struct linear *)head)->linear);
}

static enum ss_status weight_import(struct ss_op *head, const float *plain, float *native)
{
    return head->kernels->linear_import(((struct linear *)head)->linear, plain, native);
}

static enum ss_status weight_export(struct ss_op *head, const float *native, float *plain)
{
    return head->kernels->linear_export(((struct linear *)head)->linear, native, plain);
}

const struct ss_op_class ss_linear_op = {
    .name = "linear",
    .bytes = sizeof(struct linear),
    .init = init,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .forward_codelet = &forward_codelet,
    .backward_codelet = &backward_codelet,
    .weight_bytes = weight_bytes,
    .weight_import = weight_import,
    .weight_export = weight_export,
};
