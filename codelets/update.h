/* codelets/update.c: an optimizer step over a bucket's parameters. With shards it covers this
 * rank's share, and states exist only for the share. For clipping, the sum of squares of a
 * bucket's gradients, or of this rank's share.
 *
 * squares: grads read, the sum of squares written (for the first bucket) or added to.
 *
 * update: grads read, params and the optimizer's states read and written, all in the bucket's
 * layout. On a GPU also the copy of the parameters in the compute type. With loss scaling the
 * scaler's state is read, which may skip the step, and with clipping the sum of squares. The
 * task's context is a struct ss_updating; the learning rate is passed with each step. */
#ifndef SS_CODELETS_UPDATE_H
#define SS_CODELETS_UPDATE_H

#include "codelets/task.h"
#include "kernels/kernels.h"
#include "optim/optim.h"

/* The environment of a worker's updates. */
struct ss_updater {
    const struct ss_kernels *kernels;
    struct ss_device *device;
    const struct ss_spans *spans; /* per bucket, of this rank's share, in device memory */
};

struct ss_updating {
    /* For the worker that computes or, after collectives over GPUs, communicates; and for service
     * workers, which run no updates if they have no device. */
    struct ss_updater compute, service;
    struct ss_optim optim;
    float scale;    /* of the reduced gradient: 1 / world size */
    size_t element; /* bytes of a weight in the compute type */
    int skipped;    /* skipped steps, in a run that resumed without loss scaling; else 0 */
};

enum ss_status ss_squares_submit(const struct ss_step_args *args);

enum ss_status ss_update_submit(const struct ss_step_args *args);

#endif
