/* Max and average pooling, as PyTorch's MaxPool2d and AvgPool2d (floor mode; average over kernel^2
 * with count_include_pad; the padding of max pooling is minus infinity).
 *
 * x (N,C,H,W), y (N,C,P,Q) activations of equal block; P = floor((H + 2 pad - kernel)/stride) + 1. Rows and
 * columns of x that no window covers (7x7 over 8x8) take no part and get gradient 0. Max pooling
 * backward gives the whole gradient to the first maximum of the window in row-major order. */
#ifndef SS_KERNELS_POOL_CPU_H
#define SS_KERNELS_POOL_CPU_H

#include "codelets/kernels/cpu.h"

enum ss_pool_kind { SS_POOL_MAX, SS_POOL_AVG };

struct ss_pool_cpu;

enum ss_status ss_pool_cpu_create(struct ss_cpu *cpu, enum ss_pool_kind kind, const struct ss_act *x,
                                  int kernel, int stride, int pad, int training,
                                  struct ss_pool_cpu **out);
void ss_pool_cpu_destroy(struct ss_pool_cpu *pool);
/* Bytes of the workspace that forward fills and backward reads (0 for average pooling). */
size_t ss_pool_cpu_workspace_bytes(const struct ss_pool_cpu *pool);
/* workspace NULL: inference (max pooling made with training 1 needs it all the same). */
enum ss_status ss_pool_cpu_forward(struct ss_pool_cpu *pool, const float *x, float *y,
                                   void *workspace);
/* dx is overwritten. */
enum ss_status ss_pool_cpu_backward(struct ss_pool_cpu *pool, const float *dy,
                                    const void *workspace, float *dx);

#endif
