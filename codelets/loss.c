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

static void cpu_forward(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_data(buffers, cl_arg);
    struct loss *op = (struct loss *)d.task->op;
    struct ss_metrics *metrics = ss_role(&d, SS_ROLE_METRICS);
    float *x = ss_role(&d, SS_ROLE_X);
    if (!ss_run_ok(d.task->run))
        return;
    if (d.task->training)
        *metrics = (struct ss_metrics){.stop = atomic_load(&d.task->run->stop)};
    ss_run_fail(d.task->run,
                ss_loss_cpu(op->head.cpu, op->x.n, op->x.c, x, ss_role(&d, SS_ROLE_LABELS), metrics,
                            d.task->training ? x : NULL));
}

static struct starpu_codelet forward_codelet = SS_COMPUTE_CODELET("loss", cpu_forward);

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

const struct ss_op_class ss_loss_class = {
    .name = "loss", .create = create, .destroy = destroy, .forward = &forward_codelet};
