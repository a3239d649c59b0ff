/* dnnl.c: the oneDNN engine of a compute worker, and the instruction set that oneDNN uses. */
#include "core/log.h"
#include "core/rng.h"
#include "kernels/cpu/dnnl_shim.h"
#include "kernels/cpu/internal.h"

#include <pthread.h>
#include <stdio.h>

#if defined(__x86_64__)

static int isa_has(dnnl_cpu_isa_t wanted)
{
    return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

/* Cached, because oneDNN queries the processor in each call, which takes microseconds in a
 * virtual machine. */
static enum ss_simd simd;

static void find_simd(void)
{
    simd = SS_SIMD_PLAIN;
#    if defined(__GNUC__)
    if (isa_has(dnnl_cpu_isa_avx512_core_amx) && ss_amx_permit())
        simd = SS_SIMD_AMX;
    else if (isa_has(dnnl_cpu_isa_avx512_core_bf16))
        simd = SS_SIMD_AVX512_BF16;
    else if (isa_has(dnnl_cpu_isa_avx512_core))
        simd = SS_SIMD_AVX512;
    else if (isa_has(dnnl_cpu_isa_avx2) && __builtin_cpu_supports("fma"))
        simd = SS_SIMD_AVX2;
#    endif
}

enum ss_simd ss_cpu_simd(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_simd);
    return simd;
}

int ss_cpu_preferred_block(void)
{
    return isa_has(dnnl_cpu_isa_avx512_core) ? 16 : isa_has(dnnl_cpu_isa_avx2) ? 8 : 0;
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
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (isa_has(names[i].isa))
            return names[i].name;
    return "sse2";
}

#else /* oneDNN names only instruction sets of x86 */

enum ss_simd ss_cpu_simd(void)
{
    return SS_SIMD_PLAIN;
}

int ss_cpu_preferred_block(void)
{
    return 0;
}

static const char *isa_name(void)
{
    return "this CPU's default";
}

#endif

enum ss_status ss_cpu_library_open(struct ss_device *cpu)
{
    enum ss_status status = SS_OK;
    SS_DNNL_GOTO(dnnl_engine_create(&cpu->engine, dnnl_cpu, 0), status, end);
    SS_DNNL_GOTO(dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags), status,
                 end);
    SS_DNNL_GOTO(dnnl_primitive_attr_create(&cpu->attr), status, end);
    SS_DNNL_GOTO(dnnl_primitive_attr_set_scratchpad_mode(cpu->attr, dnnl_scratchpad_mode_user),
                 status, end);
end:
    return status;
}

void ss_cpu_library_close(struct ss_device *cpu)
{
    if (cpu->attr)
        dnnl_primitive_attr_destroy(cpu->attr);
    if (cpu->stream)
        dnnl_stream_destroy(cpu->stream);
    if (cpu->engine)
        dnnl_engine_destroy(cpu->engine);
}

static char library[80];

static void describe(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(library, sizeof library, "oneDNN %d.%d.%d, %s", v->major, v->minor, v->patch,
             isa_name());
}

const char *ss_cpu_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe);
    return library;
}

uint64_t ss_cpu_fingerprint(const struct ss_device *cpu)
{
    (void)cpu;
    const dnnl_version_t *v = dnnl_version();
    uint64_t h = ss_mix64((uint64_t)v->major << 32 | (uint32_t)v->minor << 16 | (uint32_t)v->patch,
                          (uint64_t)dnnl_get_effective_cpu_isa());
    return ss_mix64(h, (uint64_t)ss_cpu_preferred_block() << 8 | ss_cpu_simd());
}
