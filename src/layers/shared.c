#include "layers/class.h"

#include <stdint.h>

int ss_layer_windows(int n, int kernel, int stride, int padding, int dilation)
{
    const int64_t reach = (int64_t)dilation * (kernel - 1) + 1, padded = (int64_t)n + 2 * padding;
    if (kernel < 1 || stride < 1 || padding < 0 || dilation < 1 || padded < reach)
        return 0;
    return (int)((padded - reach) / stride + 1);
}

ss_value ss_layer_slide(struct ss_graph *g, struct ss_layer *l, int channels)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    int h = ss_layer_windows(x->h, l->kernel[0], l->stride[0], l->padding[0], l->dilation[0]);
    int w = ss_layer_windows(x->w, l->kernel[1], l->stride[1], l->padding[1], l->dilation[1]);
    if (!h || !w || channels < 1)
        return ss_graph_fail(
            g, SS_ERR_SHAPE,
            "layer %d (%s): kernel %dx%d, stride %dx%d, padding %dx%d, %d channels "
            "do not fit input (%d,%d,%d)",
            ss_graph_index(g, l), l->name, l->kernel[0], l->kernel[1], l->stride[0], l->stride[1],
            l->padding[0], l->padding[1], channels, x->c, x->h, x->w);
    return ss_graph_add_value(g, l, channels, h, w);
}

int ss_layer_of_channels(const struct ss_layer *l)
{
    (void)l;
    return 1;
}

int ss_layer_of_one_group(const struct ss_layer *l)
{
    return l->groups == 1;
}

void ss_layer_bias(struct ss_graph *g, struct ss_layer *l, int zero, float bound, int n)
{
    ss_graph_add_param(g, l, "bias", SS_PARAM_BIAS, zero ? SS_INIT_CONSTANT : SS_INIT_UNIFORM,
                       zero ? 0 : bound, 1, n);
}
