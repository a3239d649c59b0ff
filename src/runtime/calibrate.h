/* In stream order a task on a GPU ends for StarPU when it is enqueued, so StarPU cannot time it. Where
 * STARPU_CALIBRATE asks for that, events do (gpu_times.h), and the performance models get what they say. */
#ifndef SS_RUNTIME_CALIBRATE_H
#define SS_RUNTIME_CALIBRATE_H

#include "codelets/lane.h"
#include "graph/plan.h"

struct ss_calibrate;

/* key: that of ss_exec_options. slots: steps in flight. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_calibrate_open(const struct ss_lanes *lanes, const struct ss_plan *plan,
                                 uint64_t key, int slots, struct ss_calibrate **out);
/* To be hung on the executor. */
struct ss_hooks *ss_calibrate_hooks(struct ss_calibrate *c);
/* No task is running; whole as of ss_gpu_times_close, NULL is fine. */
enum ss_status ss_calibrate_end(struct ss_calibrate *c, int whole);
/* After StarPU has stopped, which writes the models then. NULL is fine. */
void ss_calibrate_close(struct ss_calibrate *c);

#endif
