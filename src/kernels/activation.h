/* The activation functions' values and slopes, one expression each for all devices; C and CUDA C++.
 *
 * On the CPU they are inlined into vector loops, once per kind: selections instead of branches, and
 * no calls. Comparisons are written so that NaN passes through. */
#ifndef SS_KERNELS_ACTIVATION_H
#define SS_KERNELS_ACTIVATION_H

#include "core/activation.h"

#ifdef __CUDACC__
#    define SS_ACT_EXPRESSION __host__ __device__ static __forceinline__
#else
#    define SS_ACT_EXPRESSION static inline __attribute__((always_inline))
#endif

/* f(u) */
SS_ACT_EXPRESSION float ss_act_value(enum ss_activation kind, float u)
{
    switch (kind) {
    case SS_ACT_RELU:
        return u < 0 ? 0 : u;
    default:
        return u;
    }
}

/* f'(u) */
SS_ACT_EXPRESSION float ss_act_slope(enum ss_activation kind, float u)
{
    switch (kind) {
    case SS_ACT_RELU:
        return u <= 0 ? 0.0f : 1.0f;
    default:
        return 1;
    }
}

#endif
