/* The layers that models are made of, with PyTorch's parameter names.
 *
 * A model file (graphs/) calls one of these functions per layer; each returns the value it
 * produces. The first mistake (shapes that do not fit, a name used twice) is reported at once and
 * kept in the graph: later calls then do nothing and return a negative value, so that model files
 * need no checks. ss_graph_finish() (graph/graph.h) returns it.
 *
 * Shapes are (C,H,W) per image; the batch size is the plan's business. */
#ifndef SS_LAYERS_LAYERS_H
#define SS_LAYERS_LAYERS_H

#ifdef __cplusplus
extern "C" {
#endif

struct ss_graph;
typedef int ss_value; /* index of a value in its graph; negative after a mistake */

enum { SS_NAME_BYTES = 96 }; /* of a layer's name, with the 0 at its end */

/* Convolution weights that the model wants otherwise. */
enum ss_conv_init_kind {
    SS_CONV_INIT_UNIFORM, /* Conv2d's default, see ss_conv2d */
    /* kaiming_normal_(mode="fan_out", nonlinearity="relu"): normal, std sqrt(2 / (Co*k*k)), biases
     * 0. He, Zhang, Ren, Sun 2015, eq. 14. */
    SS_CONV_INIT_FAN_OUT,
};

ss_value ss_input(struct ss_graph *g, int channels, int height, int width);

/* Conv2d(x.C, out_channels, kernel, stride, padding, bias); weight (Co,Ci,k,k), both uniform with
 * bound 1/sqrt(Ci*k*k) (PyTorch's reset_parameters: kaiming_uniform with a = sqrt 5). */
ss_value ss_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels, int kernel,
                   int stride, int padding, int bias);
/* The same in groups: each with its share of the channels on both sides; weight (Co,Ci/groups,k,k),
 * of which Ci/groups is what counts for its bound. */
ss_value ss_grouped_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels,
                           int kernel, int stride, int padding, int groups, int bias);
/* Linear(x.C, out_features) over the channels at each place of the maps, a 1x1 convolution; weight
 * (Co,Ci), which starts as Linear's. */
ss_value ss_linear_map(struct ss_graph *g, ss_value x, const char *name, int out_features);
/* How the convolutions that are added from here on start. */
void ss_conv_init(struct ss_graph *g, enum ss_conv_init_kind init);
/* BatchNorm2d with eps 1e-5 and momentum 0.1. */
ss_value ss_batchnorm2d(struct ss_graph *g, ss_value x, const char *name);
/* GroupNorm(groups, x.C) with eps 1e-5 and a weight and a bias for each channel. */
ss_value ss_groupnorm(struct ss_graph *g, ss_value x, const char *name, int groups);
/* LayerNorm over the channels at each place, with a weight and a bias for each channel. */
ss_value ss_layernorm(struct ss_graph *g, ss_value x, const char *name, float eps);
/* The places of a map (E,h,w) as a sequence (E,S,1), row-major: with a class_token (1,1,E) in front
 * of them, zero at first, and a pos_embedding (1,S,E) added, normal with deviation 0.02. */
ss_value ss_tokens(struct ss_graph *g, ss_value x, const char *name, int class_token,
                   int positions);
/* One place of x: (C,1,1). */
ss_value ss_token(struct ss_graph *g, ss_value x, int index);
/* softmax(q k^T / sqrt(E / heads)) v of each head; x: q, k and v behind each other, (3E,h,w). */
ss_value ss_attention(struct ss_graph *g, ss_value x, int heads);
ss_value ss_relu(struct ss_graph *g, ss_value x);
/* GELU; tanh: its approximation, PyTorch's approximate="tanh". */
ss_value ss_gelu(struct ss_graph *g, ss_value x, int tanh);
ss_value ss_relu6(struct ss_graph *g, ss_value x);
/* slope: below 0. */
ss_value ss_leaky_relu(struct ss_graph *g, ss_value x, float slope);
ss_value ss_silu(struct ss_graph *g, ss_value x);
ss_value ss_hardswish(struct ss_graph *g, ss_value x);
ss_value ss_sigmoid(struct ss_graph *g, ss_value x);
ss_value ss_hardsigmoid(struct ss_graph *g, ss_value x);
ss_value ss_tanh(struct ss_graph *g, ss_value x);
/* p in [0, 1). p = 0 returns x itself. */
ss_value ss_dropout(struct ss_graph *g, ss_value x, float p);
/* Each sample, or with `batch` all of them, is dropped with probability p, else divided by 1 - p;
 * torchvision's StochasticDepth. p as above. */
ss_value ss_stochastic_depth(struct ss_graph *g, ss_value x, float p, int batch);
ss_value ss_add(struct ss_graph *g, ss_value a, ss_value b);
/* Channels behind each other, of n >= 2 values. Of more than 4 several layers are made, so that a model
 * that concatenates ever more (densenet) copies what it had before from one value. */
ss_value ss_concat(struct ss_graph *g, const ss_value *values, int n);
/* Channels begin .. end - 1. */
ss_value ss_slice(struct ss_graph *g, ss_value x, int begin, int end);
/* Channel c of the C / groups of group k becomes channel c groups + k: view(groups, C / groups),
 * transpose. */
ss_value ss_shuffle(struct ss_graph *g, ss_value x, int groups);
/* x times s, which has its shape or is (C,1,1). */
ss_value ss_mul(struct ss_graph *g, ss_value x, ss_value s);
/* x times a parameter for each channel, of shape (C), (C,1) or (C,1,1): ndim; it starts as 1. */
ss_value ss_scale(struct ss_graph *g, ss_value x, const char *name, int ndim);
/* (C,H,W) to (C H W,1,1), in PyTorch's order. A linear layer does so itself. */
ss_value ss_flatten(struct ss_graph *g, ss_value x);
/* x, which gets no gradient from its readers. */
ss_value ss_detach(struct ss_graph *g, ss_value x);
ss_value ss_maxpool2d(struct ss_graph *g, ss_value x, int kernel, int stride, int padding);
ss_value ss_avgpool2d(struct ss_graph *g, ss_value x, int kernel, int stride);
/* AdaptiveAvgPool2d((height, width)), which may be larger than x's maps. */
ss_value ss_adaptive_avgpool2d(struct ss_graph *g, ss_value x, int height, int width);
/* The mean of each channel. */
ss_value ss_global_avgpool2d(struct ss_graph *g, ss_value x);
/* Flatten, then Linear with bias; the value's shape is (outputs,1,1). */
ss_value ss_linear(struct ss_graph *g, ss_value x, const char *name, int outputs);
/* Linear layers that are added from here on start with normal weights of this standard deviation
 * and biases 0; 0: with Linear's default, both uniform with bound 1/sqrt(inputs). */
void ss_linear_init(struct ss_graph *g, float std);
/* CrossEntropyLoss over the output of a linear layer or of flatten; ends the graph. */
void ss_softmax_cross_entropy(struct ss_graph *g, ss_value logits);

/* (C,H,W) of x; zeros after a mistake. */
void ss_value_shape(const struct ss_graph *g, ss_value x, int shape[3]);

#ifdef __cplusplus
}
#endif

#endif
