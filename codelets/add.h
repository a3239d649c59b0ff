/* codelets/add.c: additions of gradients.
 *
 * add: accumulates a bucket's gradients over micro-batches (graph/accumulate.c).
 *
 * accum  first micro-batch: grads written; then: grads added, up to the last but one
 * grads  last micro-batch: (grads + accum) / micro-batches, the mean
 *
 * sum: adds contributions to the gradient of a value into the first of them: dy read, ds written.
 *
 * The task's context is a struct ss_adding. */
#ifndef SS_CODELETS_ADD_H
#define SS_CODELETS_ADD_H

#include "codelets/task.h"
#include "kernels/kernels.h"

struct ss_adding {
    const struct ss_kernels *kernels;
    struct ss_device *device;
    int micros; /* micro-batches per step */
};

enum ss_status ss_add_submit(const struct ss_step_args *args);
enum ss_status ss_sum_submit(const struct ss_step_args *args);

/* Run a task of either kind, on any device. */
enum ss_status ss_add_run(const struct ss_adding *adding, const struct ss_task_data *d);

#endif
