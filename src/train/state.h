/* The model's state between runs: initial values, safetensors in and out under PyTorch's names. */
#ifndef SS_TRAIN_STATE_H
#define SS_TRAIN_STATE_H

#include "runtime/exec.h"

/* PyTorch's default initialisation, from SS_RNG_INIT and the parameter's index. */
enum ss_status ss_state_init(struct ss_exec *exec, const struct ss_plan *plan, uint64_t seed);

/* Load every parameter and buffer of the plan from a file: all names present, none unknown, shapes
 * equal, fp32 (num_batches_tracked int64). The executor is changed only if the whole file fits.
 * *batches: num_batches_tracked of the first BatchNorm. Errors: SS_ERR_IO, SS_ERR_FORMAT,
 * SS_ERR_MISMATCH. */
enum ss_status ss_state_load(struct ss_exec *exec, const struct ss_plan *plan, const char *path,
                             int64_t *batches);

/* Only whether it could be loaded. */
enum ss_status ss_state_check(const struct ss_plan *plan, const char *path);

/* Write all of them, atomically. batches: num_batches_tracked of every BatchNorm. */
enum ss_status ss_state_save(struct ss_exec *exec, const struct ss_plan *plan, const char *path,
                             int64_t batches);

#endif
