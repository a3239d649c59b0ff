/* simd.c: which instruction set's row functions run */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/internal.h"

const struct ss_simd_rows *ss_simd_table(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    switch (ss_cpu_simd()) {
    case SS_SIMD_AVX512:
        return &ss_simd_avx512;
    case SS_SIMD_AVX2:
        return &ss_simd_avx2;
    case SS_SIMD_PLAIN:
        break;
    }
#endif
    return &ss_simd_plain;
}
