/* codelets/dropout.c: the keys of dropout and stochastic depth, one per (seed, step, micro-step, block,
 * rank). A block goes by its first layer, which does not depend on what a device fuses. */
#ifndef SS_CODELETS_DROPOUT_H
#define SS_CODELETS_DROPOUT_H

#include "codelets/task.h"
#include "kernels/kernels.h"

struct ss_dropout {
    const struct ss_plan *plan;
    uint64_t seed;
    int rank;
    uint64_t *value; /* room for those of all blocks that drop something */
};

/* plan outlives it. SS_ERR_MEMORY. */
enum ss_status ss_dropout_open(struct ss_dropout *d, const struct ss_plan *plan, uint64_t seed,
                               int rank);
void ss_dropout_close(struct ss_dropout *d);

uint64_t ss_dropout_key(const struct ss_dropout *d, uint64_t step, int micro, int block);
/* Write those of a micro-step to `at` in the GPU's memory, in the order of its stream. */
enum ss_status ss_dropout_put(const struct ss_dropout *d, const struct ss_kernels *kernels,
                              struct ss_device *gpu, uint64_t step, int micro, uint64_t *at);

#endif
