/* Convolutions as products of matrices: any window, stride, padding, dilation, groups and layout. A tile of output
 * pixels is a matrix that has each one's window in a row (Chellapilla, Puri and Simard, "High performance
 * convolutional neural networks for document processing", 2006); 1x1 windows of whole vectors are read where they
 * are. Weights, and gradients, have a layout of their own, whose padding is zero; plain is (Co,Ci/G,rows,columns).
 *
 * Bits do not depend on the number of threads. */
#ifndef SS_KERNELS_CPU_COLUMNS_H
#define SS_KERNELS_CPU_COLUMNS_H

#include "kernels/cpu/internal.h"

/* Of all three passes. */
size_t ss_columns_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s);

/* Is it faster than oneDNN's code? */
int ss_columns_pays(const struct ss_conv_shape *s);

/* Does a matrix unit compute all passes of it in numbers of dtype, with windows that are read in place? It is then faster
 * than Winograd. */
int ss_columns_fit_matrix_unit(const struct ss_conv_shape *s, enum ss_dtype dtype);

size_t ss_columns_weight_bytes(const struct ss_device *cpu, const struct ss_conv_shape *s);
void ss_columns_import(const struct ss_device *cpu, const struct ss_conv_shape *s,
                       const float *plain, float *native);
void ss_columns_export(const struct ss_device *cpu, const struct ss_conv_shape *s,
                       const float *native, float *plain);

/* bias, dbias may be NULL. */
void ss_columns_forward(const struct ss_device *cpu, const struct ss_conv_shape *s, const void *x,
                        const void *w, const float *bias, void *y);
void ss_columns_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                              const void *dy, const void *w, void *dx);
void ss_columns_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                 const void *x, const void *dy, float *dw, float *dbias);

#endif
