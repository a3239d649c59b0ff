/* plan --lr-table: the learning rates of a planned run. */
#ifndef SS_APPS_COMMANDS_PLAN_LR_H
#define SS_APPS_COMMANDS_PLAN_LR_H

#include "train/options.h"

#include <stdio.h>

/* The schedule of a run with `ranks` ranks and `images` images per epoch. Errors:
 * SS_ERR_INVALID. */
enum ss_status ss_plan_lr(const struct ss_train_options *o, long ranks, long images,
                          struct ss_schedule *out);
/* Print one line per epoch: its first and last step with their learning rates. Errors: SS_ERR_IO,
 * SS_ERR_MEMORY. */
enum ss_status ss_plan_lr_print(const struct ss_schedule *s, int json, FILE *out);
/* Plot the learning rate of all steps (SVG). Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_plan_lr_draw(const struct ss_schedule *s, const char *file);

#endif
