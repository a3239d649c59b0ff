/* Layer normalization over the channels at each position. */
#include "layers/list.h"

/* Mean and 1 / standard deviation at each position of each image, (2,N,H,W). */
static size_t saved_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                          size_t elements, size_t each)
{
    (void)l;
    (void)elements;
    (void)each;
    return 2 * sizeof(float) * (size_t)n * (size_t)y->h * (size_t)y->w;
}

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const int c = ss_graph_value(g, l->input[0])->c;
    ss_graph_add_param(g, l, "weight", SS_PARAM_GAMMA, SS_INIT_CONSTANT, 1, 1, c);
    ss_graph_add_param(g, l, "bias", SS_PARAM_BETA, SS_INIT_CONSTANT, 0, 1, c);
    return ss_graph_add_same(g, l);
}

static const struct ss_layer_field fields[] = {
    {"eps", SS_FIELD_REAL, SS_FIELD_AT(eps), 0, 1, 1e-5, NULL},
    {0},
};

const struct ss_layer_class ss_layernorm_class = {
    .name = "layernorm",
    .fields = fields,
    .build = build,
    .operation = "layernorm",
    .places = SS_AT(HEAD),
    .reads_x = 1,
    .saved = {.name = "saved", .bytes = saved_bytes},
};

ss_value ss_layernorm(struct ss_graph *g, ss_value x, const char *name, float eps)
{
    struct ss_layer l = ss_layer_of(&ss_layernorm_class);
    l.eps = eps;
    return ss_graph_add(g, &l, name, 1, &x);
}
