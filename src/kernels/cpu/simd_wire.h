/* Rounding functions of simd.h.
 *
 * They use integer arithmetic on the bits, without branches, and are bit-identical with every
 * instruction set and on a GPU. AVX-512's own bf16 instructions would treat subnormal numbers as
 * zeros. */

SS_BODY int32_t SS_NAME(bits_of)(float x)
{
    int32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

SS_BODY float SS_NAME(float_of)(int32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* All bits set if a condition holds. The additions of floats below are unconditional, and
 * selections are made on bits: the compiler would turn a selection between floats into a branch
 * because of floating-point exceptions. */
#define SS_MASK(condition) (-(int32_t)(condition))

/* Round to nearest, ties to even. Every NaN becomes 0x7fff, as on a GPU. */
SS_BODY uint16_t SS_NAME(to_16)(float x, const int bf16)
{
    const int32_t u = SS_NAME(bits_of)(x), size = u & 0x7fffffff;
    const int32_t sign = (int32_t)((uint32_t)u >> 16 & 0x8000), nan = SS_MASK(size > 0x7f800000);
    int32_t h;
    if (bf16) {
        h = (int32_t)(((uint32_t)size + 0x7fff + (uint32_t)(size >> 16 & 1)) >> 16);
    } else {
        const int32_t is_small = SS_MASK(size < 0x38800000);  /* 2^-14 */
        const int32_t is_large = SS_MASK(size >= 0x477ff000); /* halfway from 65504 to the next */
        /* Change the exponent's bias from 127 to 15. */
        const int32_t normal =
            (int32_t)(((uint32_t)size + 0xfff + (uint32_t)(size >> 13 & 1)) >> 13) - (112 << 10);
        /* Near 0.5 the spacing of floats is 2^-24, as that of the smallest fp16 numbers: the
         * addition rounds. */
        const int32_t small =
            SS_NAME(bits_of)(SS_NAME(float_of)(size & is_small) + 0.5f) - 0x3f000000;
        h = (small & is_small) | (normal & ~is_small);
        h = (0x7c00 & is_large) | (h & ~is_large);
    }
    return (uint16_t)((0x7fff & nan) | ((h | sign) & ~nan));
}

SS_BODY float SS_NAME(from_16)(uint16_t h, const int bf16)
{
    if (bf16)
        return SS_NAME(float_of)((int32_t)((uint32_t)h << 16));
    const int32_t size = h & 0x7fff, is_small = SS_MASK(size < 0x400);
    const int32_t is_large = SS_MASK(size >= 0x7c00); /* infinite or NaN */
    /* A subnormal number becomes 2^-14 plus its own fraction; then 2^-14 is subtracted. */
    const int32_t u = (size << 13) + (112 << 23) + (1 << 23 & is_small) + (112 << 23 & is_large);
    const float x = SS_NAME(float_of)(u) - SS_NAME(float_of)(0x38800000 & is_small);
    return SS_NAME(float_of)(SS_NAME(bits_of)(x) | (int32_t)((uint32_t)(h & 0x8000) << 16));
}

SS_BODY void SS_NAME(pack_body)(const float *restrict src, float scale, const int bf16,
                                uint16_t *restrict dst, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        dst[i] = SS_NAME(to_16)(src[i] * scale, bf16);
}

SS_BODY void SS_NAME(unpack_body)(const uint16_t *restrict src, float scale, const int bf16,
                                  float *restrict dst, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        dst[i] = SS_NAME(from_16)(src[i], bf16) * scale;
}

SS_BODY void SS_NAME(sum_16_body)(const uint16_t *const *src, int n, const int bf16, uint16_t *dst,
                                  size_t count)
{
    float sum[SS_CHUNK];
    for (size_t at = 0; at < count; at += SS_CHUNK) {
        const size_t len = count - at < SS_CHUNK ? count - at : SS_CHUNK;
        SS_NAME(unpack_body)(src[0] + at, 1, bf16, sum, len);
        for (int k = 1; k < n; k++) {
            const uint16_t *x = src[k] + at;
#pragma omp simd
            for (size_t i = 0; i < len; i++)
                sum[i] += SS_NAME(from_16)(x[i], bf16);
        }
        SS_NAME(pack_body)(sum, 1, bf16, dst + at, len);
    }
}

/* width: whole vectors. */
SS_TARGET static void SS_NAME(pairs)(const uint16_t *from, size_t step, size_t rows, size_t width,
                                     void *to)
{
    uint32_t *out = to;
    for (size_t r = 0; r < rows; r += 2, from += 2 * step)
        for (size_t j = 0; j < width; j += SS_LANES, out += SS_LANES) {
            SS_U both = (SS_U)SS_EXTEND(from + j);
            if (r + 1 < rows)
                both |= (SS_U)SS_EXTEND(from + step + j) << 16;
            *(SS_U *)out = both;
        }
}

SS_TARGET static void SS_NAME(pack)(const float *src, float scale, int bf16, uint16_t *dst,
                                    size_t count)
{
    if (bf16)
        SS_NAME(pack_body)(src, scale, 1, dst, count);
    else
        SS_NAME(pack_body)(src, scale, 0, dst, count);
}

SS_TARGET static void SS_NAME(unpack)(const uint16_t *src, float scale, int bf16, float *dst,
                                      size_t count)
{
    if (bf16)
        SS_NAME(unpack_body)(src, scale, 1, dst, count);
    else
        SS_NAME(unpack_body)(src, scale, 0, dst, count);
}

SS_TARGET static void SS_NAME(sum_16)(const uint16_t *const *src, int n, int bf16, uint16_t *dst,
                                      size_t count)
{
    if (bf16)
        SS_NAME(sum_16_body)(src, n, 1, dst, count);
    else
        SS_NAME(sum_16_body)(src, n, 0, dst, count);
}
