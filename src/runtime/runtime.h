/* The process's StarPU: one compute worker that runs block tasks (with all compute threads, or on
 * the GPU), and service workers for loading, starting collectives and reporting.
 *
 * StarPU would bind every worker to a core of its own, and OpenMP threads started inside a task
 * would inherit that single core; the placement here replaces StarPU's. */
#ifndef SS_RUNTIME_RUNTIME_H
#define SS_RUNTIME_RUNTIME_H

#include "codelets/task.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "runtime/placement.h"

struct ss_lanes;

struct ss_runtime {
    struct ss_placement placement;
    const struct ss_kernels *kernels; /* of the device */
    struct ss_device *device;         /* what computes */
    struct ss_lanes *lanes;           /* of a GPU; NULL: the CPU computes */
    /* A CPU of one thread, for tasks that service workers may run too where the scheduler places them
     * by their models; NULL: they run where the others of the step do. */
    struct ss_device *service_device;
    int node;                         /* StarPU's memory node of the device */
    int gpu;                          /* CUDA's index of it */
    struct ss_run run;
    /* GPU: the thread that started this runtime, as it was before */
    struct ss_thread_place main_thread;
};

/* The GPU of a run. */
struct ss_runtime_gpu {
    struct ss_device_options gpu;
    int ordered; /* see codelets/lane.h */
};

/* Choose this rank's GPU, asked for as by ss_placement_pick_gpu, and its cores. Collective. Errors:
 * see ss_placement_decide_gpu. A GPU that is not there is left to ss_runtime_start to report. */
enum ss_status ss_runtime_place_gpu(struct ss_comm *comm, int workers, long asked, int *device,
                                    struct ss_placement *out);

/* Start StarPU with placement->workers service workers; gpu NULL: and the CPU computes, in dtype, which is fp32 or bf16.
 * One runtime per process at a time. Errors: SS_ERR_LIBRARY, SS_ERR_MEMORY, SS_ERR_UNSUPPORTED (no such GPU).
 * The caller stops it; it does not move in memory meanwhile. */
enum ss_status ss_runtime_start(struct ss_runtime *rt, const struct ss_placement *placement,
                                enum ss_dtype dtype, const struct ss_runtime_gpu *gpu);
void ss_runtime_stop(struct ss_runtime *rt);

/* "StarPU 1.4.10 (FxT, blocking drivers)". A constant string. */
const char *ss_runtime_library(void);

#endif
