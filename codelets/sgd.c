#include "codelets/sgd.h"
#include "codelets/kernels/sgd_cpu.h"
#include "codelets/op.h"

static void cpu_update(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_data(buffers, cl_arg);
    const struct ss_sgd *sgd = d.task->context;
    /* Without momentum there is no memory behind the handle, which then only orders updates. */
    float *momentum = sgd->momentum > 0 ? ss_role(&d, SS_ROLE_MOMENTUM) : NULL;
    size_t bytes = STARPU_VECTOR_GET_NX(buffers[d.task->plan->role[SS_ROLE_GRADS]]);
    if (ss_run_ok(d.task->run))
        ss_run_fail(d.task->run,
                    ss_sgd_cpu(sgd->cpu, bytes / sizeof(float), ss_role(&d, SS_ROLE_PARAMS),
                               momentum, ss_role(&d, SS_ROLE_GRADS), (float)d.args->lr,
                               sgd->momentum, sgd->weight_decay, sgd->scale));
}

static struct starpu_codelet codelet = SS_COMPUTE_CODELET("sgd", cpu_update);

enum ss_status ss_sgd_submit(const starpu_data_handle_t *handles, const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, handles, args, sizeof *args);
}
