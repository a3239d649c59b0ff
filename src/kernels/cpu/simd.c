/* simd.c: which instruction set's row functions run */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/internal.h"

static const struct {
    const struct ss_simd_rows *rows;
    const struct ss_act_rows *f32, *bf16;
} sets[] = {
    [SS_SIMD_PLAIN] = {&ss_simd_plain, &ss_act_rows_f32_plain, &ss_act_rows_bf16_plain},
#if defined(__x86_64__) && defined(__GNUC__)
    [SS_SIMD_AVX2] = {&ss_simd_avx2, &ss_act_rows_f32_avx2, &ss_act_rows_bf16_avx2},
    [SS_SIMD_AVX512] = {&ss_simd_avx512, &ss_act_rows_f32_avx512, &ss_act_rows_bf16_avx512},
#endif
};

const struct ss_simd_rows *ss_simd_table(void)
{
    return sets[ss_cpu_simd()].rows;
}

const struct ss_act_rows *ss_act_table(enum ss_dtype dtype)
{
    return dtype == SS_DTYPE_BF16 ? sets[ss_cpu_simd()].bf16 : sets[ss_cpu_simd()].f32;
}
