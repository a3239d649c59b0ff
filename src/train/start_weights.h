/* Resolve --init: the weights' file, or a folder that contains it, and the model of the
 * weights. */
#ifndef SS_TRAIN_START_WEIGHTS_H
#define SS_TRAIN_START_WEIGHTS_H

#include "train/options.h"

/* Must live as long as the options, which may point into it. */
struct ss_start_weights {
    char weights[4096], model[4096];
};

/* Set o->init to the file of the weights. --init may be a file, a checkpoint, a --checkpoint-dir
 * (its latest checkpoint is used), or a job's result folder. If neither --model nor --width is
 * given and a model.json is beside the weights, as in every checkpoint, o->model is set to it.
 * Does nothing without --init. Errors: SS_ERR_IO (not found), SS_ERR_INVALID (a folder without
 * weights), SS_ERR_FORMAT (not a safetensors file). */
enum ss_status ss_start_weights_find(struct ss_train_options *o, struct ss_start_weights *found);

#endif
