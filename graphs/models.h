/* The built-in models of `--model`.
 *
 * To add one with the layers of layers/layers.h:
 *   1. A file here: a function like those below that calls ss_input(), the layers, and at the
 *      end ss_softmax_cross_entropy(). Names are those of the PyTorch model's state_dict; a
 *      Sequential numbers layers without parameters too (vgg.c). ss_conv_init() and
 *      ss_linear_init() set the initialization of the subsequent layers. The graph stores the
 *      first error: calls need no checks.
 *   2. Its declaration below, a line in the table of models.c and one in local.mk.
 *   3. In tests/reference: the PyTorch model with its widths as arguments
 *      (torchvision_models.py), and a line in record_torchvision.py, which then records the
 *      full model's names and a few steps of a narrow one. Widths that are not multiples of 8
 *      test more.
 *   4. A line each in tests/graph/test_models.c (names), tests/graph/test_plan.c (properties of
 *      every plan, fusion), tests/parity/test_init.sh (initial values) and
 *      tests/parity/test_parity_torchvision.sh (the recorded steps).
 *
 * `starstep plan --model NAME` prints the plan of the layers. No other code depends on the model:
 * neither the lowering, the kernels nor the training loop. */
#ifndef SS_GRAPHS_MODELS_H
#define SS_GRAPHS_MODELS_H

#include "core/size.h"
#include "graph/graph.h"
#include "graphs/model.h"

/* struct ss_model_options with a model file (graph/graph_file.h): dropout 0 disables all layers
 * that drop values, and a positive one is an error; classes, channels and height may be 0: the
 * file's. */

/* Build the graph of model `name`. Errors: SS_ERR_INVALID (unknown model: the known ones are
 * listed; invalid widths), SS_ERR_SHAPE; for files as ss_graph_read, and SS_ERR_MISMATCH. The
 * caller destroys *out. */
enum ss_status ss_model_build(const char *name, const struct ss_model_options *options,
                              struct ss_graph **out);

/* Get the channels and size of a model file's images; 0: built-in models accept any. Errors: as
 * ss_graph_read. */
enum ss_status ss_model_images(const char *name, int *channels, struct ss_size *size);

/* Returns whether it is a model file's name. */
int ss_model_is_file(const char *name);

/* Returns "wideresnet, ...", including models registered with ss_model_add(). Valid until the
 * next registration. */
const char *ss_model_names(void);

/* Builders of the models; see models.c. */
enum ss_status ss_wideresnet_build(struct ss_graph *g, const struct ss_model_options *options);
enum ss_status ss_resnet_build(struct ss_graph *g, const struct ss_model_options *options);
enum ss_status ss_vgg11_bn_build(struct ss_graph *g, const struct ss_model_options *options);

#endif
