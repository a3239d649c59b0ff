/* codelets/update.c: one step of the optimizer over a bucket's parameters, or with shards over this
 * rank's share of them, of which alone there are states; and, for clipping, the sum of squares of a
 * bucket's gradients, or of this rank's share.
 *
 * squares: grads read, the sum of squares written (of the first bucket) or added to.
 *
 * update: grads read, params and the optimizer's states read and written; all in the bucket's layout. On a
 * GPU also the copy of the parameters in the format that computes; with loss scaling the scaler's
 * state is read, which may leave the step out, and with clipping the sum of squares. The task's
 * context is a struct ss_updating; the learning rate comes with each step. */
#ifndef SS_CODELETS_UPDATE_H
#define SS_CODELETS_UPDATE_H

#include "codelets/task.h"
#include "kernels/kernels.h"
#include "optim/optim.h"

/* With what a worker updates. */
struct ss_updater {
    const struct ss_kernels *kernels;
    struct ss_device *device;
    const struct ss_spans *spans; /* per bucket, of this rank's share, in the device's memory */
};

struct ss_updating {
    /* The worker that computes or, behind sums over GPUs, communicates; and service workers. Without a
     * device these run no updates. */
    struct ss_updater compute, service;
    struct ss_optim optim;
    float scale; /* of the summed gradient: 1 / world size */
    size_t element; /* bytes of a weight that computes */
    int skipped;    /* steps left out, by a run that went on without loss scaling; else 0 */
};

enum ss_status ss_squares_submit(const struct ss_step_args *args);

enum ss_status ss_update_submit(const struct ss_step_args *args);

#endif
