/* All row functions of simd.h for one instruction set. A file for each set defines these macros and
 * includes this once:
 *   SS_SET             the set's name, a suffix of functions and tables
 *   SS_TARGET          the function attribute, or nothing
 *   SS_LANES           W, floats of a vector
 *   SS_PRODUCT_TILES   rows of a product in registers, with two vectors of columns each; with one
 *                      vector 12 or more
 *   SS_SPLAT(x)        a vector of W times x
 *   SS_FUSED(a, b, c)  a b + c, fused if the processor has such an instruction
 *   SS_SUM(c, a, b, n) c += a b in c's own register, where a is used n times
 *   SS_PAIRS(c, a, b)  the same for pairs of bf16, adding both products; undefined if there is no
 *                      such instruction
 *   SS_TWICE           unrolls the following loop by two, or nothing
 *   SS_STREAM(p, v)    a store that bypasses the caches, aligned to a vector; SS_STREAM_END()
 *                      after the last
 *   SS_EXTEND(p)       SS_U of W uint16_t at p
 *   SS_SHORTEN(u)      SS_H, the low halves of u, whose high halves are zero
 *   SS_STREAM_16(p, h) as SS_STREAM, of SS_H */
#include "kernels/cpu/simd.h"

#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#    include <immintrin.h>
/* GCC 12 moves the sums of a loop to other registers and copies them back in each iteration,
 * which takes a seventh to a third of the time on Zen 1. */
#    define SS_SUM_IN_PLACE(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#elif defined(__ARM_NEON) && defined(__aarch64__)
#    include <arm_neon.h>
#endif

#define SS_JOINED(name, set) name##_##set
#define SS_NAMED(name, set) SS_JOINED(name, set)
#define SS_NAME(name) SS_NAMED(name, SS_SET)
#define SS_BODY static inline __attribute__((always_inline)) SS_TARGET

enum {
    SS_FIXED_WIDTH = 16,
    SS_CHUNK = 1024, /* channels summed at a time if the block is not constant (NHWC) */
};

/* At any address; in one register if the instruction set has such, else in several. */
typedef float ss_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float ss_v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float SS_NAME(vector) __attribute__((vector_size(4 * SS_LANES), aligned(4), may_alias));
typedef int32_t SS_NAME(indices) __attribute__((vector_size(4 * SS_LANES), aligned(4), may_alias));
typedef uint32_t SS_NAME(words) __attribute__((vector_size(4 * SS_LANES), aligned(4), may_alias));
typedef uint16_t SS_NAME(halves) __attribute__((vector_size(2 * SS_LANES), aligned(2), may_alias));
#define SS_V SS_NAME(vector)
#define SS_I SS_NAME(indices)
#define SS_U SS_NAME(words)
#define SS_H SS_NAME(halves)
#define SS_LOAD(p) (*(const SS_V *)(p))
#define SS_STORE(p, v) (*(SS_V *)(p) = (v))
#define SS_UNROLL _Pragma("GCC unroll 16")

