/* Layers for building models, with PyTorch's parameter names.
 *
 * A model file (graphs/) calls one of these functions per layer; each returns the value it
 * produces. The first error (incompatible shapes, a name used twice) is reported immediately and
 * stored in the graph. Later calls then have no effect and return a negative value, so model
 * files need no checks. ss_graph_finish() (graph/graph.h) returns the error.
 *
 * Shapes are (C,H,W) per image, without the batch dimension. */
#ifndef SS_LAYERS_LAYERS_H
#define SS_LAYERS_LAYERS_H

#ifdef __cplusplus
extern "C" {
#endif

struct ss_graph;
typedef int ss_value; /* index of a value in its graph; negative after an error */

/* Largest size of a layer's name. */
enum ss_name_limit { SS_NAME_BYTES = 96 /* with the terminating 0 */ };

/* Initialization of convolution weights. */
enum ss_conv_init_kind {
    SS_CONV_INIT_UNIFORM, /* Conv2d's default, see ss_conv2d */
    /* kaiming_normal_(mode="fan_out", nonlinearity="relu"): normal, std sqrt(2 / (Co*k*k)),
     * biases 0. He, Zhang, Ren, Sun 2015, eq. 14. */
    SS_CONV_INIT_FAN_OUT,
};

/* Add the input image: the first call on a graph. */
ss_value ss_input(struct ss_graph *g, int channels, int height, int width);

/* Conv2d(x.C, out_channels, kernel, stride, padding, bias). weight (Co,Ci,k,k); weight and bias
 * are uniform with bound 1/sqrt(Ci*k*k) (PyTorch's reset_parameters: kaiming_uniform with a =
 * sqrt 5). */
ss_value ss_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels, int kernel,
                   int stride, int padding, int bias);
/* Grouped convolution: input and output channels are divided into equal groups. weight
 * (Co,Ci/groups,k,k); its bound uses Ci/groups. */
ss_value ss_grouped_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels,
                           int kernel, int stride, int padding, int groups, int bias);
/* Linear(x.C, out_features) over the channels at each position, as a 1x1 convolution. weight
 * (Co,Ci), initialized as Linear's. */
ss_value ss_linear_map(struct ss_graph *g, ss_value x, const char *name, int out_features);
/* Set the initialization of convolutions added from here on. */
void ss_conv_init(struct ss_graph *g, enum ss_conv_init_kind init);
/* BatchNorm2d with eps 1e-5 and momentum 0.1. */
ss_value ss_batchnorm2d(struct ss_graph *g, ss_value x, const char *name);
/* GroupNorm(groups, x.C) with eps 1e-5, affine. */
ss_value ss_groupnorm(struct ss_graph *g, ss_value x, const char *name, int groups);
/* LayerNorm over the channels at each position, affine. */
ss_value ss_layernorm(struct ss_graph *g, ss_value x, const char *name, float eps);
/* Convert a feature map (E,h,w) to a token sequence (E,S,1), row-major. Optionally prepend a
 * class_token (1,1,E), initialized to 0, and add a pos_embedding (1,S,E), initialized as normal
 * with std 0.02. */
ss_value ss_tokens(struct ss_graph *g, ss_value x, const char *name, int class_token,
                   int positions);
