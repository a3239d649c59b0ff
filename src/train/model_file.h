/* The model's parameters: initialization, and the model file, which stores them under PyTorch's
 * names (checkpoint.h). */
#ifndef SS_TRAIN_MODEL_FILE_H
#define SS_TRAIN_MODEL_FILE_H

#include "runtime/exec.h"

/* Initialize all parameters with PyTorch's defaults, from SS_RNG_INIT and the parameter's
 * index. */
enum ss_status ss_model_init(struct ss_exec *exec, const struct ss_plan *plan, uint64_t seed);

/* Load every parameter and buffer of the plan from a file. All names must be present, no name
 * unknown, shapes equal, dtypes fp32 (num_batches_tracked int64). Also accepted, with a note:
 * fp16, bf16 and fp64; the name prefixes "module." and "_orig_mod."; missing counts. int32 counts
 * are accepted, too. The executor is changed only if the whole file matches. *batches:
 * num_batches_tracked of the first BatchNorm that has it, else 0. Errors: SS_ERR_IO,
 * SS_ERR_FORMAT, SS_ERR_MISMATCH. */
enum ss_status ss_model_file_read(struct ss_exec *exec, const struct ss_plan *plan,
                                  const char *path, int64_t *batches);

/* Check whether a file can be loaded, without loading it. Same errors. */
enum ss_status ss_model_file_check(const struct ss_plan *plan, const char *path);

/* Write all parameters and buffers atomically. batches: num_batches_tracked of every BatchNorm.
 * average: write the EMA of the weights (ss_exec_get_ema) instead of the weights. */
enum ss_status ss_model_file_write(struct ss_exec *exec, const struct ss_plan *plan,
                                   const char *path, int64_t batches, int average);

#endif
