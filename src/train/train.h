/* The training loop. */
#ifndef SS_TRAIN_TRAIN_H
#define SS_TRAIN_TRAIN_H

#include "train/options.h"

struct ss_epoch;
struct ss_metrics;

/* Functions that a run calls with its results. All may be NULL. */
struct ss_train_callbacks {
    /* After each epoch, on every rank: all of *e but what rank 0 alone knows. Non-zero, on any rank: the run
     * ends behind it. */
    int (*epoch)(const struct ss_epoch *e, void *arg);
    void *arg;
    struct ss_metrics *evaluation; /* of ss_eval_run: the sums over all ranks */
};

/* Train as told: epochs of steps, evaluation and a checkpoint after each, early stop, summary.
 * Prints to stdout on rank 0. With --resume it goes on where a checkpoint was written. The
 * signals of stop.h end the run at a step boundary, the same on all ranks, with a checkpoint and
 * SS_ERR_INTERRUPTED (without --checkpoint-dir: SS_ERR_INVALID); losses or weights that are not
 * finite with SS_ERR_DIVERGED and without one (--on-nan). Errors: every status; reported.
 * Other ranks have been ended. */
enum ss_status ss_train_run(struct ss_train_options *options,
                            const struct ss_train_callbacks *callbacks);

/* --check: look at everything that a run of --ranks ranks would stumble over and that can be known
 * without it, on this process alone, and say what was looked at. Nothing is left in the file
 * system. Errors: those of ss_train_run; reported. */
enum ss_status ss_train_check_only(struct ss_train_options *options);

/* Evaluate --init on the test set and print loss and accuracy. */
enum ss_status ss_eval_run(struct ss_train_options *options,
                           const struct ss_train_callbacks *callbacks);

/* Classes and probabilities of the images in --images, as CSV in --out or on standard output. The
 * table is there as a whole or not at all, but on standard output. */
enum ss_status ss_predict_run(struct ss_train_options *options);

#endif
