/* A model of one's own that `--model` names, beside those of models.h. */
#ifndef SS_GRAPHS_MODEL_H
#define SS_GRAPHS_MODEL_H

#include "core/status.h"
#include "layers/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a model is built for. Made by starstep; later versions may add members at the end. */
struct ss_model_options {
    const char *width; /* --width as given; NULL: the model's own widths */
    float dropout;     /* negative: the model's own; models without dropout have none to change */
    int classes;
    int channels, height, width_px; /* of one image */
};

/* Add the model's layers to g (layers/layers.h): first ss_input() with the options' channels, height and
 * width_px, at the end ss_softmax_cross_entropy() over `classes` logits. g keeps the first mistake, so that
 * nothing needs a check; what else is wrong is reported and returned (ss_fail), else SS_OK. It may be called
 * several times, and builds the same on every rank. user: as given to ss_model_add. */
typedef enum ss_status (*ss_model_builder)(struct ss_graph *g,
                                           const struct ss_model_options *options, void *user);

/* From now on `--model NAME` means what `build` builds, in this process, of which no other thread calls
 * starstep meanwhile. name: letters, digits and "_-.", copied. user is handed through, and stays the
 * caller's. Errors: SS_ERR_INVALID (no such name may be, or one is taken), SS_ERR_MEMORY. */
enum ss_status ss_model_add(const char *name, ss_model_builder build, void *user);

#ifdef __cplusplus
}
#endif

#endif
