/* Identity that blocks the gradient: PyTorch's detach(). */
#include "layers/list.h"

const struct ss_layer_class ss_detach_class = {
    .name = "detach",
    .operation = "repack",
    .detaches = 1,
    .places = SS_AT(HEAD),
    .layout = SS_LAYOUT_CHOSEN,
    .reads_samples = ss_layer_of_channels,
};

ss_value ss_detach(struct ss_graph *g, ss_value x)
{
    const struct ss_layer l = ss_layer_of(&ss_detach_class);
    return ss_graph_add(g, &l, "", 1, &x);
}
