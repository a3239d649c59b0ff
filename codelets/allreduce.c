#include "codelets/allreduce.h"
#include "codelets/report.h"
#include "comm/comm.h"

static void release(void *arg)
{
    starpu_task_end_dep_release(arg);
}

static enum ss_status start(const struct ss_task_data *d, struct starpu_task *task)
{
    const struct ss_plan_task *plan = d->task->plan;
    struct ss_comm *comm = d->task->context;
    struct ss_comm_tag tag = {d->args->step, plan->bucket};
    if (plan->kind == SS_TASK_REDUCE_METRICS)
        return ss_comm_allreduce_start_f64(comm, (double *)ss_step_metrics(d),
                                           sizeof(struct ss_metrics) / sizeof(double), tag, release,
                                           task);
    const struct ss_region *grads = ss_role_region(d, SS_ROLE_GRADS);
    return ss_comm_allreduce_start_f32(comm, grads->data, grads->bytes / sizeof(float), tag,
                                       release, task);
}

static void cpu_start(void *buffers[], void *cl_arg)
{
    (void)buffers;
    struct ss_task_data d = ss_task_data(cl_arg);
    if (!ss_run_ok(d.task->run))
        return;
    if (d.task->plan->kind == SS_TASK_REDUCE_METRICS)
        ss_step_metrics(&d)->stop = atomic_load(&d.task->run->stop);
    if (ss_comm_size(d.task->context) == 1)
        return;
    struct starpu_task *task = starpu_task_get_current();
    starpu_task_end_dep_add(task, 1);
    enum ss_status status = start(&d, task);
    if (status != SS_OK) {
        ss_run_fail(d.task->run, status);
        release(task);
    }
}

static struct starpu_codelet codelet = SS_SERVICE_CODELET("allreduce", cpu_start);

enum ss_status ss_allreduce_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, args, sizeof *args);
}
