#include "codelets/scaler.h"
#include "codelets/lane.h"

static enum ss_status enqueue_check(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream;
    const float *grads = ss_role(d, SS_ROLE_GRADS);
    size_t begin;
    const size_t count = ss_role_share(d, SS_ROLE_GRADS, &begin);
    return d->task->lanes->kernels->scaler_check(d->task->lanes->gpu, count, grads + begin,
                                                 ss_role(d, SS_ROLE_SCALER));
}

static enum ss_status enqueue_scale(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream;
    return d->task->lanes->kernels->scaler_update(d->task->lanes->gpu, ss_role(d, SS_ROLE_SCALER));
}

static void run_check(void *buffers[], void *cl_arg)
{
    ss_lane_run_behind_sum(buffers, cl_arg, enqueue_check);
}

static void run_scale(void *buffers[], void *cl_arg)
{
    ss_lane_run_behind_sum(buffers, cl_arg, enqueue_scale);
}

static struct ss_codelet check_codelet = SS_BEHIND_SUM_CODELET("check", run_check);
static struct ss_codelet scale_codelet = SS_BEHIND_SUM_CODELET("scale", run_scale);

enum ss_status ss_check_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&check_codelet, args, sizeof *args);
}

enum ss_status ss_scale_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&scale_codelet, args, sizeof *args);
}
