/* Softmax cross-entropy with the mean over the batch on a GPU, as cpu/loss.h. */
#ifndef SS_KERNELS_CUDA_LOSS_H
#define SS_KERNELS_CUDA_LOSS_H

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/scaler.h"

enum ss_status ss_loss_cuda_reserve(struct ss_gpu *gpu, int n, int k);

/* logits (N,K) of the dtype, label (N) on the device: 0 .. K-1, or -1 for a row that does not
 * count. metrics (device): with accumulate += this batch, else = this batch; `stop` is left as it
 * is or 0, `scale` becomes the scaler's (1 without). A label outside -1 .. K-1 makes its row count
 * as `bad` and the loss NaN. dlogits (may be logits; NULL: none) = scale * (softmax - onehot) / N,
 * 0 for rows without a valid label; scaler NULL: scale 1. Softmax in fp32 about the row's maximum,
 * sums over rows in double in an order that follows from N. */
enum ss_status ss_loss_cuda(struct ss_gpu *gpu, int n, int k, const void *logits,
                            const int32_t *labels, const struct ss_scaler *scaler,
                            struct ss_metrics *metrics, int accumulate, void *dlogits);

#endif
