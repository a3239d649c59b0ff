/* accumulate.c: gradient accumulation over the micro-batches of a step. The last micro-batch is
 * the step as it was lowered, including all-reduces, updates and report. Copies of the
 * per-micro-batch tasks precede it. They access the same tensors, so memory does not grow with
 * their number.
 *
 * Per bucket, with a = SS_SPACE_ACCUM: a = g, then a += g; in the last micro-batch g = (g + a) /
 * their number, after the bucket's last backward task and before its all-reduce.
 *
 * The order of the additions is fixed and the mean is computed once, in fp32. Up to two optimizer
 * steps are submitted ahead. An epoch has floor(batches / K) steps. The remaining batches are not
 * used; they differ from epoch to epoch. */
#include "core/log.h"
#include "graph/plan.h"

#include <stdlib.h>

static int is_of_each(enum ss_task_kind kind)
{
    switch (kind) {
    case SS_TASK_LOAD:
    case SS_TASK_UPLOAD:
    case SS_TASK_CONVERT:
    case SS_TASK_FORWARD:
    case SS_TASK_BACKWARD:
    case SS_TASK_SUM:
    case SS_TASK_SYNC:
    case SS_TASK_ADD:
    case SS_TASK_FETCH: /* the upload of the next input waits for it */
        return 1;
    case SS_TASK_ALLREDUCE:
    case SS_TASK_REDUCE_SCATTER:
    case SS_TASK_GATHER:
    case SS_TASK_REDUCE_FOUND:
    case SS_TASK_REDUCE_SQUARES:
    case SS_TASK_CHECK:
    case SS_TASK_SQUARES:
    case SS_TASK_UPDATE:
    case SS_TASK_SCALE:
    case SS_TASK_REDUCE_METRICS:
    case SS_TASK_REPORT:
        break;
    }
    return 0;
}

static void set_mode(struct ss_plan_task *t, enum ss_role_kind role, enum ss_mode mode)
{
    if (t->role[role] >= 0)
        t->access[t->role[role]].mode = mode;
}

/* Derive a task of an earlier micro-batch from the last one's. */
static struct ss_plan_task earlier(const struct ss_plan_task *last, int micro)
{
    struct ss_plan_task t = *last;
    enum ss_mode sum = micro ? SS_READ_WRITE : SS_WRITE;
    t.micro = micro;
    if (t.kind == SS_TASK_ADD) {
        set_mode(&t, SS_ROLE_GRADS, SS_READ);
        set_mode(&t, SS_ROLE_ACCUM, sum);
    }
    if (t.kind == SS_TASK_FORWARD)
        set_mode(&t, SS_ROLE_METRICS, sum);
    return t;
}

/* Shift the lifetimes of the step's tensors, which precede those of evaluation. */
static void shift_tensors(struct ss_plan *plan, int before)
{
    int end = 0;
    for (int i = 0; i < plan->train.count; i++)
        for (int r = 0; r < SS_ROLE_COUNT; r++)
            if (plan->train.task[i].tensor[r] >= end)
                end = plan->train.task[i].tensor[r] + 1;
    for (int t = 0; t < end; t++)
        if (plan->tensor[t].first >= 0) {
            plan->tensor[t].first += before;
            plan->tensor[t].last += before;
        }
}

enum ss_status ss_plan_accumulate(struct ss_plan *plan)
{
    struct ss_task_list *last = &plan->train;
    const int micros = plan->options.accumulate;
    int each = 0, n = 0;
    for (int i = 0; i < last->count; i++)
        each += is_of_each(last->task[i].kind);
    const int before = each * (micros - 1), count = before + last->count;
    if (!before)
        return SS_OK;
    struct ss_plan_task *task = malloc((size_t)count * sizeof *task);
    if (!task)
        return ss_fail_memory("tasks of the plan", (size_t)count * sizeof *task);
    for (int micro = 0; micro < micros - 1; micro++)
        for (int i = 0; i < last->count; i++)
            if (is_of_each(last->task[i].kind))
                task[n++] = earlier(&last->task[i], micro);
    for (int i = 0; i < last->count; i++)
        task[n++] = last->task[i];
    free(last->task);
    *last = (struct ss_task_list){.count = count, .capacity = count, .task = task};
    shift_tensors(plan, before);
    for (int k = 0; k < plan->nbuckets; k++)
        plan->bucket[k].ready_task += before;
    return SS_OK;
}
