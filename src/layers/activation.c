/* Activation functions: one class each. */
#include "layers/list.h"

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
const struct ss_layer_class ss_relu_class = {
    .name = "relu",
    ACTIVATION(SS_ACT_RELU, SS_AT(ACT) | SS_AT(OUT)),
    .workspace = {.name = "mask", .bytes = mask_bytes, .devices_at = SS_AT(OUT)},
};
const struct ss_layer_class ss_gelu_class = {.name = "gelu", ACTIVATION(SS_ACT_GELU, SS_AT(ACT))};
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
