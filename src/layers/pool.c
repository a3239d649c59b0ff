/* Max and average pooling. */
#include "layers/class.h"

/* Kernels fuse windows that neither overlap nor leave the map. */
static int joins(const struct ss_layer *l)
{
    return l->kernel == l->stride && !l->padding && l->kernel > 1 && l->kernel <= 16;
}

/* One an output: a byte while the window has at most 256 places. */
static size_t argmax_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                           size_t elements, size_t each)
{
    (void)each;
    (void)y;
    (void)n;
    return elements * (l->kernel <= 16 ? 1 : 4);
}

static const struct ss_layer_class maxpool2d_class = {
    .name = "maxpool2d",
    .operation = "maxpool",
    .places = SS_AT(HEAD) | SS_AT(POOL),
    .joins = joins,
    .workspace = {.name = "argmax", .bytes = argmax_bytes},
};

static const struct ss_layer_class avgpool2d_class = {
    .name = "avgpool2d",
    .operation = "avgpool",
    .places = SS_AT(HEAD),
};

ss_value ss_maxpool2d(struct ss_graph *g, ss_value x, int kernel, int stride, int padding)
{
    struct ss_layer *l = ss_graph_add_layer(g, &maxpool2d_class, "", 1, x, -1);
    return l ? ss_layer_slide(g, l, ss_graph_value(g, x)->c, kernel, stride, padding) : -1;
}

ss_value ss_avgpool2d(struct ss_graph *g, ss_value x, int kernel, int stride)
{
    struct ss_layer *l = ss_graph_add_layer(g, &avgpool2d_class, "", 1, x, -1);
    return l ? ss_layer_slide(g, l, ss_graph_value(g, x)->c, kernel, stride, 0) : -1;
}

ss_value ss_global_avgpool2d(struct ss_graph *g, ss_value x)
{
    struct ss_layer *l = ss_graph_add_layer(g, &avgpool2d_class, "", 1, x, -1);
    if (!l)
        return -1;
    const struct ss_value_info *v = ss_graph_value(g, x);
    if (v->h != v->w)
        return ss_graph_fail(
            g, SS_ERR_SHAPE,
            "the mean over a map of (%d,%d,%d), which is not square; use square images", v->c, v->h,
            v->w);
    return ss_layer_slide(g, l, v->c, v->h, v->h, 0);
}
