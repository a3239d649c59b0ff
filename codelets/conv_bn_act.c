/* codelets/conv_bn_act.c: y = relu_out(dropout(relu(bn(conv(x, w)))) + residual), on a GPU also
 * max pooled, forward and backward. All operations except the convolution are optional. On a GPU,
 * bias or bn of a shortcut may be delegated to the block that adds it.
 *
 * x  (N,Ci,H,W) read, or recomputed from z of the preceding block: struct ss_norm_source
 * w (native), bias, gamma, beta: in the block's bucket, read
 * z  (N,Co,P,Q) the convolution's output, saved for backward, which overwrites it with its gradient
 * saved (2,Co)  batch mean and invstd            running (2,Co) updated in training
 * y  (N,Co,P,Q) written    dx (N,Ci,H,W) written  dw, ... written to the bucket's slice
 *
 * With synchronized statistics the tasks are split (enum ss_part), with sums (2,C), backward
 * (4,C), fp64, between the parts. Backward is also split if the weight gradient is deferred.
 *
 * Source: Ioffe and Szegedy 2015, eq. 1-4; running statistics as PyTorch's BatchNorm2d. */
#include "codelets/op.h"

struct conv_bn_act {
    struct ss_op head;
    struct ss_conv_kernel *conv;
    int sums; /* in training conv stores them for BatchNorm, in saved */
    int acts; /* this block applies more than the convolution */
    int bias; /* this block adds a bias */
    struct ss_norm_act norm;
    struct ss_norm_source source; /* of x, if that is not stored */
};

static float *bias_of(const struct ss_op *head, float *base)
{
    const struct conv_bn_act *op = (const struct conv_bn_act *)head;
    return op->bias ? ss_op_param(head, base, SS_PARAM_BIAS) : NULL;
}

