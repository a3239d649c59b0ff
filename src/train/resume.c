#include "train/resume.h"
#include "core/folder.h"
#include "core/log.h"
#include "train/checkpoint.h"
#include "train/training_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Find the checkpoint folder, on rank 0. *found is 0 to start a new run. */
static enum ss_status find(const struct ss_train_options *o, char *folder, size_t capacity,
                           int *found)
{
    *found = 0;
    if (o->checkpoint_steps && !o->checkpoint_dir)
        return ss_fail(SS_ERR_INVALID, "--checkpoint-steps %ld needs --checkpoint-dir",
                       o->checkpoint_steps);
    if (o->best && !o->checkpoint_dir)
        return ss_fail(SS_ERR_INVALID, "--best needs --checkpoint-dir");
    if (!o->resume)
        return SS_OK;
    if (!strcmp(o->resume, "auto")) {
        if (!o->checkpoint_dir)
            return ss_fail(SS_ERR_INVALID, "--resume auto needs --checkpoint-dir, or name a "
                                           "checkpoint with --resume FOLDER");
        return ss_checkpoint_newest(o->checkpoint_dir, folder, capacity, found);
    }
    struct stat st;
    if (stat(o->resume, &st) || !S_ISDIR(st.st_mode))
        return ss_fail(SS_ERR_INVALID,
                       "--resume %s: there is no such folder; name a checkpoint's folder, such as "
                       "DIR/latest of a --checkpoint-dir DIR, or auto",
                       o->resume);
    if (!ss_folder_has(o->resume, SS_CHECKPOINT_MODEL))
        return ss_fail(SS_ERR_INVALID,
                       "--resume %s: has no " SS_CHECKPOINT_MODEL "; name a checkpoint's folder%s",
                       o->resume,
                       ss_folder_has(o->resume, "latest") ? ", such as latest inside it" : "");
    if (snprintf(folder, capacity, "%s", o->resume) >= (int)capacity)
        return ss_fail(SS_ERR_INVALID, "--resume %.80s...: the folder's name is too long",
                       o->resume);
    *found = 1;
    return SS_OK;
}

/* Find and read the checkpoint, on rank 0. */
static enum ss_status read_checkpoint(struct ss_session *s, struct ss_resumed *r)
{
    char model[PATH_MAX], training[PATH_MAX];
    const char *folder = r->folder;
    struct ss_training_origin origin;
    SS_TRY(find(s->options, r->folder, sizeof r->folder - 32, &r->yes));
    if (!r->yes)
        return SS_OK;
    SS_TRY(ss_folder_join(model, sizeof model, folder, SS_CHECKPOINT_MODEL));
    SS_TRY(ss_folder_join(training, sizeof training, folder, SS_CHECKPOINT_TRAINING));
    if (!ss_folder_has(folder, SS_CHECKPOINT_TRAINING))
        return ss_fail(
            SS_ERR_INVALID,
            "--resume: %s has no " SS_CHECKPOINT_TRAINING " (an earlier version wrote "
            "none), so the position of the run is not known; start from its weights with "
            "--init %s and another --checkpoint-dir",
            folder, model);
    SS_TRY(ss_training_file_read(s, training, model, &r->at, &origin));
    r->ranks = origin.ranks;
    return SS_OK;
}

static void report(const struct ss_session *s, const struct ss_resumed *r, int ranks)
{
    const struct ss_train_options *o = s->options;
    if (!r->yes) {
        printf("No checkpoint in %s yet: the run begins\n", o->checkpoint_dir);
        return;
    }
    printf("Resuming from %s: %lld step%s done, %lld epoch%s and %lld batch%s", r->folder,
           (long long)r->at.step, r->at.step == 1 ? "" : "s", (long long)r->at.epoch,
           r->at.epoch == 1 ? "" : "s", (long long)r->at.batches, r->at.batches == 1 ? "" : "es");
    if (r->ranks != ranks)
        printf(" (by %lld rank%s, now %d)", (long long)r->ranks, r->ranks == 1 ? "" : "s", ranks);
    printf("\n");
}

/* Distribute the state that rank 0 has read. */
static enum ss_status share(struct ss_session *s, struct ss_resumed *r)
{
    SS_TRY(ss_exec_broadcast_params(s->exec));
    SS_TRY(ss_exec_broadcast_states(s->exec));
    s->batches = r->at.tracked;
    const struct ss_exec_scaler scaler = {.scale = (float)r->at.scale,
                                          .steps = (int)r->at.scale_steps,
                                          .skipped = (int)r->at.scale_skipped};
    return ss_session_agree(s, ss_exec_set_scaler(s->exec, &scaler), "setting the loss scale");
}

enum ss_status ss_resume(struct ss_session *s, struct ss_resumed *out)
{
    const struct ss_train_options *o = s->options;
    int first = ss_comm_rank(s->comm) == 0;
    memset(out, 0, sizeof *out);
    out->checkpoints = o->checkpoint_dir != NULL;
    enum ss_status status = SS_OK;
    if (first)
        status = read_checkpoint(s, out);
    SS_TRY(ss_session_agree(s, status, "reading the checkpoint"));
    /* Also without --resume: the collectives must not depend on an option that may differ by
     * rank. */
    SS_TRY(ss_comm_bcast(s->comm, out, sizeof *out, 0, "broadcast of the run's position"));
    if (out->yes)
        SS_TRY(share(s, out));
    if (first && o->resume)
        report(s, out, ss_comm_size(s->comm));
    return SS_OK;
}

enum ss_status ss_resume_check(struct ss_session *s, int ranks)
{
    struct ss_resumed r = {0};
    int64_t batch = s->step_batch;
    s->step_batch *= ranks; /* this check has one rank, and the global batch is compared */
    enum ss_status status = read_checkpoint(s, &r);
    s->step_batch = batch;
    if (status == SS_OK && s->options->resume)
        report(s, &r, ranks);
    return status;
}
