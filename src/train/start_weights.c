#include "train/start_weights.h"
#include "core/folder.h"
#include "core/log.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Paths probed below a folder, in this order. */
static const char *const places[] = {SS_CHECKPOINT_MODEL, "latest/" SS_CHECKPOINT_MODEL,
                                     "checkpoints/latest/" SS_CHECKPOINT_MODEL};
enum { PLACES = sizeof places / sizeof *places };

static enum ss_status probe_folder(const char *folder, struct ss_start_weights *found)
{
    for (int i = 0; i < PLACES; i++)
        if (ss_folder_has(folder, places[i]))
            return ss_folder_join(found->weights, sizeof found->weights, folder, places[i]);
    return ss_fail(SS_ERR_INVALID,
                   "--init %s: no " SS_CHECKPOINT_MODEL " in this folder, nor in latest or "
                   "checkpoints/latest below it; name a checkpoint or a file",
                   folder);
}

/* 1 if --model or --width is given. The default text is the same pointer as in the option's
 * row. */
static int is_given(const struct ss_train_options *o)
{
    return o->model != ss_train_defaults().model || o->width;
}

static void find_model(struct ss_train_options *o, struct ss_start_weights *found)
{
    if (!is_given(o) &&
        ss_folder_beside(found->model, sizeof found->model, o->init, SS_CHECKPOINT_GRAPH))
        o->model = found->model;
}

enum ss_status ss_start_weights_find(struct ss_train_options *o, struct ss_start_weights *found)
{
    struct stat info;
    struct ss_safetensors *st;
    if (!o->init)
        return SS_OK;
    if (strlen(o->init) >= sizeof found->weights)
        return ss_fail(SS_ERR_INVALID, "--init: a path of %zu bytes is too long", strlen(o->init));
    if (stat(o->init, &info))
        return ss_fail(SS_ERR_IO, "--init %s: %s", o->init, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        SS_TRY(probe_folder(o->init, found));
        o->init = found->weights;
    }
    SS_TRY(ss_safetensors_open(o->init, &st));
    ss_safetensors_close(st);
    find_model(o, found);
    return SS_OK;
}
