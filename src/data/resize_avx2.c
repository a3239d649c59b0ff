#include "data/resize_avx2.h"

#if defined(__x86_64__) && defined(__GNUC__)

#    include <immintrin.h>

#    define AVX2 __attribute__((target("avx2")))

enum { LANES = SS_RESIZE_LANES, MIX = SS_RESIZE_MIX };

AVX2 static inline __m256i load8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* The MIX sums of one output, rounded to bytes. */
struct mixed {
    __m256i first;  /* 32 */
    __m128i second; /* 16 */
};

AVX2 static inline struct mixed mix(const uint8_t *in, size_t stride, const int32_t *weight,
                                    int count)
{
    enum { BITS = SS_RESIZE_BITS };
    const __m256i half = _mm256_set1_epi32(1 << (BITS - 1));
    __m256i a = half, b = half, c = half, d = half, e = half, f = half;
    for (int t = 0; t < count; t++, in += stride) {
        __m256i w = _mm256_set1_epi32(weight[t]);
        a = _mm256_add_epi32(a, _mm256_mullo_epi32(load8(in), w));
        b = _mm256_add_epi32(b, _mm256_mullo_epi32(load8(in + 8), w));
        c = _mm256_add_epi32(c, _mm256_mullo_epi32(load8(in + 16), w));
        d = _mm256_add_epi32(d, _mm256_mullo_epi32(load8(in + 24), w));
        e = _mm256_add_epi32(e, _mm256_mullo_epi32(load8(in + 32), w));
        f = _mm256_add_epi32(f, _mm256_mullo_epi32(load8(in + 40), w));
    }
    /* Packing saturates and works within 128-bit halves; the permutation restores the order. */
    __m256i ab = _mm256_packus_epi32(_mm256_srli_epi32(a, BITS), _mm256_srli_epi32(b, BITS));
    __m256i cd = _mm256_packus_epi32(_mm256_srli_epi32(c, BITS), _mm256_srli_epi32(d, BITS));
    __m256i ef = _mm256_packus_epi32(_mm256_srli_epi32(e, BITS), _mm256_srli_epi32(f, BITS));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    struct mixed m;
    m.first = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order);
    ef = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ef, ef), order);
    m.second = _mm256_castsi256_si128(ef);
    return m;
}

AVX2 void resize_mix_columns_avx2(const uint8_t *in, const struct resize_axis *axis, int n,
                                  uint8_t *out, struct resize_places to)
{
    for (int i = 0; i < n; i++, out += to.step) {
        struct mixed m = mix(in + (ptrdiff_t)(axis->first[i] - axis->first[0]) * MIX, MIX,
                             axis->weight + (ptrdiff_t)i * axis->taps, axis->count[i]);
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(m.first));
        _mm_storeu_si128((__m128i *)(out + to.channel), _mm256_extracti128_si256(m.first, 1));
        _mm_storeu_si128((__m128i *)(out + 2 * to.channel), m.second);
    }
}

AVX2 void resize_mix_row_avx2(const uint8_t *in, size_t stride, const int32_t *weight, int count,
                              size_t bytes, uint8_t *out)
{
    for (size_t x = 0; x < bytes; x += MIX) {
        struct mixed m = mix(in + x, stride, weight, count);
        _mm256_storeu_si256((__m256i *)(out + x), m.first);
        _mm_storeu_si128((__m128i *)(out + x + 32), m.second);
    }
}

/* The transpose of resize_kernels.c, with one tile in each half of the vectors. */
AVX2 void resize_transpose_pair_avx2(const uint8_t *in, struct resize_tiles in_as, uint8_t *out,
                                     struct resize_tiles out_as)
{
    __m256i a[LANES], b[LANES];
#    pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++) {
        const uint8_t *row = in + i * in_as.stride;
        a[i] =
            _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)row)),
                                    _mm_loadu_si128((const __m128i *)(row + in_as.step)), 1);
    }
#    pragma GCC unroll 2
    for (int round = 0; round < 2; round++) {
#    pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = _mm256_unpacklo_epi8(a[i], a[i + LANES / 2]);
            b[2 * i + 1] = _mm256_unpackhi_epi8(a[i], a[i + LANES / 2]);
        }
#    pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            a[2 * i] = _mm256_unpacklo_epi8(b[i], b[i + LANES / 2]);
            a[2 * i + 1] = _mm256_unpackhi_epi8(b[i], b[i + LANES / 2]);
        }
    }
#    pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++) {
        uint8_t *row = out + i * out_as.stride;
        _mm_storeu_si128((__m128i *)row, _mm256_castsi256_si128(a[i]));
        _mm_storeu_si128((__m128i *)(row + out_as.step), _mm256_extracti128_si256(a[i], 1));
    }
}

#endif
