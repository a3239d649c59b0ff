/* simd_plain.c: the row functions for any processor, with vectors of four floats. Plain x86 has
 * 16 registers for them and no fused multiply-add, NEON has 32 and fused multiply-add. */
#define SS_SET plain
#define SS_TARGET
#define SS_LANES 4
#define SS_STREAM(p, v) SS_STORE(p, v)
#define SS_EXTEND(p) __builtin_convertvector(*(const SS_H *)(p), SS_U)
#define SS_SHORTEN(u) __builtin_convertvector((u), SS_H)
#define SS_STREAM_16(p, h) (*(SS_H *)(p) = (h))
#define SS_STREAM_END() (void)0
#define SS_SPLAT(x) ((SS_V){(x), (x), (x), (x)})
#define SS_SUM(c, a, b, n) ((c) = SS_FUSED(a, b, c))
#define SS_TWICE
#if defined(__ARM_NEON) && defined(__aarch64__)
#    define SS_PRODUCT_TILES 14
#    define SS_FUSED(a, b, c)                                                                      \
        ((SS_V)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#    define SS_PRODUCT_TILES 6
#    define SS_FUSED(a, b, c) ((a) * (b) + (c))
#endif
#include "kernels/cpu/simd_loops.h"
