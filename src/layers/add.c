/* Addition of two values. */
#include "layers/class.h"

static const struct ss_layer_class add_class = {
    .name = "add",
    .operation = "act",
    .places = SS_AT(ADD),
    .behind = SS_AT(OUT),
    .reads_x = 1,
    .needs_dx = 1,
};

ss_value ss_add(struct ss_graph *g, ss_value a, ss_value b)
{
    struct ss_layer *l = ss_graph_add_layer(g, &add_class, "", 2, a, b);
    if (!l)
        return -1;
    const struct ss_value_info *x = ss_graph_value(g, a), *y = ss_graph_value(g, b);
    if (x->c != y->c || x->h != y->h || x->w != y->w)
        return ss_graph_fail(g, SS_ERR_SHAPE, "layer %d adds (%d,%d,%d) and (%d,%d,%d)",
                             ss_graph_index(g, l), x->c, x->h, x->w, y->c, y->h, y->w);
    return ss_graph_add_same(g, l);
}
