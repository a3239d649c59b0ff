#include "codelets/report.h"
#include "codelets/op.h"

static void cpu_report(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_data(buffers, cl_arg);
    const struct ss_report *r = d.task->context;
    r->report(r->arg, d.args->step, d.args->lr,
              ss_run_ok(d.task->run) ? ss_role(&d, SS_ROLE_METRICS) : NULL);
}

static struct starpu_codelet codelet = SS_SERVICE_CODELET("report", cpu_report);

enum ss_status ss_report_submit(const starpu_data_handle_t *handles,
                                const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, handles, args, sizeof *args);
}
