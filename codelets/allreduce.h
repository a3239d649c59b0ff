/* codelets/allreduce.c: the sum of a bucket's gradients, or of a step's metrics, over all ranks.
 *
 * The codelet only starts the collective and returns; the StarPU task ends when the communication
 * thread says so, and no worker waits meanwhile. The token, written by every collective, gives all
 * ranks the same order.
 *
 * Over GPUs it is enqueued on the communication lane's stream (lane.h) and watched by the
 * communication thread; the task ends as any other of a lane does.
 *
 * grads (floats of the bucket, padding included) in place; metrics (struct ss_metrics) in place.
 * The task's context is the struct ss_comm. */
#ifndef SS_CODELETS_ALLREDUCE_H
#define SS_CODELETS_ALLREDUCE_H

#include "codelets/task.h"

enum ss_status ss_allreduce_submit(const struct ss_step_args *args);

#endif
