/* codelets/dropout.c: keys of dropout and stochastic depth, one per (seed, step, micro-batch,
 * block, rank). A block is identified by its first layer, which does not depend on fusion. */
#ifndef SS_CODELETS_DROPOUT_H
#define SS_CODELETS_DROPOUT_H

#include "codelets/task.h"
#include "kernels/kernels.h"

struct ss_dropout {
    const struct ss_plan *plan;
    uint64_t seed;
    int rank;
    uint64_t *value; /* capacity for the keys of all blocks with dropout */
};

/* plan must outlive d. SS_ERR_MEMORY. */
enum ss_status ss_dropout_open(struct ss_dropout *d, const struct ss_plan *plan, uint64_t seed,
                               int rank);
void ss_dropout_close(struct ss_dropout *d);

uint64_t ss_dropout_key(const struct ss_dropout *d, uint64_t step, int micro, int block);
/* Write the keys of a micro-batch to `at` in GPU memory, in stream order. */
enum ss_status ss_dropout_put(const struct ss_dropout *d, const struct ss_kernels *kernels,
                              struct ss_device *gpu, uint64_t step, int micro, uint64_t *at);

#endif
