/* Convolutions as products of matrices, for passes of which oneDNN has reference code only: dilated
 * ones without AVX-512, groups that fill no blocks on small maps, large windows side by side, any
 * other. A tile of pixels becomes a matrix that has each one's window in a row, and oneDNN multiplies
 * it: Chellapilla, Puri and Simard, "High performance convolutional neural networks for document
 * processing", 2006. Weights are plain, (Co,Ci/G,rows,columns).
 *
 * Bits do not depend on the number of threads. Errors: SS_ERR_LIBRARY. */
#ifndef SS_KERNELS_CPU_COLUMNS_H
#define SS_KERNELS_CPU_COLUMNS_H

#include "kernels/cpu/internal.h"

/* Of all three passes. */
size_t ss_columns_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s);

/* bias, dbias may be NULL. */
enum ss_status ss_columns_forward(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                  const float *x, const float *w, const float *bias, float *y);
enum ss_status ss_columns_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                        const float *dy, const float *w, float *dx);
enum ss_status ss_columns_backward_weights(const struct ss_device *cpu,
                                           const struct ss_conv_shape *s, const float *x,
                                           const float *dy, float *dw, float *dbias);

#endif
