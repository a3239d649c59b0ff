/* simd.c: which instruction set's row functions run */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/internal.h"

#include <pthread.h>
#include <stdio.h>
#if defined(__x86_64__) && defined(__GNUC__)
#    include <cpuid.h>
#endif

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

const float *ss_floats(enum ss_dtype dtype, const void *elements, size_t at, size_t count,
                       float *room)
{
    if (dtype == SS_DTYPE_F32)
        return (const float *)elements + at;
    ss_act_table(dtype)->read((const uint16_t *)elements + at, 0, room, 0, 1, count);
    return room;
}

/* What multiplies bf16, by the processor's own word. */
static const char *bf16_units(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    unsigned a, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 22 & 1)
        return "AMX";
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1)
        return "AVX512-BF16";
#endif
    return NULL;
}

static char bf16[80];

static void describe_bf16(void)
{
    static const char *const names[] = {
        [SS_SIMD_PLAIN] = "vectors of 4", [SS_SIMD_AVX2] = "AVX2", [SS_SIMD_AVX512] = "AVX-512"};
    const char *units = bf16_units();
    snprintf(bf16, sizeof bf16, "computed in fp32 with %s%s%s%s", names[ss_cpu_simd()],
             units ? " (" : "", units ? units : "", units ? " is there, not used yet)" : "");
}

const char *ss_cpu_bf16(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe_bf16);
    return bf16;
}
