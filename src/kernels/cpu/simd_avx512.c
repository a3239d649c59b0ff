/* simd_avx512.c: the row functions with AVX-512 */
#if defined(__x86_64__) && defined(__GNUC__)
#    define SS_SET avx512
#    define SS_TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#    define SS_LANES 16
#    define SS_PRODUCT_TILES 14
#    define SS_STREAM(p, v) _mm512_stream_ps(p, (__m512)(v))
#    define SS_EXTEND(p) ((SS_U)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p))))
#    define SS_SHORTEN(u) ((SS_H)_mm512_cvtepi32_epi16((__m512i)(u)))
#    define SS_STREAM_16(p, h) _mm256_stream_si256((__m256i *)(p), (__m256i)(h))
#    define SS_STREAM_END() _mm_sfence()
#    define SS_SPLAT(x) ((SS_V)_mm512_set1_ps(x))
#    define SS_FUSED(a, b, c) ((SS_V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
/* A value that is used once is a memory operand. */
#    define SS_SUM(c, a, b, n)                                                                     \
        do {                                                                                       \
            if ((n) > 1)                                                                           \
                SS_SUM_IN_PLACE(c, a, b);                                                          \
            else                                                                                   \
                (c) = SS_FUSED(a, b, c);                                                           \
        } while (0)
#    define SS_TWICE
/* As assembly, so that no other function requires AVX512-BF16. */
#    define SS_PAIRS(c, a, b) __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#    include "kernels/cpu/simd_loops.h"
#endif
