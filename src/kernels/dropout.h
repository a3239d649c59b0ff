/* Dropout's decisions, bit-identical on every device: a function of a key and of the element's
 * logical index ((n H + h) W + w) C + c, independent of the memory layout; in stochastic depth,
 * where elements share a decision, of n, or of 0. */
#ifndef SS_KERNELS_DROPOUT_H
#define SS_KERNELS_DROPOUT_H

#include "kernels/divide.h"

#include <stdint.h>

/* Dropout as a function of the element's index, so that backward needs no stored mask. */
struct ss_dropout_draw {
    int on;
    uint32_t threshold; /* p * 2^32: dropped if the hash is less */
    uint32_t key[2];
    float scale; /* 1 / (1 - p) */
    int shared;  /* 1: an element's draw is i / by; 0: i */
    struct ss_divider by;
};

/* Returns 32 random bits for an element. Shifts and multipliers of lowbias32 (Wellons,
 * "Prospecting for hash functions", 2018), which passes avalanche tests with a bias of 0.17 /
 * 1000. The key enters at two places, so that different keys do not give permutations of the same
 * mask. */
SS_ANY_DEVICE static inline uint32_t ss_dropout_hash(uint32_t i, uint32_t key0, uint32_t key1)
{
    uint32_t x = i ^ key0;
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= key1;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

/* p in [0, 1); key: 64 random bits, different per (seed, step, block, rank). */
static inline struct ss_dropout_draw ss_dropout_make(float p, uint64_t key)
{
    struct ss_dropout_draw d;
    d.on = p > 0;
    d.threshold = (uint32_t)((double)p * 4294967296.0);
    d.key[0] = (uint32_t)key;
    d.key[1] = (uint32_t)(key >> 32);
    d.scale = (float)(1 / (1 - (double)p));
    d.shared = 0;
    d.by = ss_divider_make(1);
    return d;
}
/* Makes this many consecutive elements share one decision. */
static inline void ss_dropout_share(struct ss_dropout_draw *d, uint32_t elements)
{
    d->shared = 1;
    d->by = ss_divider_make(elements);
}

/* Returns whether element i is retained, with the kernels' formula; for tests. */
static inline int ss_dropout_keep(uint64_t key, uint32_t i, float p)
{
    const struct ss_dropout_draw d = ss_dropout_make(p, key);
    return ss_dropout_hash(i, d.key[0], d.key[1]) >= d.threshold;
}

#endif
