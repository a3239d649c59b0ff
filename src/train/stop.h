/* Signals that request a run to stop: SIGTERM and SIGUSR1, and SIGINT and SIGHUP unless the
 * process was started with them ignored (core/signals.h). */
#ifndef SS_TRAIN_STOP_H
#define SS_TRAIN_STOP_H

#include "codelets/task.h"

#include <signal.h>

enum { SS_STOP_SIGNALS = 4 };
extern const int ss_stop_signals[SS_STOP_SIGNALS];
/* Set *set to the signals that are caught. */
void ss_stop_set(sigset_t *set);

/* Install handlers that set *run->stop. Launchers and batch systems may both send a signal, so a
 * repetition within a second of the first is ignored; a later one of the same number ends the
 * process. The handlers remain installed after the run, so that its shutdown is not
 * interrupted. */
void ss_stop_catch(struct ss_run *run);

#endif
