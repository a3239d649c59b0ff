/* SGD with momentum and weight decay over a whole bucket in one kernel; formula: cpu/sgd.h. */
#ifndef SS_KERNELS_CUDA_SGD_H
#define SS_KERNELS_CUDA_SGD_H

#include "kernels/cuda/gpu.h"

struct ss_sgd_cuda {
    size_t count;   /* elements of the bucket, a multiple of 16 */
    float *w, *v;   /* master weights and momentum, in place; v NULL with momentum 0 */
    const float *g; /* summed gradients */
    void *copy;     /* the weights in the gpu's dtype, written; NULL with fp32 */
    float lr, momentum, weight_decay;
    float scale;                    /* of the gradient: 1 / world size */
    const struct ss_scaler *scaler; /* NULL: no loss scaling. Gradients are divided by its scale;
                                       with scaler->found nothing is changed. */
};
enum ss_status ss_sgd_cuda(struct ss_device *gpu, const struct ss_sgd_cuda *sgd);

#endif
