/* Flatten, then a fully connected layer. */
#include "layers/list.h"

#include <math.h>

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    const int inputs = x->c * x->h * x->w, normal = l->init_std > 0;
    const float bound = 1.0f / sqrtf((float)inputs);
    if (l->outputs < 1)
        return ss_graph_fail(g, SS_ERR_SHAPE, "layer %s has %d outputs", l->name, l->outputs);
    ss_graph_add_param(g, l, "weight", SS_PARAM_WEIGHT, normal ? SS_INIT_NORMAL : SS_INIT_UNIFORM,
                       normal ? l->init_std : bound, 2, l->outputs, inputs);
    if (l->bias)
        ss_layer_bias(g, l, normal, bound, l->outputs);
    return ss_graph_add_value(g, l, l->outputs, 1, 1);
}

static const struct ss_layer_field fields[] = {
    {"out_features", SS_FIELD_INT, SS_FIELD_AT(outputs), 1, SS_MAX_CHANNELS, NAN, NULL},
    {"bias", SS_FIELD_FLAG, SS_FIELD_AT(bias), 0, 1, 1, NULL},
    {"init_std", SS_FIELD_REAL, SS_FIELD_AT(init_std), 0, 1e6, 0, NULL},
    {0},
};

const struct ss_layer_class ss_linear_class = {
    .name = "linear",
    .fields = fields,
    .build = build,
    .operation = "linear",
    .places = SS_AT(HEAD),
    .layout = SS_LAYOUT_PLAIN,
    .reads_x = 1,
};

ss_value ss_linear(struct ss_graph *g, ss_value x, const char *name, int outputs)
{
    struct ss_layer l = ss_layer_of(&ss_linear_class);
    l.outputs = outputs;
    l.init_std = ss_graph_defaults(g)->linear_std;
    return ss_graph_add(g, &l, name, 1, &x);
}

void ss_linear_init(struct ss_graph *g, float std)
{
    ss_graph_defaults(g)->linear_std = std;
}
