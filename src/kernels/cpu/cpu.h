/* CPU kernels on oneDNN and OpenMP: the functions of the kernel table, such as ss_cpu_open, and
 * queries of this CPU.
 *
 * Activations are in oneDNN's nChw16c (B = 16) with AVX-512, nChw8c with AVX2, NHWC elsewhere;
 * the graph's input is plain NCHW (B = 1). With bf16, activations, their gradients and the
 * compute weights are stored in bf16, in the same layouts. Numbers are converted to fp32 on
 * load, computed in fp32, and rounded on store, without oneDNN. */
#ifndef SS_KERNELS_CPU_CPU_H
#define SS_KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

#define KERNEL_OF(type, name, ...) type ss_cpu_##name(__VA_ARGS__);
#define GPU_KERNEL_OF(type, name, ...)
#include "kernels/list.h"

/* Return the channel block B preferred by this CPU's convolutions: 16, 8, or 0 for NHWC. */
int ss_cpu_preferred_block(void);
/* Return how bf16 is computed, such as "computed in fp32 with AVX-512, products with
 * AVX512-BF16". A constant string. */
const char *ss_cpu_bf16(void);
/* Return the library for `starstep info`: "oneDNN 2.6.3, avx512_core". A constant string. */
const char *ss_cpu_library(void);

/* Throughput of a number of OpenMP threads: FLOP/s of matrix products, and bytes/s of memory,
 * read and written. */
struct ss_cpu_speed {
    double flops, bandwidth;
};
/* Measure both, in a quarter of a second. Errors: SS_ERR_INVALID, SS_ERR_MEMORY. */
enum ss_status ss_cpu_measure(int threads, struct ss_cpu_speed *out);
/* Measure only FLOP/s, of products of bf16 pairs, or of floats if the CPU has none. Same errors. */
enum ss_status ss_cpu_measure_bf16(int threads, double *flops);
/* Return whether matrix products in this format multiply pairs of numbers. */
int ss_cpu_has_pairs(enum ss_dtype dtype);

/* The work of a convolution on this CPU. */
struct ss_cpu_conv_work {
    double flop; /* of a pass, in whole tiles; with Winograd less than the formula's */
    double cost; /* time of a pass, in operations of matrix products; fitted */
    int pairs;   /* products of pairs of bf16, not of floats */
    int sums;    /* forward can store BatchNorm's sums */
};
struct ss_cpu_conv_work ss_cpu_conv_work(const struct ss_conv_shape *shape, enum ss_dtype dtype,
                                         enum ss_conv_algo algo);

#endif
