/* codelets/allreduce.c: collectives of a bucket's gradients, of a step's metrics or of a block's
 * statistics over all ranks. With shards each rank gets its share of a bucket's sum, and gathers
 * from the others the parameters that they have updated. These are sent in fp32, the compute type
 * of biases and similar parameters; weights are rounded to the compute type on arrival. With loss
 * scaling a rank also receives whether others have found infinities, and with clipping the
 * others' sums of squares.
 *
 * The codelet only starts the collective and returns. The communication thread ends the StarPU
 * task, and no worker waits in the meantime. Every collective writes the token, which gives all
 * ranks the same order.
 *
 * On GPUs it is enqueued on the communication lane's stream (lane.h) and watched by the
 * communication thread. The task ends as any other of a lane does.
 *
 * grads (floats of the bucket, padding included) in place; metrics (struct ss_step_facts,
 * report.h) in place. A block's sums for BatchNorm statistics (fp64) have a separate token and
 * channel; on the CPU the sum of squares (a double) uses the same channel. The task's context is
 * a struct ss_allreduce.
 *
 * Gradients may be sent in a 2-byte type: multiplied by 1 / ranks and rounded, reduced, and
 * converted back to fp32 times the number of ranks, so that the bucket holds the sum in either
 * case (comm.h; over GPUs NCCL adds in that type, and with --nccl-always a single rank's are
 * rounded too). An infinity or NaN in one rank's gradients, or produced by rounding, reaches
 * every rank, where loss scaling skips the step. */
#ifndef SS_CODELETS_ALLREDUCE_H
#define SS_CODELETS_ALLREDUCE_H

#include "codelets/task.h"

struct ss_comm;

struct ss_allreduce {
    struct ss_comm *comm;
    enum ss_dtype wire;    /* wire type of gradients; on a GPU the type of the region's copy */
    enum ss_dtype weights; /* compute type of weights */
};

enum ss_status ss_allreduce_submit(const struct ss_step_args *args);

#endif
