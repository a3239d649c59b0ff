#include "codelets/report.h"
#include "codelets/lane_nvtx.h"
#include "core/clock.h"
#include "runtime/fxt.h"
#include "trace/record.h"

static void cpu_report(void *buffers[], void *cl_arg)
{
    (void)buffers;
    struct ss_task_data d = ss_task_data(cl_arg);
    const struct ss_reporting *r = d.task->context;
    struct ss_trace *trace = d.task->run->trace;
    if (ss_trace_wants(trace, d.args->step))
        ss_trace_step(trace, d.args->step, ss_feed_submitted_at(r->feed, d.args->step),
                      ss_now_ns());
#ifdef HAVE_CUDA
    if (d.task->lanes && d.task->training)
        ss_lane_nvtx_reported(d.task->lanes, d.args->step);
#endif
    if (ss_trace_ends(trace, d.args->step))
        ss_fxt_end();
    if (ss_run_ok(d.task->run))
        ss_run_fail(d.task->run, ss_feed_reported(r->feed, d.args->step));
    r->to.report(r->to.arg, d.args->step, d.args->lr,
                 ss_run_ok(d.task->run) ? ss_step_metrics(&d) : NULL);
}

static struct starpu_codelet codelet = SS_SERVICE_CODELET("report", cpu_report);

enum ss_status ss_report_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, args, sizeof *args);
}
