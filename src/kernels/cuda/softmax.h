/* The softmax of attention.c, and its gradient, for a batch of square matrices of scores, fp32,
 * whose rows are `ld` apart. */
#ifndef SS_KERNELS_CUDA_SOFTMAX_H
#define SS_KERNELS_CUDA_SOFTMAX_H

#include "kernels/cuda/gpu.h"

struct ss_softmax_shape {
    int batch, places, ld;
    float scale;
    size_t saved_stride; /* between consecutive matrices in saved */
};

/* Computes p = softmax(scale scores) in the dtype, and saved: the log of each row's sum of
 * exponentials. p may be scores. */
enum ss_status ss_cuda_softmax(struct ss_device *gpu, const struct ss_softmax_shape *shape,
                               const float *scores, void *p, float *saved);
/* Recomputes p from scores and saved, and computes ds = scale p (dp - sum(p dp)), both in the
 * dtype. They may be scores and dp. */
enum ss_status ss_cuda_softmax_gradient(struct ss_device *gpu, const struct ss_softmax_shape *shape,
                                        const float *scores, const float *dp, const float *saved,
                                        void *p, void *ds);

#endif
