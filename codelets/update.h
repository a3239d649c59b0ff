/* codelets/update.c: one step of the optimizer over a bucket's parameters, or with shards over this
 * rank's share of them, of which alone there are states.
 *
 * grads read, params and the optimizer's states read and written; all in the bucket's layout. On a
 * GPU also the copy of the parameters in the format that computes; with loss scaling the scaler's
 * state is read, which may leave the step out. The task's context is a struct ss_updating; the
 * learning rate comes with each step. */
#ifndef SS_CODELETS_UPDATE_H
#define SS_CODELETS_UPDATE_H

#include "codelets/task.h"
#include "kernels/kernels.h"
#include "optim/optim.h"

struct ss_updating {
    const struct ss_kernels *kernels;
    struct ss_device *device;
    struct ss_optim optim;
    float scale; /* of the summed gradient: 1 / world size */
    size_t element; /* bytes of a weight that computes */
    int skipped; /* steps left out, by a run that went on without loss scaling; else 0 */
};

enum ss_status ss_update_submit(const struct ss_step_args *args);

#endif
