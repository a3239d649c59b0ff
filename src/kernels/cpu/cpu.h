/* CPU kernels: plain functions on pointers over oneDNN and OpenMP. No StarPU in here.
 *
 * A `struct ss_cpu` is what the kernels of one compute worker share: the oneDNN engine and stream,
 * the number of OpenMP threads, and one scratch area as large as the hungriest kernel needs. It is
 * used by one thread at a time (the compute worker, or the main thread while no task runs).
 *
 * Shapes and layouts: shapes.h. Activations are fp32 in oneDNN's nChw16c (B = 16) with AVX-512,
 * nChw8c with AVX2, NHWC elsewhere; the graph's input is plain NCHW (B = 1). */
#ifndef SS_KERNELS_CPU_CPU_H
#define SS_KERNELS_CPU_CPU_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/shapes.h"
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

/* "oneDNN 2.6.3, avx512_core", for `starstep info`. A constant string. */
const char *ss_cpu_library(void);
/* Hash of everything that decides result bits and parameter layouts on this CPU (library version,
 * instruction set, block); ranks must agree. */
uint64_t ss_cpu_fingerprint(void);

#endif
