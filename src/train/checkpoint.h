/* Checkpoints. A checkpoint is a folder with these files:
 *
 *   model.safetensors     model file (model_file.h): the parameters under PyTorch's names
 *   model.json            layers (graph/graph_file.h): the model itself, so that --init does not
 *                         need the options that created it
 *   data.json             image preprocessing and class names (data_file.h), for evaluation and
 *                         prediction with images of other folders
 *   training.safetensors  training file (training_file.h): the rest of the training state. The
 *                         tensors are the optimizer states. The metadata are notes: the run's
 *                         position (position.h) and the options that change results
 *
 * With --ema-decay, model_ema.safetensors is a model file with the EMA of the weights and the
 * model's running statistics. A resumed run reads the EMA from the training file's states.
 *
 * safetensors.h implements the file format; resume.h resumes from a checkpoint.
 *
 * The folder of a run's checkpoints (--checkpoint-dir):
 *
 *   epoch-NNNN/     checkpoint after an epoch
 *   step-NNNNNNNN/  checkpoint after a step (--checkpoint-steps, or a signal)
 *   latest          symbolic link to the newest checkpoint
 *   best            symbolic link to the best epoch's checkpoint, with --best; --keep neither
 *                   counts nor removes that checkpoint
 *
 * A checkpoint is written to NAME.new, flushed, and renamed; then the link is replaced. So after
 * a crash `latest` is always a complete checkpoint, the previous or the new one. */
#ifndef SS_TRAIN_CHECKPOINT_H
#define SS_TRAIN_CHECKPOINT_H

#include "train/position.h"
#include "train/session.h"

#define SS_CHECKPOINT_MODEL "model.safetensors"
#define SS_CHECKPOINT_EMA "model_ema.safetensors"
#define SS_CHECKPOINT_GRAPH "model.json"
#define SS_CHECKPOINT_DATA "data.json"
#define SS_CHECKPOINT_TRAINING "training.safetensors"

enum ss_checkpoint_kind { SS_CHECKPOINT_EPOCH, SS_CHECKPOINT_STEP };

/* Write a checkpoint, point `latest` to it, and prune older ones: retain the newest `keep` of
 * each kind; with keep 0, all epochs and only a step checkpoint that is the latest. number:
 * completed epochs or steps. Errors: SS_ERR_IO, SS_ERR_MEMORY; `latest` is then unchanged. */
enum ss_status ss_checkpoint_write(const struct ss_session *s, const struct ss_position *p,
                                   const char *dir, enum ss_checkpoint_kind kind, int64_t number,
                                   long keep);

/* Find the newest checkpoint in DIR and store its path in `folder`; *found is 0 if there is none.
 * Errors: SS_ERR_INVALID (several checkpoints, but no `latest`). */
enum ss_status ss_checkpoint_newest(const char *dir, char *folder, size_t capacity, int *found);

/* Returns 1 if DIR contains a checkpoint of any run, and stores one name in `name`. */
int ss_checkpoint_any(const char *dir, char *name);

/* Remove all checkpoints except the given one, which must be the latest. */
void ss_checkpoint_remove_others(const char *dir, enum ss_checkpoint_kind kind, int64_t number);

/* checkpoint_folder.c: names and removal. */
enum { SS_CHECKPOINT_NAME = 40 };
/* "epoch-0003" */
void ss_checkpoint_name(enum ss_checkpoint_kind kind, int64_t number, char *name);
/* Move DIR/NAME.new to DIR/NAME, replacing an existing one, and point `latest` to it. Also
 * completes an install that a crash interrupted. */
enum ss_status ss_checkpoint_install(const char *dir, const char *name);
/* Complete or remove unfinished checkpoints left by a crash. Call before writing one. */
enum ss_status ss_checkpoint_clean(const char *dir);
/* Point `best` to the checkpoint of an epoch. Remove the link if that checkpoint does not exist
 * (the run was resumed from an earlier one). Errors: SS_ERR_IO. */
enum ss_status ss_checkpoint_link_best(const char *dir, int64_t epoch);
/* Remove the checkpoints of a kind with numbers below `below`, except the newest `keep` of them
 * and the target of `best`. */
void ss_checkpoint_prune(const char *dir, enum ss_checkpoint_kind kind, int64_t below, long keep);

#endif
