/* Small CUDA kernels over plain arrays. */
#ifndef SS_KERNELS_CUDA_ELEMENTWISE_H
#define SS_KERNELS_CUDA_ELEMENTWISE_H

#include "kernels/cuda/gpu.h"

/* dst[i] = src[0][i] + ... + src[n-1][i], summed in fp32; dst may be src[0]; 1 <= n <=
 * SS_NORM_MAX_DY. */
enum ss_status ss_sum_cuda(struct ss_gpu *gpu, const void *const *src, int n, void *dst,
                           size_t count);
/* fp32 to the gpu's dtype and back; round to nearest even. Both 16-byte aligned. */
enum ss_status ss_cast_to_cuda(struct ss_gpu *gpu, const float *src, void *dst, size_t count);
enum ss_status ss_cast_from_cuda(struct ss_gpu *gpu, const void *src, float *dst, size_t count);

/* y(n,h,w,c) += bias(c) in place. */
enum ss_status ss_bias_cuda_forward(struct ss_gpu *gpu, const struct ss_act *shape, void *y,
                                    const float *bias);
/* dbias(c) = sum over n,h,w of dy; fixed order of summation. Scratch: reserve first. */
enum ss_status ss_bias_cuda_reserve(struct ss_gpu *gpu, const struct ss_act *shape);
enum ss_status ss_bias_cuda_backward(struct ss_gpu *gpu, const struct ss_act *shape, const void *dy,
                                     float *dbias);

/* The network's input: uint8 (N,C,H,W) to the dtype's (N,H,W,B),
 *   x = (byte / 255 - mean(c)) / std(c), channels C .. B-1 zero.
 * mean and std: C values each, C <= 4, on the host. As ToTensor and Normalize. */
enum ss_status ss_convert_cuda(struct ss_gpu *gpu, const struct ss_act *x, const uint8_t *images,
                               const float *mean, const float *std, void *out);

#endif
