/* The models that `--model` names.
 *
 * To add one whose layers layers/layers.h has:
 *   1. A file here: a function like those below that calls ss_input(), the layers, and at the
 *      end ss_softmax_cross_entropy(). Names are those of the PyTorch model's state_dict; a
 *      Sequential numbers layers without parameters too (vgg.c). ss_conv_init() and
 *      ss_linear_init() say how the layers behind them start. The graph keeps the first
 *      mistake: nothing needs a check.
 *   2. Its declaration below, a line in the table of models.c and one in local.mk.
 *   3. In tests/reference: the PyTorch model with its widths as arguments
 *      (torchvision_models.py), and a line in record_torchvision.py, which then records the
 *      full model's names and a few steps of a narrow one. Widths that are no multiples of 8
 *      find more.
 *   4. A line each in tests/graph/test_models.c (names), tests/graph/test_plan.c (what every
 *      plan must hold, what is fused), tests/parity/test_init.sh (initial values) and
 *      tests/parity/test_parity_torchvision.sh (the recorded steps).
 *
 * `starstep plan --model NAME` shows what became of the layers. Nothing else knows the model:
 * not the lowering, not the kernels, not the training loop. */
#ifndef SS_GRAPHS_MODELS_H
#define SS_GRAPHS_MODELS_H

#include "core/size.h"
#include "graph/graph.h"
#include "graphs/model.h"

/* Of struct ss_model_options, with a model file (graph/graph_file.h): dropout 0 turns off all layers that drop values, and it has no
 * other; classes, channels and height may be 0: the file's own. */

/* Build the graph of model `name`. Errors: SS_ERR_INVALID (unknown model: the known ones are
 * listed; bad widths), SS_ERR_SHAPE; of files as ss_graph_read, and SS_ERR_MISMATCH. The caller destroys *out. */
enum ss_status ss_model_build(const char *name, const struct ss_model_options *options,
                              struct ss_graph **out);

/* Channels and size of the images that a model file is for; 0: built-in models take any. Errors: as
 * ss_graph_read. */
enum ss_status ss_model_images(const char *name, int *channels, struct ss_size *size);

/* Is it a model file's name? */
int ss_model_is_file(const char *name);

/* "wideresnet, ...", with those that ss_model_add() has added. Valid until it adds another one. */
const char *ss_model_names(void);

/* Each model's builder; see models.c. */
enum ss_status ss_wideresnet_build(struct ss_graph *g, const struct ss_model_options *options);
enum ss_status ss_resnet_build(struct ss_graph *g, const struct ss_model_options *options);
enum ss_status ss_vgg11_bn_build(struct ss_graph *g, const struct ss_model_options *options);

#endif
