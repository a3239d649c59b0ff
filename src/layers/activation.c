/* Activation functions: one class each. */
#include "layers/class.h"

#define ACTIVATION(kind, at)                                                                       \
    .operation = "act", .places = (at), .behind = SS_AT(DROP), .reads_x = 1, .needs_dx = 1,        \
    .act = (kind)

/* A bit an element: norm_act_forward in kernels/list.h. */
static size_t mask_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                         size_t elements, size_t each)
{
    (void)l;
    (void)n;
    return (size_t)y->c * each % 16 ? elements : elements * each / 16;
}

/* Its gradient follows from the sign of y, so that it may stand behind an addition. */
static const struct ss_layer_class relu_class = {
    .name = "relu",
    ACTIVATION(SS_ACT_RELU, SS_AT(ACT) | SS_AT(OUT)),
    .workspace = {.name = "mask", .bytes = mask_bytes, .devices_at = SS_AT(OUT)},
};
static const struct ss_layer_class gelu_class = {
    .name = "gelu", ACTIVATION(SS_ACT_GELU, SS_AT(ACT))};
static const struct ss_layer_class gelu_tanh_class = {
    .name = "gelu_tanh", ACTIVATION(SS_ACT_GELU_TANH, SS_AT(ACT))};

ss_value ss_relu(struct ss_graph *g, ss_value x)
{
    return ss_graph_add_same(g, ss_graph_add_layer(g, &relu_class, "", 1, x, -1));
}

ss_value ss_gelu(struct ss_graph *g, ss_value x, int tanh)
{
    return ss_graph_add_same(
        g, ss_graph_add_layer(g, tanh ? &gelu_tanh_class : &gelu_class, "", 1, x, -1));
}
