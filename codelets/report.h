/* codelets/report.c: passes a step's reduced metrics to the training loop.
 *
 * metrics read. Its function runs on a service worker, in step order, also after a failure of the
 * run (metrics are NULL then), so that no waiting thread hangs. */
#ifndef SS_CODELETS_REPORT_H
#define SS_CODELETS_REPORT_H

#include "codelets/task.h"
#include "kernels/shapes.h"

/* Results of a step, all-reduced as an array of doubles: the kernels' metrics, and the number of
 * ranks that were requested to end the run. SS_ROLE_METRICS and SS_ROLE_FETCHED refer to this
 * memory; kernels access only the metrics. */
struct ss_step_facts {
    struct ss_metrics metrics;
    double stop;
};
enum { SS_STEP_FACTS = sizeof(struct ss_step_facts) / sizeof(double) };

/* Context of the report task. */
struct ss_report {
    void (*report)(void *arg, uint64_t step, double lr, const struct ss_step_facts *facts);
    void *arg;
};

enum ss_status ss_report_submit(const struct ss_step_args *args);

/* Returns the step's results in host memory: fetched ones on a GPU. For the reducing and
 * reporting tasks. */
static inline struct ss_step_facts *ss_step_facts_of(const struct ss_task_data *d)
{
    return ss_role(d, d->task->lanes ? SS_ROLE_FETCHED : SS_ROLE_METRICS);
}

#endif
