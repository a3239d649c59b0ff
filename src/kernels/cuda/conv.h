/* 2-D convolution on a GPU with cuDNN; what it computes: struct ss_conv_shape.
 *
 * Native weight: (Co,kh,kw,B), B = x.block, fp32 masters; channels x.c .. B-1 are zero and stay
 * zero under any elementwise update, because their gradients are zero. The weight that computes is
 * the same in the gpu's dtype.
 *
 * At creation each pass chooses among cuDNN's legacy algorithms and the engines of its graph API:
 * by timing when the gpu autotunes, unless the choice is in the cache file, whose key is GPU, cuDNN
 * version, dtype, math mode, pass and shape. Only algorithms whose results are reproducible are
 * considered. Their workspace is the gpu's scratch, reserved here. A candidate that the library
 * refuses is left out; none left is an error. */
#ifndef SS_KERNELS_CUDA_CONV_H
#define SS_KERNELS_CUDA_CONV_H

#include "kernels/cuda/gpu.h"

struct ss_conv_cuda;

/* training 0: only forward is made. The caller destroys it; gpu outlives it. */
enum ss_status ss_conv_cuda_create(struct ss_gpu *gpu, const struct ss_conv_shape *shape,
                                   int training, struct ss_conv_cuda **out);
void ss_conv_cuda_destroy(struct ss_conv_cuda *conv); /* NULL is fine */

/* Elements of the native weight. */
size_t ss_conv_cuda_weight_elements(const struct ss_conv_cuda *conv);
/* On the host: plain (Co,Ci,kh,kw) to and from native, fp32. */
void ss_conv_cuda_import(const struct ss_conv_cuda *conv, const float *plain, float *native);
void ss_conv_cuda_export(const struct ss_conv_cuda *conv, const float *native, float *plain);

/* weight: of the dtype; bias fp32, NULL iff shape.bias is 0. */
enum ss_status ss_conv_cuda_forward(struct ss_conv_cuda *conv, const void *x, const void *weight,
                                    const float *bias, void *y);
enum ss_status ss_conv_cuda_backward_data(struct ss_conv_cuda *conv, const void *dy,
                                          const void *weight, void *dx);
/* dweight (native) and dbias in fp32, overwritten. With a 2-byte dtype cuDNN's result passes
 * through that dtype, as PyTorch's does under autocast. */
enum ss_status ss_conv_cuda_backward_weights(struct ss_conv_cuda *conv, const void *x,
                                             const void *dy, float *dweight, float *dbias);

/* "fwd legacy 1, dgrad graph eng5 k2=1, wgrad ..."; lives as long as conv. */
const char *ss_conv_cuda_info(const struct ss_conv_cuda *conv);

#endif
