/* Checkpoints, and the words for their parts. A checkpoint is a folder of these files:
 *
 *   the model file     model.safetensors (model_file.h): the parameters, for everybody who has
 *                      PyTorch's names
 *   the layers         model.json (graph/graph_file.h): the model itself, whatever options made it, so that
 *                      nobody has to repeat them
 *   the images         data.json (data_file.h): what they were like, for images of other folders
 *   the training file  training.safetensors (training_file.h): what going on takes besides. Its
 *                      tensors are the optimizer's states; its metadata are notes: where the run
 *                      is, its position (position.h), and with which options it got there
 *
 * With --ema-decay there is model_ema.safetensors besides, a model file of the weights' average and the
 * model's running statistics. A resumed run has the average from the training file's states.
 *
 * safetensors.h is the format of both; resume.h goes on from them.
 *
 * The folder of a run's checkpoints:
 *
 *   epoch-NNNN/     after an epoch:  model.safetensors, training.safetensors
 *   step-NNNNNNNN/  after a step (--checkpoint-steps, or a signal), likewise
 *   latest          a symbolic link to the newest of them
 *   best            one to the best epoch's, with --best; --keep does not count and remove that
 *
 * A checkpoint is made in NAME.new, flushed, and renamed as a whole; then the link is replaced. So
 * a crash at any moment leaves `latest` a complete checkpoint, the former one or the new one. */
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

/* Write one and make it the latest; then remove what --keep does not want: all but the newest
 * `keep` of each kind, and with 0 the steps' that are not the latest. number: epochs or steps so
 * far. Errors: SS_ERR_IO, SS_ERR_MEMORY; the latest is the former one then. */
enum ss_status ss_checkpoint_write(const struct ss_session *s, const struct ss_position *p,
                                   const char *dir, enum ss_checkpoint_kind kind, int64_t number,
                                   long keep);

/* The folder of DIR's newest checkpoint; *found 0: there is none. Errors: SS_ERR_INVALID (there are
 * some, but no latest). */
enum ss_status ss_checkpoint_newest(const char *dir, char *folder, size_t room, int *found);

/* 1 if DIR has checkpoints, of whatever run; name: of one of them. */
int ss_checkpoint_any(const char *dir, char *name);

/* Remove all but that one, which is the latest. */
void ss_checkpoint_remove_others(const char *dir, enum ss_checkpoint_kind kind, int64_t number);

/* checkpoint_folder.c: names and removal. */
enum { SS_CHECKPOINT_NAME = 40 };
/* "epoch-0003" */
void ss_checkpoint_name(enum ss_checkpoint_kind kind, int64_t number, char *name);
/* Move DIR/NAME.new to DIR/NAME, in the place of one that may be there, and let latest name it.
 * Also ends what a crash has left half-done. */
enum ss_status ss_checkpoint_install(const char *dir, const char *name);
/* Remove what crashes have left, before another one is written. */
enum ss_status ss_checkpoint_clean(const char *dir);
/* Let `best` name the checkpoint of an epoch; remove the link if there is none (a run that went on
 * from before it). Errors: SS_ERR_IO. */
enum ss_status ss_checkpoint_link_best(const char *dir, int64_t epoch);
/* Remove a kind's checkpoints with numbers below `below`, all but the newest `keep` of them and
 * the one that `best` names. */
void ss_checkpoint_prune(const char *dir, enum ss_checkpoint_kind kind, int64_t below, long keep);

#endif
