#include "graph/graph.h"
#include "core/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 4096, MAX_PARAMS = 8192 };

struct ss_graph {
    char name[SS_NAME_BYTES];
    enum ss_status status; /* the first mistake */
    enum ss_conv_init conv_init;
    float linear_std; /* 0: Linear's default */
    int nlayers, nparams, nvalues;
    struct ss_layer layers[MAX_LAYERS];
    struct ss_param params[MAX_PARAMS];
    struct ss_value_info values[MAX_LAYERS];
};

struct ss_graph *ss_graph_create(const char *name)
{
    struct ss_graph *g = calloc(1, sizeof *g);
    if (!g) {
        ss_fail_memory("layer graph", sizeof *g);
        return NULL;
    }
    snprintf(g->name, sizeof g->name, "%s", name);
    return g;
}

void ss_graph_destroy(struct ss_graph *g)
{
    free(g);
}

/* A new layer reading a and b (-1: none), or NULL when the graph has failed before or the inputs
 * are not values of it. */
static struct ss_layer *add_layer(struct ss_graph *g, enum ss_layer_kind kind, const char *name,
                                  ss_value a, ss_value b, int inputs)
{
    if (g->status != SS_OK)
        return NULL;
    if (g->nlayers == MAX_LAYERS) {
        g->status = ss_fail(SS_ERR_INVALID, "model %s: more than %d layers", g->name, MAX_LAYERS);
        return NULL;
    }
    ss_value in[2] = {a, b};
    for (int i = 0; i < inputs; i++)
        if (in[i] < 0 || in[i] >= g->nvalues) {
            g->status = ss_fail(SS_ERR_INVALID,
                                "model %s: layer %d (%s) reads a value that is not of this graph",
                                g->name, g->nlayers, name);
            return NULL;
        }
    for (int i = 0; *name && i < g->nlayers; i++)
        if (!strcmp(g->layers[i].name, name)) {
            g->status = ss_fail(SS_ERR_INVALID, "model %s: two layers are named %s", g->name, name);
            return NULL;
        }
    struct ss_layer *l = &g->layers[g->nlayers++];
    l->kind = kind;
    snprintf(l->name, sizeof l->name, "%s", name);
    l->input[0] = a;
    l->input[1] = b;
    l->output = -1;
    l->first_param = g->nparams;
    for (int i = 0; i < inputs; i++)
        g->values[in[i]].uses++;
    return l;
}

static ss_value add_value(struct ss_graph *g, struct ss_layer *l, int c, int h, int w)
{
    l->output = g->nvalues;
    g->values[g->nvalues] = (struct ss_value_info){c, h, w, (int)(l - g->layers), 0};
    return g->nvalues++;
}

static void add_param(struct ss_graph *g, struct ss_layer *l, const char *suffix,
                      enum ss_param_role role, enum ss_init init, float init_value, int ndim, ...)
{
    if (g->nparams == MAX_PARAMS) {
        g->status =
            ss_fail(SS_ERR_INVALID, "model %s: more than %d parameters", g->name, MAX_PARAMS);
        return;
    }
    struct ss_param *p = &g->params[g->nparams++];
    if (snprintf(p->name, sizeof p->name, "%s.%s", l->name, suffix) >= (int)sizeof p->name)
        g->status = ss_fail(SS_ERR_INVALID, "model %s: parameter name %s.%s is too long", g->name,
                            l->name, suffix);
    p->role = role;
    p->layer = (int)(l - g->layers);
    p->trainable = role <= SS_PARAM_BETA;
    p->init = init;
    p->init_value = init_value;
    p->ndim = ndim;
    va_list ap;
    va_start(ap, ndim);
    for (int i = 0; i < ndim; i++)
        p->shape[i] = va_arg(ap, int);
    va_end(ap);
    l->nparams++;
}

static void add_bias(struct ss_graph *g, struct ss_layer *l, int zero, float bound, int n)
{
    add_param(g, l, "bias", SS_PARAM_BIAS, zero ? SS_INIT_CONSTANT : SS_INIT_UNIFORM,
              zero ? 0 : bound, 1, n);
}

ss_value ss_input(struct ss_graph *g, int channels, int height, int width)
{
    struct ss_layer *l = add_layer(g, SS_LAYER_INPUT, "", -1, -1, 0);
    if (l && (channels < 1 || height < 1 || width < 1)) {
        g->status = ss_fail(SS_ERR_SHAPE, "model %s: an input of (%d,%d,%d) is empty", g->name,
                            channels, height, width);
        return -1;
    }
    return l ? add_value(g, l, channels, height, width) : -1;
}

