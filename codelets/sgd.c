#include "codelets/sgd.h"
#include "kernels/cpu/sgd.h"
#include "kernels/cuda/sgd.h"
#include "codelets/lane.h"

/* Without momentum there is no memory behind the handle, which then only orders updates. */
static float *momentum_of(const struct ss_sgd *sgd, const struct ss_task_data *d)
{
    return sgd->momentum > 0 ? ss_role(d, SS_ROLE_MOMENTUM) : NULL;
}

static size_t count_of(const struct ss_task_data *d)
{
    return ss_role_region(d, SS_ROLE_GRADS)->bytes / sizeof(float);
}

static void cpu_update(void *buffers[], void *cl_arg)
{
    (void)buffers;
    struct ss_task_data d = ss_task_data(cl_arg);
    const struct ss_sgd *sgd = d.task->context;
    if (ss_run_ok(d.task->run))
        ss_run_fail(d.task->run,
                    ss_sgd_cpu(sgd->cpu, count_of(&d), ss_role(&d, SS_ROLE_PARAMS),
                               momentum_of(sgd, &d), ss_role(&d, SS_ROLE_GRADS), (float)d.args->lr,
                               sgd->momentum, sgd->weight_decay, sgd->scale));
}

#ifdef HAVE_CUDA
static enum ss_status enqueue_update(const struct ss_task_data *d, ss_stream stream)
{
    const struct ss_sgd *sgd = d->task->context;
    const struct ss_region *params = ss_role_region(d, SS_ROLE_PARAMS);
    const struct ss_sgd_cuda update = {.count = count_of(d),
                                       .w = params->data,
                                       .v = momentum_of(sgd, d),
                                       .g = ss_role(d, SS_ROLE_GRADS),
                                       .copy = params->copy,
                                       .lr = (float)d->args->lr,
                                       .momentum = sgd->momentum,
                                       .weight_decay = sgd->weight_decay,
                                       .scale = sgd->scale,
                                       .scaler = ss_role(d, SS_ROLE_SCALER)};
    (void)stream;
    return ss_sgd_cuda(d->task->lanes->gpu, &update);
}

static void cuda_update(void *buffers[], void *cl_arg)
{
    (void)buffers;
    ss_lane_run(cl_arg, SS_LANE_COMPUTE, enqueue_update);
}
#endif

static struct starpu_codelet codelet =
    SS_COMPUTE_CODELET("sgd", cpu_update, SS_IF_CUDA(cuda_update));

enum ss_status ss_sgd_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, args, sizeof *args);
}
