/* Which samples a rank reads, in which order: a function of (seed, epoch) alone.
 *
 * Shards are as PyTorch's DistributedSampler: position p of the epoch's order goes to rank p mod N,
 * so that without shuffling rank r reads samples r, r+N, r+2N, ... in file order. Shards are
 * disjoint, and nothing is padded by repetition; what becomes of an epoch's end: enum ss_sampler_end. */
#ifndef SS_DATA_SAMPLER_H
#define SS_DATA_SAMPLER_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

/* Training: shards are of equal size. */
enum ss_sampler_end {
    SS_END_EVERY, /* evaluation: every sample is read once over all ranks, shards differ by one at most */
    SS_END_DROP,  /* what does not fill a whole batch on every rank is left out: PyTorch's drop_last */
    SS_END_KEEP,  /* the last batch may be smaller; at most a sample less than there are ranks is left out */
};

struct ss_sampler {
    size_t count; /* samples in the data set */
    int rank, world;
    size_t batch; /* samples per rank and step */
    int shuffle;
    enum ss_sampler_end end;
    uint64_t seed;
    size_t shard;    /* samples of this rank that are read in an epoch */
    size_t steps;    /* batches per epoch; equal on all ranks */
    uint32_t *order; /* the epoch's permutation; NULL without shuffling */
};

/* Batches per epoch. */
size_t ss_sampler_steps(size_t count, int world, size_t batch, enum ss_sampler_end end);
/* Errors: SS_ERR_INVALID when in training not even one batch fits, with KEEP one sample on each rank
 * (names count, ranks, batch), SS_ERR_MEMORY. The caller closes the sampler. */
enum ss_status ss_sampler_open(struct ss_sampler *s, size_t count, int rank, int world,
                               size_t batch, int shuffle, enum ss_sampler_end end, uint64_t seed);
void ss_sampler_close(struct ss_sampler *s);
/* Samples of this rank in the first `steps` batches of an epoch. */
size_t ss_sampler_read(const struct ss_sampler *s, size_t steps);

/* Begin epoch 0, 1, ...: a new permutation (Fisher-Yates from SS_RNG_SHUFFLE, epoch). Must be
 * called before the first ss_sampler_index. */
void ss_sampler_set_epoch(struct ss_sampler *s, uint32_t epoch);

/* Sample k (0 <= k < batch) of this rank's batch `step` (0 <= step < steps), or SIZE_MAX past the
 * end of the shard, which is in the last batch. */
size_t ss_sampler_index(const struct ss_sampler *s, size_t step, size_t k);
/* The whole batch as an executor takes it: out (batch), UINT32_MAX past the end. */
void ss_sampler_batch(const struct ss_sampler *s, size_t step, uint32_t *out);

#endif
