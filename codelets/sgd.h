/* codelets/sgd.c: one SGD update of a bucket's parameters.
 *
 * grads read, params and momentum read and written; all in the bucket's layout. On a GPU also the
 * copy of the parameters in the format that computes; with loss scaling the scaler's state is read,
 * which may leave the step out. The task's context is a struct ss_sgd; the learning rate comes with
 * each step. */
#ifndef SS_CODELETS_SGD_H
#define SS_CODELETS_SGD_H

#include "kernels/cpu/cpu.h"
#include "codelets/task.h"

struct ss_sgd {
    struct ss_device *cpu; /* CPU runs */
    float momentum, weight_decay;
    float scale; /* of the summed gradient: 1 / world size */
};

enum ss_status ss_sgd_submit(const struct ss_step_args *args);

#endif
