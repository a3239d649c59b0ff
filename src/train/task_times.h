/* Predicted or previously measured times of a plan's tasks. */
#ifndef SS_TRAIN_TASK_TIMES_H
#define SS_TRAIN_TASK_TIMES_H

#include "graph/plan.h"
#include "sim/machine.h"
#include "train/options.h"

#include <stdint.h>

/* Model key of ss_exec_options: a hash of everything besides the plan that task times depend on.
 * threads: number of compute threads. */
uint64_t ss_train_model_key(const struct ss_train_options *o, const struct ss_train_device *device,
                            int threads);

/* Returns 1 for "measured": times measured by StarPU on this kind of node
 * (runtime/measured.h). */
int ss_times_are_measured(const char *from);
/* Check that `from` is "measured", "host", or the name of a GPU with known peak rates. Errors:
 * SS_ERR_INVALID. */
enum ss_status ss_times_check(const char *from);
/* Find the machine of that name. For "host", *host is filled with rates measured now with
 * `threads` threads, on the compute worker if there is one. Errors: SS_ERR_INVALID,
 * SS_ERR_MEMORY. */
enum ss_status ss_times_machine(const char *from, const struct ss_plan *plan, int threads,
                                struct ss_machine *host, const struct ss_machine **out);
/* Get the seconds of each task of the training step; 0: not known. key: ss_train_model_key of the
 * run; threads: its compute threads. The caller frees *out. Errors: those of ss_measured_seconds,
 * ss_times_machine and ss_roofline_seconds. */
enum ss_status ss_times_take(const char *from, const struct ss_plan *plan, uint64_t key,
                             int threads, int tf32, double **out);

#endif
