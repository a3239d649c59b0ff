/* Times of training tasks on the GPU.
 *
 * Each task is enclosed by two events. Their times are relative to a reference event, which is
 * recorded on an idle stream when the step begins, between two reads of the host's clock. The
 * error is at most the time between these reads, about 10 microseconds. From step to step the
 * GPU's clock is used. Corrections by a later reference are spread over the interval, so that
 * tasks of one stream never overlap. */
#ifndef SS_RUNTIME_GPU_TIMES_H
#define SS_RUNTIME_GPU_TIMES_H

#include "codelets/hooks.h"

struct ss_gpu_times;

/* Callback, some steps later: task `index` of the plan's training step ran in that lane (enum
 * ss_lane). Times are on CLOCK_MONOTONIC. */
struct ss_gpu_times_listener {
    void (*ran)(void *arg, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                uint64_t end_ns);
    void *arg;
};

/* Measure steps first to last of a plan with `tasks` tasks per step. slots: steps in flight. The
 * caller closes it. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_gpu_times_open(const struct ss_lanes *lanes, size_t tasks, int slots,
                                 uint64_t first, uint64_t last,
                                 struct ss_gpu_times_listener listener, struct ss_gpu_times **out);
/* Return the hooks to attach to the executor. */
struct ss_hooks *ss_gpu_times_hooks(struct ss_gpu_times *times);
/* whole: all work is done, report the remaining steps. times may be NULL. */
enum ss_status ss_gpu_times_close(struct ss_gpu_times *times, int whole);

#endif