/* Set up the recomputation of x. */
static enum ss_status begin_source(struct conv_bn_act *op, const struct ss_task_data *d)
{
    struct ss_norm_source *s = &op->source;
    const struct ss_op *from = op->head.made;
    float *params = ss_role(d, SS_ROLE_X_PARAMS);
    if (!from)
        return SS_OK;
    s->gamma = params ? ss_op_param(from, params, SS_PARAM_GAMMA) : NULL;
    s->beta = params ? ss_op_param(from, params, SS_PARAM_BETA) : NULL;
    s->saved = ss_role(d, SS_ROLE_X_SAVED);
    s->dropout_key = &d->args->source_key;
    s->training = d->task->training;
    return op->head.kernels->conv_source(op->conv, s);
}

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
    const void *x = ss_role(d, SS_ROLE_X), *w = ss_op_weight(head, d);
    void *z = ss_role(d, op->acts ? SS_ROLE_Z : SS_ROLE_Y);
    const float *bias = bias_of(head, ss_role(d, SS_ROLE_PARAMS));
    /* The sums would be over the whole batch. */
    const int sums = op->sums && d->task->training && !d->args->absent;
    if (ss_op_part(d) == SS_PART_APPLY)
        return ss_op_act_forward(head, &op->norm, d, z, 0);
    SS_TRY(begin_source(op, d));
    if (sums)
        SS_TRY(
            head->kernels->conv_forward_sums(op->conv, x, w, bias, z, ss_role(d, SS_ROLE_SAVED)));
    else if (ss_block_only_adds(head->block))
        SS_TRY(
            head->kernels->conv_forward_add(op->conv, x, w, bias, ss_role(d, SS_ROLE_RESIDUAL), z));
    else
        SS_TRY(head->kernels->conv_forward(op->conv, x, w, bias, z));
    if (ss_op_part(d) == SS_PART_SUMS)
        return ss_op_act_sums(head, &op->norm, d, z);
    return op->acts ? ss_op_act_forward(head, &op->norm, d, z, sums)
                    : ss_op_act_stats(head, &op->norm, d, z, sums);
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
    const enum ss_part part = ss_op_part(d);
    float *grads = ss_role(d, SS_ROLE_GRADS);
    void *dz = ss_role(d, op->acts ? SS_ROLE_Z : SS_ROLE_DS), *dx = ss_role(d, SS_ROLE_DX);
    if (part != SS_PART_WEIGHTS)
        SS_TRY(op->acts ? ss_op_act_backward(head, &op->norm, d, dz, dz)
                        : ss_op_sum_dy(head, d, ss_act_elements(&op->norm.shape)));
    if (part == SS_PART_WHOLE || part == SS_PART_WEIGHTS) {
        SS_TRY(begin_source(op, d));
        SS_TRY(head->kernels->conv_backward_weights(op->conv, ss_role(d, SS_ROLE_X), dz,
                                                    ss_op_param(head, grads, SS_PARAM_WEIGHT),
                                                    bias_of(head, grads)));
    }
    return dx ? head->kernels->conv_backward_data(op->conv, dz, ss_op_weight(head, d), dx) : SS_OK;
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("conv_bn_act_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("conv_bn_act_backward");

static void destroy(struct ss_op *head)
{
    head->kernels->conv_destroy(((struct conv_bn_act *)head)->conv);
}

static struct ss_conv_shape shape_of(const struct ss_layer *conv, const struct ss_act *x,
                                     const struct ss_act *y)
{
    return (struct ss_conv_shape){.x = *x,
                                  .y = *y,
                                  .kernel = {conv->kernel[0], conv->kernel[1]},
                                  .stride = {conv->stride[0], conv->stride[1]},
                                  .padding = {conv->padding[0], conv->padding[1]},
                                  .dilation = {conv->dilation[0], conv->dilation[1]},
                                  .groups = conv->groups};
}

static struct ss_act act_of(const struct ss_plan *plan, ss_value v)
{
    const struct ss_value_info *i = ss_graph_value(plan->graph, v);
    const int block = plan->options.channel_block ? plan->options.channel_block : i->c;
    return (struct ss_act){plan->options.batch, i->c, i->h, i->w, block};
}

static int can(const struct ss_plan *plan, int block,
               int (*can_conv)(const struct ss_conv_shape *, enum ss_dtype, enum ss_conv_algo))
{
    const struct ss_layer *conv = ss_block_layer(plan, block, SS_PLACE_HEAD);
    const struct ss_act x = act_of(plan, conv->input[0]), y = act_of(plan, conv->output);
    const struct ss_conv_shape shape = shape_of(conv, &x, &y);
    return can_conv && can_conv(&shape, plan->options.dtype, (enum ss_conv_algo)plan->options.algo);
}

int ss_op_makes_x(const struct ss_plan *plan, int block)
{
    return can(plan, block, ss_cpu_kernels.conv_makes_x);
}

int ss_op_adds(const struct ss_plan *plan, int block)
{
    return can(plan, block, ss_cpu_kernels.conv_adds);
}

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct conv_bn_act *op = (struct conv_bn_act *)head;
    const struct ss_plan *plan = context->plan;
    const struct ss_layer *conv = ss_block_layer(plan, block, SS_PLACE_HEAD);
    const int left = head->block->left_to >= 0;
    op->acts = head->block->last != SS_PLACE_HEAD && !left && !ss_block_only_adds(head->block);
    op->norm = ss_op_norm_act(plan, block);
    op->bias = conv->bias && (!left || op->norm.has_bn);
    /* cuDNN's engine that computes sums is not marked as nondeterministic, but its summation
     * order varies: two runs on an H200 were never bit-identical. */
    const int sums = (plan->options.nondeterministic || !plan->options.device) &&
                     context->training && op->norm.has_bn && op->norm.ranks <= 1;
    const struct ss_act x = ss_block_input(plan, block);
    struct ss_conv_shape shape = shape_of(conv, &x, &op->norm.shape);
    shape.bias = op->bias;
    shape.sums = sums;
    if (head->block->makes >= 0) {
        shape.makes_x = 1;
        op->source.op = ss_op_norm_act(plan, head->block->makes);
    }
    enum ss_status status = head->kernels->conv_create(
        head->device, &shape, (enum ss_conv_algo)plan->options.algo, context->training, &op->conv);
    op->sums = status == SS_OK && head->kernels->conv_has_sums(op->conv);
    if (status == SS_OK && head->block->last != SS_PLACE_HEAD)
        status = ss_op_act_reserve(head, &op->norm);
    return status;
}

static size_t weight_bytes(const struct ss_op *head)
{
    return head->kernels->conv_weight_bytes(((const struct conv_bn_act *)head)->conv);
}

static enum ss_status weight_import(struct ss_op *head, const float *plain, float *native)
{
    return head->kernels->conv_import(((struct conv_bn_act *)head)->conv, plain, native);
}

static enum ss_status weight_export(struct ss_op *head, const float *native, float *plain)
{
    return head->kernels->conv_export(((struct conv_bn_act *)head)->conv, native, plain);
}

const struct ss_op_class ss_conv_bn_act_op = {
    .name = "conv_bn_act",
    .bytes = sizeof(struct conv_bn_act),
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
