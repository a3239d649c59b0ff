/* CPU kernels: plain functions on pointers over oneDNN and OpenMP. No StarPU in here.
 *
 * A `struct ss_cpu` is what the kernels of one compute worker share: the oneDNN engine and stream,
 * the number of OpenMP threads, and one scratch area as large as the hungriest kernel needs. It is
 * used by one thread at a time (the compute worker, or the main thread while no task runs).
 *
 * Letters: N images, C channels, H and W height and width, B channel block, CB = ceil(C/B) blocks.
 *
 * Activation layout. A tensor (N,C,H,W) is stored as (N,CB,H,W,B), fp32: oneDNN's nChw16c (B = 16)
 * with AVX-512, nChw8c with AVX2, NHWC (B = C, CB = 1) elsewhere. Channels C .. CB*B-1 are padding
 * and are always zero. The graph's input is plain NCHW (B = 1). One formula serves all:
 *     index(n,c,h,w) = (((n*CB + c/B)*H + h)*W + w)*B + c%B */
#ifndef SS_KERNELS_CPU_H
#define SS_KERNELS_CPU_H

#include <stddef.h>
#include <stdint.h>
#include "core/status.h"

struct ss_cpu;

/* The channel block B this CPU's convolutions like best: 16, 8, or 0 for NHWC. */
int ss_cpu_preferred_block(void);

/* threads: OpenMP threads that kernels use; >= 1. */
enum ss_status ss_cpu_open(int threads, struct ss_cpu **out);
void ss_cpu_close(struct ss_cpu *cpu);
int ss_cpu_threads(const struct ss_cpu *cpu);

/* Kernels call reserve when they are created; the scratch grows at once. */
enum ss_status ss_cpu_reserve(struct ss_cpu *cpu, size_t bytes);
void *ss_cpu_scratch(struct ss_cpu *cpu);
size_t ss_cpu_scratch_bytes(const struct ss_cpu *cpu);

/* 64-byte aligned, zeroed; free with free(). NULL when out of memory. */
void *ss_aligned_alloc(size_t bytes);

/* Shape and layout of an activation. */
struct ss_act {
    int n, c, h, w;
    int block; /* B; c itself for NHWC, 1 for plain NCHW */
};
static inline int ss_act_blocks(const struct ss_act *a)
{
    return (a->c + a->block - 1) / a->block;
}
static inline size_t ss_act_elements(const struct ss_act *a)
{
    return (size_t)a->n * ss_act_blocks(a) * a->block * a->h * a->w;
}

/* "oneDNN 2.6.3, avx512_core", for `starstep info`. A constant string. */
const char *ss_cpu_library(void);
/* Hash of everything that decides result bits and parameter layouts on this CPU (library version,
 * instruction set, block); ranks must agree. */
uint64_t ss_cpu_fingerprint(void);

#endif
