/* Mutations of byte strings, shared by the fuzzers. `capacity` is the size of the buffer b. */
#ifndef TESTS_FUZZ_BYTES_H
#define TESTS_FUZZ_BYTES_H

#include "core/rng.h"

#include <stdint.h>
#include <string.h>

/* Replace `cut` bytes at `at` by n others, if they fit; returns the new size. */
static inline size_t fuzz_splice(uint8_t *b, size_t size, size_t capacity, size_t at, size_t cut,
                                 const void *with, size_t n)
{
    if (cut > size - at)
        cut = size - at;
    if (size - cut + n > capacity)
        return size;
    memmove(b + at + n, b + at + cut, size - at - cut);
    memcpy(b + at, with, n);
    return size - cut + n;
}

/* Put a copy of a piece from elsewhere at `at`; returns the new size. */
static inline size_t fuzz_copy_piece(struct ss_rng *rng, uint8_t *b, size_t size, size_t capacity,
                                     size_t at)
{
    uint8_t piece[64];
    size_t n = ss_rng_below(rng, sizeof piece), from = ss_rng_below(rng, (uint32_t)size + 1);
    if (n > size - from)
        n = size - from;
    memcpy(piece, b + from, n);
    return fuzz_splice(b, size, capacity, at, 0, piece, n);
}

#endif
