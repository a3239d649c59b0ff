/* Assigns tensors to shared buffers. The tasks of a list run in an order that respects data flow,
 * so two tensors whose task ranges [first, last] do not overlap can use one buffer.
 *
 * Best fit in order of first use: take the free buffer that wastes least; if all free ones are
 * too small, enlarge the largest. Sizes are only fixed at the end, so enlarging costs only the
 * difference. */
#include "core/log.h"
#include "graph/plan.h"

#include <stdlib.h>

struct buffer_state {
    size_t bytes;
    int busy_until; /* last task of its current tensor; -1: free */
};

static int choose(const struct buffer_state *b, int n, int first, size_t bytes)
{
    int fit = -1, largest = -1;
    for (int i = 0; i < n; i++) {
        if (b[i].busy_until >= first)
            continue;
        if (b[i].bytes >= bytes && (fit < 0 || b[i].bytes < b[fit].bytes))
            fit = i;
        if (largest < 0 || b[i].bytes > b[largest].bytes)
            largest = i;
    }
    /* Reserve a buffer more than 8 times too large for large tensors; small ones share others. */
    if (fit >= 0 && b[fit].bytes / 8 <= bytes)
        return fit;
    if (fit < 0)
        return largest >= 0 && b[largest].bytes >= bytes / 8 ? largest : -1;
    return -1;
}

static int place(struct ss_plan *plan, struct buffer_state *b, int nbuffers, int task_lo,
                 int tensor_begin, int tensor_end, int ntasks)
{
    for (int at = task_lo; at < ntasks; at++)
        for (int t = tensor_begin; t < tensor_end; t++) {
            struct ss_plan_tensor *tensor = &plan->tensor[t];
            if (tensor->first != at || tensor->of >= 0)
                continue;
            int i = choose(b, nbuffers, tensor->first, tensor->bytes);
            if (i < 0) {
                i = nbuffers++;
                b[i].bytes = 0;
            }
            if (b[i].bytes < tensor->bytes)
                b[i].bytes = tensor->bytes;
            b[i].busy_until = tensor->last;
            tensor->buffer = i;
        }
    return nbuffers;
}

/* Tensors [0, eval_begin) belong to the training step, the rest to evaluation. */
static int eval_begin(const struct ss_plan *plan)
{
    int first = plan->ntensors;
    for (int i = 0; i < plan->eval.count; i++)
        for (int r = 0; r < SS_ROLE_COUNT; r++) {
            int t = plan->eval.task[i].tensor[r];
            if (t >= 0 && t < first)
                first = t;
        }
    return first;
}

/* Offset of tensor t in its buffer, in bytes (the index of kernels/shapes.h). */
static size_t begin_of(const struct ss_plan *plan, int t)
{
    const struct ss_plan_tensor *part = &plan->tensor[t];
    if (part->of < 0)
        return 0;
    const struct ss_plan_tensor *whole = &plan->tensor[part->of];
    const size_t block = (size_t)whole->block, at = (size_t)part->at;
    return (at / block * (size_t)whole->h * (size_t)whole->w * block + at % block) *
           ss_dtype_bytes(plan->options.dtype);
}

/* Replace tensors by buffers in the tasks' accesses. */
static void point_tasks(struct ss_plan *plan, struct ss_task_list *list)
{
    for (int i = 0; i < list->count; i++) {
        struct ss_plan_task *task = &list->task[i];
        for (int r = 0; r < SS_ROLE_COUNT; r++)
            if (task->tensor[r] >= 0 && task->role[r] >= 0 &&
                task->access[task->role[r]].space == SS_SPACE_BUFFER) {
                task->access[task->role[r]].index = plan->tensor[task->tensor[r]].buffer;
                task->at[r] = begin_of(plan, task->tensor[r]);
            }
    }
}

enum ss_status ss_plan_assign_buffers(struct ss_plan *plan)
{
    struct buffer_state *b = calloc((size_t)plan->ntensors + 1, sizeof *b);
    if (!b)
        return ss_fail_memory("buffer assignment", (size_t)plan->ntensors * sizeof *b);
    int split = eval_begin(plan);
    int n = place(plan, b, 0, 0, 0, split, plan->train.count);
    for (int i = 0; i < n; i++)
        b[i].busy_until = -1;
    n = place(plan, b, n, 0, split, plan->ntensors, plan->eval.count);
    plan->buffer_bytes = calloc((size_t)n + 1, sizeof *plan->buffer_bytes);
    if (!plan->buffer_bytes) {
        free(b);
        return ss_fail_memory("buffer sizes", (size_t)n * sizeof(size_t));
    }
    for (int i = 0; i < n; i++)
        plan->buffer_bytes[i] = b[i].bytes;
    plan->nbuffers = n;
    free(b);

    for (int t = 0; t < plan->ntensors; t++)
        if (plan->tensor[t].of >= 0)
            plan->tensor[t].buffer = plan->tensor[plan->tensor[t].of].buffer;
    point_tasks(plan, &plan->train);
    point_tasks(plan, &plan->eval);
    return SS_OK;
}
