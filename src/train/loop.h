/* State of the training loop, shared by train.c (training) and train_summary.c (output). */
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
    sem_t in_flight; /* steps that may still be submitted; incremented by a step's report */
    int ahead;       /* initial value of in_flight */
    double start;    /* start time of the run, excluding interruptions */
    /* Steps and batches count submitted ones. The sums are written by reports, which run one
     * after the other; the main thread accesses them and the epoch only after all tasks have
     * ended. */
    struct ss_position at;
    _Atomic uint64_t stop_step; /* step whose metrics carried a stop request; 0: none */
    _Atomic float last_loss;
    int warned;
    /* Consecutive steps whose loss was not finite, and the first of them; written by reports. */
    int64_t bad_steps, bad_since;
    int sound;        /* loss and weights were finite at the last comparison */
    int told_unsound; /* warned that no checkpoint is written */
    int diverged;     /* --on-nan stop: the run ends; equal on all ranks */
    int enough;       /* the epoch callback requested to stop */
    int replaced;     /* --overwrite: another run's checkpoints were removed */
    char hash[32];    /* of the weights, at the last comparison */
};

/* Open rank 0's logs; with --resume append to the existing log. */
enum ss_status ss_loop_open_logs(struct ss_loop *l);
/* Print lines in the form of --epoch-line, on rank 0. */
void ss_loop_print_start(struct ss_loop *l);
void ss_loop_print_epoch(const struct ss_loop *l, const struct ss_epoch *e);
void ss_loop_print_stop(const struct ss_loop *l); /* the target was reached */
void ss_loop_print_summary(struct ss_loop *l, size_t skipped);

#endif
