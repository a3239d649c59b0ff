/* Dropout. */
#include "layers/list.h"

#include <math.h>

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    if (!(l->p >= 0 && l->p < 1))
        return ss_graph_fail(g, SS_ERR_INVALID, "dropout %g is not in [0, 1)", (double)l->p);
    return ss_graph_add_same(g, l);
}

static const struct ss_layer_field fields[] = {
    {"p", SS_FIELD_REAL, SS_FIELD_AT(p), 0, 0.999, NAN, NULL},
    {0},
};

const struct ss_layer_class ss_dropout_class = {
    .name = "dropout",
    .fields = fields,
    .build = build,
    .drops = 1,
    .operation = "act",
    .places = SS_AT(DROP),
    .reads_x = 1,
    .needs_dx = 1,
};

ss_value ss_dropout(struct ss_graph *g, ss_value x, float p)
{
    struct ss_layer l = ss_layer_of(&ss_dropout_class);
    l.p = p;
    return p == 0 ? x : ss_graph_add(g, &l, "", 1, &x);
}
