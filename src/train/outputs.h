/* Test of the output paths before a run, so that a mistyped folder does not fail it at the first
 * checkpoint. */
#ifndef SS_TRAIN_OUTPUTS_H
#define SS_TRAIN_OUTPUTS_H

#include "train/options.h"

/* Whether to keep the folders that were created. */
enum ss_outputs_folders { SS_OUTPUTS_KEEP_FOLDERS, SS_OUTPUTS_REMOVE_FOLDERS };

/* Create missing folders and test with a temporary file that this rank can write to its outputs.
 * Existing files are not changed. Caches are tested only if they have to be written: a complete
 * one may be read-only. gpu: the run computes on a GPU. Errors: SS_ERR_IO, SS_ERR_INVALID; the
 * new folders are then removed. */
enum ss_status ss_outputs_try(const struct ss_train_options *o, int rank, int gpu,
                              enum ss_outputs_folders folders);

#endif
