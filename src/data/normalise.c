#include "data/normalise.h"

/* Compiled twice; the loader of the library takes the version that the processor can run. Not under
 * the sanitizers that are not ready when the loader asks. */
#define FOR_EACH_CPU
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__AVX2__) && defined(__has_attribute) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#    if __has_attribute(target_clones)
#        undef FOR_EACH_CPU
#        define FOR_EACH_CPU __attribute__((target_clones("avx2", "default")))
#    endif
#endif

/* 1 / 255 as the sum of two, of which the first has so few bits that its products with bytes are
 * exact: the sums of the two products are the 256 quotients, rounded right. A division is slow, and
 * a table of the 256 results slower than this. */
#define PART_1 0x1.01p-8f
#define PART_2 0x1.010102p-24f

FOR_EACH_CPU
void ss_pixels_normalise(const uint8_t *restrict in, size_t n, float mean, float std,
                         float *restrict out)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float byte = (float)in[i];
        out[i] = (byte * PART_1 + byte * PART_2 - mean) / std;
    }
}
