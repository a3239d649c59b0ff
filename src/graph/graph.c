#include "graph/graph.h"
#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 4096, MAX_PARAMS = 8192 };

struct ss_graph {
    char name[SS_NAME_BYTES];
    enum ss_status status; /* the first mistake */
    struct ss_layer_defaults defaults;
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

ss_value ss_graph_fail(struct ss_graph *g, enum ss_status status, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (g->status == SS_OK)
        g->status = ss_fail(status, "model %s: %s", g->name, text);
    return -1;
}

struct ss_layer *ss_graph_add_layer(struct ss_graph *g, const struct ss_layer_class *cls,
                                    const char *name, int inputs, ss_value a, ss_value b)
{
    const ss_value in[2] = {a, b};
    if (g->nlayers == MAX_LAYERS)
        ss_graph_fail(g, SS_ERR_INVALID, "more than %d layers", MAX_LAYERS);
    for (int i = 0; i < inputs; i++)
        if (in[i] < 0 || in[i] >= g->nvalues)
            ss_graph_fail(g, SS_ERR_INVALID,
                          "layer %d (%s) reads a value that is not of this graph", g->nlayers,
                          *name ? name : cls->name);
    for (int i = 0; *name && i < g->nlayers; i++)
        if (!strcmp(g->layers[i].name, name))
            ss_graph_fail(g, SS_ERR_INVALID, "two layers are named %s", name);
    if (g->status != SS_OK)
        return NULL;
    struct ss_layer *l = &g->layers[g->nlayers++];
    *l = (struct ss_layer){.cls = cls, .input = {a, b}, .output = -1, .first_param = g->nparams};
    snprintf(l->name, sizeof l->name, "%s", name);
    for (int i = 0; i < inputs; i++)
        g->values[in[i]].uses++;
    return l;
}

ss_value ss_graph_add_value(struct ss_graph *g, struct ss_layer *l, int c, int h, int w)
{
    l->output = g->nvalues;
    g->values[g->nvalues] = (struct ss_value_info){c, h, w, ss_graph_index(g, l), 0};
    return g->nvalues++;
}

ss_value ss_graph_add_same(struct ss_graph *g, struct ss_layer *l)
{
    if (!l)
        return -1;
    struct ss_value_info v = g->values[l->input[0]];
    return ss_graph_add_value(g, l, v.c, v.h, v.w);
}

void ss_graph_add_param(struct ss_graph *g, struct ss_layer *l, const char *suffix,
                        enum ss_param_role role, enum ss_init init, float init_value, int ndim, ...)
{
    if (g->nparams == MAX_PARAMS) {
        ss_graph_fail(g, SS_ERR_INVALID, "more than %d parameters", MAX_PARAMS);
        return;
    }
    struct ss_param *p = &g->params[g->nparams++];
    if (snprintf(p->name, sizeof p->name, "%s.%s", l->name, suffix) >= (int)sizeof p->name)
        ss_graph_fail(g, SS_ERR_INVALID, "parameter name %s.%s is too long", l->name, suffix);
    p->role = role;
    p->layer = ss_graph_index(g, l);
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

struct ss_layer_defaults *ss_graph_defaults(struct ss_graph *g)
{
    return &g->defaults;
}

enum ss_status ss_graph_finish(struct ss_graph *g)
{
    SS_TRY(g->status);
    int inputs = 0, losses = 0;
    for (int i = 0; i < g->nlayers; i++) {
        inputs += g->layers[i].input[0] < 0;
        losses += g->layers[i].output < 0;
    }
    if (inputs != 1 || losses != 1 || g->layers[0].input[0] >= 0 ||
        g->layers[g->nlayers - 1].output >= 0)
        ss_graph_fail(g, SS_ERR_INVALID,
                      "it must begin with its one input and end with its one loss (has %d and %d)",
                      inputs, losses);
    for (int v = 0; v < g->nvalues; v++)
        if (!g->values[v].uses)
            ss_graph_fail(g, SS_ERR_INVALID, "the output of layer %d is never used",
                          g->values[v].producer);
    return g->status;
}

const char *ss_graph_name(const struct ss_graph *g)
{
    return g->name;
}

int ss_graph_layers(const struct ss_graph *g)
{
    return g->nlayers;
}

int ss_graph_index(const struct ss_graph *g, const struct ss_layer *l)
{
    return (int)(l - g->layers);
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
