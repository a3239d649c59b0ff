/* The training loop. */
#ifndef SS_TRAIN_TRAIN_H
#define SS_TRAIN_TRAIN_H

#include "train/options.h"

/* Train as told: epochs of steps, evaluation and a checkpoint after each, early stop, summary.
 * Prints to stdout on rank 0. With --resume it goes on where a checkpoint was written. SIGINT,
 * SIGTERM and SIGUSR1 end the run at a step boundary, the same on all ranks, with a checkpoint and
 * SS_ERR_INTERRUPTED (without --checkpoint-dir: SS_ERR_INVALID); losses or weights that are not
 * finite with SS_ERR_DIVERGED and without one (--on-nan). Errors: every status; reported.
 * Other ranks have been ended. */
enum ss_status ss_train_run(struct ss_train_options *options);

/* --check: look at everything that a run of --ranks ranks would stumble over and that can be known
 * without it, on this process alone, and say what was looked at. Nothing is left in the file
 * system. Errors: those of ss_train_run; reported. */
enum ss_status ss_train_check_only(struct ss_train_options *options);

/* Evaluate --init on the test set and print loss and accuracy. */
enum ss_status ss_eval_run(struct ss_train_options *options);

#endif
