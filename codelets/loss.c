/* codelets/loss.c: softmax cross-entropy, and in training its gradient in the same task. Labels
 * are smoothed only in training.
 *
 * x (N,K) logits: read; in training overwritten by their gradient (softmax - t) / N, with N present
 *   images
 * labels (N) struct ss_label read; on a GPU after the staged images
 * metrics: struct ss_metrics; in training written; in evaluation and by later micro-batches
 *   of a step accumulated */
#include "codelets/input.h"
#include "codelets/op.h"

struct loss {
    struct ss_op head;
    struct ss_act x;
    size_t labels_at; /* GPU: offset of the labels in the staged input */
    float smoothing;
};

static const struct ss_label *labels_of(const struct loss *op, const struct ss_task_data *d)
{
    const char *staged = ss_role(d, SS_ROLE_STAGED);
    return staged ? (const struct ss_label *)(const void *)(staged + op->labels_at)
                  : ss_role(d, SS_ROLE_LABELS);
}

static enum ss_status forward(struct ss_op *head, const struct ss_task_data *d)
{
    const struct loss *op = (struct loss *)head;
    int training = d->task->training;
    void *x = ss_role(d, SS_ROLE_X);
    SS_TRY(head->kernels->loss(head->device, ss_op_present(head, d), op->x.c, x, labels_of(op, d),
                               training ? op->smoothing : 0, ss_role(d, SS_ROLE_SCALER),
                               ss_role(d, SS_ROLE_METRICS), !training || d->task->plan->micro > 0,
                               training ? x : NULL));
    return ss_op_clear_absent(head, d, SS_ROLE_X);
}

static struct ss_codelet forward_codelet = SS_OP_FORWARD("loss");

static enum ss_status init(struct ss_op *head, const struct ss_op_context *context, int block)
{
    struct loss *op = (struct loss *)head;
    op->x = ss_block_input(context->plan, block);
    op->labels_at = ss_input_layout_of(context->plan).labels;
    op->smoothing = context->label_smoothing;
    return head->kernels->loss_reserve(head->device, op->x.n, op->x.c);
}

const struct ss_op_class ss_loss_op = {.name = "loss",
                                       .bytes = sizeof(struct loss),
                                       .init = init,
                                       .forward = forward,
                                       .forward_codelet = &forward_codelet};
