/* Max and average pooling. */
#include "layers/list.h"

#include <math.h>

/* Kernels fuse windows that neither overlap nor leave the map. */
static int joins(const struct ss_layer *l)
{
    return l->kernel[0] == l->kernel[1] && l->kernel[0] == l->stride[0] &&
           l->kernel[0] == l->stride[1] && !l->padding[0] && !l->padding[1] && l->kernel[0] > 1 &&
           l->kernel[0] <= 16;
}

/* One an output: a byte while the window has at most 256 places. */
static size_t argmax_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                           size_t elements, size_t each)
{
    (void)each;
    (void)y;
    (void)n;
    return elements * (l->kernel[0] * l->kernel[1] <= 256 ? 1 : 4);
}

static ss_value slide(struct ss_graph *g, struct ss_layer *l)
{
    if (l->kernel[0] != l->kernel[1] || l->stride[0] != l->stride[1] ||
        l->padding[0] != l->padding[1])
        return ss_graph_fail(g, SS_ERR_UNSUPPORTED, "layer %d: pooling with unequal sides",
                             ss_graph_index(g, l));
    return ss_layer_slide(g, l, ss_graph_value(g, l->input[0])->c);
}

/* The window is the whole map. */
static ss_value build_global(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *v = ss_graph_value(g, l->input[0]);
    if (v->h != v->w)
        return ss_graph_fail(
            g, SS_ERR_SHAPE,
            "the mean over a map of (%d,%d,%d), which is not square; use square images", v->c, v->h,
            v->w);
    l->kernel[0] = l->stride[0] = v->h;
    l->kernel[1] = l->stride[1] = v->w;
    return ss_layer_slide(g, l, v->c);
}

static const struct ss_layer_field fields[] = {
    SS_FIELD_KERNEL(NAN),
    SS_FIELD_STRIDE(NAN),
    SS_FIELD_PADDING,
    {0},
};

const struct ss_layer_class ss_maxpool2d_class = {
    .name = "maxpool2d",
    .fields = fields,
    .build = slide,
    .operation = "maxpool",
    .places = SS_AT(HEAD) | SS_AT(POOL),
    .joins = joins,
    .workspace = {.name = "argmax", .bytes = argmax_bytes},
};

const struct ss_layer_class ss_avgpool2d_class = {
    .name = "avgpool2d",
    .fields = fields,
    .build = slide,
    .operation = "avgpool",
    .places = SS_AT(HEAD),
};

const struct ss_layer_class ss_global_avgpool2d_class = {
    .name = "global_avgpool2d",
    .build = build_global,
    .operation = "avgpool",
    .places = SS_AT(HEAD),
};

static ss_value add(struct ss_graph *g, const struct ss_layer_class *cls, ss_value x, int kernel,
                    int stride, int padding)
{
    struct ss_layer l = ss_layer_of(cls);
    l.kernel[0] = l.kernel[1] = kernel;
    l.stride[0] = l.stride[1] = stride;
    l.padding[0] = l.padding[1] = padding;
    return ss_graph_add(g, &l, "", 1, &x);
}

ss_value ss_maxpool2d(struct ss_graph *g, ss_value x, int kernel, int stride, int padding)
{
    return add(g, &ss_maxpool2d_class, x, kernel, stride, padding);
}

ss_value ss_avgpool2d(struct ss_graph *g, ss_value x, int kernel, int stride)
{
    return add(g, &ss_avgpool2d_class, x, kernel, stride, 0);
}

ss_value ss_global_avgpool2d(struct ss_graph *g, ss_value x)
{
    return add(g, &ss_global_avgpool2d_class, x, 0, 0, 0);
}
