/* Pooling on a GPU; what it computes: enum ss_pool_kind. */
#ifndef SS_KERNELS_CUDA_POOL_H
#define SS_KERNELS_CUDA_POOL_H

#include "kernels/cuda/gpu.h"

struct ss_pool_shape {
    enum ss_pool_kind kind;
    struct ss_act x, y;
    int kernel, stride, pad;
};

/* Errors: SS_ERR_SHAPE where y does not follow from x, or kernel > 16. */
enum ss_status ss_pool_cuda_check(const struct ss_pool_shape *shape);
/* argmax: one byte an output (row-major place in the window), written; NULL: not wanted, or average
 * pooling. */
enum ss_status ss_pool_cuda_forward(struct ss_gpu *gpu, const struct ss_pool_shape *shape,
                                    const void *x, void *y, uint8_t *argmax);
/* dx is overwritten. */
enum ss_status ss_pool_cuda_backward(struct ss_gpu *gpu, const struct ss_pool_shape *shape,
                                     const void *dy, const uint8_t *argmax, void *dx);

#endif
