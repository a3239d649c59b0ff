/* simd.c: the row functions for each instruction set, and the choice between them. */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/internal.h"

#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#    include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#    include <arm_neon.h>
#endif

enum {
    SS_FIXED_WIDTH = 16,
    SS_CHUNK = 1024, /* channels summed at a time where the block is no constant (NHWC) */
};

/* At any address; in registers where the instruction set has them, else in several. */
typedef float ss_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float ss_v16 __attribute__((vector_size(64), aligned(4), may_alias));

/* FUNCTION(f, family, ...) with the family a constant. */
#define SS_ACT_CASE(name, function, f, ...)                                                        \
    case SS_FAMILY_##name:                                                                         \
        function(f, SS_FAMILY_##name, ##__VA_ARGS__);                                              \
        break;
#define SS_PER_ACT(kind, ...)                                                                      \
    switch ((kind).family) {                                                                       \
        SS_ACT_FAMILIES(SS_ACT_CASE, __VA_ARGS__)                                                  \
    case SS_FAMILY_COUNT:                                                                             \
        break;                                                                                     \
    }

/* Four floats are a vector of every processor that matters; a plain x86 has 16 registers of them and no fused
 * product and sum, one with NEON has 32 and makes both at once. */
#define SS_TARGET
#define SS_NAME(name) name##_plain
#define SS_LANES 4
#define SS_STREAM(p, v) SS_STORE(p, v)
#define SS_STREAM_END() (void)0
#define SS_SPLAT(x) ((SS_V){(x), (x), (x), (x)})
#define SS_SUM(c, a, b, n) ((c) = SS_FUSED(a, b, c))
#define SS_TWICE
#if defined(__ARM_NEON) && defined(__aarch64__)
#    define SS_PRODUCT_TILES 14
#    define SS_FUSED(a, b, c) ((SS_V)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#    define SS_PRODUCT_TILES 6
#    define SS_FUSED(a, b, c) ((a) * (b) + (c))
#endif
#include "kernels/cpu/simd_wire.h"
#include "kernels/cpu/simd_join.h"
#include "kernels/cpu/simd_places.h"
#include "kernels/cpu/simd_depthwise.h"
#include "kernels/cpu/simd_product.h"
#include "kernels/cpu/simd_pool.h"
#include "kernels/cpu/simd_winograd.h"
#include "kernels/cpu/simd_body.h"
#undef SS_TARGET
#undef SS_NAME
#undef SS_LANES
#undef SS_PRODUCT_TILES
#undef SS_SPLAT
#undef SS_SUM
#undef SS_TWICE
#undef SS_STREAM
#undef SS_STREAM_END
#undef SS_FUSED

#if defined(__x86_64__) && defined(__GNUC__)

#    define SS_STREAM_END() _mm_sfence()
/* GCC 12 gives the sums of a loop other registers than they came in, and copies them back in every pass: a seventh to
 * a third of the time on Zen 1. */
#    define SS_SUM_IN_PLACE(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))

#    define SS_TARGET __attribute__((target("avx2,fma")))
#    define SS_NAME(name) name##_avx2
#    define SS_LANES 8
#    define SS_PRODUCT_TILES 6
#    define SS_STREAM(p, v) _mm256_stream_ps(p, (__m256)(v))
#    define SS_SPLAT(x) ((SS_V)_mm256_set1_ps(x))
#    define SS_FUSED(a, b, c) ((SS_V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#    define SS_SUM(c, a, b, n) SS_SUM_IN_PLACE(c, a, b)
#    define SS_TWICE _Pragma("GCC unroll 2")
#    include "kernels/cpu/simd_wire.h"
#    include "kernels/cpu/simd_join.h"
#    include "kernels/cpu/simd_places.h"
#    include "kernels/cpu/simd_depthwise.h"
#    include "kernels/cpu/simd_product.h"
#    include "kernels/cpu/simd_pool.h"
#    include "kernels/cpu/simd_winograd.h"
#    include "kernels/cpu/simd_body.h"
#    undef SS_TARGET
#    undef SS_NAME
#    undef SS_LANES
#    undef SS_PRODUCT_TILES
#    undef SS_SPLAT
#    undef SS_STREAM
#    undef SS_FUSED
#    undef SS_SUM
#    undef SS_TWICE

#    define SS_TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#    define SS_NAME(name) name##_avx512
#    define SS_LANES 16
#    define SS_PRODUCT_TILES 14
#    define SS_STREAM(p, v) _mm512_stream_ps(p, (__m512)(v))
#    define SS_SPLAT(x) ((SS_V)_mm512_set1_ps(x))
#    define SS_FUSED(a, b, c) ((SS_V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
/* What is used once is an operand in memory. */
#    define SS_SUM(c, a, b, n)                                                                     \
        do {                                                                                       \
            if ((n) > 1)                                                                           \
                SS_SUM_IN_PLACE(c, a, b);                                                          \
            else                                                                                   \
                (c) = SS_FUSED(a, b, c);                                                           \
        } while (0)
#    define SS_TWICE
#    include "kernels/cpu/simd_wire.h"
#    include "kernels/cpu/simd_join.h"
#    include "kernels/cpu/simd_places.h"
#    include "kernels/cpu/simd_depthwise.h"
#    include "kernels/cpu/simd_product.h"
#    include "kernels/cpu/simd_pool.h"
#    include "kernels/cpu/simd_winograd.h"
#    include "kernels/cpu/simd_body.h"
#    undef SS_TARGET
#    undef SS_NAME
#    undef SS_LANES
#    undef SS_PRODUCT_TILES
#    undef SS_SPLAT
#    undef SS_STREAM
#    undef SS_FUSED
#    undef SS_SUM
#    undef SS_TWICE

const struct ss_simd_rows *ss_simd_table(void)
{
    switch (ss_cpu_simd()) {
    case SS_SIMD_AVX512:
        return &table_avx512;
    case SS_SIMD_AVX2:
        return &table_avx2;
    case SS_SIMD_PLAIN:
        break;
    }
    return &table_plain;
}

#else

const struct ss_simd_rows *ss_simd_table(void)
{
    return &table_plain;
}

#endif
