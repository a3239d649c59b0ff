#include "data/resize_kernels.h"

#include <string.h>

/* x86-64's oldest instructions lack a multiplication of 32-bit vectors: the sum is compiled twice,
 * and the loader of the library takes the version that the processor can run. Not under the
 * sanitizers that are not ready when the loader asks. */
#define FOR_EACH_CPU
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__AVX2__) && defined(__has_attribute) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#    if __has_attribute(target_clones)
#        undef FOR_EACH_CPU
#        define FOR_EACH_CPU __attribute__((target_clones("avx2", "default")))
#    endif
#endif

typedef uint8_t byte16 __attribute__((vector_size(16)));

static inline byte16 load16(const uint8_t *p)
{
    byte16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The compiler keeps `sum` in registers: its length is known. */
FOR_EACH_CPU
void resize_mix(const uint8_t *restrict in, size_t stride, const int32_t *restrict weight,
                int count, uint8_t *restrict out)
{
    int32_t sum[SS_RESIZE_MIX];
#pragma omp simd
    for (int i = 0; i < SS_RESIZE_MIX; i++)
        sum[i] = 1 << (SS_RESIZE_BITS - 1);
    for (int t = 0; t < count; t++, in += stride) {
        int32_t w = weight[t];
#pragma omp simd
        for (int i = 0; i < SS_RESIZE_MIX; i++)
            sum[i] += in[i] * w;
    }
#pragma omp simd
    for (int i = 0; i < SS_RESIZE_MIX; i++) {
        int32_t v = sum[i] >> SS_RESIZE_BITS;
        out[i] = (uint8_t)(v > 255 ? 255 : v);
    }
}

#if defined(__clang__) || __GNUC__ >= 12
#    define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#    define PICK(a, b, ...) __builtin_shuffle(a, b, (byte16){__VA_ARGS__})
#endif
#define LOW(a, b) PICK(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) PICK(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

/* Four times the first half of the rows is interleaved with the second, as a deck of cards. */
void resize_transpose(const uint8_t *in, size_t in_stride, uint8_t *out, size_t out_stride)
{
    enum { N = SS_RESIZE_LANES };
    byte16 a[N], b[N];
#pragma GCC unroll 16
    for (size_t i = 0; i < N; i++)
        a[i] = load16(in + i * in_stride);
#pragma GCC unroll 2
    for (int round = 0; round < 2; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N / 2; i++) {
            b[2 * i] = LOW(a[i], a[i + N / 2]);
            b[2 * i + 1] = HIGH(a[i], a[i + N / 2]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < N / 2; i++) {
            a[2 * i] = LOW(b[i], b[i + N / 2]);
            a[2 * i + 1] = HIGH(b[i], b[i + N / 2]);
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < N; i++)
        memcpy(out + i * out_stride, &a[i], sizeof a[i]);
}
