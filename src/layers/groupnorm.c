/* Group normalization, fused with a following activation. */
#include "layers/list.h"

#include <math.h>

/* Mean and 1 / standard deviation of each group of each image, (2,N,groups). */
static size_t saved_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                          size_t elements, size_t each)
{
    (void)each;
    (void)y;
    (void)elements;
    return 2 * sizeof(float) * (size_t)n * (size_t)l->groups;
}

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const int c = ss_graph_value(g, l->input[0])->c;
    if (l->groups < 1 || c % l->groups)
        return ss_graph_fail(g, SS_ERR_SHAPE, "layer %s: %d channels are not %d equal groups",
                             l->name, c, l->groups);
    ss_graph_add_param(g, l, "weight", SS_PARAM_GAMMA, SS_INIT_CONSTANT, 1, 1, c);
    ss_graph_add_param(g, l, "bias", SS_PARAM_BETA, SS_INIT_CONSTANT, 0, 1, c);
    return ss_graph_add_same(g, l);
}

static const struct ss_layer_field fields[] = {
    {"groups", SS_FIELD_INT, SS_FIELD_AT(groups), 1, SS_MAX_CHANNELS, NAN, NULL},
    {"eps", SS_FIELD_REAL, SS_FIELD_AT(eps), 0, 1, 1e-5, NULL},
    {0},
};

const struct ss_layer_class ss_groupnorm_class = {
    .name = "groupnorm",
    .fields = fields,
    .build = build,
    .operation = "groupnorm",
    .places = SS_AT(HEAD),
    .behind = SS_AT(ACT),
    .reads_x = 1,
    .needs_dx = 1,
    .saved = {.name = "saved", .bytes = saved_bytes},
};

ss_value ss_groupnorm(struct ss_graph *g, ss_value x, const char *name, int groups)
{
    struct ss_layer l = ss_layer_of(&ss_groupnorm_class);
    l.groups = groups;
    return ss_graph_add(g, &l, name, 1, &x);
}
