/* Scaled dot-product attention over the positions of a feature map. */
#include "layers/list.h"

#include <math.h>

/* Log-sum-exp of each query, (N,heads,S). */
static size_t saved_bytes(const struct ss_layer *l, const struct ss_value_info *y, int n,
                          size_t elements, size_t each)
{
    (void)elements;
    (void)each;
    return sizeof(float) * (size_t)n * (size_t)l->heads * (size_t)y->h * (size_t)y->w;
}

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    const int e = x->c / 3;
    if (x->c % 3 || l->heads < 1 || e % l->heads)
        return ss_graph_fail(g, SS_ERR_SHAPE,
                             "layer %d (attention): (%d,%d,%d) is not q, k and v of %d equal heads",
                             ss_graph_index(g, l), x->c, x->h, x->w, l->heads);
    return ss_graph_add_value(g, l, e, x->h, x->w);
}

static const struct ss_layer_field fields[] = {
    {"heads", SS_FIELD_INT, SS_FIELD_AT(heads), 1, SS_MAX_CHANNELS, NAN, NULL},
    {0},
};

const struct ss_layer_class ss_attention_class = {
    .name = "attention",
    .fields = fields,
    .build = build,
    .operation = "attention",
    .places = SS_AT(HEAD),
    .layout = SS_LAYOUT_CHOSEN,
    .reads_x = 1,
    .saved = {.name = "saved", .bytes = saved_bytes},
};

ss_value ss_attention(struct ss_graph *g, ss_value x, int heads)
{
    struct ss_layer l = ss_layer_of(&ss_attention_class);
    l.heads = heads;
    return ss_graph_add(g, &l, "", 1, &x);
}
