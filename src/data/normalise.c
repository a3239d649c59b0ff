#include "data/normalise.h"

/* 1 / 255 = PART_1 + PART_2. PART_1 has so few bits that its product with a byte is exact, so the
 * sum of both products is the correctly rounded quotient for all 256 bytes. This is faster than a
 * division and faster than a table of the 256 results. */
#define PART_1 0x1.01p-8f
#define PART_2 0x1.010102p-24f

static inline __attribute__((always_inline)) void
normalise(const uint8_t *restrict in, size_t n, float mean, float std, float *restrict out)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float byte = (float)in[i];
        out[i] = (byte * PART_1 + byte * PART_2 - mean) / std;
    }
}

/* Compiled twice and selected at run time by processor support. Does not use FMA, so both versions
 * are bit-identical. */
#if defined(__x86_64__) && !defined(__AVX2__)
__attribute__((target("avx2"))) static void
normalise_avx2(const uint8_t *restrict in, size_t n, float mean, float std, float *restrict out)
{
    normalise(in, n, mean, std, out);
}
#    define HAS_AVX2() __builtin_cpu_supports("avx2")
#else
#    define normalise_avx2 normalise
#    define HAS_AVX2() 0
#endif

void ss_pixels_normalise(const uint8_t *restrict in, size_t n, float mean, float std,
                         float *restrict out)
{
    if (HAS_AVX2())
        normalise_avx2(in, n, mean, std, out);
    else
        normalise(in, n, mean, std, out);
}
