#include "codelets/scaler.h"
#include "kernels/cuda/scaler.h"
#include "codelets/lane.h"

#ifdef HAVE_CUDA
static enum ss_status enqueue_check(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream;
    const struct ss_region *grads = ss_role_region(d, SS_ROLE_GRADS);
    return ss_scaler_cuda_check(d->task->lanes->gpu, grads->bytes / sizeof(float), grads->data,
                                ss_role(d, SS_ROLE_SCALER));
}

static enum ss_status enqueue_scale(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream;
    return ss_scaler_cuda_update(d->task->lanes->gpu, ss_role(d, SS_ROLE_SCALER));
}

static void cuda_check(void *buffers[], void *cl_arg)
{
    (void)buffers;
    ss_lane_run(cl_arg, SS_LANE_COMPUTE, enqueue_check);
}

static void cuda_scale(void *buffers[], void *cl_arg)
{
    (void)buffers;
    ss_lane_run(cl_arg, SS_LANE_COMPUTE, enqueue_scale);
}
#endif

static struct starpu_codelet check_codelet =
    SS_COMPUTE_CODELET("check", NULL, SS_IF_CUDA(cuda_check));
static struct starpu_codelet scale_codelet =
    SS_COMPUTE_CODELET("loss_scale", NULL, SS_IF_CUDA(cuda_scale));

enum ss_status ss_check_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&check_codelet, args, sizeof *args);
}

enum ss_status ss_scale_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&scale_codelet, args, sizeof *args);
}
