/* Pooling on the CPU; what it computes: enum ss_pool_kind. */
#ifndef SS_KERNELS_CPU_POOL_H
#define SS_KERNELS_CPU_POOL_H

#include "kernels/cpu/cpu.h"

struct ss_pool_cpu;

enum ss_status ss_pool_cpu_create(struct ss_cpu *cpu, enum ss_pool_kind kind,
                                  const struct ss_act *x, int kernel, int stride, int pad,
                                  int training, struct ss_pool_cpu **out);
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
