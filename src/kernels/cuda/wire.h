/* Gradients on their way between GPUs in 2 bytes; the same bits as cpu/wire.h makes.
 *
 * dtype is SS_DTYPE_F16 or SS_DTYPE_BF16, whatever the gpu computes in. Both pointers are 16-byte
 * aligned, any count. Enqueued on `stream`. */
#ifndef SS_KERNELS_CUDA_WIRE_H
#define SS_KERNELS_CUDA_WIRE_H

#include "kernels/cuda/gpu.h"

/* dst[i] = round(src[i] * scale), to nearest, ties to even. */
enum ss_status ss_wire_cuda_pack(const struct ss_gpu *gpu, enum ss_dtype dtype, const float *src,
                                 float scale, void *dst, size_t count, ss_stream stream);
/* dst[i] = src[i] * scale. */
enum ss_status ss_wire_cuda_unpack(const struct ss_gpu *gpu, enum ss_dtype dtype, const void *src,
                                   float scale, float *dst, size_t count, ss_stream stream);

#endif
