/* Softmax cross-entropy with the mean over the batch, as PyTorch's CrossEntropyLoss.
 *   loss = - sum over valid n of log softmax(logits(n))[label(n)] / N
 *
 * logits (N,K) row-major; label (N): 0 .. K-1, or -1 for a row that does not count (the short last
 * batch of an evaluation). Sums in double precision in row order. */
#ifndef SS_KERNELS_CPU_LOSS_H
#define SS_KERNELS_CPU_LOSS_H

#include "kernels/cpu/cpu.h"

/* metrics += this batch. dlogits (may be logits; NULL: none) = (softmax - onehot) / N, 0 for rows
 * with label -1. Errors: SS_ERR_INVALID for a label outside -1 .. K-1. */
enum ss_status ss_loss_cpu(struct ss_cpu *cpu, int n, int k, const float *logits,
                           const int32_t *labels, struct ss_metrics *metrics, float *dlogits);

#endif
