/* Channel slice of a value. */
#include "layers/list.h"

#include <math.h>

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const struct ss_value_info *x = ss_graph_value(g, l->input[0]);
    if (l->range[0] < 0 || l->range[0] >= l->range[1] || l->range[1] > x->c)
        return ss_graph_fail(
            g, SS_ERR_SHAPE, "layer %d takes channels %d to %d of (%d,%d,%d); there are 0 to %d",
            ss_graph_index(g, l), l->range[0], l->range[1], x->c, x->h, x->w, x->c);
    return ss_graph_add_value(g, l, l->range[1] - l->range[0], x->h, x->w);
}

static const struct ss_layer_field fields[] = {
    {"begin", SS_FIELD_INT, SS_FIELD_AT(range[0]), 0, SS_MAX_CHANNELS, NAN, NULL},
    {"end", SS_FIELD_INT, SS_FIELD_AT(range[1]), 1, SS_MAX_CHANNELS, NAN, NULL},
    {0},
};

const struct ss_layer_class ss_slice_class = {
    .name = "slice",
    .fields = fields,
    .build = build,
    .operation = "slice",
    .places = SS_AT(HEAD),
    .layout = SS_LAYOUT_CHOSEN,
    .reads_samples = ss_layer_of_channels,
};

ss_value ss_slice(struct ss_graph *g, ss_value x, int begin, int end)
{
    struct ss_layer l = ss_layer_of(&ss_slice_class);
    l.range[0] = begin;
    l.range[1] = end;
    return ss_graph_add(g, &l, "", 1, &x);
}
