/* Addition of two values. */
#include "layers/list.h"

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]),
                               *y = ss_graph_value(g, l->input[1]);
    if (x->c != y->c || x->h != y->h || x->w != y->w)
        return ss_graph_fail(g, SS_ERR_SHAPE, "layer %d adds (%d,%d,%d) and (%d,%d,%d)",
                             ss_graph_index(g, l), x->c, x->h, x->w, y->c, y->h, y->w);
    return ss_graph_add_same(g, l);
}

const struct ss_layer_class ss_add_class = {
    .name = "add",
    .least_inputs = 2,
    .most_inputs = 2,
    .lie_alike = 1,
    .build = build,
    .operation = "act",
    .places = SS_AT(ADD),
    .behind = SS_AT(OUT),
    .reads_x = 1,
    .needs_dx = 1,
};

ss_value ss_add(struct ss_graph *g, ss_value a, ss_value b)
{
    const struct ss_layer l = ss_layer_of(&ss_add_class);
    return ss_graph_add(g, &l, "", 2, (const ss_value[]){a, b});
}
