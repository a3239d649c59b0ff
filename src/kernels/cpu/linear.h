/* Fully connected layer, as PyTorch's Flatten + Linear: y(n,k) = bias(k) + sum_i w(k,i) x(n,i),
 * where i runs over (C,H,W) of x row-major whatever x's layout is.
 *
 * x (N,C,H,W) activation in its layout; y (N,K) plain row-major, no padding.
 * Native weight as in conv.h; plain weight (K, C*H*W). bias is always there. */
#ifndef SS_KERNELS_CPU_LINEAR_H
#define SS_KERNELS_CPU_LINEAR_H

#include "kernels/cpu/cpu.h"

struct ss_linear_cpu;

enum ss_status ss_linear_cpu_create(struct ss_cpu *cpu, const struct ss_act *x, int outputs,
                                    int training, struct ss_linear_cpu **out);
void ss_linear_cpu_destroy(struct ss_linear_cpu *linear);
size_t ss_linear_cpu_weight_bytes(const struct ss_linear_cpu *linear);
enum ss_status ss_linear_cpu_import(struct ss_linear_cpu *linear, const float *plain,
                                    float *native);
enum ss_status ss_linear_cpu_export(struct ss_linear_cpu *linear, const float *native,
                                    float *plain);
enum ss_status ss_linear_cpu_forward(struct ss_linear_cpu *linear, const float *x,
                                     const float *weight, const float *bias, float *y);
enum ss_status ss_linear_cpu_backward_data(struct ss_linear_cpu *linear, const float *dy,
                                           const float *weight, float *dx);
enum ss_status ss_linear_cpu_backward_weights(struct ss_linear_cpu *linear, const float *x,
                                              const float *dy, float *dweight, float *dbias);

#endif
