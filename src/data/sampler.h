/* Distributed sampler: the samples that each rank reads, and their order. The order depends only on
 * (seed, epoch).
 *
 * Sharding is that of PyTorch's DistributedSampler: position p of the epoch's order belongs to rank
 * p mod N, so without shuffling rank r reads samples r, r+N, r+2N, ... in file order. Shards are
 * disjoint and never padded by repeating samples; enum ss_sampler_end selects how an epoch ends. */
#ifndef SS_DATA_SAMPLER_H
#define SS_DATA_SAMPLER_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

/* End of an epoch. With DROP and KEEP, which are for training, shards have equal sizes. */
enum ss_sampler_end {
    SS_END_EVERY, /* evaluation: all ranks together read every sample once; shard sizes differ by
                     at most one */
    SS_END_DROP,  /* drop samples that do not fill a batch on every rank, as PyTorch's drop_last */
    SS_END_KEEP,  /* the last batch may be smaller; drops at most one sample less than the number of
                     ranks */
};

struct ss_sampler {
    size_t count; /* samples in the data set */
    int rank, world;
    size_t batch; /* samples per rank and step */
    int shuffle;
    enum ss_sampler_end end;
    uint64_t seed;
    size_t shard;    /* samples that this rank reads per epoch */
    size_t steps;    /* batches per epoch; equal on all ranks */
    uint32_t *order; /* the epoch's permutation; NULL without shuffling */
};

/* Return the number of batches per epoch. */
size_t ss_sampler_steps(size_t count, int world, size_t batch, enum ss_sampler_end end);
/* Open a sampler for this rank. Errors: SS_ERR_INVALID, naming count, ranks and batch, if there is
 * less than one batch (DROP) or one sample (KEEP) per rank; SS_ERR_MEMORY. The caller closes the
 * sampler. */
enum ss_status ss_sampler_open(struct ss_sampler *s, size_t count, int rank, int world,
                               size_t batch, int shuffle, enum ss_sampler_end end, uint64_t seed);
void ss_sampler_close(struct ss_sampler *s);
/* Return the number of samples in this rank's first `steps` batches of an epoch. */
size_t ss_sampler_read(const struct ss_sampler *s, size_t steps);

/* Begin epoch 0, 1, ... with a new permutation (Fisher-Yates from SS_RNG_SHUFFLE, epoch). Call it
 * before the first ss_sampler_index. */
void ss_sampler_set_epoch(struct ss_sampler *s, uint32_t epoch);

/* Return the index of sample k (0 <= k < batch) of this rank's batch `step` (0 <= step < steps), or
 * SIZE_MAX past the end of the shard, which occurs only in the last batch. */
size_t ss_sampler_index(const struct ss_sampler *s, size_t step, size_t k);
/* Write the indices of a whole batch for the executor to out (batch); UINT32_MAX past the end. */
void ss_sampler_batch(const struct ss_sampler *s, size_t step, uint32_t *out);

#endif
