/* How long a plan's tasks take, where that is known beforehand. */
#ifndef SS_TRAIN_TASK_TIMES_H
#define SS_TRAIN_TASK_TIMES_H

#include "graph/plan.h"
#include "sim/machine.h"
#include "train/options.h"

#include <stdint.h>

/* That of ss_exec_options: what a task's time depends on beside the plan. threads: that compute. */
uint64_t ss_train_model_key(const struct ss_train_options *o, const struct ss_train_device *device,
                            int threads);

/* "measured": as StarPU has measured them on this kind of node (runtime/measured.h). */
int ss_times_are_measured(const char *from);
/* Is it that, "host", or a GPU that has figures? Errors: SS_ERR_INVALID. */
enum ss_status ss_times_check(const char *from);
/* The machine of that name, for this plan; of "host", *host is filled with what so many threads reach now, on the compute worker
 * where there is one. Errors: SS_ERR_INVALID, SS_ERR_MEMORY. */
enum ss_status ss_times_machine(const char *from, const struct ss_plan *plan, int threads,
                                struct ss_machine *host, const struct ss_machine **out);
/* Seconds of each task of the training step; 0: not known. key and threads: of the run. The caller frees *out.
 * Errors: those of ss_measured_seconds, ss_times_machine and ss_roofline_seconds. */
enum ss_status ss_times_take(const char *from, const struct ss_plan *plan, uint64_t key,
                             int threads, int tf32, double **out);

#endif
