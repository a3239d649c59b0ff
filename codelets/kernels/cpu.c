/* cpu.c: the oneDNN engine, threads and scratch of one compute worker, and what this CPU is. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "codelets/kernels/cpu_internal.h"
#include "codelets/kernels/dnnl_shim.h"
#include "core/log.h"
#include "core/rng.h"

static int isa_has(dnnl_cpu_isa_t wanted)
{
    return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

enum ss_simd ss_cpu_simd(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (isa_has(dnnl_cpu_isa_avx512_core))
        return SS_SIMD_AVX512;
    if (isa_has(dnnl_cpu_isa_avx2) && __builtin_cpu_supports("fma"))
        return SS_SIMD_AVX2;
#endif
    return SS_SIMD_PLAIN;
}

int ss_cpu_preferred_block(void)
{
#if defined(__x86_64__)
    return isa_has(dnnl_cpu_isa_avx512_core) ? 16 : isa_has(dnnl_cpu_isa_avx2) ? 8 : 0;
#else
    return 0;
#endif
}

void ss_cpu_enter(const struct ss_cpu *cpu)
{
    if (omp_get_max_threads() != cpu->threads)
        omp_set_num_threads(cpu->threads);
}

enum ss_status ss_cpu_open(int threads, struct ss_cpu **out)
{
    if (threads < 1)
        return ss_fail(SS_ERR_INVALID, "CPU kernels: %d threads; at least 1 is needed", threads);
    struct ss_cpu *cpu = calloc(1, sizeof(*cpu));
    if (!cpu)
        return ss_fail_memory("CPU kernels", sizeof(*cpu));
    cpu->threads = threads;
    ss_cpu_enter(cpu);
    enum ss_status status = SS_OK;
    SS_DNNL_GOTO(dnnl_engine_create(&cpu->engine, dnnl_cpu, 0), status, err);
    SS_DNNL_GOTO(dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags), status,
                 err);
    SS_DNNL_GOTO(dnnl_primitive_attr_create(&cpu->attr), status, err);
    SS_DNNL_GOTO(dnnl_primitive_attr_set_scratchpad_mode(cpu->attr, dnnl_scratchpad_mode_user),
                 status, err);
    *out = cpu;
    return SS_OK;
err:
    ss_cpu_close(cpu);
    return status;
}

void ss_cpu_close(struct ss_cpu *cpu)
{
    if (!cpu)
        return;
    if (cpu->attr)
        dnnl_primitive_attr_destroy(cpu->attr);
    if (cpu->stream)
        dnnl_stream_destroy(cpu->stream);
    if (cpu->engine)
        dnnl_engine_destroy(cpu->engine);
    free(cpu->scratch);
    free(cpu);
}

int ss_cpu_threads(const struct ss_cpu *cpu)
{
    return cpu->threads;
}

enum ss_status ss_cpu_reserve(struct ss_cpu *cpu, size_t bytes)
{
    if (bytes <= cpu->scratch_bytes)
        return SS_OK;
    void *scratch = ss_aligned_alloc(bytes);
    if (!scratch)
        return ss_fail_memory("scratch of CPU kernels", bytes);
    free(cpu->scratch);
    cpu->scratch = scratch;
    cpu->scratch_bytes = bytes;
    return SS_OK;
}

void *ss_cpu_scratch(struct ss_cpu *cpu)
{
    return cpu->scratch;
}

size_t ss_cpu_scratch_bytes(const struct ss_cpu *cpu)
{
    return cpu->scratch_bytes;
}

void *ss_aligned_alloc(size_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    void *p;
    /* Tensors and Winograd's scratch are read with strides of many pages: 4 KiB pages thrash the
     * TLB there. */
    if (posix_memalign(&p, bytes >= 2 * huge ? huge : 64, bytes ? bytes : 64))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= 2 * huge)
        (void)madvise(p, bytes / huge * huge, MADV_HUGEPAGE);
#endif
    memset(p, 0, bytes);
    return p;
}

enum ss_status ss_act_check(const struct ss_act *a, const char *what)
{
    if (a->n < 1 || a->c < 1 || a->h < 1 || a->w < 1)
        return ss_fail(SS_ERR_SHAPE, "%s: shape (%d,%d,%d,%d); every size must be at least 1", what,
                       a->n, a->c, a->h, a->w);
    if (a->block != 1 && a->block != 8 && a->block != 16 && a->block != a->c)
        return ss_fail(SS_ERR_SHAPE, "%s: channel block %d; known are 1, 8, 16 and C = %d", what,
                       a->block, a->c);
    return SS_OK;
}

static const char *isa_name(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512_core"},
        {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
        {dnnl_cpu_isa_avx2, "avx2"},
        {dnnl_cpu_isa_avx, "avx"},
        {dnnl_cpu_isa_sse41, "sse41"},
    };
#if defined(__x86_64__)
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (isa_has(names[i].isa))
            return names[i].name;
    return "sse2";
#else
    (void)names;
    return "this CPU's default";
#endif
}

static char library[80];

static void describe(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(library, sizeof(library), "oneDNN %d.%d.%d, %s", v->major, v->minor, v->patch,
             isa_name());
}

const char *ss_cpu_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe);
    return library;
}

uint64_t ss_cpu_fingerprint(void)
{
    const dnnl_version_t *v = dnnl_version();
    uint64_t h = ss_mix64((uint64_t)v->major << 32 | (uint32_t)v->minor << 16 | (uint32_t)v->patch,
                          (uint64_t)dnnl_get_effective_cpu_isa());
    return ss_mix64(h, (uint64_t)ss_cpu_preferred_block() << 8 | ss_cpu_simd());
}
