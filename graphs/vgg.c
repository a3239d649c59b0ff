/* graphs/vgg.c: torchvision's VGG-11 with BatchNorm, vgg11_bn.
 *
 *   (3,H,W) conv w0 | pool | conv w1 | pool | 2 convs w2 | pool | 2 convs w3 | pool | 2 convs w4 |
 *   pool | at most 7x7 | linear w5 | linear w5 | linear
 *
 * A convolution is 3x3 with bias, BatchNorm, ReLU; a pool is 2x2; ReLU and dropout follow the
 * first two linear layers. Simonyan, Zisserman, "Very deep convolutional networks for large-scale
 * image recognition", 2014, table 1, column A. Names and initial values are torchvision's.
 *
 * torchvision resizes the last feature map to 7x7 for any image size. Here maps of up to 7x7 are
 * unchanged, and multiples of 7 are averaged: identical to torchvision for images of 224k x 224k.
 * For smaller ones torchvision repeats pixels, so that up to 49 weights multiply one value; here
 * classifier.0 is that much smaller.
 *
 * On a GPU the five pools are fused into the preceding blocks. The ReLUs after linear layers are
 * separate tasks. */
#include "core/log.h"
#include "core/options.h"
#include "graphs/models.h"

#include <stdio.h>

enum { POOL = -1, MAP = 7 };

/* torchvision numbers all layers of a Sequential, including those without parameters. */
static ss_value conv_bn_relu(struct ss_graph *g, ss_value x, int number, int channels)
{
    char name[SS_NAME_BYTES];
    snprintf(name, sizeof name, "features.%d", number);
    x = ss_conv2d(g, x, name, channels, 3, 1, 1, 1);
    snprintf(name, sizeof name, "features.%d", number + 1);
    return ss_relu(g, ss_batchnorm2d(g, x, name));
}

/* Reduce x to at most 7x7. SS_ERR_SHAPE if no average of equal windows yields that. */
static enum ss_status fit_map(struct ss_graph *g, ss_value *x)
{
    if (*x < 0) /* an earlier error, stored in the graph */
        return SS_OK;
    const struct ss_value_info *v = ss_graph_value(g, *x);
    if (v->h <= MAP && v->w <= MAP)
        return SS_OK;
    if (v->h != v->w || v->h % MAP)
        return ss_fail(SS_ERR_SHAPE,
                       "model %s: the last map of %dx%d is neither at most 7x7 nor a multiple of "
                       "it; use images of up to 255x255, or a multiple of 224x224",
                       ss_graph_name(g), v->h, v->w);
    *x = ss_avgpool2d(g, *x, v->h / MAP, v->h / MAP);
    return SS_OK;
}

enum ss_status ss_vgg11_bn_build(struct ss_graph *g, const struct ss_model_options *options)
{
    static const int layers[] = {0, POOL, 1, POOL, 2, 2, POOL, 3, 3, POOL, 4, 4, POOL};
    int width[6] = {64, 128, 256, 512, 512, 4096}, number = 0;
    float dropout = options->dropout < 0 ? 0.5f : options->dropout;
    if (options->width)
        SS_TRY(ss_parse_int_list("width", options->width, 6, 1, 65536, width));

    ss_conv_init(g, SS_CONV_INIT_FAN_OUT);
    ss_linear_init(g, 0.01f);
    ss_value x = ss_input(g, options->channels, options->height, options->width_px);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (layers[i] == POOL) {
            x = ss_maxpool2d(g, x, 2, 2, 0);
            number += 1;
        } else {
            x = conv_bn_relu(g, x, number, width[layers[i]]);
            number += 3;
        }
    SS_TRY(fit_map(g, &x));
    x = ss_dropout(g, ss_relu(g, ss_linear(g, x, "classifier.0", width[5])), dropout);
    x = ss_dropout(g, ss_relu(g, ss_linear(g, x, "classifier.3", width[5])), dropout);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "classifier.6", options->classes));
    return SS_OK;
}
