/* Activation functions and dropout modes. The math is in kernels/activation.h, the layers in
 * layers/activation.c. */
#ifndef SS_CORE_ACTIVATION_H
#define SS_CORE_ACTIVATION_H

/* PyTorch's functions of the same names. LEAKY_RELU has a parameter, the slope for negative
 * inputs. */
enum ss_activation {
    SS_ACT_NONE,
    SS_ACT_RELU,
    SS_ACT_GELU,
    SS_ACT_GELU_TANH,
    SS_ACT_RELU6,
    SS_ACT_LEAKY_RELU,
    SS_ACT_SILU,
    SS_ACT_HARDSWISH,
    SS_ACT_SIGMOID,
    SS_ACT_HARDSIGMOID,
    SS_ACT_TANH,
    SS_ACT_COUNT
};

/* None and ReLU: the gradient needs only a comparison. */
static inline int ss_act_compares(enum ss_activation act)
{
    return act == SS_ACT_NONE || act == SS_ACT_RELU;
}
/* f(0) = 0: padding channels stay zero without a mask. */
static inline int ss_act_keeps_zero(enum ss_activation act)
{
    return act != SS_ACT_SIGMOID && act != SS_ACT_HARDSIGMOID;
}

/* Granularity of the random draws of dropout: one per element, per sample, or per batch. The last
 * two are stochastic depth (Huang et al. 2016; torchvision's StochasticDepth, modes "row" and
 * "batch"). */
enum ss_drop { SS_DROP_ELEMENT, SS_DROP_SAMPLE, SS_DROP_BATCH };

#endif
