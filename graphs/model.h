/* User-defined models for `--model`, in addition to those of models.h. */
#ifndef SS_GRAPHS_MODEL_H
#define SS_GRAPHS_MODEL_H

#include "core/status.h"
#include "layers/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters of a model. Filled in by starstep; later versions may append members. */
struct ss_model_options {
    const char *width; /* --width as given; NULL: the model's own widths */
    float dropout;     /* negative: the model's default; ignored by models without dropout */
    int classes;       /* number of logits */
    int channels;      /* of one image */
    int height;        /* of one image, in pixels */
    int width_px;      /* of one image, in pixels */
};

/* Add the model's layers to g (layers/layers.h): first ss_input() with the options' channels,
 * height and width_px, last ss_softmax_cross_entropy() over `classes` logits. g stores the first
 * error, so calls need no checks. Other errors are reported and returned (ss_fail), else SS_OK.
 * The function may be called several times, and must build the same model on every rank. user: as
 * given to ss_model_add. */
typedef enum ss_status (*ss_model_builder)(struct ss_graph *g,
                                           const struct ss_model_options *options, void *user);

/* Register `build` as model `name` for `--model` in this process. No other thread may call
 * starstep meanwhile. name: letters, digits and "_-.", copied. user is passed to build and
 * remains the caller's. Errors: SS_ERR_INVALID (invalid or existing name), SS_ERR_MEMORY. */
enum ss_status ss_model_add(const char *name, ss_model_builder build, void *user);

#ifdef __cplusplus
}
#endif

#endif
