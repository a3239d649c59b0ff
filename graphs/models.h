/* The models that `--model` names. A new model is one file here, one line in models.c and one in
 * local.mk. */
#ifndef SS_GRAPHS_MODELS_H
#define SS_GRAPHS_MODELS_H

#include "graph/graph.h"

struct ss_model_options {
    const char *width; /* --width as given; NULL: the model's own widths */
    float dropout;     /* negative: the model's own */
    int classes;
    int channels, height, width_px; /* of one image */
};

/* Build the graph of model `name`. Errors: SS_ERR_INVALID (unknown model: the known ones are
 * listed; bad widths), SS_ERR_SHAPE. The caller destroys *out. */
enum ss_status ss_model_build(const char *name, const struct ss_model_options *options,
                              struct ss_graph **out);

/* "wideresnet, ..." */
const char *ss_model_names(void);

/* Each model's builder; see models.c. */
enum ss_status ss_wideresnet_build(struct ss_graph *g, const struct ss_model_options *options);
enum ss_status ss_resnet50_build(struct ss_graph *g, const struct ss_model_options *options);
enum ss_status ss_vgg11_bn_build(struct ss_graph *g, const struct ss_model_options *options);

#endif
