/* Activation functions and dropout. What they compute: kernels/activation.h; as layers: layers/activation.c. */
#ifndef SS_CORE_ACTIVATION_H
#define SS_CORE_ACTIVATION_H

/* PyTorch's functions of these names. LEAKY_RELU has a slope below 0, the others no parameter. */
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

/* None and ReLU: a comparison is all they need. */
static inline int ss_act_compares(enum ss_activation act)
{
    return act == SS_ACT_NONE || act == SS_ACT_RELU;
}
/* f(0) is 0, so that padding channels stay zero by themselves. */
static inline int ss_act_keeps_zero(enum ss_activation act)
{
    return act != SS_ACT_SIGMOID && act != SS_ACT_HARDSIGMOID;
}

/* What has one draw of dropout: each element, or in stochastic depth (Huang et al. 2016; torchvision's
 * StochasticDepth, modes "row" and "batch") a sample, or the whole batch. */
enum ss_drop { SS_DROP_ELEMENT, SS_DROP_SAMPLE, SS_DROP_BATCH };

#endif
