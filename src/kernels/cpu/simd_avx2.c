/* simd_avx2.c: the row functions with AVX2 */
#if defined(__x86_64__) && defined(__GNUC__)
#    define SS_SET avx2
#    define SS_TARGET __attribute__((target("avx2,fma")))
#    define SS_LANES 8
#    define SS_PRODUCT_TILES 6
#    define SS_STREAM(p, v) _mm256_stream_ps(p, (__m256)(v))
#    define SS_EXTEND(p) ((SS_U)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p))))
#    define SS_SHORTEN(u)                                                                          \
        ((SS_H)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)(u)),                              \
                                _mm256_extracti128_si256((__m256i)(u), 1)))
#    define SS_STREAM_16(p, h) _mm_stream_si128((__m128i *)(p), (__m128i)(h))
#    define SS_STREAM_END() _mm_sfence()
#    define SS_SPLAT(x) ((SS_V)_mm256_set1_ps(x))
#    define SS_FUSED(a, b, c) ((SS_V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#    define SS_SUM(c, a, b, n) SS_SUM_IN_PLACE(c, a, b)
#    define SS_TWICE _Pragma("GCC unroll 2")
#    include "kernels/cpu/simd_loops.h"
#endif
