/* CUDA kernels: those of their table, as ss_cuda_open and so on, and what only CUDA's own files and
 * NCCL's need.
 *
 * Tensors are NHWC, B = C (shapes.h), but for the input, whose channels are padded to B =
 * ss_gpu_input_block(). All are 16-byte aligned, and every function takes any C, only slower where
 * C is no multiple of 8 (fp32: 4). Kernels enqueue and return: they never wait, never allocate. All
 * that use the scratch run on one stream. No floating-point atomics. */
#ifndef SS_KERNELS_CUDA_GPU_H
#define SS_KERNELS_CUDA_GPU_H

#include "kernels/kernels.h"

#define KERNEL_OF(type, name, ...) type ss_cuda_##name(__VA_ARGS__);
#define CPU_KERNEL_OF(type, name, ...)
#include "kernels/list.h"

enum ss_dtype ss_cuda_dtype(const struct ss_device *gpu);

/* Zero device memory of another allocator and count it as given out; take it from the books again
 * before it is freed there. */
enum ss_status ss_cuda_adopt(struct ss_device *gpu, void *data, size_t bytes, const char *what);
void ss_cuda_disown(void *data);

/* The dtype to fp32, a gradient of parameters. Both 16-byte aligned. */
enum ss_status ss_cuda_uncast(struct ss_device *gpu, const void *src, float *dst, size_t count);
/* y(n,h,w,c) += bias(c) in place. */
enum ss_status ss_cuda_bias_forward(struct ss_device *gpu, const struct ss_act *shape, void *y,
                                    const float *bias);
/* dbias(c) = sum over n,h,w of dy; fixed order of summation. Scratch: reserve first. */
enum ss_status ss_cuda_bias_reserve(struct ss_device *gpu, const struct ss_act *shape);
enum ss_status ss_cuda_bias_backward(struct ss_device *gpu, const struct ss_act *shape,
                                     const void *dy, float *dbias);

#endif
