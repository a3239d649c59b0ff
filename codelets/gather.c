/* codelets/gather.c: copies channels between tensors, forward and backward: concatenation, slice,
 * shuffle, and layout conversion.
 *
 * x, further inputs read   y written   their gradients, each if needed, written from the
 * contributions to dy, which are added on the fly. Each is one kernel call; a concatenation with
 * in-place inputs makes one call for each of the others. */
#include "codelets/op.h"

struct gather {
    struct ss_op head;
    struct ss_gather forward, backward[SS_MAX_INPUTS];
    unsigned in_place; /* inputs that are views of y */
};

static enum ss_role_kind input_role(int k)
{
    return k ? (enum ss_role_kind)(SS_ROLE_INPUT + k - 1) : SS_ROLE_X;
}

static enum ss_role_kind gradient_role(int k)
{
    return k ? (enum ss_role_kind)(SS_ROLE_DINPUT + k - 1) : SS_ROLE_DX;
}

/* Copy input k to its channels in y. */
static enum ss_status copy_part(struct ss_op *head, const struct ss_task_data *d, int k)
{
    const struct gather *op = (struct gather *)head;
    const struct ss_gather_part *p = &op->forward.part[k];
    const struct ss_act *y = &op->forward.y;
    const struct ss_gather copy = {.y = ss_act_view(y, p->count),
                                   .nparts = 1,
                                   .part = {{p->x, p->from, 0, p->count, 1}},
                                   .y_pitch = op->forward.y_pitch ? op->forward.y_pitch : y->c};
    const void *x = ss_role(d, input_role(k));
    return head->kernels->gather(head->device, &copy, &x, 1,
                                 (char *)ss_role(d, SS_ROLE_Y) +
                                     ss_act_channel(y, p->to) * head->element);
}

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct gather *op = (struct gather *)head;
    const void *x[SS_MAX_INPUTS];
    for (int k = 0; op->in_place && k < op->forward.nparts; k++)
        if (!(op->in_place >> k & 1))
            SS_TRY(copy_part(head, d, k));
    if (op->in_place)
        return SS_OK;
    for (int k = 0; k < op->forward.nparts; k++)
        x[k] = ss_role(d, input_role(k));
    return head->kernels->gather(head->device, &op->forward, x, op->forward.nparts,
                                 ss_role(d, SS_ROLE_Y));
}

static enum ss_status backward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct gather *op = (struct gather *)head;
    const int n = d->task->plan->ndy;
    const void *dy[SS_PLAN_MAX_DY];
    for (int k = 0; k < n; k++)
        dy[k] = ss_role(d, SS_ROLE_DY + k);
    for (int k = 0; k < op->forward.nparts; k++) {
        void *dx = ss_role(d, gradient_role(k));
        if (dx)
            SS_TRY(head->kernels->gather(head->device, &op->backward[k], dy, n, dx));
    }
    return SS_OK;
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("gather_forward");
static struct ss_codelet backward_codelet = SS_OP_BACKWARD("gather_backward");

/* Returns the group count that inverts a shuffle of `channels` channels in `groups`. */
static int undone(int channels, int groups)
{
    return groups > 1 ? channels / groups : 1;
}

/* Input k provides `count` channels, starting at its channel `from`, to those of y starting at
 * `to`; groups: of x. */
static void add_part(struct gather *op, const struct ss_op_context *context, int block, int from,
                     int to, int count, int groups)
{
    const int k = op->forward.nparts++;
    if (op->in_place >> k & 1)
        return;
    const struct ss_act x = ss_block_input_at(context->plan, block, input_role(k));
    op->forward.part[k] = (struct ss_gather_part){x, from, to, count, groups};
    op->backward[k] = (struct ss_gather){
        .y = x,
        .nparts = 1,
        .part = {{op->forward.y, to, from, count, undone(op->forward.y.c, op->forward.groups)}},
        .x_pitch = op->forward.y_pitch,
        .groups = undone(x.c, groups)};
}

static const struct ss_layer *begin(struct gather *op, const struct ss_op_context *context,
                                    int block)
{
    op->forward.y = ss_block_output(context->plan, block);
    return ss_block_layer(context->plan, block, SS_PLACE_HEAD);
}

static enum ss_status init_concat(struct ss_op *head, const struct ss_op_context *context,
                                  int block)
{
    struct gather *op = (struct gather *)head;
    op->in_place = head->block->in_place;
    if (!ss_block_forward(context->plan, block, SS_PART_WHOLE)) /* all of them */
        return SS_OK;
    const struct ss_layer *l = begin(op, context, block);
    const struct ss_layer *order = ss_block_layer(context->plan, block, SS_PLACE_ORDER);
    op->forward.y_pitch = ss_block_pitch(context->plan, block, SS_ROLE_Y);
    op->forward.groups = order ? order->groups : 1;
    for (int k = 0, to = 0; k < l->ninputs; k++) {
        const int c = ss_graph_value(context->plan->graph, l->input[k])->c;
        add_part(op, context, block, 0, to, c, 1);
        to += c;
    }
    return SS_OK;
}

static enum ss_status init_slice(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct gather *op = (struct gather *)head;
    const struct ss_layer *l = begin(op, context, block);
    add_part(op, context, block, l->range[0], 0, l->range[1] - l->range[0], 1);
    return SS_OK;
}

static enum ss_status init_shuffle(struct ss_op *head, const struct ss_op_context *context,
                                   int block)
{
    struct gather *op = (struct gather *)head;
    const struct ss_layer *l = begin(op, context, block);
    add_part(op, context, block, 0, 0, op->forward.y.c, l->groups);
    return SS_OK;
}

static enum ss_status init_repack(struct ss_op *head, const struct ss_op_context *context,
                                  int block)
{
    struct gather *op = (struct gather *)head;
    begin(op, context, block);
    add_part(op, context, block, 0, 0, op->forward.y.c, 1);
    return SS_OK;
}

/* (N, C H W) is (N,C,H,W) with one channel per block. For one pixel the feature map's block is
 * equivalent. */
static enum ss_status init_flatten(struct ss_op *head, const struct ss_op_context *context,
                                   int block)
{
    struct gather *op = (struct gather *)head;
    begin(op, context, block);
    op->forward.y = ss_block_input(context->plan, block);
    op->forward.y.block = op->forward.y.h * op->forward.y.w == 1 ? op->forward.y.c : 1;
    add_part(op, context, block, 0, 0, op->forward.y.c, 1);
    return SS_OK;
}

#define GATHER(kind)                                                                               \
    const struct ss_op_class ss_##kind##_op = {.name = #kind,                                      \
                                               .bytes = sizeof(struct gather),                     \
                                               .init = init_##kind,                                \
                                               .forward = forward,                                 \
                                               .backward = backward,                               \
                                               .forward_codelet = &forward_codelet,                \
                                               .backward_codelet = &backward_codelet};
GATHER(concat)
GATHER(slice)
GATHER(shuffle)
GATHER(repack)
GATHER(flatten)
