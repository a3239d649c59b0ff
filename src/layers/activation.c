/* Activation functions: one class each. */
#include "layers/class.h"

/* Its gradient follows from the sign of y, so that it may stand behind an addition. */
static const struct ss_layer_class relu_class = {
    .name = "relu",
    .operation = "act",
    .places = SS_AT(ACT) | SS_AT(OUT),
    .behind = SS_AT(DROP),
    .reads_x = 1,
    .needs_dx = 1,
    .act = SS_ACT_RELU,
};

ss_value ss_relu(struct ss_graph *g, ss_value x)
{
    return ss_graph_add_same(g, ss_graph_add_layer(g, &relu_class, "", 1, x, -1));
}
