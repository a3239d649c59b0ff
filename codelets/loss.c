/* codelets/loss.c: softmax cross-entropy, and in training its gradient in the same task.
 *
 * x (N,K) logits: read; in training overwritten by their gradient (softmax - onehot) / N
 * labels (N) read: 0 .. K-1, or -1 for a row that does not count; on a GPU behind the staged images
 * metrics: struct ss_metrics; in training written, in evaluation added to */
#include "codelets/op.h"
#include "codelets/input.h"
#include "kernels/cpu/loss.h"
#include "kernels/cuda/loss.h"

#include <stdlib.h>

struct loss {
    struct ss_op head;
    struct ss_act x;
    size_t labels_at; /* GPU: where the labels begin in the staged input */
};

static enum ss_status forward_cpu(struct ss_op *head, const struct ss_task_data *d)
{
    const struct ss_act *shape = &((struct loss *)head)->x;
    struct ss_metrics *metrics = ss_role(d, SS_ROLE_METRICS);
    float *x = ss_role(d, SS_ROLE_X);
    if (d->task->training)
        *metrics = (struct ss_metrics){.scale = 1};
    return ss_loss_cpu(head->cpu, shape->n, shape->c, x, ss_role(d, SS_ROLE_LABELS), metrics,
                       d->task->training ? x : NULL);
}

#ifdef HAVE_CUDA
static enum ss_status forward_cuda(struct ss_op *head, const struct ss_task_data *d)
{
    const struct loss *op = (struct loss *)head;
    int training = d->task->training;
    void *x = ss_role(d, SS_ROLE_X);
    const int32_t *labels = (const void *)((char *)ss_role(d, SS_ROLE_STAGED) + op->labels_at);
    return ss_loss_cuda(head->gpu, op->x.n, op->x.c, x, labels, ss_role(d, SS_ROLE_SCALER),
                        ss_role(d, SS_ROLE_METRICS), !training, training ? x : NULL);
}
#endif

static struct starpu_codelet forward_codelet = SS_OP_FORWARD("loss");

static void destroy(struct ss_op *op)
{
    free(op);
}

static enum ss_status create(const struct ss_op_context *context, int block, struct ss_op **out)
{
    struct loss *op = ss_op_alloc(&ss_loss_class, context, block, sizeof *op);
    if (!op)
        return SS_ERR_MEMORY;
    op->x = ss_block_input(context->plan, block);
    op->labels_at = ss_input_layout(context->plan).labels;
#ifdef HAVE_CUDA
    enum ss_status status =
        context->gpu ? ss_loss_cuda_reserve(context->gpu, op->x.n, op->x.c) : SS_OK;
    if (status != SS_OK) {
        free(op);
        return status;
    }
#endif
    *out = &op->head;
    return SS_OK;
}

const struct ss_op_class ss_loss_class = {.name = "loss",
                                          .create = create,
                                          .destroy = destroy,
                                          .forward_cpu = forward_cpu,
                                          .forward_cuda = SS_IF_CUDA(forward_cuda),
                                          .forward = &forward_codelet};
