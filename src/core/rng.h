/* Counter-based random numbers: every draw is a pure function of (seed, domain, index), so that
 * results never depend on the number of workers or on timing. */
#ifndef SS_CORE_RNG_H
#define SS_CORE_RNG_H

#include <stdint.h>

/* Purpose of a draw: separates streams of the same seed. */
enum ss_rng_domain {
    SS_RNG_INIT = 1, /* parameter initialization */
    SS_RNG_SHUFFLE,  /* the sampler's permutation */
    SS_RNG_AUGMENT,  /* data augmentation */
    SS_RNG_DROPOUT,
    SS_RNG_SYNTHETIC, /* generated data sets */
    SS_RNG_MIX,       /* MixUp and CutMix */
    SS_RNG_ERASE,     /* random erasing */
    SS_RNG_SPLIT,     /* validation set split off the training set */
};

/* A stream: sequential draws from one (seed, domain, a, b). */
struct ss_rng {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t buffer[4];
    int used; /* words of buffer already consumed */
};

/* Philox4x32-10: 4 output words for (key, counter). Salmon, Moraes, Dror, Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011, section 3.3 and table 2. */
void ss_philox4x32(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* Open the stream (seed, domain, a, b), for example with a = epoch, b = sample index. */
void ss_rng_open(struct ss_rng *rng, uint64_t seed, enum ss_rng_domain domain, uint32_t a,
                 uint32_t b);

uint32_t ss_rng_u32(struct ss_rng *rng);
/* Uniform in [0, 1), 24 bits. */
float ss_rng_uniform(struct ss_rng *rng);
/* Uniform in [low, high), 53 bits, as Python's random.uniform. */
double ss_rng_between(struct ss_rng *rng, double low, double high);
/* Standard normal, from two uniform draws (Box, Muller 1958). */
float ss_rng_normal(struct ss_rng *rng);
/* Beta(alpha, alpha) with alpha > 0, in [0, 1]: X / (X + Y) with X, Y from Gamma(alpha).
 * Gamma(alpha) for alpha >= 1: Marsaglia, Tsang, "A simple method for generating gamma
 * variables", ACM TOMS 26 (2000), section 2; for alpha < 1, section 6: Gamma(alpha) = Gamma(alpha
 * + 1) U^(1 / alpha). Computed in logarithms, because for a small alpha both may underflow a
 * double. */
double ss_rng_beta(struct ss_rng *rng, double alpha);
/* Uniform in 0 .. n-1, unbiased; n >= 1. */
uint32_t ss_rng_below(struct ss_rng *rng, uint32_t n);

/* 64-bit hash of two words (splitmix64's finalizer), to derive keys. Steele, Lea, Flood, "Fast
 * splittable pseudorandom number generators", OOPSLA 2014. */
uint64_t ss_mix64(uint64_t a, uint64_t b);
/* Hash of h and a text, byte by byte. */
uint64_t ss_mix_text(uint64_t h, const char *text);

#endif
