/* The CPU's kernels over oneDNN and OpenMP: those of its table, as ss_cpu_open and so on, and what
 * else is asked of this CPU.
 *
 * Activations are in oneDNN's nChw16c (B = 16) with AVX-512, nChw8c with AVX2, NHWC elsewhere; the graph's input is
 * plain NCHW (B = 1). With bf16 they, their gradients and the weights that compute are stored in that, in the same
 * layouts: numbers are converted to fp32 on load, computed in it, and rounded on store, and no code is oneDNN's. */
#ifndef SS_KERNELS_CPU_CPU_H
#define SS_KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

#define KERNEL_OF(type, name, ...) type ss_cpu_##name(__VA_ARGS__);
#define GPU_KERNEL_OF(type, name, ...)
#include "kernels/list.h"

/* The channel block B this CPU's convolutions like best: 16, 8, or 0 for NHWC. */
int ss_cpu_preferred_block(void);
/* "computed in fp32 with AVX-512, products with AVX512-BF16": how bf16 is. A constant string. */
const char *ss_cpu_bf16(void);
/* "oneDNN 2.6.3, avx512_core", for `starstep info`. A constant string. */
const char *ss_cpu_library(void);

/* What so many OpenMP threads reach together: FLOP/s of products of matrices, and bytes/s of memory, read and
 * written. */
struct ss_cpu_speed {
    double flops, bandwidth;
};
/* Measures both, in a quarter of a second. Errors: SS_ERR_INVALID, SS_ERR_MEMORY. */
enum ss_status ss_cpu_measure(int threads, struct ss_cpu_speed *out);
/* Only FLOP/s, of products of pairs of bf16; of floats where it has none. The same errors. */
enum ss_status ss_cpu_measure_bf16(int threads, double *flops);
/* Do products of this format multiply pairs of it? */
int ss_cpu_has_pairs(enum ss_dtype dtype);

/* How this CPU computes a convolution. */
struct ss_cpu_conv_work {
    double flop; /* of a pass, in whole tiles; with Winograd fewer than the formula has */
    double cost; /* the time that a pass takes, in operations of products of matrices; fitted */
    int pairs;   /* these are products of pairs of bf16, not of floats */
    int sums;    /* forward can store BatchNorm's sums */
};
struct ss_cpu_conv_work ss_cpu_conv_work(const struct ss_conv_shape *shape, enum ss_dtype dtype,
                                         enum ss_conv_algo algo);

#endif
