/* The training file of a checkpoint (checkpoint.h).
 *
 * Tensors "STATE.NAME" of the optimizer's states, fp32 in PyTorch's layout, by the parameter's
 * name: independent of buckets and memory layouts. Metadata: the notes, that is the run's position
 * (position.h) and the options that change results, and CRC-32Cs, of this file's content and of
 * the model file that belongs to it. */
#ifndef SS_TRAIN_TRAINING_FILE_H
#define SS_TRAIN_TRAINING_FILE_H

#include "train/position.h"
#include "train/safetensors.h"
#include "train/session.h"

/* Write it, atomically; num_batches_tracked and the loss scale are the session's. model: the file
 * that belongs to it, just written. */
enum ss_status ss_training_file_write(const struct ss_session *s, const struct ss_position *p,
                                      const char *path, const char *model);

/* How the run that wrote the file differs from this one, where that may be. */
struct ss_training_origin {
    int64_t ranks, global_batch;
};

/* Check both files, then set weights, optimizer and loss scale of this rank's executor, and *p.
 * Options that a run cannot change are compared; those that it may are told. Errors: SS_ERR_IO,
 * SS_ERR_FORMAT (damage), SS_ERR_MISMATCH (another run); the message names file and field, and the
 * executor is changed only when everything fits. A session without one only gets the checks. */
enum ss_status ss_training_file_read(struct ss_session *s, const char *path, const char *model,
                                     struct ss_position *p, struct ss_training_origin *origin);

/* training_notes.c: the notes. */
enum { SS_TRAINING_NOTES = 32 + SS_TRAIN_MOST_ROWS, SS_TRAINING_TEXT = 64 };
struct ss_training_notes {
    size_t n; /* pairs */
    const char *key[SS_TRAINING_NOTES];
    const char *value[SS_TRAINING_NOTES];           /* of any length, UTF-8 */
    char room[SS_TRAINING_NOTES][SS_TRAINING_TEXT]; /* for values that are written nowhere else */
};
/* Of this session at this position, whose options they point to; the keys are the
 * same for every session. SS_ERR_MEMORY. */
enum ss_status ss_training_notes_take(const struct ss_session *s, const struct ss_position *p,
                                      struct ss_training_notes *notes);
/* The values of those keys in a file, which they point to; an option that it lacks had its default.
 * Errors: SS_ERR_FORMAT, also for an option that is not known here. */
enum ss_status ss_training_notes_read(const struct ss_safetensors *st, const char *path,
                                      struct ss_training_notes *notes);
/* What a file's notes mean to this session; its own is in `own`. */
enum ss_status ss_training_notes_understand(const struct ss_session *s, const char *path,
                                            const char *model, const struct ss_training_notes *own,
                                            const struct ss_training_notes *notes,
                                            struct ss_position *p,
                                            struct ss_training_origin *origin);

#endif
