/* Token sequence of a feature map, with class token and position embedding; selection of one
 * token. */
#include "layers/list.h"

#include <math.h>

static ss_value build_tokens(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    const int c = x->c, s = x->h * x->w + l->class_token;
    if (l->class_token)
        ss_graph_add_param(g, l, "class_token", SS_PARAM_OTHER, SS_INIT_CONSTANT, 0, 3, 1, 1, c);
    if (l->positions)
        ss_graph_add_param(g, l, "pos_embedding", SS_PARAM_OTHER_2, SS_INIT_NORMAL, 0.02f, 3, 1, s,
                           c);
    return ss_graph_add_value(g, l, c, s, 1);
}

static const struct ss_layer_field tokens_fields[] = {
    {"class_token", SS_FIELD_FLAG, SS_FIELD_AT(class_token), 0, 1, 1, NULL},
    {"positions", SS_FIELD_FLAG, SS_FIELD_AT(positions), 0, 1, 1, NULL},
    {0},
};

const struct ss_layer_class ss_tokens_class = {
    .name = "tokens",
    .fields = tokens_fields,
    .build = build_tokens,
    .operation = "tokens",
    .places = SS_AT(HEAD),
};

ss_value ss_tokens(struct ss_graph *g, ss_value x, const char *name, int class_token, int positions)
{
    struct ss_layer l = ss_layer_of(&ss_tokens_class);
    l.class_token = class_token;
    l.positions = positions;
    return ss_graph_add(g, &l, name, 1, &x);
}

static ss_value build_token(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    if (l->index < 0 || l->index >= x->h * x->w)
        return ss_graph_fail(
            g, SS_ERR_SHAPE,
            "layer %d (token): index %d is out of range; (%d,%d,%d) has %d positions",
            ss_graph_index(g, l), l->index, x->c, x->h, x->w, x->h * x->w);
    return ss_graph_add_value(g, l, x->c, 1, 1);
}

static const struct ss_layer_field token_fields[] = {
    {"index", SS_FIELD_INT, SS_FIELD_AT(index), 0, SS_MAX_VALUES, NAN, NULL},
    {0},
};

const struct ss_layer_class ss_token_class = {
    .name = "token",
    .fields = token_fields,
    .build = build_token,
    .operation = "token",
    .places = SS_AT(HEAD),
};

ss_value ss_token(struct ss_graph *g, ss_value x, int index)
{
    struct ss_layer l = ss_layer_of(&ss_token_class);
    l.index = index;
    return ss_graph_add(g, &l, "", 1, &x);
}
