/* StarPU runtime of the process: one compute worker that runs block tasks (with all compute
 * threads, or on the GPU), and service workers for loading, starting collectives and reporting.
 *
 * By default StarPU binds each worker to a core, and OpenMP threads started inside a task inherit
 * that single core. The placement here replaces StarPU's. */
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
    struct ss_device *device;         /* compute device */
    struct ss_lanes *lanes;           /* of a GPU; NULL: the CPU computes */
    /* Single-threaded CPU device for tasks that service workers may run too, if the scheduler
     * places them by their models. NULL: they run on the same worker as the rest of the step. */
    struct ss_device *service_device;
    int node; /* StarPU's memory node of the device */
    int gpu;  /* its CUDA index */
    struct ss_run run;
    /* GPU: previous state of the thread that started this runtime */
    struct ss_thread_place main_thread;
};

/* The GPU of a run. */
struct ss_runtime_gpu {
    struct ss_device_options gpu;
    int ordered; /* see codelets/lane.h */
};

/* Choose this rank's GPU (asked: see ss_placement_pick_gpu) and its cores. Collective. Errors:
 * see ss_placement_decide_gpu; a missing GPU is reported by ss_runtime_start. */
enum ss_status ss_runtime_place_gpu(struct ss_comm *comm, int workers, long asked, int *device,
                                    struct ss_placement *out);

/* Start StarPU with placement->workers service workers. gpu NULL: the CPU computes in dtype,
 * which is fp32 or bf16. One runtime per process at a time. The caller stops it; rt must not move
 * in memory until then. Errors: SS_ERR_LIBRARY, SS_ERR_MEMORY, SS_ERR_UNSUPPORTED (no such GPU). */
enum ss_status ss_runtime_start(struct ss_runtime *rt, const struct ss_placement *placement,
                                enum ss_dtype dtype, const struct ss_runtime_gpu *gpu);
void ss_runtime_stop(struct ss_runtime *rt);

/* Return "StarPU 1.4.10 (FxT, blocking drivers)" or similar. A constant string. */
const char *ss_runtime_library(void);

#endif
