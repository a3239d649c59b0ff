/* CUDA kernels: the functions of the kernel table, as ss_cuda_open and so on, and functions used
 * only by CUDA's and NCCL's files.
 *
 * Tensors are NHWC, B = C (shapes.h), except the input, whose channels are padded to B =
 * ss_gpu_input_block(). All are 16-byte aligned. Every function supports any C, but is slower if
 * C is not a multiple of 8 (fp32: 4). Functions enqueue kernels and return: they never wait or
 * allocate. All functions that use the scratch run on one stream. No floating-point atomics. */
#ifndef SS_KERNELS_CUDA_GPU_H
#define SS_KERNELS_CUDA_GPU_H

#include "kernels/kernels.h"

#define KERNEL_OF(type, name, ...) type ss_cuda_##name(__VA_ARGS__);
#define CPU_KERNEL_OF(type, name, ...)
#include "kernels/list.h"

enum ss_dtype ss_cuda_dtype(const struct ss_device *gpu);

/* ss_cuda_adopt zeroes device memory of another allocator and counts it as allocated; call
 * ss_cuda_disown before it is freed there. */
enum ss_status ss_cuda_adopt(struct ss_device *gpu, void *data, size_t bytes, const char *what);
void ss_cuda_disown(void *data);

/* Casts a parameter gradient from the dtype to fp32. Both 16-byte aligned. */
enum ss_status ss_cuda_uncast(struct ss_device *gpu, const void *src, float *dst, size_t count);
/* Computes y(n,h,w,c) += bias(c) in place. */
enum ss_status ss_cuda_bias_forward(struct ss_device *gpu, const struct ss_act *shape, void *y,
                                    const float *bias);
/* Computes dbias(c) = sum over n,h,w of dy in a fixed order. Uses the scratch: reserve it
 * first. */
enum ss_status ss_cuda_bias_reserve(struct ss_device *gpu, const struct ss_act *shape);
enum ss_status ss_cuda_bias_backward(struct ss_device *gpu, const struct ss_act *shape,
                                     const void *dy, float *dbias);

#endif
