/* Training, evaluation and prediction runs. */
#ifndef SS_TRAIN_TRAIN_H
#define SS_TRAIN_TRAIN_H

#include "train/options.h"

struct ss_epoch;
struct ss_metrics;

/* Functions that a run calls with its results. All may be NULL. */
struct ss_train_callbacks {
    /* Called after each epoch on every rank. *e is complete on rank 0; on other ranks without the
     * gathered values (ss_epoch_gather). If it returns non-zero on any rank, the run ends after
     * this epoch. */
    int (*epoch)(const struct ss_epoch *e, void *arg);
    void *arg;
    struct ss_metrics *evaluation; /* ss_eval_run: sums over all ranks */
};

/* Train according to the options: epochs of steps, evaluation and a checkpoint after each, early
 * stop, summary. Prints to stdout on rank 0. --resume continues from a checkpoint. The signals of
 * stop.h stop the run at a step boundary, the same on all ranks, with a checkpoint and
 * SS_ERR_INTERRUPTED (without --checkpoint-dir: SS_ERR_INVALID). Losses or weights that are not
 * finite stop it without a checkpoint and with SS_ERR_DIVERGED (--on-nan). Errors: any status,
 * already reported; the other ranks were ended. */
enum ss_status ss_train_run(struct ss_train_options *options,
                            const struct ss_train_callbacks *callbacks);

/* --check: check in this process alone everything that could fail in a run of --ranks ranks and
 * can be checked without running it, and print a summary. Leaves no files behind. Errors: those
 * of ss_train_run, already reported. */
enum ss_status ss_train_check_only(struct ss_train_options *options);

/* Evaluate --init on the test set and print loss and accuracy. */
enum ss_status ss_eval_run(struct ss_train_options *options,
                           const struct ss_train_callbacks *callbacks);

/* Predict classes and probabilities of the images in --images, as CSV in --out or on standard
 * output. The file --out is written completely or not at all. */
enum ss_status ss_predict_run(struct ss_train_options *options);

#endif
