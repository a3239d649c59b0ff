#include "graph/graph.h"
#include "core/log.h"
#include "core/utf8.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 4096, MAX_PARAMS = 8192 };

struct ss_graph {
    char name[SS_NAME_BYTES];
    enum ss_status status; /* the first error */
    const char *at;        /* id of the layer being added, for messages; NULL: none */
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
    ss_graph_rename(g, name);
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
        g->status = g->at ? ss_fail(status, "model %s: \"%.60s\": %s", g->name, g->at, text)
                          : ss_fail(status, "model %s: %s", g->name, text);
    return -1;
}

void ss_graph_rename(struct ss_graph *g, const char *name)
{
    ss_utf8_copy(g->name, sizeof g->name, name);
}

void ss_graph_at(struct ss_graph *g, const char *id)
{
    g->at = id;
}

enum ss_status ss_graph_status(const struct ss_graph *g)
{
    return g->status;
}

struct ss_layer ss_layer_of(const struct ss_layer_class *cls)
{
    struct ss_layer l = {.cls = cls, .stride = {1, 1}, .dilation = {1, 1}};
    for (const struct ss_layer_field *f = cls->fields; f && f->name; f++) {
        int *whole = (int *)(void *)((char *)&l + f->at);
        if (isnan(f->standard))
            continue;
        if (f->type == SS_FIELD_REAL)
            *(float *)whole = (float)f->standard;
        else
            whole[0] = (int)f->standard;
        if (f->type == SS_FIELD_PAIR)
            whole[1] = whole[0];
    }
    return l;
}

static int taken(const struct ss_graph *g, const char *name)
{
    for (int i = 0; i < g->nlayers; i++)
        if (!strcmp(g->layers[i].name, name))
            return 1;
    return 0;
}

struct ss_layer *ss_graph_add_layer(struct ss_graph *g, const struct ss_layer *settings,
                                    const char *name, int n, const ss_value *inputs)
{
    const struct ss_layer_class *cls = settings->cls;
    if (!name)
        name = "";
    if (g->nlayers == MAX_LAYERS)
        ss_graph_fail(g, SS_ERR_INVALID, "more than %d layers", MAX_LAYERS);
    for (int i = 0; i < n; i++)
        if (inputs[i] < 0 || inputs[i] >= g->nvalues)
            ss_graph_fail(g, SS_ERR_INVALID,
                          "layer %d (%s) reads a value that does not belong to this graph",
                          g->nlayers, *name ? name : cls->name);
    if (strlen(name) >= SS_NAME_BYTES)
        ss_graph_fail(g, SS_ERR_INVALID, "layer name %.40s... is too long; at most %d bytes", name,
                      SS_NAME_BYTES - 1);
    if (!ss_utf8_is(name))
        ss_graph_fail(g, SS_ERR_INVALID, "layer %d (%s) has a name that is not UTF-8", g->nlayers,
                      cls->name);
    if (*name && taken(g, name))
        ss_graph_fail(g, SS_ERR_INVALID, "two layers are named %s", name);
    if (g->status != SS_OK)
        return NULL;
    struct ss_layer *l = &g->layers[g->nlayers++];
    *l = *settings;
    l->output = -1;
    l->first_param = g->nparams;
    l->nparams = 0;
    l->ninputs = n;
    snprintf(l->name, sizeof l->name, "%s", name);
    for (int i = 0; i < SS_MAX_INPUTS; i++)
        l->input[i] = i < n ? inputs[i] : -1;
    for (int i = 0; i < n; i++)
        g->values[inputs[i]].uses++;
    return l;
}

/* Check that every renamed parameter exists. */
static void check_names(struct ss_graph *g, const struct ss_layer *l)
{
    for (int k = 0; k < l->nnames; k++) {
        int i = l->first_param;
        while (i < l->first_param + l->nparams && strcmp(g->params[i].suffix, l->names[k].suffix))
            i++;
        if (i == l->first_param + l->nparams)
            ss_graph_fail(g, SS_ERR_INVALID, "layer %d, a %s, has no parameter \"%.40s\"",
                          ss_graph_index(g, l), l->cls->name, l->names[k].suffix);
    }
}

/* Mark parameters as not trained. */
static void freeze(struct ss_graph *g, const struct ss_layer *l)
{
    for (int k = 0; k < l->nfrozen; k++) {
        int found = 0;
        for (int i = l->first_param; i < l->first_param + l->nparams; i++) {
            struct ss_param *p = &g->params[i];
            if (p->trainable && !strcmp(p->suffix, l->frozen[k]))
                found = p->frozen = 1;
        }
        if (!found)
            ss_graph_fail(g, SS_ERR_INVALID, "layer %d, a %s, has no parameter \"%.40s\" to freeze",
                          ss_graph_index(g, l), l->cls->name, l->frozen[k]);
    }
}

