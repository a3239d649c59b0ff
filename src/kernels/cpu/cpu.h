/* The CPU's kernels over oneDNN and OpenMP: those of its table, as ss_cpu_open and so on, and what
 * else is asked of this CPU.
 *
 * Activations are fp32 in oneDNN's nChw16c (B = 16) with AVX-512, nChw8c with AVX2, NHWC elsewhere;
 * the graph's input is plain NCHW (B = 1). */
#ifndef SS_KERNELS_CPU_CPU_H
#define SS_KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

#define KERNEL_OF(type, name, ...) type ss_cpu_##name(__VA_ARGS__);
#define GPU_KERNEL_OF(type, name, ...)
#include "kernels/list.h"

/* The channel block B this CPU's convolutions like best: 16, 8, or 0 for NHWC. */
int ss_cpu_preferred_block(void);
/* "oneDNN 2.6.3, avx512_core", for `starstep info`. A constant string. */
const char *ss_cpu_library(void);

#endif
