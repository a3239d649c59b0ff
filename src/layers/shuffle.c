/* Channel shuffle: view(groups, C / groups), transposed. Zhang, Zhou, Lin, Sun 2017, section
 * 3.1. */
#include "layers/list.h"

#include <math.h>

static ss_value build(struct ss_graph *g, struct ss_layer *l)
{
    const int c = ss_graph_value(g, l->input[0])->c;
    if (l->groups < 1 || c % l->groups)
        return ss_graph_fail(g, SS_ERR_SHAPE, "layer %d: %d channels are not %d equal groups",
                             ss_graph_index(g, l), c, l->groups);
    return ss_graph_add_same(g, l);
}

static const struct ss_layer_field fields[] = {
    {"groups", SS_FIELD_INT, SS_FIELD_AT(groups), 1, SS_MAX_CHANNELS, NAN, NULL},
    {0},
};

const struct ss_layer_class ss_shuffle_class = {
    .name = "shuffle",
    .fields = fields,
    .build = build,
    .operation = "shuffle",
    .places = SS_AT(HEAD) | SS_AT(ORDER),
    .layout = SS_LAYOUT_CHOSEN,
    .reads_samples = ss_layer_of_channels,
};

ss_value ss_shuffle(struct ss_graph *g, ss_value x, int groups)
{
    struct ss_layer l = ss_layer_of(&ss_shuffle_class);
    l.groups = groups;
    return ss_graph_add(g, &l, "", 1, &x);
}
