/* Convolution, and what it takes in: [norm] [activation] [dropout] [add [activation]], on devices
 * [max pool]. */
#include "layers/class.h"

#include <math.h>

static const struct ss_layer_class conv2d_class = {
    .name = "conv2d",
    .operation = "conv_bn_act",
    .places = SS_AT(HEAD),
    .behind = SS_AT(NORM) | SS_AT(ACT) | SS_AT(DROP) | SS_AT(ADD) | SS_AT(OUT) | SS_AT(POOL),
    .layout = SS_LAYOUT_CHOSEN,
    .reads_samples = 1,
    .reads_x = 1,
    .keeps_z = 1,
};

ss_value ss_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels, int kernel,
                   int stride, int padding, int bias)
{
    struct ss_layer *l = ss_graph_add_layer(g, &conv2d_class, name, 1, x, -1);
    if (!l)
        return -1;
    int in = ss_graph_value(g, x)->c;
    int normal = ss_graph_defaults(g)->conv == SS_CONV_INIT_FAN_OUT;
    float bound = 1.0f / sqrtf((float)in * kernel * kernel);
    float std = sqrtf(2.0f / ((float)out_channels * (float)kernel * (float)kernel));
    l->bias = bias;
    ss_graph_add_param(g, l, "weight", SS_PARAM_WEIGHT, normal ? SS_INIT_NORMAL : SS_INIT_UNIFORM,
                       normal ? std : bound, 4, out_channels, in, kernel, kernel);
    if (bias)
        ss_layer_bias(g, l, normal, bound, out_channels);
    return ss_layer_slide(g, l, out_channels, kernel, stride, padding);
}

void ss_conv_init(struct ss_graph *g, enum ss_conv_init_kind init)
{
    ss_graph_defaults(g)->conv = init;
}
