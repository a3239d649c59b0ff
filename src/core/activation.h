/* Activation functions. What they compute: kernels/activation.h; as layers: layers/activation.c. */
#ifndef SS_CORE_ACTIVATION_H
#define SS_CORE_ACTIVATION_H

/* X(NAME, ...) for each. */
#define SS_ACTIVATIONS(X, ...)                                                                     \
    X(NONE, __VA_ARGS__) X(RELU, __VA_ARGS__) X(GELU, __VA_ARGS__) X(GELU_TANH, __VA_ARGS__)

#define SS_ACT_ENUMERATOR(name, ...) SS_ACT_##name,
enum ss_activation { SS_ACTIVATIONS(SS_ACT_ENUMERATOR, ) SS_ACT_COUNT };

/* None and ReLU: a comparison is all they need. */
static inline int ss_act_compares(enum ss_activation act)
{
    return act == SS_ACT_NONE || act == SS_ACT_RELU;
}

#endif
