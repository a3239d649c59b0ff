#include "data/normalise.h"

/* 1 / 255 as the sum of two, of which the first has so few bits that its products with bytes are
 * exact: the sums of the two products are the 256 quotients, rounded right. A division is slow, and
 * a table of the 256 results slower than this. */
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

/* Compiled twice, chosen by what the processor can run. Without FMA, so that bits are equal. */
#if defined(__x86_64__) && !defined(__AVX2__)
__attribute__((target("avx2"))) static void normalise_avx2(const uint8_t *restrict in, size_t n,
                                                           float mean, float std,
                                                           float *restrict out)
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
