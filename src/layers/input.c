/* Input images: the first layer of every graph. */
#include "layers/class.h"

static const struct ss_layer_class input_class = {
    .name = "input",
    .layout = SS_LAYOUT_SAMPLES,
};

ss_value ss_input(struct ss_graph *g, int channels, int height, int width)
{
    const struct ss_layer told = {.cls = &input_class};
    struct ss_layer *l = ss_graph_add_layer(g, &told, "", 0, NULL);
    if (l && (channels < 1 || height < 1 || width < 1))
        return ss_graph_fail(g, SS_ERR_SHAPE, "an input of (%d,%d,%d) is empty", channels, height,
                             width);
    return l ? ss_graph_add_value(g, l, channels, height, width) : -1;
}