/* Call FUNCTION(f, family, ...) with a constant family. */
#define SS_ACT_CASE(name, function, f, ...)                                                        \
    case SS_FAMILY_##name:                                                                         \
        function(f, SS_FAMILY_##name, ##__VA_ARGS__);                                              \
        break;
#define SS_PER_ACT(kind, ...)                                                                      \
    switch ((kind).family) {                                                                       \
        SS_ACT_FAMILIES(SS_ACT_CASE, __VA_ARGS__)                                                  \
    case SS_FAMILY_COUNT:                                                                          \
        break;                                                                                     \
    }

#include "kernels/cpu/simd_wire.h"
#include "kernels/cpu/simd_update.h"
#include "kernels/cpu/simd_softmax.h"
#include "kernels/cpu/simd_depthwise.h"
#define SS_MUL(name) SS_NAME(name)
#include "kernels/cpu/simd_product.h"
#ifdef SS_PAIRS
#    undef SS_MUL
#    undef SS_SUM
#    define SS_MUL(name) SS_NAMED(name##_pairs, SS_SET)
#    define SS_SUM(c, a, b, n) SS_PAIRS(c, a, b)
#    include "kernels/cpu/simd_product.h"
#endif
#include "kernels/cpu/simd_winograd.h"

/* clang-format off */
const struct ss_simd_rows SS_NAME(ss_simd) = {
    SS_NAME(update), SS_NAME(direction), SS_NAME(squares), SS_NAME(average),
    SS_NAME(softmax), SS_NAME(softmax_gradient),
    SS_NAME(pack), SS_NAME(unpack), SS_NAME(sum_16),
    SS_NAME(depthwise), SS_NAME(depthwise_gradient), SS_NAME(depthwise_sum),
    SS_LANES, SS_NAME(winograd_weight_gradient), SS_PRODUCT_TILES, SS_NAME(panel_product),
    SS_NAME(outer_product), SS_NAME(pairs),
};
/* clang-format on */
#ifdef SS_PAIRS
const struct ss_pair_products SS_NAME(ss_pairs) = {SS_MUL(panel_product), SS_MUL(outer_product)};
#endif

/* The functions of activations, first for floats, then for bf16. Both compute in floats. For an
 * element x of type SS_ELEMENT:
 *   SS_FLOAT(x), SS_ROUND(v)        its value; the element of a value
 *   SS_LOAD_E(p), SS_STORE_E(p, v)  the same for a vector of elements; SS_STREAM_E(p, v) bypasses
 *                                   the caches
 *   SS_IN(p), SS_AT(p, j)           before a loop over j that reads `width` elements from p on,
 *                                   and element j in it. If `fixed` is 1, the width is 8 or 16 and
 *                                   all are converted together, in whole vectors: compilers would
 *                                   use half vectors
 *   SS_OUT(p), SS_SET_AT(p, j, v)   the same for elements that a loop writes
 *   SS_DONE(p)                      after that loop */
#define SS_ACT_SET SS_NAMED(f32, SS_SET)
#define SS_OF(name) SS_NAMED(name, SS_ACT_SET)
#define SS_ELEMENT float
#define SS_FLOAT(x) (x)
#define SS_ROUND(v) (v)
#define SS_LOAD_E(p) SS_LOAD(p)
#define SS_STORE_E(p, v) SS_STORE(p, v)
#define SS_STREAM_E(p, v) SS_STREAM(p, v)
#define SS_IN(p) (void)fixed
#define SS_AT(p, j) (p)[j]
#define SS_OUT(p) (void)fixed
#define SS_SET_AT(p, j, v) ((p)[j] = (v))
#define SS_DONE(p) (void)0
#include "kernels/cpu/simd_act.h"

#undef SS_ACT_SET
#undef SS_ELEMENT
#undef SS_FLOAT
#undef SS_ROUND
#undef SS_LOAD_E
#undef SS_STORE_E
#undef SS_STREAM_E
#undef SS_IN
#undef SS_AT
#undef SS_OUT
#undef SS_SET_AT
#undef SS_DONE
#define SS_ACT_SET SS_NAMED(bf16, SS_SET)
#define SS_ELEMENT uint16_t
#define SS_FLOAT(x) SS_NAME(from_16)(x, 1)
#define SS_ROUND(v) SS_NAME(to_16)(v, 1)
#define SS_LOAD_E(p) ((SS_V)(SS_EXTEND(p) << 16))
#define SS_STORE_E(p, v) (*(SS_H *)(p) = SS_NAME(round_vector)(v))
#define SS_STREAM_E(p, v) SS_STREAM_16(p, SS_NAME(round_vector)(v))
#define SS_IN(p)                                                                                   \
    float p##_[SS_FIXED_WIDTH];                                                                    \
    if (fixed)                                                                                     \
    SS_NAME(widen)(p, p##_, width)
#define SS_AT(p, j) (fixed ? p##_[j] : SS_FLOAT((p)[j]))
#define SS_OUT(p) float p##_[SS_FIXED_WIDTH]
#define SS_SET_AT(p, j, v)                                                                         \
    do {                                                                                           \
        if (fixed)                                                                                 \
            p##_[j] = (v);                                                                         \
        else                                                                                       \
            (p)[j] = SS_ROUND(v);                                                                  \
    } while (0)
#define SS_DONE(p)                                                                                 \
    do {                                                                                           \
        if (fixed)                                                                                 \
            SS_NAME(narrow)(p##_, p, width);                                                       \
    } while (0)

/* The same as to_16 and from_16, for vectors. */
SS_BODY SS_H SS_NAME(round_vector)(SS_V v)
{
    const SS_U u = (SS_U)v, nan = (SS_U)(v != v);
    const SS_U rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return SS_SHORTEN((rounded & ~nan) | (0x7fff & nan));
}

SS_BODY void SS_NAME(widen)(const uint16_t *from, float *to, const int width)
{
    int j = 0;
    for (; j + SS_LANES <= width; j += SS_LANES)
        SS_STORE(to + j, SS_LOAD_E(from + j));
#pragma omp simd
    for (int k = j; k < width; k++)
        to[k] = SS_FLOAT(from[k]);
}

SS_BODY void SS_NAME(narrow)(const float *from, uint16_t *to, const int width)
{
    int j = 0;
    for (; j + SS_LANES <= width; j += SS_LANES)
        SS_STORE_E(to + j, SS_LOAD(from + j));
#pragma omp simd
    for (int k = j; k < width; k++)
        to[k] = SS_ROUND(from[k]);
}
#include "kernels/cpu/simd_act.h"
