/* Where a run is: what it takes, besides weights, optimizer and loss scale, to go on as if it had
 * not been interrupted. Random numbers need no state of their own: order, augmentation and dropout
 * are functions of seed, epoch, sample and step (core/rng.h). */
#ifndef SS_TRAIN_POSITION_H
#define SS_TRAIN_POSITION_H

#include "kernels/shapes.h"

#include <stdint.h>

/* No file may have a larger count, of steps or of batches: there is room to count on. */
#define SS_COUNT_MAX ((int64_t)1 << 62)

/* Sent as bytes between equal programs, and written field by field (training_notes.c). */
struct ss_position {
    int64_t step;                 /* optimizer steps so far */
    int64_t epoch;                /* from 0, under way */
    int64_t batches; /* of it, done, each a step's; all of them: only its evaluation is left */
    int64_t tracked;              /* BatchNorm's num_batches_tracked */
    int64_t reached;              /* epochs in a row at the target accuracy */
    int64_t summed;               /* steps of this epoch in the sums below */
    double loss;                  /* sum of their losses */
    struct ss_metrics train;      /* sums of their metrics */
    struct ss_metrics validation; /* of the last epoch that was evaluated; count 0: none */
    double epoch_s;               /* training time of this epoch so far */
    double total_s, total_images; /* of all epochs before it */
    double elapsed_s;             /* since the run began, without its interruptions */
    double scale;                 /* loss scale; 0: none is used */
    int64_t scale_steps, scale_skipped;
    int64_t best_epoch; /* from 1, by --best; 0: none yet */
    double best;        /* its accuracy or loss */
    int64_t length;     /* steps of the whole run by its --schedule; 0: not known */
};

#endif
