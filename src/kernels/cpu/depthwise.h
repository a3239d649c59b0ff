/* Depthwise convolutions, one input channel per output channel, as vector loops: any window, no
 * dilation. Weights are in oneDNN's layout Goihw16g or Goihw8g, (channels / width, rows, columns,
 * width), with zeros as padding. */
#ifndef SS_KERNELS_CPU_DEPTHWISE_H
#define SS_KERNELS_CPU_DEPTHWISE_H

#include "kernels/cpu/internal.h"

int ss_depthwise_takes(const struct ss_conv_shape *s);
/* Return the channels of a chunk: 16 or 8. */
int ss_depthwise_width(const struct ss_conv_shape *s);
size_t ss_depthwise_weight_bytes(const struct ss_conv_shape *s);
/* plain: (channels, rows, columns). */
void ss_depthwise_import(const struct ss_conv_shape *s, const float *plain, float *native);
void ss_depthwise_export(const struct ss_conv_shape *s, const float *native, float *plain);
/* Return the bytes of scratch that all three passes need. */
size_t ss_depthwise_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s);

/* bias, dbias may be NULL. */
void ss_depthwise_forward(const struct ss_device *cpu, const struct ss_conv_shape *s, const void *x,
                          const void *w, const float *bias, void *y);
void ss_depthwise_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                const void *dy, const void *w, void *dx);
void ss_depthwise_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                   const void *x, const void *dy, float *dw, float *dbias);

#endif
