/* Winograd convolution F(4x4,3x3) for 3x3 kernels with stride 1: a quarter of the multiplications
 * of direct convolution. Lavin and Gray, "Fast algorithms for convolutional neural networks",
 * 2016; points and loops: simd_winograd.h.
 *
 * A weight (Co,Ci/G,3,3) is stored as (KB, Ci/G, 3, 3, W), with W the floats of a vector and KB =
 * ceil(Co/W). Padding channels of the output are zero in the weight and in its gradient.
 *
 * Results depend on the shape and the instruction set, not on the number of threads. */
#ifndef SS_KERNELS_CPU_WINOGRAD_H
#define SS_KERNELS_CPU_WINOGRAD_H

#include "kernels/cpu/internal.h"

/* Return 1 if the shape is supported: padding of at most 2, groups of whole vectors. */
int ss_winograd_takes(const struct ss_conv_shape *s);
/* Return 1 if the passes that read x can compute it from a source while reading it. */
int ss_winograd_makes_x(const struct ss_conv_shape *s);
/* Return 1 if forward can compute sums of its output. */
int ss_winograd_has_sums(const struct ss_conv_shape *s);
/* Return 1 if it is faster than direct convolution, by a rule of shapes. */
int ss_winograd_pays(const struct ss_conv_shape *s);
struct ss_cpu_conv_work ss_winograd_work(const struct ss_conv_shape *s);

size_t ss_winograd_weight_bytes(const struct ss_conv_shape *s);
void ss_winograd_import(const struct ss_conv_shape *s, const float *plain, float *w);
void ss_winograd_export(const struct ss_conv_shape *s, const float *w, float *plain);

/* Return the bytes of scratch for the forward pass, or with training for all three passes. */
size_t ss_winograd_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s,
                           int training);
/* Operations fused with a forward pass; NULL: none. */
struct ss_winograd_ends {
    const struct ss_norm_source *source; /* x is not stored but computed from it; pass z as x */
    float *sums;                         /* of y, if has_sums: mean and biased variance, (2, Co) */
    const void *residual;                /* added to y; same layout as y */
};
/* bias, dbias may be NULL. */
void ss_winograd_forward(const struct ss_device *cpu, const struct ss_conv_shape *s,
                         const struct ss_winograd_ends *ends, const void *x, const void *w,
                         const float *bias, void *y);
void ss_winograd_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                               const void *dy, const void *w, void *dx);
void ss_winograd_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                  const struct ss_norm_source *source, const void *x,
                                  const void *dy, float *dw, float *dbias);

#endif
