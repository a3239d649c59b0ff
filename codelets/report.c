#include "codelets/report.h"
#include "codelets/hooks.h"

static void cpu_report(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_unpack(buffers, cl_arg);
    struct ss_run *run = d.task->run;
    const struct ss_report *r = d.task->context;
    for (const struct ss_hooks *h = *d.task->hooks; h; h = h->next)
        if (h->step_ends && ss_hooks_want_step(h, d.args->step))
            ss_run_fail(run, h->step_ends(h->arg, d.args));
    r->report(r->arg, d.args->step, d.args->lr, ss_run_ok(run) ? ss_step_facts_of(&d) : NULL);
}

static struct ss_codelet codelet = SS_SERVICE_CODELET("report", cpu_report);

enum ss_status ss_report_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, args, sizeof *args);
}
