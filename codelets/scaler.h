/* codelets/scaler.c: dynamic loss scaling on a GPU.
 *
 * check  a bucket's all-reduced gradients read   scaler state read and written
 * scale  scaler state read and written: the end of a step */
#ifndef SS_CODELETS_SCALER_H
#define SS_CODELETS_SCALER_H

#include "codelets/task.h"

enum ss_status ss_check_submit(const struct ss_step_args *args);
enum ss_status ss_scale_submit(const struct ss_step_args *args);

#endif
