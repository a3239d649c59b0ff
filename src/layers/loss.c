/* The loss: the last layer of every graph. */
#include "layers/class.h"

static const struct ss_layer_class loss_class = {
    .name = "loss",
    .operation = "loss",
    .places = SS_AT(HEAD),
};

void ss_softmax_cross_entropy(struct ss_graph *g, ss_value logits)
{
    const struct ss_layer told = {.cls = &loss_class};
    struct ss_layer *l = ss_graph_add_layer(g, &told, "", 1, &logits);
    if (l && ss_graph_layer(g, ss_graph_value(g, logits)->producer)->cls->layout != SS_LAYOUT_PLAIN)
        ss_graph_fail(g, SS_ERR_UNSUPPORTED,
                      "the loss must read a linear layer's output, or a flattened one");
}
