/* Convolutions of small maps, all passes, where a library's kernels, which see one image at a time,
 * have too few pixels to reuse a weight that they have loaded: here a weight is used for eight
 * images. Direct, without bias, in channel blocks of 16 and with AVX-512 only.
 *
 * Letters: shapes.h; CBi and CBo are the blocks of x and y, T = kh*kw taps. Results do not depend
 * on the number of threads. */
#ifndef SS_KERNELS_CONV_SMALL_CPU_H
#define SS_KERNELS_CONV_SMALL_CPU_H

#include "codelets/kernels/cpu.h"

struct ss_conv_small;

/* Whether this CPU can, and gains by it over a library's direct code: a fixed rule of shapes. */
int ss_conv_small_pays(const struct ss_conv_shape *s);
enum ss_status ss_conv_small_create(const struct ss_conv_shape *s, struct ss_conv_small **out);
void ss_conv_small_destroy(struct ss_conv_small *c);

/* All pointers 64-byte aligned.
 * w, dw: (CBo,CBi,T,16 of Ci,16 of Co); transposed: room for as much. */
void ss_conv_small_forward(const struct ss_cpu *cpu, const struct ss_conv_small *c, const float *x,
                           const float *w, float *y);
void ss_conv_small_backward_data(const struct ss_cpu *cpu, const struct ss_conv_small *c,
                                 const float *dy, const float *w, float *transposed, float *dx);
void ss_conv_small_backward_weights(const struct ss_cpu *cpu, const struct ss_conv_small *c,
                                    const float *x, const float *dy, float *dw);

#endif
