/* Fully connected layer over the channels at each position: a 1x1 convolution, fused like
 * conv2d. */
#include "layers/list.h"

#include <math.h>

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    const float bound = 1.0f / sqrtf((float)x->c);
    l->kernel[0] = l->kernel[1] = l->groups = 1;
    ss_graph_add_param(g, l, "weight", SS_PARAM_WEIGHT, SS_INIT_UNIFORM, bound, 2, l->outputs,
                       x->c);
    if (l->bias)
        ss_layer_bias(g, l, 0, bound, l->outputs);
    return ss_layer_slide(g, l, l->outputs);
}

static const struct ss_layer_field fields[] = {
    {"out_features", SS_FIELD_INT, SS_FIELD_AT(outputs), 1, SS_MAX_CHANNELS, NAN, NULL},
    {"bias", SS_FIELD_FLAG, SS_FIELD_AT(bias), 0, 1, 1, NULL},
    {0},
};

const struct ss_layer_class ss_linear_map_class = {
    .name = "linear_map",
    .fields = fields,
    .build = build,
    SS_CONVOLUTION_BLOCK,
};

ss_value ss_linear_map(struct ss_graph *g, ss_value x, const char *name, int out_features)
{
    struct ss_layer l = ss_layer_of(&ss_linear_map_class);
    l.outputs = out_features;
    return ss_graph_add(g, &l, name, 1, &x);
}
