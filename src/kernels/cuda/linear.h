/* Fully connected layer on a GPU with cuBLASLt; what it computes: cpu/linear.h.
 *
 * x (N,H,W,C), y (N,K) row-major. Native weight (K, H*W*C), columns in x's NHWC order, fp32 masters
 * and a copy in the gpu's dtype; plain weight (K, C*H*W). */
#ifndef SS_KERNELS_CUDA_LINEAR_H
#define SS_KERNELS_CUDA_LINEAR_H

#include "kernels/cuda/gpu.h"

struct ss_linear_cuda;

enum ss_status ss_linear_cuda_create(struct ss_gpu *gpu, const struct ss_act *x, int outputs,
                                     int training, struct ss_linear_cuda **out);
void ss_linear_cuda_destroy(struct ss_linear_cuda *linear); /* NULL is fine */
size_t ss_linear_cuda_weight_elements(const struct ss_linear_cuda *linear);
void ss_linear_cuda_import(const struct ss_linear_cuda *linear, const float *plain, float *native);
void ss_linear_cuda_export(const struct ss_linear_cuda *linear, const float *native, float *plain);
/* The bias is added in the product's epilogue where cuBLASLt can. */
enum ss_status ss_linear_cuda_forward(struct ss_linear_cuda *linear, const void *x,
                                      const void *weight, const float *bias, void *y);
enum ss_status ss_linear_cuda_backward_data(struct ss_linear_cuda *linear, const void *dy,
                                            const void *weight, void *dx);
/* dweight, dbias fp32, overwritten. */
enum ss_status ss_linear_cuda_backward_weights(struct ss_linear_cuda *linear, const void *x,
                                               const void *dy, float *dweight, float *dbias);

#endif
