/* 2-D convolution (cross-correlation, as PyTorch's Conv2d), groups 1, dilation 1:
 *   y(n,k,p,q) = bias(k) + sum over c,i,j of w(k,c,i,j) * x(n, c, p*stride - pad + i, q*stride - pad + j)
 *
 * x (N,Ci,H,W) and y (N,Co,P,Q) activations, P = (H + 2 pad - kh)/stride + 1, likewise Q.
 * The weight is kept in a layout that the library likes ("native", the layout of its gradient);
 * import and export convert from and to PyTorch's (Co,Ci,kh,kw). Padding inside native is zero and
 * stays zero under any elementwise update. */
#ifndef SS_KERNELS_CONV_CPU_H
#define SS_KERNELS_CONV_CPU_H

#include "codelets/kernels/cpu.h"

struct ss_conv_shape {
    struct ss_act x, y;
    int kh, kw, stride, pad;
    int bias; /* 0 or 1 */
};

enum ss_conv_algo {
    SS_CONV_AUTO,   /* Winograd F(4x4,3x3) where it is faster (a fixed rule of shapes: never timing), else direct */
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

/* Which implementation each pass uses, "fwd jit_wino_4x3:avx512_core, ..."; lives as long as conv. */
const char *ss_conv_cpu_info(const struct ss_conv_cpu *conv);

#endif
