/* Values and slopes of the activation functions, one implementation for all devices; C and CUDA
 * C++.
 *
 * On the CPU they are inlined into vector loops, once per family: selections instead of branches,
 * and no calls. Functions of a family differ in constants. Comparisons are written so that NaN
 * passes through. */
#ifndef SS_KERNELS_ACTIVATION_H
#define SS_KERNELS_ACTIVATION_H

#include "core/activation.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* a b + c. Explicitly fused on GPUs, where kernels must be bit-identical. */
#ifdef __CUDACC__
#    define SS_ACT_EXPRESSION __host__ __device__ static __forceinline__
#    define SS_FMA(a, b, c) fmaf(a, b, c)
#else
#    define SS_ACT_EXPRESSION static inline __attribute__((always_inline))
#    define SS_FMA(a, b, c) ((a) * (b) + (c))
#endif

/* X(NAME, ...) for each family. */
#define SS_ACT_FAMILIES(X, ...)                                                                    \
    X(NONE, __VA_ARGS__)                                                                           \
    X(RELU, __VA_ARGS__)                                                                           \
    X(LEAKY, __VA_ARGS__)                                                                          \
    X(CLIP, __VA_ARGS__)                                                                           \
    X(LOGISTIC, __VA_ARGS__) X(GELU, __VA_ARGS__) X(GELU_TANH, __VA_ARGS__)
#define SS_ACT_ENUMERATOR(name, ...) SS_FAMILY_##name,
enum ss_act_family { SS_ACT_FAMILIES(SS_ACT_ENUMERATOR, ) SS_FAMILY_COUNT };

/* Constants of a function f; with `product` the function is u f. */
struct ss_act_terms {
    enum ss_act_family family;
    int product;
    int odd;                      /* LOGISTIC: tanh */
    float low, high, alpha, beta; /* CLIP: f = alpha u + beta, clamped to [low, high] */
    float from, to;               /* CLIP: the slope is alpha between these, else 0 */
};

/* leak: LEAKY_RELU's slope below 0. Slopes at the interval ends are PyTorch's. Sources: PyTorch's
 * documentation of each function; hardswish: Howard et al. 2019, eq. for h-swish; silu: Elfwing
 * et al. 2018. */
static inline struct ss_act_terms ss_act_terms_of(enum ss_activation act, float leak)
{
    struct ss_act_terms t = {SS_FAMILY_NONE, 0, 0, 0, 1, 1.0f / 6, 0.5f, -3, 3};
    t.product = act == SS_ACT_HARDSWISH || act == SS_ACT_SILU;
    switch (act) {
    case SS_ACT_RELU:
        t.family = SS_FAMILY_RELU;
        break;
    case SS_ACT_GELU:
        t.family = SS_FAMILY_GELU;
        break;
    case SS_ACT_GELU_TANH:
        t.family = SS_FAMILY_GELU_TANH;
        break;
    case SS_ACT_RELU6:
        t.family = SS_FAMILY_CLIP;
        t.high = t.to = 6;
        t.alpha = 1;
        t.beta = t.from = 0;
        break;
    case SS_ACT_LEAKY_RELU:
        t.family = SS_FAMILY_LEAKY;
        t.low = leak;
        break;
    case SS_ACT_HARDSWISH:
    case SS_ACT_HARDSIGMOID:
        t.family = SS_FAMILY_CLIP;
        break;
    case SS_ACT_SILU:
    case SS_ACT_SIGMOID:
        t.family = SS_FAMILY_LOGISTIC;
        t.alpha = 1;
        break;
    case SS_ACT_TANH:
        t.family = SS_FAMILY_LOGISTIC;
        t.odd = 1;
        t.alpha = 2;
        break;
    case SS_ACT_NONE:
    case SS_ACT_COUNT:
        break;
    }
    return t;
}

/* Computes e^x for x <= 0, clamped at -87: 2^k in the bits of a float, times a polynomial of the
 * remainder, which is at most log(2)/2 (fitted here, to 1e-8). Adding the large number rounds to
 * an integer, whose low bits are then k plus the exponent's bias. *less: e^x - 1, without
 * cancellation for small x. */
SS_ACT_EXPRESSION float ss_act_exp_less(float x, float *less)
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
    *less = SS_FMA(power, SS_FMA(r * r, p, r), power - 1);
    return power * SS_FMA(r * r, p, 1 + r);
}
SS_ACT_EXPRESSION float ss_act_exp(float x)
{
    float less;
    return ss_act_exp_less(x, &less);
}

