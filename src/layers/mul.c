/* Products of two values, and of a value with a parameter per channel. */
#include "layers/list.h"

static ss_value build_mul(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]),
                               *s = ss_graph_value(g, l->input[1]);
    const int equal = s->h == x->h && s->w == x->w, image = s->h == 1 && s->w == 1;
    if (x->c != s->c || !(equal || image))
        return ss_graph_fail(g, SS_ERR_SHAPE,
                             "layer %d multiplies (%d,%d,%d) by (%d,%d,%d), which is neither of "
                             "that shape nor (%d,1,1)",
                             ss_graph_index(g, l), x->c, x->h, x->w, s->c, s->h, s->w, x->c);
    return ss_graph_add_same(g, l);
}

const struct ss_layer_class ss_mul_class = {
    .name = "mul",
    .least_inputs = 2,
    .most_inputs = 2,
    .lie_alike = 1,
    .build = build_mul,
    .operation = "mul",
    .places = SS_AT(HEAD),
    .reads_x = 1,
};

static ss_value build_scale(struct ss_graph *g, struct ss_layer *l)
{
    const int c = ss_graph_value(g, l->input[0])->c;
    ss_graph_add_param(g, l, "weight", SS_PARAM_OTHER, SS_INIT_CONSTANT, l->init_std, l->ndim, c, 1,
                       1);
    return ss_graph_add_same(g, l);
}

static const struct ss_layer_field scale_fields[] = {
    {"ndim", SS_FIELD_INT, SS_FIELD_AT(ndim), 1, 3, 1, NULL},
    {"init", SS_FIELD_REAL, SS_FIELD_AT(init_std), -1e6, 1e6, 1, NULL},
    {0},
};

const struct ss_layer_class ss_scale_class = {
    .name = "scale",
    .fields = scale_fields,
    .build = build_scale,
    .operation = "scale",
    .places = SS_AT(HEAD),
    .reads_x = 1,
};

ss_value ss_mul(struct ss_graph *g, ss_value x, ss_value s)
{
    const struct ss_layer l = ss_layer_of(&ss_mul_class);
    return ss_graph_add(g, &l, "", 2, (const ss_value[]){x, s});
}

ss_value ss_scale(struct ss_graph *g, ss_value x, const char *name, int ndim)
{
    struct ss_layer l = ss_layer_of(&ss_scale_class);
    l.ndim = ndim;
    return ss_graph_add(g, &l, name, 1, &x);
}
