/* --resume: restore a run from a checkpoint. */
#ifndef SS_TRAIN_RESUME_H
#define SS_TRAIN_RESUME_H

#include "train/position.h"
#include "train/session.h"

struct ss_resumed {
    struct ss_position at; /* zero for a new run */
    int yes;               /* the run resumes from a checkpoint */
    int checkpoints;       /* rank 0 has --checkpoint-dir; all ranks then take part in writing */
    int64_t ranks;         /* number of ranks that wrote it */
    char folder[4096];
};

/* Find the checkpoint of rank 0's options, restore weights, optimizer states and loss scale of
 * all ranks, and print one line about it. Without --resume only `checkpoints` is set. After an
 * error either nothing was changed or the run must end. Collective. Errors: SS_ERR_INVALID, and
 * those of ss_training_file_read. */
enum ss_status ss_resume(struct ss_session *s, struct ss_resumed *out);

/* Find and check the checkpoint and print the line, without restoring, for a session of
 * ss_session_open_check for `ranks` ranks. */
enum ss_status ss_resume_check(struct ss_session *s, int ranks);

#endif
