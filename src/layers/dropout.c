/* Dropout. */
#include "layers/class.h"

static const struct ss_layer_class dropout_class = {
    .name = "dropout",
    .operation = "act",
    .places = SS_AT(DROP),
    .reads_x = 1,
    .needs_dx = 1,
};

ss_value ss_dropout(struct ss_graph *g, ss_value x, float p)
{
    if (p == 0)
        return x;
    struct ss_layer *l = ss_graph_add_layer(g, &dropout_class, "", 1, x, -1);
    if (l && !(p > 0 && p < 1))
        return ss_graph_fail(g, SS_ERR_INVALID, "dropout %g is not in [0, 1)", (double)p);
    if (l)
        l->p = p;
    return ss_graph_add_same(g, l);
}
