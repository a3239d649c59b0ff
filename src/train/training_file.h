/* The training file of a checkpoint (checkpoint.h).
 *
 * Tensors: the optimizer states as "STATE.NAME" with the parameter's name, fp32 in PyTorch's
 * layout, independent of buckets and memory layouts. Metadata: the notes, which are the run's
 * position (position.h) and the options that change results, and the CRC-32Cs of this file's
 * content and of its model file. */
#ifndef SS_TRAIN_TRAINING_FILE_H
#define SS_TRAIN_TRAINING_FILE_H

#include "train/position.h"
#include "train/safetensors.h"
#include "train/session.h"

/* Write a training file atomically. num_batches_tracked and the loss scale are taken from the
 * session. model: path of the checkpoint's model file, already written. */
enum ss_status ss_training_file_write(const struct ss_session *s, const struct ss_position *p,
                                      const char *path, const char *model);

/* Properties of the run that wrote the file which may differ from this run. */
struct ss_training_origin {
    int64_t ranks, global_batch;
};

/* Check both files, then restore weights, optimizer states and num_batches_tracked of this
 * session, and set *p, which contains the loss scale. Options that must not change at a resume
 * are compared; changes of others are reported. The executor is changed only if all checks
 * succeed; a session without executor is only checked. Errors: SS_ERR_IO, SS_ERR_FORMAT (damage),
 * SS_ERR_MISMATCH (another run); the message names file and field. */
enum ss_status ss_training_file_read(struct ss_session *s, const char *path, const char *model,
                                     struct ss_position *p, struct ss_training_origin *origin);

/* training_notes.c: notes. */
enum { SS_TRAINING_NOTES = 32 + SS_TRAIN_MOST_ROWS, SS_TRAINING_TEXT = 64 };
struct ss_training_notes {
    size_t n; /* pairs */
    const char *key[SS_TRAINING_NOTES];
    const char *value[SS_TRAINING_NOTES];              /* any length, UTF-8 */
    char storage[SS_TRAINING_NOTES][SS_TRAINING_TEXT]; /* of formatted values */
};
/* Set the notes of this session at this position. Values may point to the session's options. The
 * keys are the same for every session. Errors: SS_ERR_MEMORY. */
enum ss_status ss_training_notes_take(const struct ss_session *s, const struct ss_position *p,
                                      struct ss_training_notes *notes);
/* Read the values of the notes' keys from a file; they point into it. A missing option gets its
 * default. Errors: SS_ERR_FORMAT, also for an option that this version does not know. */
enum ss_status ss_training_notes_read(const struct ss_safetensors *st, const char *path,
                                      struct ss_training_notes *notes);
/* Compare a file's notes with the session's own, `own`, and set *p and *origin from them. */
enum ss_status ss_training_notes_understand(const struct ss_session *s, const char *path,
                                            const char *model, const struct ss_training_notes *own,
                                            const struct ss_training_notes *notes,
                                            struct ss_position *p,
                                            struct ss_training_origin *origin);

#endif
