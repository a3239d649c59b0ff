#include "codelets/add.h"
#include "codelets/lane.h"

static enum ss_status add_run(const struct ss_adding *a, const struct ss_task_data *d)
{
    const int micro = d->task->plan->micro, last = micro == a->micros - 1;
    const size_t count = ss_role_count(d, SS_ROLE_GRADS);
    float *grads = ss_role(d, SS_ROLE_GRADS), *accum = ss_role(d, SS_ROLE_ACCUM);
    return a->kernels->accumulate(a->device, count, last ? accum : grads, micro > 0,
                                  last ? 1.0f / (float)a->micros : 1, last ? grads : accum);
}

static enum ss_status sum_run(const struct ss_adding *a, const struct ss_task_data *d)
{
    const struct ss_plan_task *t = d->task->plan;
    const void *dy[SS_PLAN_MAX_DY];
    for (int k = 0; k < t->ndy; k++)
        dy[k] = ss_role(d, SS_ROLE_DY + k);
    return a->kernels->sum(a->device, dy, t->ndy, ss_role(d, SS_ROLE_DS), t->count);
}

enum ss_status ss_add_run(const struct ss_adding *a, const struct ss_task_data *d)
{
    return d->task->plan->kind == SS_TASK_SUM ? sum_run(a, d) : add_run(a, d);
}

static enum ss_status add(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream; /* the device has the stream */
    return ss_add_run(d->task->context, d);
}

static void run_add(void *buffers[], void *cl_arg)
{
    ss_lane_run(buffers, cl_arg, SS_LANE_COMPUTE, add);
}

static struct ss_codelet codelet = SS_COMPUTE_CODELET("add", run_add);
static struct ss_codelet sum_codelet = SS_COMPUTE_CODELET("sum", run_add);

enum ss_status ss_sum_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&sum_codelet, args, sizeof *args);
}

enum ss_status ss_add_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, args, sizeof *args);
}
