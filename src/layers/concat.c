/* Concatenation along channels. */
#include "layers/list.h"

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    int c = 0;
    for (int k = 0; k < l->ninputs; k++) {
        const struct ss_value_info *v = ss_graph_value(g, l->input[k]);
        if (v->h != x->h || v->w != x->w)
            return ss_graph_fail(g, SS_ERR_SHAPE,
                                 "layer %d concatenates channels of (%d,%d,%d) and (%d,%d,%d)",
                                 ss_graph_index(g, l), x->c, x->h, x->w, v->c, v->h, v->w);
        c += v->c;
    }
    return ss_graph_add_value(g, l, c, x->h, x->w);
}

const struct ss_layer_class ss_concat_class = {
    .name = "concat",
    .least_inputs = 2,
    .most_inputs = SS_MAX_INPUTS,
    .chains = 1,
    .concatenates = 1,
    .build = build,
    .operation = "concat",
    .places = SS_AT(HEAD),
    .behind = SS_AT(ORDER),
    .layout = SS_LAYOUT_CHOSEN,
    .reads_samples = ss_layer_of_channels,
};

ss_value ss_concat(struct ss_graph *g, const ss_value *values, int n)
{
    const struct ss_layer l = ss_layer_of(&ss_concat_class);
    return ss_graph_add(g, &l, "", n, values);
}
