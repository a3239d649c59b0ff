#include "data/resize_kernels.h"
#include "data/resize_avx2.h"

#include <string.h>

enum { LANES = SS_RESIZE_LANES, MIX = SS_RESIZE_MIX };

int resize_plain_kernels;

typedef uint8_t byte16 __attribute__((vector_size(16)));

/* The length of `sum` is constant, so that the compiler allocates registers for it. */
static inline void mix(const uint8_t *restrict in, size_t stride, const int32_t *restrict weight,
                       int count, uint8_t *restrict out)
{
    int32_t sum[MIX];
#pragma omp simd
    for (int i = 0; i < MIX; i++)
        sum[i] = 1 << (SS_RESIZE_BITS - 1);
    for (int t = 0; t < count; t++, in += stride) {
        int32_t w = weight[t];
#pragma omp simd
        for (int i = 0; i < MIX; i++)
            sum[i] += in[i] * w;
    }
#pragma omp simd
    for (int i = 0; i < MIX; i++) {
        int32_t v = sum[i] >> SS_RESIZE_BITS;
        out[i] = (uint8_t)(v > 255 ? 255 : v);
    }
}

void resize_mix_columns(const uint8_t *in, const struct resize_axis *a, int n, uint8_t *out,
                        struct resize_places to)
{
    if (RESIZE_HAS_AVX2()) {
        resize_mix_columns_avx2(in, a, n, out, to);
        return;
    }
    for (int i = 0; i < n; i++, out += to.step) {
        uint8_t mixed[MIX];
        mix(in + (ptrdiff_t)(a->first[i] - a->first[0]) * MIX, MIX,
            a->weight + (ptrdiff_t)i * a->taps, a->count[i], mixed);
        for (size_t c = 0; c < 3; c++)
            memcpy(out + c * to.channel, mixed + c * LANES, LANES);
    }
}

void resize_mix_row(const uint8_t *in, size_t stride, const struct resize_axis *a, int i,
                    size_t bytes, uint8_t *out)
{
    const int32_t *weight = a->weight + (ptrdiff_t)i * a->taps;
    if (RESIZE_HAS_AVX2()) {
        resize_mix_row_avx2(in, stride, weight, a->count[i], bytes, out);
        return;
    }
    for (size_t x = 0; x < bytes; x += MIX)
        mix(in + x, stride, weight, a->count[i], out + x);
}

static inline byte16 load16(const uint8_t *p)
{
    byte16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

#if defined(__clang__) || __GNUC__ >= 12
#    define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#    define PICK(a, b, ...) __builtin_shuffle(a, b, (byte16){__VA_ARGS__})
#endif
#define LOW(a, b) PICK(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) PICK(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

/* Transpose a tile by interleaving the first half of the rows with the second half four times. */
static void transpose(const uint8_t *in, size_t in_stride, uint8_t *out, size_t out_stride)
{
    byte16 a[LANES], b[LANES];
#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++)
        a[i] = load16(in + i * in_stride);
#pragma GCC unroll 2
    for (int round = 0; round < 2; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = LOW(a[i], a[i + LANES / 2]);
            b[2 * i + 1] = HIGH(a[i], a[i + LANES / 2]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            a[2 * i] = LOW(b[i], b[i + LANES / 2]);
            a[2 * i + 1] = HIGH(b[i], b[i + LANES / 2]);
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++)
        memcpy(out + i * out_stride, &a[i], sizeof a[i]);
}

void resize_transpose(const uint8_t *in, struct resize_tiles in_as, uint8_t *out,
                      struct resize_tiles out_as, size_t tiles)
{
    if (RESIZE_HAS_AVX2())
        for (; tiles >= 2; tiles -= 2, in += 2 * in_as.step, out += 2 * out_as.step)
            resize_transpose_pair_avx2(in, in_as, out, out_as);
    for (; tiles; tiles--, in += in_as.step, out += out_as.step)
        transpose(in, in_as.stride, out, out_as.stride);
}
