/* no_dnnl.c: replaces dnnl.c and conv_dnnl.c in builds without oneDNN. */
#include "core/rng.h"
#include "kernels/cpu/conv_dnnl.h"
#include "kernels/cpu/internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const struct ss_conv_library *const ss_conv_library = NULL;

static enum ss_simd simd;

#if defined(__x86_64__) && defined(__GNUC__)
static enum ss_simd simd_of_cpu(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return !__builtin_cpu_supports("avx512bf16") ? SS_SIMD_AVX512
               : ss_amx_permit()                     ? SS_SIMD_AMX
                                                     : SS_SIMD_AVX512_BF16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? SS_SIMD_AVX2
                                                                           : SS_SIMD_PLAIN;
}
#else
static enum ss_simd simd_of_cpu(void)
{
    return SS_SIMD_PLAIN;
}
#endif

/* Find the instruction set, limited by oneDNN's variable, whose values begin with SSE41, AVX,
 * AVX2 or AVX512, or are ALL or DEFAULT. */
static void find(void)
{
    const char *most = getenv("ONEDNN_MAX_CPU_ISA");
    if (!most)
        most = getenv("DNNL_MAX_CPU_ISA");
    simd = simd_of_cpu();
    if (!most)
        return;
    if (strncmp(most, "SSE", 3) == 0 || strcmp(most, "AVX") == 0)
        simd = SS_SIMD_PLAIN;
    else if (strncmp(most, "AVX2", 4) == 0 && simd > SS_SIMD_AVX2)
        simd = SS_SIMD_AVX2;
    else if ((strcmp(most, "AVX512_CORE") == 0 || strcmp(most, "AVX512_CORE_VNNI") == 0) &&
             simd > SS_SIMD_AVX512)
        simd = SS_SIMD_AVX512;
    else if (strcmp(most, "AVX512_CORE_BF16") == 0 && simd == SS_SIMD_AMX)
        simd = SS_SIMD_AVX512_BF16;
}

enum ss_simd ss_cpu_simd(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return simd;
}

int ss_cpu_preferred_block(void)
{
    static const int blocks[] = {0, 8, 16, 16, 16};
    return blocks[ss_cpu_simd()];
}

const char *ss_cpu_library(void)
{
    static const char *const names[] = {"own, plain", "own, avx2", "own, avx512",
                                        "own, avx512_bf16", "own, amx"};
    return names[ss_cpu_simd()];
}

enum ss_status ss_cpu_library_open(struct ss_device *cpu)
{
    (void)cpu;
    return SS_OK;
}

void ss_cpu_library_close(struct ss_device *cpu)
{
    (void)cpu;
}

uint64_t ss_cpu_fingerprint(const struct ss_device *cpu)
{
    enum ss_simd used = ss_cpu_simd();
    if (used > SS_SIMD_AVX512 && !(cpu && cpu->dtype == SS_DTYPE_BF16))
        used = SS_SIMD_AVX512; /* pairs of bf16 change results of bf16, but not of fp32 */
    return ss_mix64(0, (uint64_t)ss_cpu_preferred_block() << 8 | used);
}