/* GELU (Hendrycks and Gimpel, "Gaussian error linear units", 2016) is u F(u), where F is the
 * standard normal distribution function; PyTorch's GELU(approximate="none"). Returns F; *slope:
 * its derivative. F(-|u|) is e^(-u^2/2) times a polynomial in t (fitted here, to 5e-9). */
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

/* As ss_gelu_factor, for approximate="tanh": u (1 + tanh(s / 2)) / 2 = u / (1 + e^-s), s = sqrt(8
 * / pi) (u + 0.044715 u^3). */
SS_ACT_EXPRESSION float ss_gelu_tanh_factor(float u, float *slope)
{
    const float s = u * SS_FMA(0.0713548163f * u, u, 1.59576912f);
    const float e = ss_act_exp(s < 0 ? s : -s), d = 1 / (1 + e);
    *slope = e * d * d * SS_FMA(0.214064449f * u, u, 1.59576912f);
    return s < 0 ? e * d : d;
}

/* Computes 1 / (1 + e^-u), or, if odd, tanh u = (1 - e^-2u) / (1 + e^-2u), from |u|. */
SS_ACT_EXPRESSION float ss_act_logistic(const struct ss_act_terms *t, float u, float *slope)
{
    const float s = t->alpha * u;
    float less;
    const float e = ss_act_exp_less(s < 0 ? s : -s, &less), d = 1 / (1 + e);
    const float below = t->odd ? less : e, above = t->odd ? -less : 1;
    *slope = t->alpha * t->alpha * e * d * d;
    return (s < 0 ? below : above) * d;
}

/* Computes alpha u + beta, clamped. */
SS_ACT_EXPRESSION float ss_act_clip(const struct ss_act_terms *t, float u, float *slope)
{
    const float f = SS_FMA(t->alpha, u, t->beta);
    const float inside = u > t->from ? t->alpha : 0;
    *slope = u < t->to ? inside : 0;
    const float cut = f < t->low ? t->low : f;
    return cut > t->high ? t->high : cut;
}

/* Returns the function's value. family is t's, passed separately so that it can be a constant. */
SS_ACT_EXPRESSION float ss_act_value(enum ss_act_family family, const struct ss_act_terms *t,
                                     float u)
{
    float slope, f;
    switch (family) {
    case SS_FAMILY_RELU:
        return u < 0 ? 0 : u;
    case SS_FAMILY_LEAKY:
        return u > 0 ? u : t->low * u;
    case SS_FAMILY_CLIP:
        f = ss_act_clip(t, u, &slope);
        return t->product ? u * f : f;
    case SS_FAMILY_LOGISTIC:
        f = ss_act_logistic(t, u, &slope);
        return t->product ? u * f : f;
    case SS_FAMILY_GELU:
        return u * ss_gelu_factor(u, &slope);
    case SS_FAMILY_GELU_TANH:
        return u * ss_gelu_tanh_factor(u, &slope);
    case SS_FAMILY_NONE:
    case SS_FAMILY_COUNT:
        break;
    }
    return u;
}

/* Returns the function's derivative. */
SS_ACT_EXPRESSION float ss_act_slope(enum ss_act_family family, const struct ss_act_terms *t,
                                     float u)
{
    float slope, factor;
    switch (family) {
    case SS_FAMILY_RELU:
        return u <= 0 ? 0.0f : 1.0f;
    case SS_FAMILY_LEAKY:
        return u > 0 ? 1 : t->low;
    case SS_FAMILY_CLIP:
        factor = ss_act_clip(t, u, &slope);
        return t->product ? SS_FMA(u, slope, factor) : slope;
    case SS_FAMILY_LOGISTIC:
        factor = ss_act_logistic(t, u, &slope);
        return t->product ? SS_FMA(u, slope, factor) : slope;
    case SS_FAMILY_GELU:
        factor = ss_gelu_factor(u, &slope);
        return SS_FMA(u, slope, factor);
    case SS_FAMILY_GELU_TANH:
        factor = ss_gelu_tanh_factor(u, &slope);
        return SS_FMA(u, slope, factor);
    case SS_FAMILY_NONE:
    case SS_FAMILY_COUNT:
        break;
    }
    return 1;
}

#endif
