/* Internals of the CPU kernels: the device and its instruction set. */
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
    dnnl_primitive_attr_t attr; /* the caller provides scratchpads */
#endif
    int threads;
    size_t cache_bytes; /* of a core's L2 cache */
    /* The format of activations and compute weights, its functions, and bytes of an element. F16:
     * only the copies that updates write; rows is NULL. */
    enum ss_dtype dtype;
    const struct ss_act_rows *rows;
    size_t element;
    void *scratch;
    size_t scratch_bytes;
};

/* Return the address of element i of an activation or a compute weight; NULL if act is NULL. */
static inline void *ss_at(const struct ss_device *cpu, const void *act, size_t i)
{
    return act ? (char *)(uintptr_t)act + i * cpu->element : NULL;
}

/* Open and close the library. Call close also after a failed open. */
enum ss_status ss_cpu_library_open(struct ss_device *cpu);
void ss_cpu_library_close(struct ss_device *cpu);

/* Make OpenMP use cpu->threads in the calling thread. OpenMP stores that number per thread, and
 * oneDNN sizes scratchpads and splits work by it. Kernels are created on another thread than they
 * run on, so every create and every run calls this first. */
void ss_cpu_enter(const struct ss_device *cpu);

/* Check a shape; `what` names the tensor in the message. Errors: SS_ERR_SHAPE. */
enum ss_status ss_act_check(const struct ss_act *a, const char *what);
enum ss_status ss_act_check_view(const struct ss_act *a, int pitch, const char *what);

static inline size_t ss_align_up(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* Instruction sets of the row functions. Limited to those that oneDNN uses, so that its
 * DNNL_MAX_CPU_ISA controls both. */
enum ss_simd {
    SS_SIMD_PLAIN,
    SS_SIMD_AVX2,
    SS_SIMD_AVX512,
    SS_SIMD_AVX512_BF16, /* multiplies pairs, as does the next one */
    SS_SIMD_AMX
};
enum ss_simd ss_cpu_simd(void);

#endif
