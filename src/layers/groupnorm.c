/* Group normalisation, and an activation behind it. */
#include "layers/class.h"

/* Mean and 1 / deviation of each group of each image, (2,N,groups). */
static size_t saved_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                          size_t elements, size_t each)
{
    (void)each;
    (void)y;
    (void)elements;
    return 2 * sizeof(float) * (size_t)n * (size_t)l->groups;
}

static const struct ss_layer_class groupnorm_class = {
    .name = "groupnorm",
    .operation = "groupnorm",
    .places = SS_AT(HEAD),
    .behind = SS_AT(ACT),
    .reads_x = 1,
    .needs_dx = 1,
    .saved = {.name = "saved", .bytes = saved_bytes},
};

ss_value ss_groupnorm(struct ss_graph *g, ss_value x, const char *name, int groups)
{
    struct ss_layer *l = ss_graph_add_layer(g, &groupnorm_class, name, 1, x, -1);
    if (!l)
        return -1;
    int c = ss_graph_value(g, x)->c;
    if (groups < 1 || c % groups)
        return ss_graph_fail(g, SS_ERR_SHAPE, "layer %s: %d channels are not %d equal groups", name,
                             c, groups);
    l->groups = groups;
    l->eps = 1e-5f;
    ss_graph_add_param(g, l, "weight", SS_PARAM_GAMMA, SS_INIT_CONSTANT, 1, 1, c);
    ss_graph_add_param(g, l, "bias", SS_PARAM_BETA, SS_INIT_CONSTANT, 0, 1, c);
    return ss_graph_add_same(g, l);
}
