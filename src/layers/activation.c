/* Activation functions: one class each. */
#include "layers/list.h"

#define ACTIVATION(kind, at)                                                                       \
    .operation = "act", .places = (at), .behind = SS_AT(DROP), .reads_x = 1, .needs_dx = 1,        \
    .reads_parts = SS_AT(ACT), .writes_parts = SS_AT(ACT), .act = (kind)

/* See norm_act_forward in kernels/list.h for the mask format. */
static size_t mask_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                         size_t elements, size_t each)
{
    (void)l;
    (void)n;
    return (size_t)y->c * each % 16 ? elements : elements * each / 16;
}

/* The gradient follows from the sign of y, so ReLU may also follow an addition. */
const struct ss_layer_class ss_relu_class = {
    .name = "relu",
    ACTIVATION(SS_ACT_RELU, SS_AT(ACT) | SS_AT(OUT)),
    .workspace = {.name = "mask", .bytes = mask_bytes, .devices_at = SS_AT(OUT)},
};
const struct ss_layer_class ss_gelu_class = {.name = "gelu", ACTIVATION(SS_ACT_GELU, SS_AT(ACT))};
const struct ss_layer_class ss_relu6_class = {.name = "relu6",
                                              ACTIVATION(SS_ACT_RELU6, SS_AT(ACT))};
static const struct ss_layer_field leaky_fields[] = {
    {"slope", SS_FIELD_REAL, SS_FIELD_AT(slope), -1e6, 1e6, 0.01, NULL},
    {0},
};
const struct ss_layer_class ss_leaky_relu_class = {
    .name = "leaky_relu", .fields = leaky_fields, ACTIVATION(SS_ACT_LEAKY_RELU, SS_AT(ACT))};
const struct ss_layer_class ss_silu_class = {.name = "silu", ACTIVATION(SS_ACT_SILU, SS_AT(ACT))};
const struct ss_layer_class ss_hardswish_class = {.name = "hardswish",
                                                  ACTIVATION(SS_ACT_HARDSWISH, SS_AT(ACT))};
const struct ss_layer_class ss_sigmoid_class = {.name = "sigmoid",
                                                ACTIVATION(SS_ACT_SIGMOID, SS_AT(ACT))};
const struct ss_layer_class ss_hardsigmoid_class = {.name = "hardsigmoid",
                                                    ACTIVATION(SS_ACT_HARDSIGMOID, SS_AT(ACT))};
const struct ss_layer_class ss_tanh_class = {.name = "tanh", ACTIVATION(SS_ACT_TANH, SS_AT(ACT))};
const struct ss_layer_class ss_gelu_tanh_class = {.name = "gelu_tanh",
                                                  ACTIVATION(SS_ACT_GELU_TANH, SS_AT(ACT))};

static ss_value add(struct ss_graph *g, ss_value x, const struct ss_layer_class *cls)
{
    const struct ss_layer l = ss_layer_of(cls);
    return ss_graph_add(g, &l, "", 1, &x);
}

ss_value ss_relu(struct ss_graph *g, ss_value x)
{
    return add(g, x, &ss_relu_class);
}

ss_value ss_gelu(struct ss_graph *g, ss_value x, int tanh)
{
    return add(g, x, tanh ? &ss_gelu_tanh_class : &ss_gelu_class);
}

ss_value ss_relu6(struct ss_graph *g, ss_value x)
{
    return add(g, x, &ss_relu6_class);
}

ss_value ss_silu(struct ss_graph *g, ss_value x)
{
    return add(g, x, &ss_silu_class);
}

ss_value ss_hardswish(struct ss_graph *g, ss_value x)
{
    return add(g, x, &ss_hardswish_class);
}

ss_value ss_sigmoid(struct ss_graph *g, ss_value x)
{
    return add(g, x, &ss_sigmoid_class);
}

ss_value ss_hardsigmoid(struct ss_graph *g, ss_value x)
{
    return add(g, x, &ss_hardsigmoid_class);
}

ss_value ss_tanh(struct ss_graph *g, ss_value x)
{
    return add(g, x, &ss_tanh_class);
}

ss_value ss_leaky_relu(struct ss_graph *g, ss_value x, float slope)
{
    struct ss_layer l = ss_layer_of(&ss_leaky_relu_class);
    l.slope = slope;
    return ss_graph_add(g, &l, "", 1, &x);
}
