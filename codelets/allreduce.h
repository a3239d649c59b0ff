/* codelets/allreduce.c: the sum of a bucket's gradients, of a step's metrics or of a block's
 * statistics over all ranks. With shards each rank gets its share of a bucket's sum, and from the
 * others the parameters that they have updated: in fp32, in which biases and such compute; weights are rounded to the
 * format that computes when they have come. A loss-scaling rank also hears of the infinities that others have found, and
 * a clipping one of their sums of squares.
 *
 * The codelet only starts the collective and returns; the StarPU task ends when the communication
 * thread says so, and no worker waits meanwhile. The token, written by every collective, gives all
 * ranks the same order.
 *
 * Over GPUs it is enqueued on the communication lane's stream (lane.h) and watched by the
 * communication thread; the task ends as any other of a lane does.
 *
 * grads (floats of the bucket, padding included) in place; metrics (struct ss_step_facts, report.h) in place.
 * A block's sums for BatchNorm's statistics (fp64) have a token, and a way, of their own; on the CPU
 * the sum of squares (a double) goes the same way.
 * The task's context is a struct ss_allreduce.
 *
 * Gradients may travel in 2 bytes: times 1 / ranks and rounded, summed, and back to fp32 times the
 * number of ranks, so that the bucket holds the sum whatever the way (comm.h; over GPUs NCCL adds
 * in that format, and with --nccl-always a single rank's are rounded too). An infinity or NaN that
 * a rank has, or that rounding makes, arrives on every rank, where loss scaling leaves the step
 * out. */
#ifndef SS_CODELETS_ALLREDUCE_H
#define SS_CODELETS_ALLREDUCE_H

#include "codelets/task.h"

struct ss_comm;

struct ss_allreduce {
    struct ss_comm *comm;
    enum ss_dtype wire; /* the format in which gradients travel; on a GPU in the region's copy */
    enum ss_dtype weights; /* of weights that compute */
};

enum ss_status ss_allreduce_submit(const struct ss_step_args *args);

#endif
