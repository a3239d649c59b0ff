/* The layer graph: what a model computes, with PyTorch's parameter names. No device, no StarPU.
 *
 * A model file (graphs/) calls one function per layer; each returns the value it produces. The
 * first mistake (shapes that do not fit, a name used twice) is reported at once and kept in the
 * graph: later calls then do nothing, so that model files need no checks. ss_graph_finish() returns
 * it.
 *
 * Shapes are (C,H,W) per image; the batch size is the plan's business. */
#ifndef SS_GRAPH_GRAPH_H
#define SS_GRAPH_GRAPH_H

#include <stdint.h>
#include "core/status.h"

enum { SS_NAME_BYTES = 96, SS_MAX_PARAM_DIMS = 4 };

struct ss_graph;
typedef int ss_value; /* index of a value in its graph; negative after a mistake */

enum ss_layer_kind {
    SS_LAYER_INPUT,
    SS_LAYER_CONV2D,
    SS_LAYER_BATCHNORM2D,
    SS_LAYER_RELU,
    SS_LAYER_DROPOUT,
    SS_LAYER_ADD,
    SS_LAYER_MAXPOOL2D,
    SS_LAYER_AVGPOOL2D,
    SS_LAYER_LINEAR,
    SS_LAYER_LOSS,
};

/* How a parameter starts: PyTorch's defaults for each layer. */
enum ss_init {
    SS_INIT_UNIFORM, /* uniform in [-bound, bound] */
    SS_INIT_CONSTANT,
    SS_INIT_NORMAL, /* mean 0, standard deviation init_value */
};

/* Convolution weights that the model wants otherwise. */
enum ss_conv_init {
    SS_CONV_INIT_UNIFORM, /* Conv2d's default, see ss_conv2d */
    /* kaiming_normal_(mode="fan_out", nonlinearity="relu"): normal, std sqrt(2 / (Co*k*k)), biases
     * 0. He, Zhang, Ren, Sun 2015, eq. 14. */
    SS_CONV_INIT_FAN_OUT,
};

enum ss_param_role {
    SS_PARAM_WEIGHT, /* convolution or linear weight */
    SS_PARAM_BIAS,   /* their bias */
    SS_PARAM_GAMMA,  /* BatchNorm weight and bias */
    SS_PARAM_BETA,
    SS_PARAM_RUNNING_MEAN, /* BatchNorm buffers: saved and loaded, not trained */
    SS_PARAM_RUNNING_VAR,
    SS_PARAM_NUM_BATCHES, /* num_batches_tracked: one int64, shape () */
};

struct ss_param {
    char name[SS_NAME_BYTES]; /* as in the PyTorch model's state_dict */
    enum ss_param_role role;
    int layer;
    int trainable;
    int ndim;
    int shape[SS_MAX_PARAM_DIMS];
    enum ss_init init;
    float init_value; /* the bound, the constant, or the standard deviation */
};

struct ss_layer {
    enum ss_layer_kind kind;
    char name[SS_NAME_BYTES]; /* module path ("block1.scale"); "" for layers without parameters */
    ss_value input[2];        /* -1: none */
    ss_value output;          /* -1 for the loss */
    int kernel, stride, padding; /* convolution, pooling */
    int bias;                    /* convolution: has one */
    float p;                     /* dropout */
    float eps, momentum;         /* BatchNorm */
    int first_param, nparams;    /* its slice of the graph's parameters */
};

struct ss_value_info {
    int c, h, w;
    int producer; /* layer index */
    int uses;     /* how many layer inputs read it */
};

/* NULL when out of memory (reported). The caller destroys it. */
struct ss_graph *ss_graph_create(const char *name);
void ss_graph_destroy(struct ss_graph *g);

ss_value ss_input(struct ss_graph *g, int channels, int height, int width);

/* Conv2d(x.C, out_channels, kernel, stride, padding, bias); weight (Co,Ci,k,k), both uniform with
 * bound 1/sqrt(Ci*k*k) (PyTorch's reset_parameters: kaiming_uniform with a = sqrt 5). */
ss_value ss_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels, int kernel,
                   int stride, int padding, int bias);
/* How the convolutions that are added from here on start. */
void ss_conv_init(struct ss_graph *g, enum ss_conv_init init);
/* BatchNorm2d with eps 1e-5 and momentum 0.1. */
ss_value ss_batchnorm2d(struct ss_graph *g, ss_value x, const char *name);
ss_value ss_relu(struct ss_graph *g, ss_value x);
/* p in [0, 1). p = 0 returns x itself. */
ss_value ss_dropout(struct ss_graph *g, ss_value x, float p);
ss_value ss_add(struct ss_graph *g, ss_value a, ss_value b);
ss_value ss_maxpool2d(struct ss_graph *g, ss_value x, int kernel, int stride, int padding);
ss_value ss_avgpool2d(struct ss_graph *g, ss_value x, int kernel, int stride);
/* AdaptiveAvgPool2d(1): the mean of each channel; square maps only. */
ss_value ss_global_avgpool2d(struct ss_graph *g, ss_value x);
/* Flatten, then Linear with bias; the value's shape is (outputs,1,1). */
ss_value ss_linear(struct ss_graph *g, ss_value x, const char *name, int outputs);
/* Linear layers that are added from here on start with normal weights of this standard deviation
 * and biases 0; 0: with Linear's default, both uniform with bound 1/sqrt(inputs). */
void ss_linear_init(struct ss_graph *g, float std);
/* CrossEntropyLoss over a linear layer's output; ends the graph. */
void ss_softmax_cross_entropy(struct ss_graph *g, ss_value logits);

/* Check the whole: it has one input and one loss, and every value is used. */
enum ss_status ss_graph_finish(struct ss_graph *g);

/* Reading a finished graph. */
const char *ss_graph_name(const struct ss_graph *g);
int ss_graph_layers(const struct ss_graph *g);
const struct ss_layer *ss_graph_layer(const struct ss_graph *g, int i);
int ss_graph_params(const struct ss_graph *g);
const struct ss_param *ss_graph_param(const struct ss_graph *g, int i);
const struct ss_value_info *ss_graph_value(const struct ss_graph *g, ss_value v);
int ss_graph_values(const struct ss_graph *g);

/* Elements of a parameter (1 for shape ()). */
int64_t ss_param_elements(const struct ss_param *p);

#endif
