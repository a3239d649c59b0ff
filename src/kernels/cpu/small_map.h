/* Convolutions of maps so small that many taps lie in the padding: a matrix product over images
 * for each pair of an output pixel and an input pixel that a tap connects. 3x3 windows on 2x2
 * pixels have 16 such pairs instead of 36 taps, those on one pixel 1 instead of 9.
 *
 * A weight is stored as right operands (Ci, Co) of product.h, one for each tap, with zeros as
 * padding, also in its gradient; the plain layout is (Co,Ci,rows,columns). Results do not depend
 * on the number of threads. */
#ifndef SS_KERNELS_CPU_SMALL_MAP_H
#define SS_KERNELS_CPU_SMALL_MAP_H

#include "kernels/cpu/internal.h"

/* Return 1 if the shape is supported, and this is faster than columns.c and oneDNN's code. */
int ss_small_map_pays(const struct ss_conv_shape *s);
/* Return the multiplications of a forward pass. */
double ss_small_map_products(const struct ss_conv_shape *s);

/* Return the bytes of scratch that all three passes need. */
size_t ss_small_map_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s);

size_t ss_small_map_weight_bytes(const struct ss_conv_shape *s);
void ss_small_map_import(const struct ss_conv_shape *s, const float *plain, float *native);
void ss_small_map_export(const struct ss_conv_shape *s, const float *native, float *plain);

/* bias, dbias may be NULL. */
void ss_small_map_forward(const struct ss_device *cpu, const struct ss_conv_shape *s, const void *x,
                          const void *w, const float *bias, void *y);
void ss_small_map_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                const void *dy, const void *w, void *dx);
void ss_small_map_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                   const void *x, const void *dy, float *dw, float *dbias);

#endif
