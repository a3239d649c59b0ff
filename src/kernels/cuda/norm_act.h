/* BatchNorm, ReLU, dropout, residual add and a second ReLU on a GPU in one pass over memory after
 * the statistics, and their gradient in two passes. What they compute: struct ss_norm_act.
 *
 * Statistics and sums over N,H,W are made per block of pixels in fp32 about a shift near the mean
 * (or by Welford's merging), then merged in double in a fixed order. */
#ifndef SS_KERNELS_CUDA_NORM_ACT_H
#define SS_KERNELS_CUDA_NORM_ACT_H

#include "kernels/cuda/gpu.h"

/* Reserve the scratch that the functions below take for this shape. Call once, before step 1. */
enum ss_status ss_norm_act_cuda_reserve(struct ss_gpu *gpu, const struct ss_norm_act *op);

/* As ss_norm_act_stats, ss_norm_act_stats_eval (cpu/norm_act.h): saved (2,C): mean, invstd; running
 * (2,C): mean, variance, updated in place; NULL: left alone. */
enum ss_status ss_norm_act_cuda_stats(struct ss_gpu *gpu, const struct ss_norm_act *op,
                                      const void *z, float *saved, float *running);
enum ss_status ss_norm_act_cuda_stats_eval(struct ss_gpu *gpu, const struct ss_norm_act *op,
                                           const float *running, float *saved);

/* y may be z or r where nothing is pooled. gamma, beta (C), saved (2,C): NULL without BN. r NULL
 * iff !residual. training 0: no dropout. With pooling y is (N, H/pool, W/pool, C), and argmax (one
 * byte an element of it: the place in the window, row-major) is written; NULL: not wanted, or no
 * pooling. What is compared are the values as an unpooled y would hold them, rounded to the dtype;
 * the first of equals wins. */
enum ss_status ss_norm_act_cuda_forward(struct ss_gpu *gpu, const struct ss_norm_act *op,
                                        const void *z, const float *gamma, const float *beta,
                                        const float *saved, const void *r, void *y, uint8_t *argmax,
                                        int training, uint64_t dropout_key);

struct ss_norm_act_cuda_grad {
    const void *dy[SS_NORM_MAX_DY]; /* contributions to the gradient of y; their sum is meant */
    int ndy;                        /* 1 .. SS_NORM_MAX_DY */
    /* The sum through the second ReLU, what the residual input gets: written when ndy > 1 or
     * relu_out, may be dy[0]; else it must be dy[0] and is only read. */
    void *ds;
    const void *y; /* needed with relu_out only */
    /* With pooling: dy and y are of the pooled shape; the sum of dy, rounded to the dtype, goes to
     * each window's argmax, the rest of the window and uncovered rows and columns get 0. ds is of
     * z's shape then, never one of dy, and always written unless NULL. */
    const uint8_t *argmax;
    void *z; /* in: what forward read; out: its gradient dz */
    const float *gamma, *beta, *saved;
    float *dgamma, *dbeta; /* (C), overwritten; NULL without BN */
    uint64_t dropout_key;
};
enum ss_status ss_norm_act_cuda_backward(struct ss_gpu *gpu, const struct ss_norm_act *op,
                                         const struct ss_norm_act_cuda_grad *g);

#endif
