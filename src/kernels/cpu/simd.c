/* simd.c: selects the instruction set of the row functions. */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/internal.h"

#include <pthread.h>
#include <stdio.h>

#define ROWS(simd) &ss_simd_##simd, &ss_act_rows_f32_##simd, &ss_act_rows_bf16_##simd

static const struct {
    const struct ss_simd_rows *rows;
    const struct ss_act_rows *f32, *bf16;
    const char *name;
    const struct ss_pair_products *pairs;
} sets[] = {
    [SS_SIMD_PLAIN] = {ROWS(plain), "vectors of 4", NULL},
#if defined(__x86_64__) && defined(__GNUC__)
    [SS_SIMD_AVX2] = {ROWS(avx2), "AVX2", NULL},
    [SS_SIMD_AVX512] = {ROWS(avx512), "AVX-512", NULL},
    [SS_SIMD_AVX512_BF16] = {ROWS(avx512), "AVX-512, products with AVX512-BF16", &ss_pairs_avx512},
    [SS_SIMD_AMX] = {ROWS(avx512), "AVX-512, products with AMX", &ss_pairs_amx},
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

const float *ss_floats(enum ss_dtype dtype, const void *elements, size_t at, size_t count,
                       float *buffer)
{
    if (dtype == SS_DTYPE_F32)
        return (const float *)elements + at;
    ss_act_table(dtype)->read((const uint16_t *)elements + at, 0, buffer, 0, 1, count);
    return buffer;
}

static const struct ss_pair_products *told;

void ss_simd_use_pairs(const struct ss_pair_products *products)
{
    told = products;
}

const struct ss_pair_products *ss_simd_pairs(void)
{
    return told ? told : sets[ss_cpu_simd()].pairs;
}

static char bf16[100];

static void describe_bf16(void)
{
    snprintf(bf16, sizeof bf16, "computed in fp32 with %s", sets[ss_cpu_simd()].name);
}

const char *ss_cpu_bf16(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe_bf16);
    return bf16;
}
