/* graphs/wideresnet.c: the guides' WideResNet for 32x32 images, six residual blocks in three
 * stages.
 *
 *   (3,32,32) input_block (w0) | block1 block2 (w1) | 2x2 max pool | block3 block4 (w2) |
 *   2x2 max pool | block5 block6 (w3) | 7x7 average pool | fc
 *
 * A block is conv-BN-ReLU, dropout, conv-BN-ReLU, plus its input. The first block of a stage
 * increases the width and applies a 1x1 convolution with bias to its input. No activation follows
 * the addition. The average pool reads the top-left 7x7 of the 8x8 map, and yields 1x1. Names are
 * the PyTorch model's. */
#include "core/options.h"
#include "graphs/models.h"

#include <stdio.h>

static ss_value conv_bn_relu(struct ss_graph *g, ss_value x, const char *prefix, int channels)
{
    char conv[SS_NAME_BYTES], bn[SS_NAME_BYTES];
    snprintf(conv, sizeof conv, "%s.cbr.0", prefix);
    snprintf(bn, sizeof bn, "%s.cbr.1", prefix);
    x = ss_conv2d(g, x, conv, channels, 3, 1, 1, 0);
    return ss_relu(g, ss_batchnorm2d(g, x, bn));
}

static ss_value residual_block(struct ss_graph *g, ss_value x, int number, int channels, int widen,
                               float dropout)
{
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "block%d.layer1", number);
    ss_value out = ss_dropout(g, conv_bn_relu(g, x, name, channels), dropout);
    snprintf(name, sizeof name, "block%d.layer2", number);
    out = conv_bn_relu(g, out, name, channels);
    snprintf(name, sizeof name, "block%d.scale", number);
    ss_value shortcut = widen ? ss_conv2d(g, x, name, channels, 1, 1, 0, 1) : x;
    return ss_add(g, out, shortcut);
}

enum ss_status ss_wideresnet_build(struct ss_graph *g, const struct ss_model_options *options)
{
    int width[4] = {16, 160, 320, 640};
    float dropout = options->dropout < 0 ? 0.01f : options->dropout;
    if (options->width)
        SS_TRY(ss_parse_int_list("width", options->width, 4, 1, 65536, width));

    ss_value x = ss_input(g, options->channels, options->height, options->width_px);
    x = conv_bn_relu(g, x, "input_block", width[0]);
    for (int stage = 1; stage <= 3; stage++) {
        x = residual_block(g, x, 2 * stage - 1, width[stage], 1, dropout);
        x = residual_block(g, x, 2 * stage, width[stage], 0, dropout);
        if (stage < 3)
            x = ss_maxpool2d(g, x, 2, 2, 0);
    }
    x = ss_avgpool2d(g, x, 7, 7);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", options->classes));
    return SS_OK;
}
