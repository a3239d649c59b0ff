/* Max and average pooling. */
#include "layers/list.h"

#include <math.h>
#include <stdint.h>

/* Kernels can fuse windows that neither overlap nor leave the feature map. */
static int joins(const struct ss_layer *l)
{
    return l->kernel[0] == l->kernel[1] && l->kernel[0] == l->stride[0] &&
           l->kernel[0] == l->stride[1] && !l->padding[0] && !l->padding[1] && l->kernel[0] > 1 &&
           l->kernel[0] <= 16 && !l->ceil_mode;
}

/* One index per output: one byte if the window has at most 256 positions, otherwise four. */
static size_t argmax_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                           size_t elements, size_t each)
{
    (void)each;
    (void)y;
    (void)n;
    return elements * (l->kernel[0] * l->kernel[1] <= 256 ? 1 : 4);
}

/* Number of windows along an axis of n values; 0: the window does not fit. PyTorch's
 * pooling_output_shape. */
static int windows(const struct ss_layer *l, int axis, int n)
{
    const int64_t stride = l->stride[axis], pad = l->padding[axis],
                  last = n + 2 * pad - l->kernel[axis] + (l->ceil_mode ? stride - 1 : 0);
    const int fits = l->kernel[axis] > 0 && stride > 0 && pad >= 0 && last >= 0;
    const int64_t count = fits ? last / stride + 1 : 0;
    return (int)(count && (count - 1) * stride >= n + pad ? count - 1 : count);
}

static ss_value slide(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *v = ss_graph_value(g, l->input[0]);
    const int h = windows(l, 0, v->h), w = windows(l, 1, v->w);
    for (int a = 0; a < 2; a++)
        if (l->padding[a] > l->kernel[a] / 2)
            return ss_graph_fail(g, SS_ERR_SHAPE,
                                 "layer %d (%s): padding %d is more than half the kernel, %d",
                                 ss_graph_index(g, l), l->cls->name, l->padding[a], l->kernel[a]);
    if (!h || !w)
        return ss_layer_slide(g, l, v->c); /* reports the error */
    return ss_graph_add_value(g, l, v->c, h, w);
}

static ss_value build_global(struct ss_graph *g, struct ss_layer *l)
{
    return ss_graph_add_value(g, l, ss_graph_value(g, l->input[0])->c, 1, 1);
}

static ss_value build_adaptive(struct ss_graph *g, struct ss_layer *l)
{
    return ss_graph_add_value(g, l, ss_graph_value(g, l->input[0])->c, l->size[0], l->size[1]);
}

static const struct ss_layer_field fields[] = {
    SS_FIELD_KERNEL,
    SS_FIELD_STRIDE(NAN),
    SS_FIELD_PADDING,
    {"ceil_mode", SS_FIELD_FLAG, SS_FIELD_AT(ceil_mode), 0, 1, 0, NULL},
    {0},
};
static const struct ss_layer_field avg_fields[] = {
    SS_FIELD_KERNEL,
    SS_FIELD_STRIDE(NAN),
    SS_FIELD_PADDING,
    {"ceil_mode", SS_FIELD_FLAG, SS_FIELD_AT(ceil_mode), 0, 1, 0, NULL},
    {"count_include_pad", SS_FIELD_FLAG, SS_FIELD_AT(count_include_pad), 0, 1, 1, NULL},
    {0},
};
static const struct ss_layer_field adaptive_fields[] = {
    {"size", SS_FIELD_PAIR, SS_FIELD_AT(size), 1, SS_MAX_SIDE, NAN, NULL},
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
    .fields = avg_fields,
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

const struct ss_layer_class ss_adaptive_avgpool2d_class = {
    .name = "adaptive_avgpool2d",
    .fields = adaptive_fields,
    .build = build_adaptive,
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

ss_value ss_adaptive_avgpool2d(struct ss_graph *g, ss_value x, int height, int width)
{
    struct ss_layer l = ss_layer_of(&ss_adaptive_avgpool2d_class);
    l.size[0] = height;
    l.size[1] = width;
    return ss_graph_add(g, &l, "", 1, &x);
}