/* Returns the layout of value v, that of the first input if the layer preserves it. */
static enum ss_layout layout_of(const struct ss_graph *g, ss_value v)
{
    const struct ss_layer *l = &g->layers[g->values[v].producer];
    return l->cls->layout == SS_LAYOUT_KEPT ? layout_of(g, l->input[0]) : l->cls->layout;
}

/* Repack inputs of equal shape and different layouts to the layout of feature maps. */
static void align(struct ss_graph *g, int n, ss_value *inputs)
{
    int alike = 1;
    for (int i = 0; i < n; i++) {
        if (g->status != SS_OK || inputs[i] < 0 || inputs[i] >= g->nvalues)
            return; /* reported when the layer is added */
        const struct ss_value_info *v = &g->values[inputs[i]], *first = &g->values[inputs[0]];
        if (v->c != first->c || v->h != first->h || v->w != first->w)
            return;
        alike &= layout_of(g, inputs[i]) == layout_of(g, inputs[0]);
    }
    for (int i = 0; i < n && !alike; i++)
        if (layout_of(g, inputs[i]) != SS_LAYOUT_CHOSEN)
            inputs[i] = ss_layer_repack(g, inputs[i]);
}

/* Find an existing layer of this class whose inputs are the first of the n values; the longest
 * match. Returns the number of matching values. *out: its output. */
static int find_chained(const struct ss_graph *g, const struct ss_layer_class *cls, int n,
                        const ss_value *v, ss_value *out)
{
    int most = 0;
    for (int i = 0; i < g->nlayers; i++) {
        const struct ss_layer *l = &g->layers[i];
        int same = 0;
        while (l->cls == cls && same < l->ninputs && same < n && l->input[same] == v[same])
            same++;
        if (l->cls == cls && same == l->ninputs && same > most) {
            most = same;
            *out = l->output;
        }
    }
    return most;
}

/* Add all layers of a chain except the last. Returns the number of inputs left for the last one,
 * in `out`. */
static int chain(struct ss_graph *g, const struct ss_layer *settings, int n, const ss_value *inputs,
                 ss_value out[SS_MAX_INPUTS])
{
    ss_value rest[SS_MAX_LISTED], *v = rest;
    memcpy(rest, inputs, (size_t)n * sizeof *rest);
    while (g->status == SS_OK) {
        ss_value joined = -1;
        int taken = find_chained(g, settings->cls, n, v, &joined);
        if (taken == n || (!taken && n <= settings->cls->most_inputs))
            break;
        if (!taken) {
            taken = settings->cls->most_inputs;
            joined = ss_graph_add(g, settings, "", taken, v);
        }
        v += taken - 1;
        n -= taken - 1;
        v[0] = joined;
    }
    n = n < SS_MAX_INPUTS ? n : SS_MAX_INPUTS;
    memcpy(out, v, (size_t)n * sizeof *out);
    return n;
}

ss_value ss_graph_add(struct ss_graph *g, const struct ss_layer *settings, const char *name, int n,
                      const ss_value *inputs)
{
    const struct ss_layer_class *cls = settings->cls;
    ss_value own[SS_MAX_INPUTS];
    if (cls->chains && n > 0 && n <= SS_MAX_LISTED) {
        n = chain(g, settings, n, inputs, own);
        inputs = own;
    }
    if (cls->lie_alike && n > 0 && n <= SS_MAX_INPUTS) {
        memcpy(own, inputs, (size_t)n * sizeof *own);
        align(g, n, own);
        inputs = own;
    }
    const int most = cls->most_inputs ? cls->most_inputs : 1,
              least = cls->most_inputs ? cls->least_inputs : 1;
    if (n < least || n > most)
        return ss_graph_fail(g, SS_ERR_INVALID,
                             "layer %d (%s) reads %d values; a %s reads %d to %d", g->nlayers,
                             *name ? name : cls->name, n, cls->name, least, most);
    struct ss_layer *l = ss_graph_add_layer(g, settings, name, n, inputs);
    if (!l)
        return -1;
    const ss_value y = cls->build ? cls->build(g, l) : ss_graph_add_same(g, l);
    check_names(g, l);
    freeze(g, l);
    l->names = NULL;
    l->frozen = NULL;
    l->nnames = l->nfrozen = 0;
    return g->status == SS_OK ? y : -1;
}

ss_value ss_graph_add_value(struct ss_graph *g, struct ss_layer *l, int c, int h, int w)
{
    if (c > SS_MAX_CHANNELS || h > SS_MAX_SIDE || w > SS_MAX_SIDE ||
        (int64_t)c * h * w > SS_MAX_VALUES)
        return ss_graph_fail(g, SS_ERR_SHAPE, "layer %d (%s): an output of (%d,%d,%d) is too large",
                             ss_graph_index(g, l), *l->name ? l->name : l->cls->name, c, h, w);
    l->output = g->nvalues;
    g->values[g->nvalues] =
        (struct ss_value_info){.c = c, .h = h, .w = w, .producer = ss_graph_index(g, l)};
    return g->nvalues++;
}

