/* 2-D convolution on the CPU; what it computes: struct ss_conv_shape.
 *
 * The weight is kept in a layout that the library likes ("native", the layout of its gradient);
 * import and export convert from and to PyTorch's (Co,Ci,kh,kw). Padding inside native is zero and
 * stays zero under any elementwise update. */
#ifndef SS_KERNELS_CPU_CONV_H
#define SS_KERNELS_CPU_CONV_H

#include "kernels/cpu/cpu.h"

enum ss_conv_algo {
    SS_CONV_AUTO, /* Winograd F(4x4,3x3) where it is faster (a fixed rule of shapes: never timing),
                     else direct */
    SS_CONV_DIRECT, /* always direct */
};

struct ss_conv_cpu;

/* training 0: only forward is made. Errors: SS_ERR_LIBRARY, SS_ERR_MEMORY, SS_ERR_SHAPE (y does not
 * follow from x). The caller destroys it; `cpu` outlives it. */
enum ss_status ss_conv_cpu_create(struct ss_cpu *cpu, const struct ss_conv_shape *shape,
                                  enum ss_conv_algo algo, int training, struct ss_conv_cpu **out);
void ss_conv_cpu_destroy(struct ss_conv_cpu *conv);

/* Bytes of the native weight (and of its gradient and momentum); equal for training 0 and 1. */
size_t ss_conv_cpu_weight_bytes(const struct ss_conv_cpu *conv);
/* plain: (Co,Ci,kh,kw) fp32, row-major, need not be aligned. */
enum ss_status ss_conv_cpu_import(struct ss_conv_cpu *conv, const float *plain, float *native);
enum ss_status ss_conv_cpu_export(struct ss_conv_cpu *conv, const float *native, float *plain);

/* All pointers 64-byte aligned except bias and dbias (4). bias, dbias NULL iff shape.bias is 0. */
enum ss_status ss_conv_cpu_forward(struct ss_conv_cpu *conv, const float *x, const float *weight,
                                   const float *bias, float *y);
/* dx is overwritten. */
enum ss_status ss_conv_cpu_backward_data(struct ss_conv_cpu *conv, const float *dy,
                                         const float *weight, float *dx);
/* dweight (native), dbias are overwritten. */
enum ss_status ss_conv_cpu_backward_weights(struct ss_conv_cpu *conv, const float *x,
                                            const float *dy, float *dweight, float *dbias);

/* What implements each pass, "fwd jit_wino_4x3:avx512_core, ..."; lives as long as conv. */
const char *ss_conv_cpu_info(const struct ss_conv_cpu *conv);

#endif
