#include "layers/class.h"

/* Output extent of a window sliding over n, or 0 when it does not fit. */
static int windows(int n, int kernel, int stride, int padding)
{
    if (kernel < 1 || stride < 1 || padding < 0 || n + 2 * padding < kernel)
        return 0;
    return (n + 2 * padding - kernel) / stride + 1;
}

ss_value ss_layer_slide(struct ss_graph *g, struct ss_layer *l, int channels, int kernel,
                        int stride, int padding)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    int h = windows(x->h, kernel, stride, padding), w = windows(x->w, kernel, stride, padding);
    if (!h || !w || channels < 1)
        return ss_graph_fail(g, SS_ERR_SHAPE,
                             "layer %d (%s): kernel %d, stride %d, padding %d, %d channels do not "
                             "fit input (%d,%d,%d)",
                             ss_graph_index(g, l), l->name, kernel, stride, padding, channels, x->c,
                             x->h, x->w);
    l->kernel = kernel;
    l->stride = stride;
    l->padding = padding;
    return ss_graph_add_value(g, l, channels, h, w);
}

void ss_layer_bias(struct ss_graph *g, struct ss_layer *l, int zero, float bound, int n)
{
    ss_graph_add_param(g, l, "bias", SS_PARAM_BIAS, zero ? SS_INIT_CONSTANT : SS_INIT_UNIFORM,
                       zero ? 0 : bound, 1, n);
}
