/* Watchdog for the tasks of a single-rank run. (With several ranks, a rank that hangs is detected
 * by those that wait for it: comm/comm_watch.h.)
 *
 * If tasks are pending and none has ended for ten times the timeout, or for the timeout itself
 * after a signal has requested the end of the run, the process exits with code 1 and names the
 * first of them. All tasks submitted before it have ended, so it is the one that hangs. Time in
 * which the process is stopped does not count. */
#ifndef SS_RUNTIME_STEP_WATCH_H
#define SS_RUNTIME_STEP_WATCH_H

#include "codelets/task.h"

enum { SS_STEP_WATCH_FACTOR = 10 };

struct ss_step_watch;

/* Tasks of one kind of step, in the order of submission. progress NULL: not watched. */
struct ss_step_tasks {
    const struct ss_task_list *list;
    const struct ss_task_progress *progress; /* per task */
};

/* Start the watchdog. train, eval and run must outlive it. The caller stops it. Errors:
 * SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_step_watch_start(const struct ss_step_tasks *train,
                                   const struct ss_step_tasks *eval, const struct ss_run *run,
                                   double timeout_s, struct ss_step_watch **out);
void ss_step_watch_stop(struct ss_step_watch *watch); /* may be NULL */

#endif
