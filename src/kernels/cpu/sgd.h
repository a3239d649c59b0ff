/* Stochastic gradient descent with momentum and weight decay, as PyTorch's SGD (dampening 0, no
 * Nesterov):
 *   d = scale * g + weight_decay * w      v = momentum * v + d      w = w - lr * v
 * v starts as zero, which makes the first step PyTorch's (v = d). */
#ifndef SS_KERNELS_CPU_SGD_H
#define SS_KERNELS_CPU_SGD_H

#include "kernels/cpu/cpu.h"

/* count elements; w and v in place. scale is 1 / world size after a sum over ranks. v may be NULL
 * with momentum 0. */
enum ss_status ss_sgd_cpu(struct ss_device *cpu, size_t count, float *w, float *v, const float *g,
                          float lr, float momentum, float weight_decay, float scale);

#endif
