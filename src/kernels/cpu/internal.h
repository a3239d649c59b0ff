/* What the CPU's kernels see of a device. */
#ifndef SS_KERNELS_CPU_INTERNAL_H
#define SS_KERNELS_CPU_INTERNAL_H

#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include <stddef.h>
#include <stdint.h>
#ifdef HAVE_DNNL
#    include <dnnl.h>
#endif
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

struct ss_device {
#ifdef HAVE_DNNL
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* scratchpads are the caller's */
#endif
    int threads;
    size_t cache_bytes; /* of a core's second-level cache */
    /* Of activations, and of weights that compute, the functions for these, and the bytes of an element. F16: of updates'
     * copies alone, and there are no functions. */
    enum ss_dtype dtype;
    const struct ss_act_rows *rows;
    size_t element;
    void *scratch;
    size_t scratch_bytes;
};

/* Where element i of an activation, or of a weight that computes, lies; NULL of NULL. */
static inline void *ss_at(const struct ss_device *cpu, const void *act, size_t i)
{
    return act ? (char *)(uintptr_t)act + i * cpu->element : NULL;
}

/* The library's part of opening and closing; close also after a failed open. */
enum ss_status ss_cpu_library_open(struct ss_device *cpu);
void ss_cpu_library_close(struct ss_device *cpu);

/* Make OpenMP use cpu->threads in the calling thread. OpenMP keeps that number per thread, oneDNN
 * sizes scratchpads and splits work by it, and kernels are created on another thread than they run
 * on: so every create and every run begins with this. */
void ss_cpu_enter(const struct ss_device *cpu);

/* Errors: SS_ERR_SHAPE; `what` names the tensor in the message. */
enum ss_status ss_act_check(const struct ss_act *a, const char *what);
enum ss_status ss_act_check_view(const struct ss_act *a, int pitch, const char *what);

static inline size_t ss_align_up(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* How far own loops may use the CPU: what oneDNN uses, so that its DNNL_MAX_CPU_ISA rules both. */
enum ss_simd {
    SS_SIMD_PLAIN,
    SS_SIMD_AVX2,
    SS_SIMD_AVX512,
    SS_SIMD_AVX512_BF16, /* it multiplies pairs, as the next one */
    SS_SIMD_AMX
};
enum ss_simd ss_cpu_simd(void);

#endif