/* Output extent of a window sliding over n, or 0 when it does not fit. */
static int windows(int n, int kernel, int stride, int padding)
{
    if (kernel < 1 || stride < 1 || padding < 0 || n + 2 * padding < kernel)
        return 0;
    return (n + 2 * padding - kernel) / stride + 1;
}

static ss_value windowed(struct ss_graph *g, struct ss_layer *l, int channels, int kernel,
                         int stride, int padding)
{
    const struct ss_value_info *x = &g->values[l->input[0]];
    int h = windows(x->h, kernel, stride, padding), w = windows(x->w, kernel, stride, padding);
    if (!h || !w || channels < 1) {
        g->status = ss_fail(SS_ERR_SHAPE,
                            "model %s: layer %d (%s): kernel %d, stride %d, padding %d, %d "
                            "channels do not fit input (%d,%d,%d)",
                            g->name, (int)(l - g->layers), l->name, kernel, stride, padding,
                            channels, x->c, x->h, x->w);
        return -1;
    }
    l->kernel = kernel;
    l->stride = stride;
    l->padding = padding;
    return add_value(g, l, channels, h, w);
}

ss_value ss_conv2d(struct ss_graph *g, ss_value x, const char *name, int out_channels, int kernel,
                   int stride, int padding, int bias)
{
    struct ss_layer *l = add_layer(g, SS_LAYER_CONV2D, name, x, -1, 1);
    if (!l)
        return -1;
    int in = g->values[x].c;
    int normal = g->conv_init == SS_CONV_INIT_FAN_OUT;
    float bound = 1.0f / sqrtf((float)in * kernel * kernel);
    float std = sqrtf(2.0f / ((float)out_channels * (float)kernel * (float)kernel));
    l->bias = bias;
    add_param(g, l, "weight", SS_PARAM_WEIGHT, normal ? SS_INIT_NORMAL : SS_INIT_UNIFORM,
              normal ? std : bound, 4, out_channels, in, kernel, kernel);
    if (bias)
        add_bias(g, l, normal, bound, out_channels);
    return windowed(g, l, out_channels, kernel, stride, padding);
}

void ss_conv_init(struct ss_graph *g, enum ss_conv_init init)
{
    g->conv_init = init;
}

void ss_linear_init(struct ss_graph *g, float std)
{
    g->linear_std = std;
}

ss_value ss_batchnorm2d(struct ss_graph *g, ss_value x, const char *name)
{
    struct ss_layer *l = add_layer(g, SS_LAYER_BATCHNORM2D, name, x, -1, 1);
    if (!l)
        return -1;
    struct ss_value_info v = g->values[x];
    l->eps = 1e-5f;
    l->momentum = 0.1f;
    add_param(g, l, "weight", SS_PARAM_GAMMA, SS_INIT_CONSTANT, 1, 1, v.c);
    add_param(g, l, "bias", SS_PARAM_BETA, SS_INIT_CONSTANT, 0, 1, v.c);
    add_param(g, l, "running_mean", SS_PARAM_RUNNING_MEAN, SS_INIT_CONSTANT, 0, 1, v.c);
    add_param(g, l, "running_var", SS_PARAM_RUNNING_VAR, SS_INIT_CONSTANT, 1, 1, v.c);
    add_param(g, l, "num_batches_tracked", SS_PARAM_NUM_BATCHES, SS_INIT_CONSTANT, 0, 0);
    return add_value(g, l, v.c, v.h, v.w);
}

/* A layer without parameters whose output has the shape of x. */
static ss_value same_shape(struct ss_graph *g, struct ss_layer *l)
{
    if (!l)
        return -1;
    struct ss_value_info v = g->values[l->input[0]];
    return add_value(g, l, v.c, v.h, v.w);
}

ss_value ss_relu(struct ss_graph *g, ss_value x)
{
    return same_shape(g, add_layer(g, SS_LAYER_RELU, "", x, -1, 1));
}

ss_value ss_dropout(struct ss_graph *g, ss_value x, float p)
{
    if (p == 0 && g->status == SS_OK)
        return x;
    struct ss_layer *l = add_layer(g, SS_LAYER_DROPOUT, "", x, -1, 1);
    if (!l)
        return -1;
    if (!(p > 0 && p < 1)) {
        g->status =
            ss_fail(SS_ERR_INVALID, "model %s: dropout %g is not in [0, 1)", g->name, (double)p);
        return -1;
    }
    l->p = p;
    return same_shape(g, l);
}

ss_value ss_add(struct ss_graph *g, ss_value a, ss_value b)
{
    struct ss_layer *l = add_layer(g, SS_LAYER_ADD, "", a, b, 2);
    if (!l)
        return -1;
    struct ss_value_info *x = &g->values[a], *y = &g->values[b];
    if (x->c != y->c || x->h != y->h || x->w != y->w) {
        g->status = ss_fail(SS_ERR_SHAPE, "model %s: layer %d adds (%d,%d,%d) and (%d,%d,%d)",
                            g->name, g->nlayers - 1, x->c, x->h, x->w, y->c, y->h, y->w);
        return -1;
    }
    return same_shape(g, l);
}

