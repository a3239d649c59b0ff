/* State of the training loop: train.c trains, train_summary.c tells. */
#ifndef SS_TRAIN_LOOP_H
#define SS_TRAIN_LOOP_H

#include "train/epoch.h"
#include "train/journal.h"
#include "train/resume.h"
#include "train/session.h"
#include "train/tensorboard.h"
#include "train/train.h"

#include <semaphore.h>

struct ss_loop {
    struct ss_session session;
    struct ss_journal journal;
    struct ss_tensorboard *tensorboard; /* rank 0, with --tensorboard */
    struct ss_train_options *options;
    const struct ss_train_callbacks *callbacks;
    struct ss_resumed resumed;
    struct ss_schedule schedule;
    sem_t in_flight; /* steps that may still be submitted; a step's report gives one back */
    int ahead;       /* how many those are at first */
    double start;    /* of the run, without its interruptions */
    /* Steps and batches: submitted. The sums are written by reports, which run one after the other;
     * the main thread touches them and the epoch only after all tasks have ended. */
    struct ss_position at;
    _Atomic uint64_t stop_step; /* the step whose metrics brought a stop request; 0: none */
    _Atomic float last_loss;
    int warned;
    /* Steps in a row whose loss was not finite, and their first; reports', as the sums are. */
    int64_t bad_steps, bad_since;
    int sound;     /* the loss and the weights were finite when they were last compared */
    int told_unsound; /* that no checkpoint is written */
    int diverged;  /* --on-nan stop: the run ends; decided by what all ranks know */
    int enough;    /* who is told of epochs wants no more */
    int replaced;  /* --overwrite: another run's checkpoints are gone */
    char hash[32]; /* of the weights, when they were last compared */
};

/* Open rank 0's logs; with --resume the old one is continued. */
enum ss_status ss_loop_open_logs(struct ss_loop *l);
/* On rank 0: lines of the form that --epoch-line names. */
void ss_loop_print_start(struct ss_loop *l);
void ss_loop_print_epoch(const struct ss_loop *l, const struct ss_epoch *e);
void ss_loop_print_stop(const struct ss_loop *l); /* the target was reached */
void ss_loop_print_summary(struct ss_loop *l, size_t skipped);

#endif
