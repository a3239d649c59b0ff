/* activation_reference.h: activation functions in double precision, for the tests of both devices. */
#ifndef SS_TESTS_ACTIVATION_REFERENCE_H
#define SS_TESTS_ACTIVATION_REFERENCE_H

#include "core/activation.h"

#include <math.h>

static inline double gelu_inner(double u)
{
    return sqrt(2 / M_PI) * (u + 0.044715 * u * u * u);
}

static inline double act_value(enum ss_activation kind, double u)
{
    return kind == SS_ACT_RELU        ? fmax(u, 0)
           : kind == SS_ACT_GELU      ? u * erfc(-u / sqrt(2)) / 2
           : kind == SS_ACT_GELU_TANH ? u * (1 + tanh(gelu_inner(u))) / 2
                                      : u;
}

static inline double act_slope(enum ss_activation kind, double u)
{
    const double t = tanh(gelu_inner(u));
    return kind == SS_ACT_RELU ? u > 0
           : kind == SS_ACT_GELU
               ? erfc(-u / sqrt(2)) / 2 + u * exp(-u * u / 2) / sqrt(2 * M_PI)
           : kind == SS_ACT_GELU_TANH
               ? (1 + t) / 2 + u / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * u * u)
               : 1;
}

#endif
