/* BatchNorm, ReLU, dropout, residual add and a second ReLU in one pass over memory, and their
 * gradient in two. Ours: a library call each would read and write every activation five times.
 * What they compute: struct ss_norm_act.
 *
 * All tensors (N,C,H,W) in one layout (cpu.h). Sums are made per (n, channel block) slice and added
 * in slice order in double precision: bits do not depend on the number of threads. Padding channels
 * of outputs are written as zero. */
#ifndef SS_KERNELS_CPU_NORM_ACT_H
#define SS_KERNELS_CPU_NORM_ACT_H

#include "kernels/cpu/cpu.h"

/* Scratch that the functions below take from cpu. Call ss_cpu_reserve with it once. */
size_t ss_norm_act_scratch_bytes(const struct ss_norm_act *op);

/* Batch statistics of z. saved (2*C): mean, then invstd = 1/sqrt(var + eps). running (2*C): mean,
 * then variance, updated in place; NULL: left alone. */
enum ss_status ss_norm_act_stats(struct ss_cpu *cpu, const struct ss_norm_act *op, const float *z,
                                 float *saved, float *running);
/* saved (2*C) from running statistics, for evaluation. */
enum ss_status ss_norm_act_stats_eval(const struct ss_norm_act *op, const float *running,
                                      float *saved);

/* y may be z or r (in place). gamma, beta (C), saved (2*C): NULL without BN. r NULL iff !residual.
 * training 0: no dropout. dropout_key: one per (seed, step, block, rank). */
enum ss_status ss_norm_act_forward(struct ss_cpu *cpu, const struct ss_norm_act *op, const float *z,
                                   const float *gamma, const float *beta, const float *saved,
                                   const float *r, float *y, int training, uint64_t dropout_key);

struct ss_norm_act_grad {
    const float *dy[SS_NORM_MAX_DY]; /* contributions to the gradient of y; their sum is meant */
    int ndy;                         /* 1 .. SS_NORM_MAX_DY */
    /* The gradient of s = sum of dy, through the second ReLU: what the residual input gets.
     * Written when ndy > 1 or relu_out; may be dy[0]. With ndy 1 and no relu_out it must be dy[0],
     * which then is only read. */
    float *ds;
    const float *y; /* needed with relu_out only */
    float *z;       /* in: what forward read; out: its gradient dz (in place) */
    const float *gamma, *beta, *saved;
    float *dgamma, *dbeta; /* (C), overwritten; NULL without BN */
    uint64_t dropout_key;
};
enum ss_status ss_norm_act_backward(struct ss_cpu *cpu, const struct ss_norm_act *op,
                                    const struct ss_norm_act_grad *g);

/* dst[i] = src[0][i] + ... + src[n-1][i]; dst may be src[0]. n >= 1, count elements. */
enum ss_status ss_sum_cpu(struct ss_cpu *cpu, const float *const *src, int n, float *dst,
                          size_t count);

/* The dropout decision for element i under a key, as the kernels make it (for tests). */
int ss_dropout_keep(uint64_t key, uint32_t i, float p);

#endif
