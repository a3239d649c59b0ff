#include "codelets/allreduce.h"
#include "codelets/kernels/loss_cpu.h"
#include "codelets/op.h"
#include "comm/comm.h"

static void release(void *arg)
{
    starpu_task_end_dep_release(arg);
}

static void cpu_start(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_data(buffers, cl_arg);
    struct ss_comm *comm = d.task->context;
    if (!ss_run_ok(d.task->run) || ss_comm_size(comm) == 1)
        return;
    const struct ss_plan_task *plan = d.task->plan;
    struct ss_comm_tag tag = {d.args->step, plan->bucket};
    struct starpu_task *task = starpu_task_get_current();
    starpu_task_end_dep_add(task, 1);
    enum ss_status status;
    if (plan->kind == SS_TASK_ALLREDUCE) {
        size_t bytes = STARPU_VECTOR_GET_NX(buffers[plan->role[SS_ROLE_GRADS]]);
        status = ss_comm_allreduce_start_f32(comm, ss_role(&d, SS_ROLE_GRADS),
                                             bytes / sizeof(float), tag, release, task);
    } else {
        status = ss_comm_allreduce_start_f64(comm, ss_role(&d, SS_ROLE_METRICS),
                                             sizeof(struct ss_metrics) / sizeof(double), tag,
                                             release, task);
    }
    if (status != SS_OK) {
        ss_run_fail(d.task->run, status);
        release(task);
    }
}

static struct starpu_codelet codelet = SS_SERVICE_CODELET("allreduce", cpu_start);

enum ss_status ss_allreduce_submit(const starpu_data_handle_t *handles,
                                   const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, handles, args, sizeof *args);
}
