/* List of layer kinds for models, one per line. */
#ifndef SS_LAYERS_LIST_H
#define SS_LAYERS_LIST_H

#include "layers/class.h"

#define SS_LAYER_CLASSES(CLASS)                                                                    \
    CLASS(conv2d)                                                                                  \
    CLASS(linear_map)                                                                              \
    CLASS(linear)                                                                                  \
    CLASS(batchnorm2d)                                                                             \
    CLASS(groupnorm)                                                                               \
    CLASS(layernorm)                                                                               \
    CLASS(tokens)                                                                                  \
    CLASS(token)                                                                                   \
    CLASS(attention)                                                                               \
    CLASS(relu)                                                                                    \
    CLASS(gelu)                                                                                    \
    CLASS(gelu_tanh)                                                                               \
    CLASS(relu6)                                                                                   \
    CLASS(leaky_relu)                                                                              \
    CLASS(silu)                                                                                    \
    CLASS(hardswish)                                                                               \
    CLASS(sigmoid)                                                                                 \
    CLASS(hardsigmoid)                                                                             \
    CLASS(tanh)                                                                                    \
    CLASS(dropout)                                                                                 \
    CLASS(stochastic_depth)                                                                        \
    CLASS(add)                                                                                     \
    CLASS(mul)                                                                                     \
    CLASS(scale)                                                                                   \
    CLASS(concat)                                                                                  \
    CLASS(slice)                                                                                   \
    CLASS(shuffle)                                                                                 \
    CLASS(flatten)                                                                                 \
    CLASS(detach)                                                                                  \
    CLASS(repack)                                                                                  \
    CLASS(maxpool2d)                                                                               \
    CLASS(adaptive_avgpool2d)                                                                      \
    CLASS(avgpool2d)                                                                               \
    CLASS(global_avgpool2d)

#define SS_LAYER_CLASS(name) extern const struct ss_layer_class ss_##name##_class;
SS_LAYER_CLASSES(SS_LAYER_CLASS)
#undef SS_LAYER_CLASS

/* All classes, NULL-terminated. */
extern const struct ss_layer_class *const ss_layer_classes[];

#endif
