/* Flatten, then a fully connected layer. */
#include "layers/class.h"

#include <math.h>

static const struct ss_layer_class linear_class = {
    .name = "linear",
    .operation = "linear",
    .places = SS_AT(HEAD),
    .layout = SS_LAYOUT_PLAIN,
    .reads_x = 1,
};

ss_value ss_linear(struct ss_graph *g, ss_value x, const char *name, int outputs)
{
    struct ss_layer *l = ss_graph_add_layer(g, &linear_class, name, 1, x, -1);
    if (!l)
        return -1;
    const struct ss_value_info *v = ss_graph_value(g, x);
    int inputs = v->c * v->h * v->w;
    float bound = 1.0f / sqrtf((float)inputs), std = ss_graph_defaults(g)->linear_std;
    int normal = std > 0;
    if (outputs < 1)
        return ss_graph_fail(g, SS_ERR_SHAPE, "layer %s has %d outputs", name, outputs);
    ss_graph_add_param(g, l, "weight", SS_PARAM_WEIGHT, normal ? SS_INIT_NORMAL : SS_INIT_UNIFORM,
                       normal ? std : bound, 2, outputs, inputs);
    ss_layer_bias(g, l, normal, bound, outputs);
    return ss_graph_add_value(g, l, outputs, 1, 1);
}

void ss_linear_init(struct ss_graph *g, float std)
{
    ss_graph_defaults(g)->linear_std = std;
}