ss_value ss_graph_add_same(struct ss_graph *g, struct ss_layer *l)
{
    if (!l)
        return -1;
    struct ss_value_info v = g->values[l->input[0]];
    return ss_graph_add_value(g, l, v.c, v.h, v.w);
}

static void name_param(struct ss_graph *g, const struct ss_layer *l, const char *suffix,
                       struct ss_param *p)
{
    const char *own = NULL;
    for (int k = 0; k < l->nnames; k++)
        if (!strcmp(l->names[k].suffix, suffix))
            own = l->names[k].name;
    p->suffix = suffix;
    if (!own && !*l->name)
        ss_graph_fail(g, SS_ERR_INVALID,
                      "layer %d, a %s, has parameters and therefore needs a name",
                      ss_graph_index(g, l), l->cls->name);
    if ((own ? snprintf(p->name, sizeof p->name, "%s", own)
             : snprintf(p->name, sizeof p->name, "%s.%s", l->name, suffix)) >= (int)sizeof p->name)
        ss_graph_fail(g, SS_ERR_INVALID, "parameter name %.60s... is too long", p->name);
    if (!ss_utf8_is(p->name))
        ss_graph_fail(g, SS_ERR_INVALID, "a parameter's name is not UTF-8");
    for (const char *c = p->name; *c; c++)
        if ((unsigned char)*c < ' ')
            ss_graph_fail(g, SS_ERR_INVALID, "a parameter's name has a control character");
    if (!strcmp(p->name, "__metadata__"))
        ss_graph_fail(g, SS_ERR_INVALID, "parameter name %s is reserved by the file format",
                      p->name);
    for (int i = 0; i < g->nparams; i++)
        if (!strcmp(g->params[i].name, p->name))
            ss_graph_fail(g, SS_ERR_INVALID, "two parameters are named %s", p->name);
}

void ss_graph_add_param(struct ss_graph *g, struct ss_layer *l, const char *suffix,
                        enum ss_param_role role, enum ss_init init, float init_value, int ndim, ...)
{
    if (g->nparams == MAX_PARAMS) {
        ss_graph_fail(g, SS_ERR_INVALID, "more than %d parameters", MAX_PARAMS);
        return;
    }
    struct ss_param *p = &g->params[g->nparams];
    name_param(g, l, suffix, p);
    p->role = role;
    p->layer = ss_graph_index(g, l);
    p->trainable = role < SS_PARAM_TRAINED;
    p->init = init;
    p->init_value = init_value;
    p->ndim = ndim;
    va_list ap;
    va_start(ap, ndim);
    for (int i = 0; i < ndim; i++)
        p->shape[i] = va_arg(ap, int);
    va_end(ap);
    if (ss_param_elements(p) > INT_MAX)
        ss_graph_fail(g, SS_ERR_SHAPE, "parameter %s has more than %d values", p->name, INT_MAX);
    g->nparams++;
    l->nparams++;
}

struct ss_layer_defaults *ss_graph_defaults(struct ss_graph *g)
{
    return &g->defaults;
}

/* As PyTorch's autograd: parameters that the loss has no gradient for are not trained, and values
 * that depend on no trained parameter need no gradient. */
static void find_gradients(struct ss_graph *g)
{
    for (int i = g->nlayers - 1; i >= 0; i--) { /* backward from the loss */
        const struct ss_layer *l = &g->layers[i];
        const int reached = l->output < 0 || g->values[l->output].graded;
        for (int k = 0; k < l->ninputs && l->input[k] >= 0; k++)
            g->values[l->input[k]].graded |= reached && !l->cls->detaches;
        for (int p = l->first_param; p < l->first_param + l->nparams; p++)
            g->params[p].frozen |= g->params[p].trainable && !reached;
    }
    for (int i = 0; i < g->nlayers; i++) { /* forward from the input */
        const struct ss_layer *l = &g->layers[i];
        int trains = 0;
        for (int k = 0; k < l->ninputs && l->input[k] >= 0 && !l->cls->detaches; k++)
            trains |= g->values[l->input[k]].graded;
        for (int p = l->first_param; p < l->first_param + l->nparams; p++)
            trains |= g->params[p].trainable && !g->params[p].frozen;
        if (l->output >= 0)
            g->values[l->output].graded &= trains;
    }
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
                      "it must begin with one input and end with one loss (has %d and %d)", inputs,
                      losses);
    for (int v = 0; v < g->nvalues; v++)
        if (!g->values[v].uses)
            ss_graph_fail(g, SS_ERR_INVALID, "the output of layer %d is never used",
                          g->values[v].producer);
    if (g->status == SS_OK)
        find_gradients(g);
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

void ss_value_shape(const struct ss_graph *g, ss_value x, int shape[3])
{
    static const struct ss_value_info none = {0};
    const struct ss_value_info *v = x >= 0 && x < g->nvalues ? &g->values[x] : &none;
    shape[0] = v->c;
    shape[1] = v->h;
    shape[2] = v->w;
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
