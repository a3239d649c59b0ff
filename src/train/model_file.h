/* The model's parameters: initial values, and the model file, which has them under PyTorch's names
 * (checkpoint.h). */
#ifndef SS_TRAIN_MODEL_FILE_H
#define SS_TRAIN_MODEL_FILE_H

#include "runtime/exec.h"

/* PyTorch's default initialisation, from SS_RNG_INIT and the parameter's index. */
enum ss_status ss_model_init(struct ss_exec *exec, const struct ss_plan *plan, uint64_t seed);

/* Load every parameter and buffer of the plan from a file: all names present, none unknown, shapes
 * equal, fp32 (num_batches_tracked int64). What PyTorch's users write otherwise is taken too, and told
 * by a warning: fp16, bf16 and fp64; names behind "module." or "_orig_mod."; int32 counts, or none. The
 * executor is changed only if the whole file fits.
 * *batches: num_batches_tracked of the first BatchNorm that has it. Errors: SS_ERR_IO, SS_ERR_FORMAT,
 * SS_ERR_MISMATCH. */
enum ss_status ss_model_file_read(struct ss_exec *exec, const struct ss_plan *plan,
                                  const char *path, int64_t *batches);

/* Only whether it could be loaded. */
enum ss_status ss_model_file_check(const struct ss_plan *plan, const char *path);

/* Write all of them, atomically. batches: num_batches_tracked of every BatchNorm. average: of the
 * weights (ss_exec_get_ema), in their place. */
enum ss_status ss_model_file_write(struct ss_exec *exec, const struct ss_plan *plan,
                                   const char *path, int64_t batches, int average);

#endif
