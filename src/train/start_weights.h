/* What --init names: a model file's weights, or a folder with them, and the model that they are of. */
#ifndef SS_TRAIN_START_WEIGHTS_H
#define SS_TRAIN_START_WEIGHTS_H

#include "train/options.h"

/* Lives as long as the options, which may point into it. */
struct ss_start_weights {
    char weights[4096], model[4096];
};

/* --init may be a checkpoint, --checkpoint-dir, whose latest one it is then, or a job's result folder; it
 * is the weights' file afterwards. Where neither --model nor --width is given and a model.json lies beside
 * it, as in every checkpoint, --model is that. Without --init nothing happens. Errors: SS_ERR_IO (not
 * there), SS_ERR_INVALID (a folder without weights), SS_ERR_FORMAT (no safetensors). */
enum ss_status ss_start_weights_find(struct ss_train_options *o, struct ss_start_weights *found);

#endif
