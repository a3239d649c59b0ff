/* When the tasks of training steps ran on the GPU.
 *
 * Events around each task say how far it is from an event that was recorded on an idle stream when
 * its step began, while the host looked at its clock: a GPU time is right to what that look took,
 * some 10 microseconds. From step to step the GPU's own clock counts; what a later look corrects is
 * spread over the time between them, so that tasks of one stream never overlap. */
#ifndef SS_RUNTIME_GPU_TIMES_H
#define SS_RUNTIME_GPU_TIMES_H

#include "codelets/hooks.h"

struct ss_gpu_times;

/* Who is told, some steps later: task `index` of the plan's training step ran in that lane (enum
 * ss_lane), on CLOCK_MONOTONIC. */
struct ss_gpu_times_listener {
    void (*ran)(void *arg, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                uint64_t end_ns);
    void *arg;
};

/* Of steps first to last, of plans of so many tasks a step; slots: steps in flight. Errors:
 * SS_ERR_MEMORY, SS_ERR_LIBRARY. The caller closes it. */
enum ss_status ss_gpu_times_open(const struct ss_lanes *lanes, size_t tasks, int slots,
                                 uint64_t first, uint64_t last,
                                 struct ss_gpu_times_listener listener, struct ss_gpu_times **out);
/* To be hung on the executor. */
struct ss_hooks *ss_gpu_times_hooks(struct ss_gpu_times *times);
/* whole: all work is done, hand over what is left. NULL is fine. */
enum ss_status ss_gpu_times_close(struct ss_gpu_times *times, int whole);

#endif
