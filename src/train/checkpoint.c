/* checkpoint.c: write a checkpoint (interface in checkpoint.h). */
#include "train/checkpoint.h"
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "graph/graph_file.h"
#include "train/model_file.h"
#include "train/training_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Create the folder, or accept an existing one. A symbolic link is refused: it would redirect the
 * checkpoint. */
static enum ss_status make_folder(const char *folder)
{
    struct stat st;
    if (!mkdir(folder, 0777))
        return SS_OK;
    if (errno != EEXIST)
        return ss_fail(SS_ERR_IO, "%s: cannot make this folder: %s", folder, strerror(errno));
    if (lstat(folder, &st) || !S_ISDIR(st.st_mode))
        return ss_fail(SS_ERR_IO, "%s: exists and is not a folder; move it to write the checkpoint",
                       folder);
    return SS_OK;
}

/* Write the EMA model, with the model's running statistics as in PyTorch's AveragedModel. */
static enum ss_status write_ema(const struct ss_session *s, const char *folder)
{
    char path[PATH_MAX];
    if (!(s->optim.ema_decay > 0))
        return SS_OK;
    SS_TRY(ss_folder_join(path, sizeof path, folder, SS_CHECKPOINT_EMA));
    return ss_model_file_write(s->exec, s->plan, path, s->batches, 1);
}

static enum ss_status write_graph(const struct ss_session *s, const char *folder)
{
    char path[PATH_MAX], *text;
    SS_TRY(ss_folder_join(path, sizeof path, folder, SS_CHECKPOINT_GRAPH));
    SS_TRY(ss_graph_text(s->graph, &text));
    enum ss_status status = ss_atomic_save(path, text, strlen(text));
    free(text);
    return status;
}

static enum ss_status write_data(const struct ss_session *s, const char *folder)
{
    char path[PATH_MAX];
    SS_TRY(ss_folder_join(path, sizeof path, folder, SS_CHECKPOINT_DATA));
    return ss_data_file_write(s->test, path);
}

static enum ss_status write_files(const struct ss_session *s, const struct ss_position *p,
                                  const char *folder)
{
    char model[PATH_MAX], training[PATH_MAX];
    SS_TRY(make_folder(folder));
    SS_TRY(ss_folder_join(model, sizeof model, folder, SS_CHECKPOINT_MODEL));
    SS_TRY(ss_folder_join(training, sizeof training, folder, SS_CHECKPOINT_TRAINING));
    SS_TRY(ss_model_file_write(s->exec, s->plan, model, s->batches, 0));
    SS_TRY(write_ema(s, folder)); /* before the states are dropped */
    SS_TRY(write_graph(s, folder));
    SS_TRY(write_data(s, folder));
    return ss_training_file_write(s, p, training, model);
}

enum ss_status ss_checkpoint_write(const struct ss_session *s, const struct ss_position *p,
                                   const char *dir, enum ss_checkpoint_kind kind, int64_t number,
                                   long keep)
{
    char name[SS_CHECKPOINT_NAME], made[SS_CHECKPOINT_NAME + 4], folder[PATH_MAX];
    SS_TRY(ss_folder_make(dir));
    SS_TRY(ss_checkpoint_clean(dir));
    ss_checkpoint_name(kind, number, name);
    snprintf(made, sizeof made, "%s.new", name);
    SS_TRY(ss_folder_join(folder, sizeof folder, dir, made));
    enum ss_status status = write_files(s, p, folder);
    if (status != SS_OK) {
        (void)ss_checkpoint_clean(dir); /* frees disk space */
        return status;
    }
    SS_TRY(ss_checkpoint_install(dir, name));
    if (s->options->best && p->best_epoch)
        SS_TRY(ss_checkpoint_link_best(dir, p->best_epoch));
    if (kind == SS_CHECKPOINT_EPOCH && keep)
        ss_checkpoint_prune(dir, kind, number, keep - 1);
    /* Step checkpoints serve resuming only: older ones are retained only with --keep. */
    if (kind == SS_CHECKPOINT_STEP)
        ss_checkpoint_prune(dir, kind, number, keep - 1);
    else
        ss_checkpoint_prune(dir, SS_CHECKPOINT_STEP, p->step + 1, keep);
    return SS_OK;
}
