/* A watchdog for the tasks of a run of one rank. (Of several ranks, one that does not get on is
 * noticed by those who wait for it: comm/comm_watch.h.)
 *
 * When tasks wait and none has ended for ten times the timeout, or for the timeout itself once a
 * signal has asked the run to end, the process ends with exit code 1 and names the first of them:
 * in the order of submission all before it have ended, so it is the one that hangs. Time in which
 * the process is stopped does not count. */
#ifndef SS_RUNTIME_STEP_WATCH_H
#define SS_RUNTIME_STEP_WATCH_H

#include "codelets/task.h"

enum { SS_STEP_WATCH_FACTOR = 10 };

struct ss_step_watch;

/* Tasks of one kind of step, in the order of submission; progress NULL: none. */
struct ss_step_tasks {
    const struct ss_task_list *list;
    const struct ss_task_progress *progress; /* per task */
};

/* train, eval and run outlive the watchdog, which the caller stops. Errors: SS_ERR_MEMORY,
 * SS_ERR_LIBRARY. */
enum ss_status ss_step_watch_start(const struct ss_step_tasks *train,
                                   const struct ss_step_tasks *eval, const struct ss_run *run,
                                   double timeout_s, struct ss_step_watch **out);
void ss_step_watch_stop(struct ss_step_watch *watch); /* NULL is fine */

#endif
