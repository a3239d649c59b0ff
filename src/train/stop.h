/* Signals that ask a run to end: SIGINT, SIGTERM and SIGUSR1. */
#ifndef SS_TRAIN_STOP_H
#define SS_TRAIN_STOP_H

#include "codelets/task.h"

/* From now on such a signal sets *run->stop. Launchers and batch systems both send one, so one that
 * follows the first of its kind within a second is the same; a later one of its kind ends the
 * process. The handlers stay after the run: the end is orderly, too. */
void ss_stop_catch(struct ss_run *run);

#endif
