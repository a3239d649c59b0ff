/* Signals that ask a run to end: SIGTERM and SIGUSR1; SIGINT and SIGHUP unless the process was started
 * with them ignored (core/signals.h). */
#ifndef SS_TRAIN_STOP_H
#define SS_TRAIN_STOP_H

#include "codelets/task.h"

#include <signal.h>

enum { SS_STOP_SIGNALS = 4 };
extern const int ss_stop_signals[SS_STOP_SIGNALS];
/* Those that are wanted, as a set. */
void ss_stop_set(sigset_t *set);

/* From now on such a signal sets *run->stop. Launchers and batch systems both send one, so one that
 * follows the first of its kind within a second is the same; a later one of its kind ends the
 * process. The handlers stay after the run: the end is orderly, too. */
void ss_stop_catch(struct ss_run *run);

#endif
