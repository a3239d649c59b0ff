/* --resume: where a run begins. */
#ifndef SS_TRAIN_RESUME_H
#define SS_TRAIN_RESUME_H

#include "train/position.h"
#include "train/session.h"

struct ss_resumed {
    struct ss_position at; /* zero of a run that begins */
    int yes;               /* the run goes on from a checkpoint */
    int checkpoints;       /* rank 0 has a --checkpoint-dir; then all take part in writing */
    int64_t ranks;         /* that wrote it */
    char folder[4096];
};

/* Find the checkpoint that rank 0's options name, set weights, states and loss scale of all ranks
 * to it, and tell what was found in one line. Without --resume only `checkpoints` is set. After an
 * error nothing was changed, or the run ends. Collective. Errors: SS_ERR_INVALID, and those of
 * ss_training_file_read. */
enum ss_status ss_resume(struct ss_session *s, struct ss_resumed *out);

/* Only find, check and tell, for a session of ss_session_open_check for so many ranks. */
enum ss_status ss_resume_check(struct ss_session *s, int ranks);

#endif
