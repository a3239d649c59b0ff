/* Where a run writes, tried before it begins: a run of hours must not end at its first checkpoint
 * because of a mistyped folder. */
#ifndef SS_TRAIN_OUTPUTS_H
#define SS_TRAIN_OUTPUTS_H

#include "train/options.h"

/* What becomes of the folders that were missing. */
enum ss_outputs_folders { SS_OUTPUTS_KEEP_FOLDERS, SS_OUTPUTS_REMOVE_FOLDERS };

/* Make the missing folders, write a byte where this rank will write, and remove it again; files
 * that are there already stay as they are. Caches are tried only where something has to be written:
 * a complete one may be read-only. gpu: the run computes on a GPU. Errors: SS_ERR_IO,
 * SS_ERR_INVALID; then no new folder is left. */
enum ss_status ss_outputs_try(const struct ss_train_options *o, int rank, int gpu,
                              enum ss_outputs_folders folders);

#endif