/* Select one token of x: (C,1,1). */
ss_value ss_token(struct ss_graph *g, ss_value x, int index);
/* softmax(q k^T / sqrt(E / heads)) v for each head. x: q, k and v concatenated, (3E,h,w). */
ss_value ss_attention(struct ss_graph *g, ss_value x, int heads);
/* max(x, 0). */
ss_value ss_relu(struct ss_graph *g, ss_value x);
/* GELU; tanh: its approximation, PyTorch's approximate="tanh". */
ss_value ss_gelu(struct ss_graph *g, ss_value x, int tanh);
/* min(max(x, 0), 6). */
ss_value ss_relu6(struct ss_graph *g, ss_value x);
/* x, multiplied by slope where it is negative. */
ss_value ss_leaky_relu(struct ss_graph *g, ss_value x, float slope);
/* x sigmoid(x). */
ss_value ss_silu(struct ss_graph *g, ss_value x);
/* x hardsigmoid(x). */
ss_value ss_hardswish(struct ss_graph *g, ss_value x);
/* 1 / (1 + exp(-x)). */
ss_value ss_sigmoid(struct ss_graph *g, ss_value x);
/* min(max(x + 3, 0), 6) / 6. */
ss_value ss_hardsigmoid(struct ss_graph *g, ss_value x);
/* tanh(x). */
ss_value ss_tanh(struct ss_graph *g, ss_value x);
/* Dropout with probability p in [0, 1). p = 0 returns x itself. */
ss_value ss_dropout(struct ss_graph *g, ss_value x, float p);
/* StochasticDepth of torchvision: drop each sample, or with `batch` the whole batch, with
 * probability p; divide what remains by 1 - p. p as above. */
ss_value ss_stochastic_depth(struct ss_graph *g, ss_value x, float p, int batch);
/* a + b, of equal shapes. */
ss_value ss_add(struct ss_graph *g, ss_value a, ss_value b);
/* Concatenate n >= 2 values along channels. More than 4 values become several layers, so that a
 * model which concatenates a growing list (densenet) copies the earlier part from one value. */
ss_value ss_concat(struct ss_graph *g, const ss_value *values, int n);
/* Select channels begin .. end - 1. */
ss_value ss_slice(struct ss_graph *g, ss_value x, int begin, int end);
/* Channel shuffle: channel c of the C / groups channels of group k becomes channel c groups + k
 * (view(groups, C / groups), transpose). */
ss_value ss_shuffle(struct ss_graph *g, ss_value x, int groups);
/* x times s. s has the shape of x or (C,1,1). */
ss_value ss_mul(struct ss_graph *g, ss_value x, ss_value s);
/* x times a parameter per channel, initialized to 1. ndim selects its shape: (C), (C,1) or
 * (C,1,1). */
ss_value ss_scale(struct ss_graph *g, ss_value x, const char *name, int ndim);
/* Flatten (C,H,W) to (C H W,1,1), in PyTorch's order. ss_linear includes it. */
ss_value ss_flatten(struct ss_graph *g, ss_value x);
/* PyTorch's detach(): returns x without a gradient. */
ss_value ss_detach(struct ss_graph *g, ss_value x);
/* MaxPool2d over kernel x kernel windows. */
ss_value ss_maxpool2d(struct ss_graph *g, ss_value x, int kernel, int stride, int padding);
/* AvgPool2d over kernel x kernel windows, without padding. */
ss_value ss_avgpool2d(struct ss_graph *g, ss_value x, int kernel, int stride);
/* AdaptiveAvgPool2d((height, width)). The output may be larger than x's feature maps. */
ss_value ss_adaptive_avgpool2d(struct ss_graph *g, ss_value x, int height, int width);
/* Mean of each channel. */
ss_value ss_global_avgpool2d(struct ss_graph *g, ss_value x);
/* Flatten, then Linear with bias. The output shape is (outputs,1,1). */
ss_value ss_linear(struct ss_graph *g, ss_value x, const char *name, int outputs);
/* Set the initialization of linear layers added from here on: normal weights with this standard
 * deviation and biases 0. std 0: Linear's default, both uniform with bound 1/sqrt(inputs). */
void ss_linear_init(struct ss_graph *g, float std);
/* CrossEntropyLoss over the output of a linear layer or of flatten; ends the graph. */
void ss_softmax_cross_entropy(struct ss_graph *g, ss_value logits);

/* Get the shape (C,H,W) of x; zeros after an error. */
void ss_value_shape(const struct ss_graph *g, ss_value x, int shape[3]);

#ifdef __cplusplus
}
#endif

#endif
