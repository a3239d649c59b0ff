/* Position of a run: the state, besides weights, optimizer and loss scale, needed to resume
 * bit-identically. Random numbers need no state: sample order, augmentation and dropout are
 * functions of seed, epoch, sample and step (core/rng.h). */
#ifndef SS_TRAIN_POSITION_H
#define SS_TRAIN_POSITION_H

#include "kernels/shapes.h"

#include <stdint.h>

/* Largest count of steps or batches accepted from a file, so that counting cannot overflow. */
#define SS_COUNT_MAX ((int64_t)1 << 62)

/* Sent as raw bytes between ranks of the same program, and written field by field
 * (training_notes.c). */
struct ss_position {
    int64_t step;                 /* optimizer steps so far */
    int64_t epoch;                /* current epoch, from 0 */
    int64_t batches;              /* its completed steps; all of them: only evaluation is left */
    int64_t tracked;              /* BatchNorm's num_batches_tracked */
    int64_t reached;              /* consecutive epochs at the target accuracy */
    int64_t summed;               /* steps of this epoch in the sums below */
    double loss;                  /* sum of their losses */
    struct ss_metrics train;      /* sums of their metrics */
    struct ss_metrics validation; /* of the last epoch that was evaluated; count 0: none */
    double epoch_s;               /* training time of this epoch so far */
    double total_s, total_images; /* of all previous epochs */
    double elapsed_s;             /* since the start of the run, excluding interruptions */
    double scale;                 /* loss scale; 0: not used */
    int64_t scale_steps, scale_skipped;
    int64_t best_epoch; /* from 1, by --best; 0: none yet */
    double best;        /* accuracy or loss of best_epoch */
    int64_t length;     /* steps of the whole run, as used by --schedule; 0: not known */
};

#endif
