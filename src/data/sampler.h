/* Which samples a rank reads, in which order: a function of (seed, epoch) alone.
 *
 * Shards are as PyTorch's DistributedSampler: position p of the epoch's order goes to rank p mod N,
 * so that without shuffling rank r reads samples r, r+N, r+2N, ... in file order. Shards are
 * disjoint and of equal size; in training, samples that do not fill a whole batch on every rank are
 * dropped at the end of the epoch (drop_last), and nothing is padded by repetition. For evaluation
 * (drop_last 0) every sample is read exactly once over all ranks, shards differ by one at most. */
#ifndef SS_DATA_SAMPLER_H
#define SS_DATA_SAMPLER_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct ss_sampler {
    size_t count; /* samples in the data set */
    int rank, world;
    size_t batch; /* samples per rank and step */
    int shuffle, drop_last;
    uint64_t seed;
    size_t shard;    /* samples of this rank that are read in an epoch */
    size_t steps;    /* batches per epoch; equal on all ranks, also with drop_last 0 */
    uint32_t *order; /* the epoch's permutation; NULL without shuffling */
};

/* Errors: SS_ERR_INVALID when drop_last and not even one batch fits (names count, ranks, batch),
 * SS_ERR_MEMORY. The caller closes the sampler. */
enum ss_status ss_sampler_open(struct ss_sampler *s, size_t count, int rank, int world,
                               size_t batch, int shuffle, int drop_last, uint64_t seed);
void ss_sampler_close(struct ss_sampler *s);

/* Begin epoch 0, 1, ...: a new permutation (Fisher-Yates from SS_RNG_SHUFFLE, epoch). Must be
 * called before the first ss_sampler_index. */
void ss_sampler_set_epoch(struct ss_sampler *s, uint32_t epoch);

/* Sample k (0 <= k < batch) of this rank's batch `step` (0 <= step < steps), or SIZE_MAX past the
 * end of the shard (drop_last 0 only). */
size_t ss_sampler_index(const struct ss_sampler *s, size_t step, size_t k);

#endif
