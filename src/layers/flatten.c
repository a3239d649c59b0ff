/* Layers that change the memory layout: flatten, whose output the loss may read, and repack,
 * which the graph inserts where an operation needs inputs of the same layout. */
#include "layers/list.h"

static ss_value flat(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    return ss_graph_add_value(g, l, x->c * x->h * x->w, 1, 1);
}

const struct ss_layer_class ss_flatten_class = {
    .name = "flatten",
    .build = flat,
    .operation = "flatten",
    .places = SS_AT(HEAD),
    .layout = SS_LAYOUT_PLAIN,
    .reads_samples = ss_layer_of_channels,
};

const struct ss_layer_class ss_repack_class = {
    .name = "repack",
    .operation = "repack",
    .places = SS_AT(HEAD),
    .layout = SS_LAYOUT_CHOSEN,
    .reads_samples = ss_layer_of_channels,
};

ss_value ss_layer_repack(struct ss_graph *g, ss_value x)
{
    const struct ss_layer l = ss_layer_of(&ss_repack_class);
    return ss_graph_add(g, &l, "", 1, &x);
}

ss_value ss_flatten(struct ss_graph *g, ss_value x)
{
    const struct ss_layer l = ss_layer_of(&ss_flatten_class);
    return ss_graph_add(g, &l, "", 1, &x);
}
