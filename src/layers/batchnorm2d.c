/* Batch normalization. */
#include "layers/list.h"

/* Batch mean and 1 / standard deviation, (2,C). */
static size_t saved_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                          size_t elements, size_t each)
{
    (void)each;
    (void)l;
    (void)n;
    (void)elements;
    return 2 * sizeof(float) * (size_t)y->c;
}

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const int c = ss_graph_value(g, l->input[0])->c;
    ss_graph_add_param(g, l, "weight", SS_PARAM_GAMMA, SS_INIT_CONSTANT, 1, 1, c);
    ss_graph_add_param(g, l, "bias", SS_PARAM_BETA, SS_INIT_CONSTANT, 0, 1, c);
    ss_graph_add_param(g, l, "running_mean", SS_PARAM_RUNNING_MEAN, SS_INIT_CONSTANT, 0, 1, c);
    ss_graph_add_param(g, l, "running_var", SS_PARAM_RUNNING_VAR, SS_INIT_CONSTANT, 1, 1, c);
    ss_graph_add_param(g, l, "num_batches_tracked", SS_PARAM_NUM_BATCHES, SS_INIT_CONSTANT, 0, 0);
    return ss_graph_add_same(g, l);
}

static const struct ss_layer_field fields[] = {
    {"eps", SS_FIELD_REAL, SS_FIELD_AT(eps), 0, 1, 1e-5, NULL},
    {"momentum", SS_FIELD_REAL, SS_FIELD_AT(momentum), 0, 1, 0.1, NULL},
    {0},
};

const struct ss_layer_class ss_batchnorm2d_class = {
    .name = "batchnorm2d",
    .fields = fields,
    .build = build,
    .operation = "act",
    .places = SS_AT(NORM),
    .behind = SS_AT(ACT) | SS_AT(DROP) | SS_AT(ADD) | SS_AT(OUT),
    .reads_x = 1,
    .needs_dx = 1,
    .reads_parts = SS_AT(NORM),
    .writes_parts = SS_AT(NORM),
    .saved = {.name = "saved", .bytes = saved_bytes},
};

ss_value ss_batchnorm2d(struct ss_graph *g, ss_value x, const char *name)
{
    const struct ss_layer l = ss_layer_of(&ss_batchnorm2d_class);
    return ss_graph_add(g, &l, name, 1, &x);
}
