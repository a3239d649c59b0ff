/* The activation functions' values and slopes, one expression each for all devices; C and CUDA C++.
 *
 * On the CPU they are inlined into vector loops, once per kind: selections instead of branches, and
 * no calls. Comparisons are written so that NaN passes through. */
#ifndef SS_KERNELS_ACTIVATION_H
#define SS_KERNELS_ACTIVATION_H

#include "core/activation.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* a b + c. On GPUs explicitly fused: kernels must agree to the bit. */
#ifdef __CUDACC__
#    define SS_ACT_EXPRESSION __host__ __device__ static __forceinline__
#    define SS_FMA(a, b, c) fmaf(a, b, c)
#else
#    define SS_ACT_EXPRESSION static inline __attribute__((always_inline))
#    define SS_FMA(a, b, c) ((a) * (b) + (c))
#endif

/* e^x of x <= 0, below -87 as there: 2^k in the bits of a float, times a polynomial of the rest, at
 * most log(2)/2 (fitted here, to 1e-8). The large number rounds to an integer, whose low bits then
 * are k and the exponent's bias. */
SS_ACT_EXPRESSION float ss_act_exp(float x)
{
    const float shift = 12582912 + 127;
    x = x < -87 ? -87 : x;
    const float rounded = SS_FMA(x, 1.44269504f, shift), k = rounded - shift;
    const float r = SS_FMA(k, 2.12194440e-4f, SS_FMA(-k, 0.693359375f, x));
    uint32_t bits;
    float power, p = SS_FMA(r, 0.00139337f, 0.00836318f);
    p = SS_FMA(r, SS_FMA(r, SS_FMA(r, p, 0.04166646f), 0.16666577f), 0.5f);
    memcpy(&bits, &rounded, sizeof bits);
    bits <<= 23;
    memcpy(&power, &bits, sizeof power);
    return power * SS_FMA(r * r, p, 1 + r);
}

/* GELU (Hendrycks and Gimpel, "Gaussian error linear units", 2016) is u F(u), F the distribution
 * function of normal numbers; PyTorch's GELU(approximate="none"). Returns F; *slope: its
 * derivative. F(-|u|) is e^(-u^2/2) times a polynomial in t (fitted here, to 5e-9). */
SS_ACT_EXPRESSION float ss_gelu_factor(float u, float *slope)
{
    const float e = ss_act_exp(-0.5f * u * u), t = 1 / SS_FMA(0.275f, u < 0 ? -u : u, 1.0f);
    const float w = e * t;
    float p = SS_FMA(t, -0.114858329f, 0.451998697f);
    p = SS_FMA(t, SS_FMA(t, p, -0.330993363f), 0.33393225f);
    p = SS_FMA(t, SS_FMA(t, p, 0.0421115f), 0.11780925f);
    *slope = 0.39894228f * e;
    return u < 0 ? w * p : SS_FMA(-w, p, 1.0f);
}

/* approximate="tanh": u (1 + tanh(s / 2)) / 2 = u / (1 + e^-s), s = sqrt(8 / pi) (u + 0.044715
 * u^3). As above. */
SS_ACT_EXPRESSION float ss_gelu_tanh_factor(float u, float *slope)
{
    const float s = u * SS_FMA(0.0713548163f * u, u, 1.59576912f);
    const float e = ss_act_exp(s < 0 ? s : -s), d = 1 / (1 + e);
    *slope = e * d * d * SS_FMA(0.214064449f * u, u, 1.59576912f);
    return s < 0 ? e * d : d;
}

/* f(u) */
SS_ACT_EXPRESSION float ss_act_value(enum ss_activation kind, float u)
{
    float slope;
    switch (kind) {
    case SS_ACT_RELU:
        return u < 0 ? 0 : u;
    case SS_ACT_GELU:
        return u * ss_gelu_factor(u, &slope);
    case SS_ACT_GELU_TANH:
        return u * ss_gelu_tanh_factor(u, &slope);
    case SS_ACT_NONE:
    case SS_ACT_COUNT:
        break;
    }
    return u;
}

/* f'(u) */
SS_ACT_EXPRESSION float ss_act_slope(enum ss_activation kind, float u)
{
    float slope, factor;
    switch (kind) {
    case SS_ACT_RELU:
        return u <= 0 ? 0.0f : 1.0f;
    case SS_ACT_GELU:
        factor = ss_gelu_factor(u, &slope);
        return SS_FMA(u, slope, factor);
    case SS_ACT_GELU_TANH:
        factor = ss_gelu_tanh_factor(u, &slope);
        return SS_FMA(u, slope, factor);
    case SS_ACT_NONE:
    case SS_ACT_COUNT:
        break;
    }
    return 1;
}

#endif
