/* codelets/loss.c: softmax cross-entropy, and in training its gradient in the same task.
 *
 * x (N,K) logits: read; in training overwritten by their gradient (softmax - onehot) / N
 * labels (N) read: 0 .. K-1, or -1 for a row that does not count
 * metrics: struct ss_metrics; in training written, in evaluation added to */
#include "codelets/op.h"
#include "codelets/kernels/loss_cpu.h"

#include <stdlib.h>

struct loss {
    struct ss_op head;
    struct ss_act x;
};

static enum ss_status forward_cpu(struct ss_op *head, const struct ss_task_data *d)
{
    const struct ss_act *shape = &((struct loss *)head)->x;
    struct ss_metrics *metrics = ss_role(d, SS_ROLE_METRICS);
    float *x = ss_role(d, SS_ROLE_X);
    if (d->task->training)
        *metrics = (struct ss_metrics){.stop = atomic_load(&d->task->run->stop)};
    return ss_loss_cpu(head->cpu, shape->n, shape->c, x, ss_role(d, SS_ROLE_LABELS), metrics,
                       d->task->training ? x : NULL);
}

static struct starpu_codelet forward_codelet = SS_COMPUTE_CODELET("loss", ss_op_forward);

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
    *out = &op->head;
    return SS_OK;
}

const struct ss_op_class ss_loss_class = {.name = "loss",
                                          .create = create,
                                          .destroy = destroy,
                                          .forward_cpu = forward_cpu,
                                          .forward = &forward_codelet};
