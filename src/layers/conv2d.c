/* Convolution, fused with [norm] [activation] [dropout] [add [activation]] and, on devices, [max
 * pool]. */
#include "layers/list.h"

#include <math.h>

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const int in = ss_graph_value(g, l->input[0])->c, out = l->outputs;
    const int places = l->kernel[0] * l->kernel[1], normal = l->init == SS_CONV_INIT_FAN_OUT;
    if (l->groups < 1 || in % l->groups || out % l->groups)
        return ss_graph_fail(g, SS_ERR_SHAPE,
                             "layer %s: %d groups; they must divide its %d inputs and %d outputs",
                             l->name, l->groups, in, out);
    const int of_group = in / l->groups;
    const float bound = 1.0f / sqrtf((float)of_group * (float)places);
    const float std = sqrtf(2.0f / ((float)out * (float)places));
    ss_graph_add_param(g, l, "weight", SS_PARAM_WEIGHT, normal ? SS_INIT_NORMAL : SS_INIT_UNIFORM,
                       normal ? std : bound, 4, out, of_group, l->kernel[0], l->kernel[1]);
    if (l->bias)
        ss_layer_bias(g, l, normal, bound, out);
    return ss_layer_slide(g, l, out);
}

static const char *const inits[] = {
    [SS_CONV_INIT_UNIFORM] = "uniform", [SS_CONV_INIT_FAN_OUT] = "fan_out", NULL};

static const struct ss_layer_field fields[] = {
    {"out_channels", SS_FIELD_INT, SS_FIELD_AT(outputs), 1, SS_MAX_CHANNELS, NAN, NULL},
    SS_FIELD_KERNEL,
    SS_FIELD_STRIDE(1),
    SS_FIELD_PADDING,
    {"dilation", SS_FIELD_PAIR, SS_FIELD_AT(dilation), 1, SS_MAX_WINDOW, 1, NULL},
    {"groups", SS_FIELD_INT, SS_FIELD_AT(groups), 1, SS_MAX_CHANNELS, 1, NULL},
    {"bias", SS_FIELD_FLAG, SS_FIELD_AT(bias), 0, 1, 1, NULL},
    {"init", SS_FIELD_WORD, SS_FIELD_AT(init), 0, 0, SS_CONV_INIT_UNIFORM, inits},
    {0},
};

const struct ss_layer_class ss_conv2d_class = {
    .name = "conv2d",
    .fields = fields,
    .build = build,
    SS_CONVOLUTION_BLOCK,
};

ss_value ss_grouped_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels,
                           int kernel, int stride, int padding, int groups, int bias)
{
    struct ss_layer l = ss_layer_of(&ss_conv2d_class);
    l.outputs = out_channels;
    l.kernel[0] = l.kernel[1] = kernel;
    l.stride[0] = l.stride[1] = stride;
    l.padding[0] = l.padding[1] = padding;
    l.groups = groups;
    l.bias = bias;
    l.init = ss_graph_defaults(g)->conv;
    return ss_graph_add(g, &l, name, 1, &x);
}

ss_value ss_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels, int kernel,
                   int stride, int padding, int bias)
{
    return ss_grouped_conv2d(g, x, name, out_channels, kernel, stride, padding, 1, bias);
}

void ss_conv_init(struct ss_graph *g, enum ss_conv_init_kind init)
{
    ss_graph_defaults(g)->conv = init;
}
