/* graphs/resnet50.c: torchvision's ResNet-50 (version 1.5: a stage's stride is in the 3x3).
 *
 *   (3,H,W) 7x7 conv, stride 2 (w0) | 3x3 max pool, stride 2 | stages of 3, 4, 6 and 3 bottlenecks
 *   (4*w0, 4*w1, 4*w2, 4*w3) | mean | fc
 *
 * A bottleneck is 1x1 conv-BN-ReLU, 3x3 conv-BN-ReLU, 1x1 conv-BN to four times the width, plus its
 * input, then ReLU; the first one of a stage passes its input through a 1x1 conv-BN of its own. He,
 * Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015. Names and initial values
 * are torchvision's: convolutions normal with fan-out, BatchNorm weights 1, fc Linear's default. */
#include "core/options.h"
#include "graphs/models.h"

#include <stdio.h>

enum { EXPANSION = 4 };

/* conv and bn: names below prefix. */
static ss_value conv_bn(struct ss_graph *g, ss_value x, const char *prefix, const char *conv,
                        const char *bn, int channels, int kernel, int stride)
{
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", prefix, conv);
    x = ss_conv2d(g, x, name, channels, kernel, stride, kernel / 2, 0);
    snprintf(name, sizeof name, "%s%s", prefix, bn);
    return ss_batchnorm2d(g, x, name);
}

static ss_value bottleneck(struct ss_graph *g, ss_value x, int stage, int block, int width,
                           int stride)
{
    char prefix[SS_NAME_BYTES];
    snprintf(prefix, sizeof prefix, "layer%d.%d.", stage, block);
    ss_value shortcut = x;
    ss_value y = ss_relu(g, conv_bn(g, x, prefix, "conv1", "bn1", width, 1, 1));
    y = ss_relu(g, conv_bn(g, y, prefix, "conv2", "bn2", width, 3, stride));
    y = conv_bn(g, y, prefix, "conv3", "bn3", EXPANSION * width, 1, 1);
    if (block == 0)
        shortcut =
            conv_bn(g, x, prefix, "downsample.0", "downsample.1", EXPANSION * width, 1, stride);
    return ss_relu(g, ss_add(g, y, shortcut));
}

enum ss_status ss_resnet50_build(struct ss_graph *g, const struct ss_model_options *options)
{
    static const int blocks[4] = {3, 4, 6, 3};
    int width[4] = {64, 128, 256, 512};
    if (options->width)
        SS_TRY(ss_parse_int_list("width", options->width, 4, 1, 65536, width));

    ss_conv_init(g, SS_CONV_INIT_FAN_OUT);
    ss_value x = ss_input(g, options->channels, options->height, options->width_px);
    x = ss_relu(g, conv_bn(g, x, "", "conv1", "bn1", width[0], 7, 2));
    x = ss_maxpool2d(g, x, 3, 2, 1);
    for (int stage = 0; stage < 4; stage++)
        for (int b = 0; b < blocks[stage]; b++)
            x = bottleneck(g, x, stage + 1, b, width[stage], b == 0 && stage > 0 ? 2 : 1);
    x = ss_global_avgpool2d(g, x);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", options->classes));
    return SS_OK;
}
