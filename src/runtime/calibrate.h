/* Calibrate StarPU's performance models for GPU tasks in stream order. Such a task ends for
 * StarPU when it is enqueued, so StarPU cannot time it. If STARPU_CALIBRATE is set, events
 * measure the tasks (gpu_times.h), and the results are added to the models. */
#ifndef SS_RUNTIME_CALIBRATE_H
#define SS_RUNTIME_CALIBRATE_H

#include "codelets/lane.h"
#include "graph/plan.h"

struct ss_calibrate;

/* key: as in ss_exec_options. slots: steps in flight. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_calibrate_open(const struct ss_lanes *lanes, const struct ss_plan *plan,
                                 uint64_t key, int slots, struct ss_calibrate **out);
/* Return the hooks to attach to the executor. */
struct ss_hooks *ss_calibrate_hooks(struct ss_calibrate *c);
/* Stop measuring, while no task is running. whole: see ss_gpu_times_close. c may be NULL. */
enum ss_status ss_calibrate_end(struct ss_calibrate *c, int whole);
/* Free c, after StarPU has shut down, because StarPU writes the models on shutdown. c may be
 * NULL. */
void ss_calibrate_close(struct ss_calibrate *c);

#endif
