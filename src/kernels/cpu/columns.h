/* Convolutions as matrix products (im2col): any window, stride, padding, dilation, groups and
 * layout. A tile of output pixels is a matrix with one window per row (Chellapilla, Puri and
 * Simard, "High performance convolutional neural networks for document processing", 2006). 1x1
 * windows of whole vectors are read in place. Weights and their gradients have a native layout
 * with zeros as padding; the plain layout is (Co,Ci/G,rows,columns).
 *
 * Results are bit-identical for any number of threads. */
#ifndef SS_KERNELS_CPU_COLUMNS_H
#define SS_KERNELS_CPU_COLUMNS_H

#include "kernels/cpu/internal.h"

/* Return the bytes of scratch that all three passes need. */
size_t ss_columns_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s);

/* Return whether this code is faster than oneDNN's. */
int ss_columns_pays(const struct ss_conv_shape *s);

/* Return whether a matrix unit computes all passes in dtype with windows read in place. It is
 * then faster than Winograd. */
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
