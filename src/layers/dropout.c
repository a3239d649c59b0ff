/* Dropout per element, and stochastic depth. */
#include "layers/list.h"

#include <math.h>

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    if (!(l->p >= 0 && l->p < 1))
        return ss_graph_fail(g, SS_ERR_INVALID, "%s %g is not in [0, 1)", l->cls->name,
                             (double)l->p);
    return ss_graph_add_same(g, l);
}

static ss_value build_shared(struct ss_graph *g, struct ss_layer *l)
{
    l->drop = l->mode ? SS_DROP_BATCH : SS_DROP_SAMPLE;
    return build(g, l);
}

#define FIELD_P                                                                                    \
    {                                                                                              \
        "p", SS_FIELD_REAL, SS_FIELD_AT(p), 0, 0.999, NAN, NULL                                    \
    }
static const struct ss_layer_field fields[] = {FIELD_P, {0}};
static const char *const modes[] = {"row", "batch", NULL};
static const struct ss_layer_field shared_fields[] = {
    FIELD_P,
    {"mode", SS_FIELD_WORD, SS_FIELD_AT(mode), 0, 0, 0, modes},
    {0},
};

/* The gradient follows from the random draws; x is not needed. */
#define DROPS                                                                                      \
    .drops = 1, .operation = "act", .places = SS_AT(DROP), .behind = SS_AT(ADD) | SS_AT(OUT),      \
    .needs_dx = 1

const struct ss_layer_class ss_dropout_class = {
    .name = "dropout", .fields = fields, .build = build, DROPS};
const struct ss_layer_class ss_stochastic_depth_class = {
    .name = "stochastic_depth", .fields = shared_fields, .build = build_shared, DROPS};

ss_value ss_dropout(struct ss_graph *g, ss_value x, float p)
{
    struct ss_layer l = ss_layer_of(&ss_dropout_class);
    l.p = p;
    return p == 0 ? x : ss_graph_add(g, &l, "", 1, &x);
}

ss_value ss_stochastic_depth(struct ss_graph *g, ss_value x, float p, int batch)
{
    struct ss_layer l = ss_layer_of(&ss_stochastic_depth_class);
    l.p = p;
    l.mode = batch;
    return p == 0 ? x : ss_graph_add(g, &l, "", 1, &x);
}
