/* codelets/report.c: hand a step's reduced metrics to the training loop.
 *
 * metrics read. Its function runs on a service worker, in step order, also after a failure of the
 * run (metrics then NULL), so that nobody waits for ever. */
#ifndef SS_CODELETS_REPORT_H
#define SS_CODELETS_REPORT_H

#include "kernels/shapes.h"
#include "codelets/task.h"

/* Context of the report task. */
struct ss_report {
    void (*report)(void *arg, uint64_t step, double lr, const struct ss_metrics *metrics);
    void *arg;
};

enum ss_status ss_report_submit(const struct ss_step_args *args);

/* The step's metrics in host memory: fetched ones on a GPU. For tasks that reduce or report. */
static inline struct ss_metrics *ss_step_metrics(const struct ss_task_data *d)
{
    return ss_role(d, d->task->lanes ? SS_ROLE_FETCHED : SS_ROLE_METRICS);
}

#endif