ss_value ss_maxpool2d(struct ss_graph *g, ss_value x, int kernel, int stride, int padding)
{
    struct ss_layer *l = add_layer(g, SS_LAYER_MAXPOOL2D, "", x, -1, 1);
    return l ? windowed(g, l, g->values[x].c, kernel, stride, padding) : -1;
}

ss_value ss_avgpool2d(struct ss_graph *g, ss_value x, int kernel, int stride)
{
    struct ss_layer *l = add_layer(g, SS_LAYER_AVGPOOL2D, "", x, -1, 1);
    return l ? windowed(g, l, g->values[x].c, kernel, stride, 0) : -1;
}

ss_value ss_global_avgpool2d(struct ss_graph *g, ss_value x)
{
    if (g->status != SS_OK || x < 0)
        return -1;
    const struct ss_value_info *v = &g->values[x];
    if (v->h != v->w) {
        g->status = ss_fail(SS_ERR_SHAPE,
                            "model %s: the mean over a map of (%d,%d,%d), which is not square; use "
                            "square images",
                            g->name, v->c, v->h, v->w);
        return -1;
    }
    return ss_avgpool2d(g, x, v->h, v->h);
}

ss_value ss_linear(struct ss_graph *g, ss_value x, const char *name, int outputs)
{
    struct ss_layer *l = add_layer(g, SS_LAYER_LINEAR, name, x, -1, 1);
    if (!l)
        return -1;
    struct ss_value_info v = g->values[x];
    int inputs = v.c * v.h * v.w;
    float bound = 1.0f / sqrtf((float)inputs);
    l->bias = 1;
    int normal = g->linear_std > 0;
    add_param(g, l, "weight", SS_PARAM_WEIGHT, normal ? SS_INIT_NORMAL : SS_INIT_UNIFORM,
              normal ? g->linear_std : bound, 2, outputs, inputs);
    add_bias(g, l, normal, bound, outputs);
    if (outputs < 1) {
        g->status =
            ss_fail(SS_ERR_SHAPE, "model %s: layer %s has %d outputs", g->name, name, outputs);
        return -1;
    }
    return add_value(g, l, outputs, 1, 1);
}

void ss_softmax_cross_entropy(struct ss_graph *g, ss_value logits)
{
    struct ss_layer *l = add_layer(g, SS_LAYER_LOSS, "", logits, -1, 1);
    if (l && g->layers[g->values[logits].producer].kind != SS_LAYER_LINEAR)
        g->status =
            ss_fail(SS_ERR_UNSUPPORTED, "model %s: the loss must read a linear layer", g->name);
}

enum ss_status ss_graph_finish(struct ss_graph *g)
{
    SS_TRY(g->status);
    int inputs = 0, losses = 0;
    for (int i = 0; i < g->nlayers; i++) {
        inputs += g->layers[i].kind == SS_LAYER_INPUT;
        losses += g->layers[i].kind == SS_LAYER_LOSS;
    }
    if (inputs != 1 || losses != 1 || g->layers[0].kind != SS_LAYER_INPUT ||
        g->layers[g->nlayers - 1].kind != SS_LAYER_LOSS)
        return g->status = ss_fail(SS_ERR_INVALID,
                                   "model %s: it must begin with its one input and end with its "
                                   "one loss (has %d and %d)",
                                   g->name, inputs, losses);
    for (int v = 0; v < g->nvalues; v++)
        if (!g->values[v].uses)
            return g->status =
                       ss_fail(SS_ERR_INVALID, "model %s: the output of layer %d is never used",
                               g->name, g->values[v].producer);
    return SS_OK;
}

const char *ss_graph_name(const struct ss_graph *g)
{
    return g->name;
}

int ss_graph_layers(const struct ss_graph *g)
{
    return g->nlayers;
}

const struct ss_layer *ss_graph_layer(const struct ss_graph *g, int i)
{
    return &g->layers[i];
}

int ss_graph_params(const struct ss_graph *g)
{
    return g->nparams;
}

const struct ss_param *ss_graph_param(const struct ss_graph *g, int i)
{
    return &g->params[i];
}

const struct ss_value_info *ss_graph_value(const struct ss_graph *g, ss_value v)
{
    return &g->values[v];
}

int ss_graph_values(const struct ss_graph *g)
{
    return g->nvalues;
}

int64_t ss_param_elements(const struct ss_param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->ndim; i++)
        n *= p->shape[i];
    return n;
}
