/* graphs/resnet.c: torchvision's ResNets (version 1.5: a stage's stride is in the 3x3),
 * ResNeXt-50 and Wide ResNet-50-2.
 *
 *   (3,H,W) 7x7 conv, stride 2 (w0) | 3x3 max pool, stride 2 | 4 stages of blocks (e*w0, e*w1,
 *   e*w2, e*w3) | mean | fc
 *
 * A basic block is two 3x3 conv-BN with a ReLU between, e = 1. A bottleneck is 1x1 conv-BN-ReLU,
 * 3x3 conv-BN-ReLU, 1x1 conv-BN to e = 4 times the width. Its inner width is larger in Wide
 * ResNets, and its 3x3 convolution is grouped in ResNeXts. Both kinds add the block's input,
 * followed by ReLU. If the shapes differ, the first block of a stage adds a 1x1 conv-BN of its
 * input instead. He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015; Xie
 * et al., "Aggregated residual transformations for deep neural networks", 2016; Zagoruyko,
 * Komodakis, "Wide residual networks", 2016. Names and initial values are torchvision's:
 * convolutions normal with fan-out, BatchNorm weights 1, fc Linear's default.
 *
 * ResNet-50 is 57 blocks: 53 convolutions with their BatchNorm, ReLU, addition and second ReLU,
 * the mean, fc, the loss, and the max pool, which is not fused because its windows overlap. */
#include "core/log.h"
#include "core/options.h"
#include "graphs/models.h"

#include <stdio.h>
#include <string.h>

struct resnet {
    const char *name;
    int blocks[4];
    int expansion;     /* e: 1 for basic blocks, 4 for bottlenecks */
    int groups, width; /* of the 3x3 in a bottleneck; channels per group for a width of 64 */
};

static const struct resnet resnets[] = {
    {"resnet18", {2, 2, 2, 2}, 1, 1, 64},        {"resnet34", {3, 4, 6, 3}, 1, 1, 64},
    {"resnet50", {3, 4, 6, 3}, 4, 1, 64},        {"resnet101", {3, 4, 23, 3}, 4, 1, 64},
    {"resnet152", {3, 8, 36, 3}, 4, 1, 64},      {"resnext50", {3, 4, 6, 3}, 4, 32, 4},
    {"resnext50_32x4d", {3, 4, 6, 3}, 4, 32, 4}, {"wide_resnet50_2", {3, 4, 6, 3}, 4, 1, 128},
};

/* conv and bn: names, appended to prefix. */
static ss_value conv_bn(struct ss_graph *g, ss_value x, const char *prefix, const char *conv,
                        const char *bn, int channels, int kernel, int stride, int groups)
{
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", prefix, conv);
    x = ss_grouped_conv2d(g, x, name, channels, kernel, stride, kernel / 2, groups, 0);
    snprintf(name, sizeof name, "%s%s", prefix, bn);
    return ss_batchnorm2d(g, x, name);
}

static ss_value basic(struct ss_graph *g, ss_value x, const char *prefix, int width, int stride)
{
    ss_value y = ss_relu(g, conv_bn(g, x, prefix, "conv1", "bn1", width, 3, stride, 1));
    return conv_bn(g, y, prefix, "conv2", "bn2", width, 3, 1, 1);
}

static ss_value bottleneck(struct ss_graph *g, ss_value x, const struct resnet *r,
                           const char *prefix, int width, int stride)
{
    const int inside = width * r->width / 64 * r->groups;
    ss_value y = ss_relu(g, conv_bn(g, x, prefix, "conv1", "bn1", inside, 1, 1, 1));
    y = ss_relu(g, conv_bn(g, y, prefix, "conv2", "bn2", inside, 3, stride, r->groups));
    return conv_bn(g, y, prefix, "conv3", "bn3", r->expansion * width, 1, 1, 1);
}

static ss_value block(struct ss_graph *g, ss_value x, const struct resnet *r, int stage, int number,
                      int width)
{
    const int stride = number == 0 && stage > 0 ? 2 : 1;
    char prefix[SS_NAME_BYTES];
    snprintf(prefix, sizeof prefix, "layer%d.%d.", stage + 1, number);
    ss_value shortcut = x, y = r->expansion == 1 ? basic(g, x, prefix, width, stride)
                                                 : bottleneck(g, x, r, prefix, width, stride);
    if (y >= 0 && (stride > 1 || ss_graph_value(g, x)->c != ss_graph_value(g, y)->c))
        shortcut = conv_bn(g, x, prefix, "downsample.0", "downsample.1", r->expansion * width, 1,
                           stride, 1);
    return ss_relu(g, ss_add(g, y, shortcut));
}

enum ss_status ss_resnet_build(struct ss_graph *g, const struct ss_model_options *options)
{
    const struct resnet *r = resnets;
    int width[4] = {64, 128, 256, 512};
    while (strcmp(r->name, ss_graph_name(g)))
        r++;
    if (options->width)
        SS_TRY(ss_parse_int_list("width", options->width, 4, 1, 65536, width));
    for (int stage = 0; stage < 4; stage++)
        if (width[stage] * r->width < 64)
            return ss_fail(SS_ERR_INVALID,
                           "--width: %d leaves no channels inside %s's blocks; give %d or more",
                           width[stage], r->name, (63 + r->width) / r->width);

    ss_conv_init(g, SS_CONV_INIT_FAN_OUT);
    ss_value x = ss_input(g, options->channels, options->height, options->width_px);
    x = ss_relu(g, conv_bn(g, x, "", "conv1", "bn1", width[0], 7, 2, 1));
    x = ss_maxpool2d(g, x, 3, 2, 1);
    for (int stage = 0; stage < 4; stage++)
        for (int b = 0; b < r->blocks[stage]; b++)
            x = block(g, x, r, stage, b, width[stage]);
    x = ss_global_avgpool2d(g, x);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", options->classes));
    return SS_OK;
}
