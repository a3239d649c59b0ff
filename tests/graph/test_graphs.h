/* test_graphs.h: small hand-written models for the tests of plans and executors. Together they
 * use every layer kind, every fusion, and values with several readers. */
#ifndef SS_TESTS_TEST_GRAPHS_H
#define SS_TESTS_TEST_GRAPHS_H

#include "graph/graph.h"
#include "layers/list.h"

#include <stdio.h>

enum { TEST_CLASSES = 5, TEST_SIDE = 8 };

static inline ss_value conv_bn(struct ss_graph *g, ss_value x, const char *conv, const char *bn,
                               int channels, int kernel, int stride)
{
    x = ss_conv2d(g, x, conv, channels, kernel, stride, kernel / 2, 0);
    return ss_batchnorm2d(g, x, bn);
}

/* A ResNet block: addition, then ReLU, and a strided 1x1 shortcut. */
static inline void build_resnet(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_relu(g, conv_bn(g, x, "stem", "stem_bn", 6, 3, 1));
    ss_value y = ss_relu(g, conv_bn(g, x, "conv1", "bn1", 18, 3, 2));
    y = conv_bn(g, y, "conv2", "bn2", 18, 3, 1);
    ss_value shortcut = conv_bn(g, x, "down", "down_bn", 18, 1, 2);
    x = ss_relu(g, ss_add(g, y, shortcut));
    /* An identity block follows: its shortcut is its input. */
    y = ss_relu(g, conv_bn(g, x, "conv3", "bn3", 18, 3, 1));
    y = conv_bn(g, y, "conv4", "bn4", 18, 3, 1);
    x = ss_relu(g, ss_add(g, y, x));
    x = ss_avgpool2d(g, x, 4, 4);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

/* VGG and a multi-layer perceptron: no normalization, biases, consecutive linear layers. */
static inline void build_chain(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_relu(g, ss_conv2d(g, x, "conv1", 7, 3, 1, 1, 1));
    x = ss_maxpool2d(g, x, 2, 2, 0);
    x = ss_dropout(g, ss_relu(g, ss_conv2d(g, x, "conv2", 17, 3, 1, 0, 1)), 0.25f);
    x = ss_relu(g, ss_linear(g, x, "fc1", 19));
    x = ss_dropout(g, x, 0.5f);
    x = ss_relu(g, ss_linear(g, x, "fc2", 11));
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc3", TEST_CLASSES));
}

/* Layers that are not fused: additions of bare convolutions, BatchNorm and dropout after a pool,
 * ReLU before a convolution. */
static inline void build_bare(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    ss_value a = ss_conv2d(g, x, "a", 9, 3, 1, 1, 1), b = ss_conv2d(g, x, "b", 9, 1, 1, 0, 0);
    x = ss_add(g, a, b);
    x = ss_maxpool2d(g, x, 3, 2, 1);
    x = ss_batchnorm2d(g, x, "bn");
    ss_value pre = ss_relu(g, x);
    ss_value y = ss_conv2d(g, pre, "c", 9, 3, 1, 1, 0);
    x = ss_add(g, x, y); /* pre-activation shortcut: around the ReLU */
    x = ss_relu(g, ss_add(g, x, x));
    x = ss_avgpool2d(g, x, 2, 2);
    x = ss_dropout(g, x, 0.25f);
    x = ss_relu(g, ss_batchnorm2d(g, x, "bn2"));
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

/* A value with four readers, one of them an addition. */
static inline void build_fan(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_relu(g, conv_bn(g, x, "stem", "stem_bn", 8, 3, 1));
    ss_value a = ss_relu(g, conv_bn(g, x, "a", "a_bn", 8, 3, 1));
    ss_value b = ss_conv2d(g, x, "b", 8, 1, 1, 0, 1);
    ss_value c = ss_dropout(g, ss_conv2d(g, x, "c", 8, 3, 1, 1, 0), 0.1f);
    x = ss_add(g, ss_add(g, a, b), ss_add(g, c, x));
    x = ss_avgpool2d(g, x, 7, 7); /* ignores the last row and column */
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

/* Group normalization with and without ReLU, a partial block of channels, one and two readers.
 * PyTorch version: tests/reference/record_small.py. */
static inline void build_groups(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_conv2d(g, x, "conv1", 12, 3, 1, 1, 1);
    x = ss_relu(g, ss_groupnorm(g, x, "norm1", 3));
    ss_value y = ss_groupnorm(g, ss_conv2d(g, x, "conv2", 12, 3, 1, 1, 0), "norm2", 4);
    x = ss_avgpool2d(g, ss_relu(g, ss_add(g, y, x)), 2, 2);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

/* GELU in both forms, after a convolution, a normalization, an addition and a linear layer.
 * PyTorch version: tests/reference/record_small.py. */
static inline void build_gelus(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_gelu(g, ss_conv2d(g, x, "conv1", 12, 3, 1, 1, 1), 0);
    ss_value y = ss_groupnorm(g, ss_conv2d(g, x, "conv2", 12, 3, 1, 1, 0), "norm2", 4);
    x = ss_avgpool2d(g, ss_gelu(g, ss_add(g, ss_gelu(g, y, 1), x), 0), 2, 2);
    x = ss_gelu(g, ss_linear(g, x, "fc1", 20), 1);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc2", TEST_CLASSES));
}

/* Channels that begin in the middle of blocks: concatenations, one of which extends another, a
 * shuffle, slices, products of both kinds, a parameter for each channel; ends like SqueezeNet.
 * PyTorch version: tests/reference/record_small.py. */
static inline void build_join(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_groupnorm(g, ss_conv2d(g, x, "stem", 12, 3, 1, 1, 1), "stem_norm", 3);
    ss_value stem = ss_gelu(g, x, 0);
    ss_value a = ss_gelu(g, ss_conv2d(g, stem, "a", 20, 1, 1, 0, 1), 0);
    x = ss_concat(g, (const ss_value[]){stem, a}, 2);
    ss_value b = ss_conv2d(g, x, "b", 5, 3, 1, 1, 1);
    x = ss_shuffle(g, ss_concat(g, (const ss_value[]){stem, a, b, a, b}, 5), 2);
    ss_value left = ss_gelu(g, ss_conv2d(g, ss_slice(g, x, 0, 31), "c", 31, 3, 2, 1, 1), 0);
    ss_value right = ss_conv2d(g, ss_slice(g, x, 31, 62), "d", 31, 1, 2, 0, 1);
    ss_value y = ss_mul(g, left, right);
    ss_value s = ss_gelu(g, ss_conv2d(g, ss_global_avgpool2d(g, y), "fc1", 4, 1, 1, 0, 1), 0);
    y = ss_mul(g, y, ss_conv2d(g, s, "fc2", 31, 1, 1, 0, 1));
    y = ss_add(g, ss_scale(g, y, "gamma", 3), left);
    y = ss_conv2d(g, ss_gelu(g, y, 0), "classes", TEST_CLASSES, 1, 1, 0, 1);
    ss_softmax_cross_entropy(g, ss_flatten(g, ss_global_avgpool2d(g, y)));
}

/* Values with 7 and with 30 readers, too many to sum their gradients in a single task. PyTorch
 * version: tests/reference/record_small.py. */
static inline void build_readers(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE), many[30];
    x = ss_gelu(g, ss_conv2d(g, x, "stem", 8, 3, 2, 1, 1), 0);
    ss_value sum = ss_add(g, x, x);
    for (int i = 0; i < 5; i++)
        sum = ss_add(g, sum, x);
    x = ss_gelu(g, ss_conv2d(g, sum, "a", 6, 1, 1, 0, 1), 0);
    for (int i = 0; i < 30; i++)
        many[i] = x;
    x = ss_gelu(g, ss_conv2d(g, ss_concat(g, many, 30), "b", 7, 1, 1, 0, 1), 0);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

/* A transformer like ViT, with partial blocks of channels and heads, after a normalized map.
 * PyTorch version: tests/reference/record_small.py. */
static inline void build_vit(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE), y;
    x = ss_layernorm(g, ss_conv2d(g, x, "patch", 12, 2, 2, 0, 1), "norm0", 1e-6f);
    x = ss_tokens(g, x, "tokens", 1, 1);
    y = ss_layernorm(g, x, "norm1", 1e-6f);
    y = ss_attention(g, ss_conv2d(g, y, "qkv", 36, 1, 1, 0, 1), 3);
    x = ss_add(g, ss_conv2d(g, y, "proj", 12, 1, 1, 0, 1), x);
    y = ss_layernorm(g, x, "norm2", 1e-6f);
    y = ss_gelu(g, ss_conv2d(g, y, "mlp1", 20, 1, 1, 0, 1), 0);
    x = ss_add(g, ss_conv2d(g, y, "mlp2", 12, 1, 1, 0, 1), x);
    x = ss_token(g, ss_layernorm(g, x, "norm3", 1e-6f), 0);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

/* The other activations, fused and separate, of partial channel blocks and of flat values;
 * stochastic depth after a convolution, after a pool and of flat values. */
static inline void build_curves(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_silu(g, conv_bn(g, x, "stem", "stem_bn", 20, 3, 1));
    ss_value y = ss_hardswish(g, ss_conv2d(g, x, "a", 12, 3, 1, 1, 1));
    y = ss_stochastic_depth(g, conv_bn(g, y, "b", "b_bn", 20, 1, 1), 0.4f, 0);
    x = ss_relu6(g, ss_add(g, y, x));
    y = ss_sigmoid(g, ss_groupnorm(g, ss_conv2d(g, x, "c", 20, 1, 1, 0, 0), "c_norm", 4));
    y = ss_stochastic_depth(g, ss_leaky_relu(g, ss_maxpool2d(g, y, 3, 1, 1), 0.2f), 0.02f, 1);
    x = ss_avgpool2d(g, ss_add(g, y, x), 2, 2);
    x = ss_hardsigmoid(g, ss_conv2d(g, x, "d", 11, 3, 1, 0, 1));
    x = ss_tanh(g, ss_linear(g, x, "fc1", 19));
    x = ss_stochastic_depth(g, ss_sigmoid(g, ss_linear(g, x, "fc2", 13)), 0.2f, 0);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc3", TEST_CLASSES));
}

/* Layers that read the images directly: BatchNorm, a pool, a linear layer. */
static inline void build_front(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    ss_value a = ss_batchnorm2d(g, x, "bn");
    a = ss_relu(g, ss_conv2d(g, a, "a", 7, 3, 2, 1, 1));
    ss_value b = ss_conv2d(g, ss_avgpool2d(g, x, 2, 2), "b", 7, 3, 1, 1, 1);
    ss_value c = ss_conv2d(g, ss_maxpool2d(g, x, 2, 2, 0), "c", 7, 1, 1, 0, 0);
    ss_value d = ss_relu(g, ss_linear(g, x, "d", 13));
    ss_value y = ss_linear(g, ss_add(g, ss_add(g, a, b), c), "e", 13);
    ss_softmax_cross_entropy(g, ss_linear(g, ss_add(g, d, y), "fc", TEST_CLASSES));
}

/* More of them, and additions of values with different layouts: images, maps, flat ones. */
static inline void build_images(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    ss_value a = ss_add(g, ss_conv2d(g, x, "a", 3, 3, 1, 1, 1), x);
    ss_value b = ss_add(g, ss_batchnorm2d(g, x, "bn"), x);
    ss_value c = ss_mul(g, x, ss_avgpool2d(g, x, TEST_SIDE, TEST_SIDE));
    ss_value d = ss_concat(g, (const ss_value[]){ss_slice(g, x, 1, 3), x}, 2);
    ss_value e = ss_scale(g, ss_relu(g, x), "scale", 1);
    x = ss_concat(g, (const ss_value[]){a, b, c, d, e}, 5);
    ss_value maps = ss_avgpool2d(g, ss_relu(g, ss_conv2d(g, x, "b", 6, 3, 1, 1, 1)), TEST_SIDE, 1);
    x = ss_add(g, ss_linear(g, ss_flatten(g, a), "fc1", 6), maps);
    ss_softmax_cross_entropy(g, ss_linear(g, ss_relu(g, x), "fc", TEST_CLASSES));
}

static inline ss_value window_conv(struct ss_graph *g, ss_value x, const char *name, int channels,
                                   int groups, int rows, int columns, int stride, int dilation)
{
    struct ss_layer l = ss_layer_of(&ss_conv2d_class);
    l.outputs = channels;
    l.groups = groups;
    l.kernel[0] = rows;
    l.kernel[1] = columns;
    l.stride[0] = stride; /* 1 for columns */
    l.padding[0] = dilation * (rows / 2);
    l.padding[1] = columns / 2;
    l.dilation[0] = dilation;
    l.bias = groups > 1;
    return ss_graph_add(g, &l, name, 1, &x);
}

/* Grouped, depthwise and dilated convolutions, windows with unequal sides, and a linear layer
 * over maps. */
static inline void build_windows(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_relu(g, ss_batchnorm2d(g, window_conv(g, x, "stem", 24, 1, 3, 1, 2, 1), "stem_bn"));
    x = ss_gelu(g, ss_batchnorm2d(g, window_conv(g, x, "depth", 24, 24, 5, 5, 1, 1), "depth_bn"),
                0);
    ss_value y = ss_gelu(g, window_conv(g, x, "groups", 24, 3, 3, 3, 1, 1), 0);
    y = ss_batchnorm2d(g, ss_linear_map(g, y, "map", 24), "map_bn");
    x = ss_gelu(g, window_conv(g, ss_add(g, y, x), "dilated", 12, 1, 3, 3, 2, 2), 0);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

/* Adds a layer with settings that its function in layers.h does not support. */
static inline ss_value layer_with(struct ss_graph *g, ss_value x, struct ss_layer l)
{
    return ss_graph_add(g, &l, "first", 1, &x);
}

static inline ss_value bare_linear(struct ss_graph *g, ss_value x, const struct ss_layer_class *cls)
{
    struct ss_layer l = ss_layer_of(cls);
    l.outputs = 9;
    l.bias = 0;
    return layer_with(g, x, l);
}

/* 3x3 windows that extend beyond the map at both ends. */
static inline ss_value over_edge(struct ss_graph *g, ss_value x, const struct ss_layer_class *cls,
                                 int count_padding)
{
    struct ss_layer l = ss_layer_of(cls);
    for (int i = 0; i < 2; i++) {
        l.kernel[i] = 3;
        l.stride[i] = 2;
        l.padding[i] = 1;
    }
    l.ceil_mode = 1;
    l.count_include_pad = count_padding;
    return layer_with(g, x, l);
}

/* Every layer kind with every optional setting. The layers read the images directly, or follow a
 * convolution. On a device, layers that support it read padded images, the others plain ones.
 * Groups of convolutions begin in the middle of the padding. */
#define FIRST_LAYER(kind, ...)                                                                     \
    static inline ss_value first_##kind(struct ss_graph *g, ss_value x)                            \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }
FIRST_LAYER(conv, window_conv(g, x, "first", 7, 1, 3, 3, 2, 1))
FIRST_LAYER(depthwise, window_conv(g, x, "first", 3, 3, 3, 3, 1, 1))
FIRST_LAYER(twice, window_conv(g, x, "first", 6, 3, 5, 3, 2, 1))
FIRST_LAYER(halves, window_conv(g, x, "first", 6, 2, 3, 3, 1, 2))
FIRST_LAYER(thirds, window_conv(g, x, "first", 9, 3, 3, 3, 1, 1))
FIRST_LAYER(grey_twice, window_conv(g, x, "first", 2, 1, 3, 3, 1, 1))
/* A grouped convolution with BatchNorm and ReLU; a grouped and a plain one, which need both
 * conversions of the images. */
FIRST_LAYER(block,
            ss_relu(g, ss_batchnorm2d(g, window_conv(g, x, "first", 6, 3, 3, 3, 1, 1), "bn")))
FIRST_LAYER(both, ss_add(g, window_conv(g, x, "first", 6, 3, 3, 3, 1, 1),
                         ss_conv2d(g, x, "beside", 6, 3, 1, 1, 0)))
FIRST_LAYER(linear_map, ss_linear_map(g, x, "first", 5))
FIRST_LAYER(linear, ss_linear(g, x, "first", 9))
FIRST_LAYER(linear_map_bare, bare_linear(g, x, &ss_linear_map_class))
FIRST_LAYER(linear_bare, bare_linear(g, x, &ss_linear_class))
FIRST_LAYER(flatten, ss_flatten(g, x))
FIRST_LAYER(batchnorm, ss_batchnorm2d(g, x, "first"))
FIRST_LAYER(groupnorm, ss_groupnorm(g, x, "first", 3))
FIRST_LAYER(layernorm, ss_layernorm(g, x, "first", 1e-5f))
FIRST_LAYER(relu, ss_relu(g, x))
FIRST_LAYER(gelu, ss_gelu(g, x, 0))
FIRST_LAYER(dropout, ss_dropout(g, x, 0.25f))
FIRST_LAYER(depth, ss_stochastic_depth(g, x, 0.25f, 0))
FIRST_LAYER(maxpool, ss_maxpool2d(g, x, 3, 2, 1))
FIRST_LAYER(avgpool, ss_avgpool2d(g, x, 2, 2))
FIRST_LAYER(maxpool_ceil, over_edge(g, x, &ss_maxpool2d_class, 0))
FIRST_LAYER(avgpool_ceil, over_edge(g, x, &ss_avgpool2d_class, 1))
FIRST_LAYER(avgpool_inside, over_edge(g, x, &ss_avgpool2d_class, 0))
FIRST_LAYER(adaptive, ss_adaptive_avgpool2d(g, x, 3, 5))
FIRST_LAYER(mean, ss_global_avgpool2d(g, x))
FIRST_LAYER(add, ss_add(g, x, x))
FIRST_LAYER(mul, ss_mul(g, x, x))
FIRST_LAYER(scale, ss_scale(g, x, "first", 3))
FIRST_LAYER(concat, ss_concat(g, (const ss_value[]){x, x}, 2))
FIRST_LAYER(slice, ss_slice(g, x, 1, 3))
FIRST_LAYER(shuffle, ss_shuffle(g, x, 2))
FIRST_LAYER(repack, ss_layer_repack(g, x))
FIRST_LAYER(tokens, ss_tokens(g, x, "first", 1, 1))
FIRST_LAYER(tokens_bare, ss_tokens(g, x, "first", 0, 0))
FIRST_LAYER(class_token, ss_tokens(g, x, "first", 1, 0))
FIRST_LAYER(positions, ss_tokens(g, x, "first", 0, 1))
FIRST_LAYER(token, ss_token(g, x, 9))
FIRST_LAYER(attention, ss_attention(g, x, 2))

static const struct first_layer {
    const char *name;
    int channels;
    ss_value (*add)(struct ss_graph *g, ss_value x);
} first_layers[] = {{"conv", 3, first_conv},
                    {"depthwise", 3, first_depthwise},
                    {"twice", 3, first_twice},
                    {"halves", 4, first_halves},
                    {"thirds", 6, first_thirds},
                    {"grey_twice", 1, first_grey_twice},
                    {"block", 3, first_block},
                    {"both", 3, first_both},
                    {"linear_map", 3, first_linear_map},
                    {"linear", 3, first_linear},
                    {"linear_map_bare", 3, first_linear_map_bare},
                    {"linear_bare", 3, first_linear_bare},
                    {"flatten", 3, first_flatten},
                    {"batchnorm", 3, first_batchnorm},
                    {"groupnorm", 6, first_groupnorm},
                    {"layernorm", 3, first_layernorm},
                    {"relu", 3, first_relu},
                    {"gelu", 3, first_gelu},
                    {"dropout", 3, first_dropout},
                    {"depth", 3, first_depth},
                    {"maxpool", 3, first_maxpool},
                    {"avgpool", 3, first_avgpool},
                    {"maxpool_ceil", 3, first_maxpool_ceil},
                    {"avgpool_ceil", 3, first_avgpool_ceil},
                    {"avgpool_inside", 3, first_avgpool_inside},
                    {"adaptive", 3, first_adaptive},
                    {"mean", 3, first_mean},
                    {"add", 3, first_add},
                    {"mul", 3, first_mul},
                    {"scale", 3, first_scale},
                    {"concat", 3, first_concat},
                    {"slice", 3, first_slice},
                    {"shuffle", 6, first_shuffle},
                    {"repack", 3, first_repack},
                    {"tokens", 3, first_tokens},
                    {"tokens_bare", 3, first_tokens_bare},
                    {"class_token", 3, first_class_token},
                    {"positions", 3, first_positions},
                    {"token", 3, first_token},
                    {"attention", 6, first_attention}};
enum { FIRST_LAYERS = sizeof first_layers / sizeof *first_layers };

/* behind: a convolution precedes the layer. A linear layer follows. */
static inline void build_with(struct ss_graph *g, const struct first_layer *first, int behind)
{
    ss_value x = ss_input(g, first->channels, TEST_SIDE, TEST_SIDE);
    if (behind)
        x = ss_gelu(g, ss_conv2d(g, x, "before", first->channels, 3, 1, 1, 1), 0);
    ss_softmax_cross_entropy(g, ss_linear(g, first->add(g, x), "fc", TEST_CLASSES));
}

/* DenseNet's dense block: each layer normalizes all preceding outputs, and the output of a bare
 * convolution is appended. The last one has a partial block of channels. */
static inline ss_value dense_block(struct ss_graph *g, ss_value x, const char *name, int layers)
{
    static const int growth[] = {16, 32, 16, 5};
    ss_value all[5] = {x};
    char a[32], b[32];
    for (int i = 0; i < layers; i++) {
        snprintf(a, sizeof a, "%s%d_norm1", name, i);
        snprintf(b, sizeof b, "%s%d_conv1", name, i);
        x = ss_conv2d(g, ss_gelu(g, ss_batchnorm2d(g, x, a), 0), b, 16, 1, 1, 0, 0);
        snprintf(a, sizeof a, "%s%d_norm2", name, i);
        snprintf(b, sizeof b, "%s%d_conv2", name, i);
        x = ss_gelu(g, ss_batchnorm2d(g, x, a), 0);
        all[i + 1] = ss_conv2d(g, x, b, growth[i], 3, 1, 1, 0);
        x = ss_concat(g, all, i + 2);
    }
    return x;
}

/* Concatenations that extend each other. In the first block, all inputs are views except the
 * outputs of bare convolutions, and the result has two readers. In the second block, its input is
 * copied, too. */
static inline void build_dense(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_gelu(g, conv_bn(g, x, "stem", "stem_bn", 16, 3, 1), 0);
    x = dense_block(g, x, "a", 3);
    ss_value skip = ss_conv2d(g, x, "skip", 32, 1, 2, 0, 1);
    x = ss_gelu(g, ss_batchnorm2d(g, x, "down_norm"), 0);
    x = ss_avgpool2d(g, ss_conv2d(g, x, "down", 32, 1, 1, 0, 0), 2, 2);
    x = ss_add(g, x, skip);
    x = dense_block(g, x, "b", 4);
    x = ss_gelu(g, ss_batchnorm2d(g, x, "norm"), 0);
    ss_softmax_cross_entropy(g, ss_linear(g, ss_global_avgpool2d(g, x), "fc", TEST_CLASSES));
}

/* Branches as in GoogLeNet and SqueezeNet: one of four is a pool, which is copied; the result has
 * several readers. The second half has an activation with dropout, one without a convolution, a
 * concatenation nested in another one, and a value that is read again after it was concatenated,
 * which is copied. A separate shuffle follows. */
static inline void build_branches(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE), y[4];
    x = ss_gelu(g, conv_bn(g, x, "stem", "stem_bn", 16, 3, 1), 0);
    y[0] = ss_gelu(g, conv_bn(g, x, "a", "a_bn", 32, 1, 1), 0);
    y[1] = ss_gelu(g, conv_bn(g, x, "b1", "b1_bn", 16, 1, 1), 0);
    y[1] = ss_gelu(g, conv_bn(g, y[1], "b2", "b2_bn", 48, 3, 1), 0);
    y[2] = ss_maxpool2d(g, x, 3, 1, 1);
    y[3] = ss_gelu(g, conv_bn(g, y[2], "c", "c_bn", 16, 1, 1), 0);
    x = ss_concat(g, y, 4);
    y[0] = ss_gelu(g, ss_conv2d(g, x, "d", 16, 1, 1, 0, 1), 0);
    y[1] = ss_dropout(g, ss_gelu(g, ss_conv2d(g, x, "e", 32, 3, 1, 1, 1), 0), 0.25f);
    y[0] = ss_concat(g, y, 2);
    y[1] = ss_silu(g, ss_batchnorm2d(g, x, "f_bn"));
    y[2] = ss_gelu(g, ss_batchnorm2d(g, ss_conv2d(g, x, "h", 20, 1, 1, 0, 0), "h_bn"), 0);
    x = ss_concat(g, (const ss_value[]){y[0], y[1], y[2]}, 3);
    y[0] = ss_gelu(g, conv_bn(g, x, "i", "i_bn", 16, 1, 1), 0);
    y[1] = ss_gelu(g, conv_bn(g, x, "j", "j_bn", 16, 1, 1), 0);
    y[1] = ss_concat(g, y, 2);
    y[0] = ss_gelu(g, ss_batchnorm2d(g, y[0], "late_bn"), 0);
    x = ss_concat(g, y, 2);
    x = ss_shuffle(g, ss_gelu(g, ss_conv2d(g, x, "k", 8, 3, 2, 1, 1), 0), 4);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

/* Activations whose only reader is a 3x3 convolution: of a sum with other readers, with dropout,
 * without normalization, and one that does not map 0 to 0; partial blocks of channels. Then
 * activations with other readers: a strided convolution, a 1x1 one, two of them, an addition. */
static inline void build_pre(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
    x = ss_conv2d(g, x, "stem", 20, 3, 1, 1, 1);
    ss_value y = ss_gelu(g, ss_batchnorm2d(g, x, "pre_bn"), 0);
    y = ss_dropout(g, ss_silu(g, conv_bn(g, y, "a", "a_bn", 24, 3, 1)), 0.3f);
    x = ss_add(g, x, ss_conv2d(g, y, "b", 20, 3, 1, 1, 0));
    y = ss_sigmoid(g, ss_conv2d(g, x, "c", 20, 3, 1, 1, 1));
    y = ss_gelu(g, conv_bn(g, y, "d", "d_bn", 16, 3, 1), 0);
    y = ss_gelu(g, conv_bn(g, y, "e", "e_bn", 16, 3, 2), 0);
    y = ss_gelu(g, conv_bn(g, y, "f", "f_bn", 16, 1, 1), 0);
    y = ss_add(g, ss_conv2d(g, y, "g", 16, 3, 1, 1, 0), ss_conv2d(g, y, "h", 16, 3, 1, 1, 0));
    x = ss_gelu(g, ss_batchnorm2d(g, y, "norm"), 0);
    x = ss_add(g, ss_conv2d(g, x, "i", 16, 3, 1, 1, 0), x);
    ss_softmax_cross_entropy(g, ss_linear(g, ss_global_avgpool2d(g, x), "fc", TEST_CLASSES));
}

static const struct test_graph {
    const char *name;
    void (*build)(struct ss_graph *g);
} test_graphs[] = {
    {"resnet", build_resnet},   {"chain", build_chain},   {"bare", build_bare},
    {"fan", build_fan},         {"groups", build_groups}, {"gelus", build_gelus},
    {"vit", build_vit},         {"front", build_front},   {"join", build_join},
    {"readers", build_readers}, {"images", build_images}, {"curves", build_curves},
    {"windows", build_windows}, {"dense", build_dense},   {"branches", build_branches},
    {"pre", build_pre}};
enum { TEST_GRAPHS = sizeof test_graphs / sizeof *test_graphs };

/* Returns NULL after an error, which was reported. */
static inline struct ss_graph *make_test_graph(int which)
{
    struct ss_graph *g = ss_graph_create(test_graphs[which].name);
    if (!g)
        return NULL;
    test_graphs[which].build(g);
    if (ss_graph_finish(g) == SS_OK)
        return g;
    ss_graph_destroy(g);
    return NULL;
}

#endif
