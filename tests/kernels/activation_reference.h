/* activation_reference.h: activation functions in double precision, for CPU and GPU tests. */
#ifndef SS_TESTS_ACTIVATION_REFERENCE_H
#define SS_TESTS_ACTIVATION_REFERENCE_H

#include "core/activation.h"

#include <math.h>

/* Negative slope of LEAKY_RELU in these tests. */
#define ACT_LEAK 0.125

static inline double gelu_inner(double u)
{
    return sqrt(2 / M_PI) * (u + 0.044715 * u * u * u);
}
static inline double act_clip(double u, double low, double high)
{
    return fmin(fmax(u, low), high);
}

static inline double act_value(enum ss_activation kind, double u)
{
    switch (kind) {
    case SS_ACT_RELU:
        return fmax(u, 0);
    case SS_ACT_GELU:
        return u * erfc(-u / sqrt(2)) / 2;
    case SS_ACT_GELU_TANH:
        return u * (1 + tanh(gelu_inner(u))) / 2;
    case SS_ACT_RELU6:
        return act_clip(u, 0, 6);
    case SS_ACT_LEAKY_RELU:
        return u > 0 ? u : ACT_LEAK * u;
    case SS_ACT_SILU:
        return u / (1 + exp(-u));
    case SS_ACT_HARDSWISH:
        return u * act_clip(u + 3, 0, 6) / 6;
    case SS_ACT_SIGMOID:
        return 1 / (1 + exp(-u));
    case SS_ACT_HARDSIGMOID:
        return act_clip(u + 3, 0, 6) / 6;
    case SS_ACT_TANH:
        return tanh(u);
    case SS_ACT_NONE:
    case SS_ACT_COUNT:
        break;
    }
    return u;
}

static inline double act_slope(enum ss_activation kind, double u)
{
    const double t = tanh(gelu_inner(u)), f = 1 / (1 + exp(-u));
    switch (kind) {
    case SS_ACT_RELU:
        return u > 0;
    case SS_ACT_GELU:
        return erfc(-u / sqrt(2)) / 2 + u * exp(-u * u / 2) / sqrt(2 * M_PI);
    case SS_ACT_GELU_TANH:
        return (1 + t) / 2 + u / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * u * u);
    case SS_ACT_RELU6:
        return u > 0 && u < 6;
    case SS_ACT_LEAKY_RELU:
        return u > 0 ? 1 : ACT_LEAK;
    case SS_ACT_SILU:
        return f * (1 + u * (1 - f));
    case SS_ACT_HARDSWISH:
        return u <= -3 ? 0 : u < 3 ? u / 3 + 0.5 : 1;
    case SS_ACT_SIGMOID:
        return f * (1 - f);
    case SS_ACT_HARDSIGMOID:
        return u > -3 && u < 3 ? 1.0 / 6 : 0;
    case SS_ACT_TANH:
        return 1 / cosh(u) / cosh(u);
    case SS_ACT_NONE:
    case SS_ACT_COUNT:
        break;
    }
    return 1;
}

/* Returns the distance of u from the nearest kink. */
static inline double act_from_kink(enum ss_activation kind, double u)
{
    return kind == SS_ACT_RELU || kind == SS_ACT_LEAKY_RELU         ? fabs(u)
           : kind == SS_ACT_RELU6                                   ? fmin(fabs(u), fabs(u - 6))
           : kind == SS_ACT_HARDSWISH || kind == SS_ACT_HARDSIGMOID ? fabs(fabs(u) - 3)
                                                                    : INFINITY;
}

/* Values and slopes at the kinks from PyTorch 2.15's autograd on a CPU, in fp32, made by
 *   x = torch.tensor([at], requires_grad=True); y = f(x); y.backward()  ->  y, x.grad
 * with f from torch.nn.functional, leaky_relu(x, 0.125). */
static const struct {
    enum ss_activation kind;
    float at, value, slope;
} act_kinks[] = {
    {SS_ACT_RELU, 0, 0, 0},
    {SS_ACT_RELU, -0.0f, 0, 0},
    {SS_ACT_RELU6, 0, 0, 0},
    {SS_ACT_RELU6, 6, 6, 0},
    {SS_ACT_RELU6, 0x1.7ffffep2f, 0x1.7ffffep2f, 1},
    {SS_ACT_RELU6, 1e-30f, 1e-30f, 1},
    {SS_ACT_RELU6, INFINITY, 6, 0},
    {SS_ACT_RELU6, -INFINITY, 0, 0},
    {SS_ACT_LEAKY_RELU, 0, 0, 0.125f},
    {SS_ACT_LEAKY_RELU, 1e-30f, 1e-30f, 1},
    {SS_ACT_LEAKY_RELU, INFINITY, INFINITY, 1},
    {SS_ACT_LEAKY_RELU, -INFINITY, -INFINITY, 0.125f},
    {SS_ACT_HARDSWISH, -3, 0, 0},
    {SS_ACT_HARDSWISH, 0, 0, 0.5f},
    {SS_ACT_HARDSWISH, 3, 3, 1},
    {SS_ACT_HARDSWISH, INFINITY, INFINITY, 1},
    {SS_ACT_HARDSIGMOID, -3, 0, 0},
    {SS_ACT_HARDSIGMOID, 3, 1, 0},
    {SS_ACT_HARDSIGMOID, INFINITY, 1, 0},
    {SS_ACT_HARDSIGMOID, -INFINITY, 0, 0},
    {SS_ACT_SIGMOID, 0, 0.5f, 0.25f},
    {SS_ACT_SIGMOID, INFINITY, 1, 0},
    {SS_ACT_SIGMOID, -INFINITY, 0, 0},
    {SS_ACT_TANH, 0, 0, 1},
    {SS_ACT_TANH, INFINITY, 1, 0},
    {SS_ACT_TANH, -INFINITY, -1, 0},
    {SS_ACT_SILU, 0, 0, 0.5f},
};
enum { ACT_KINKS = sizeof act_kinks / sizeof act_kinks[0] };

#endif
