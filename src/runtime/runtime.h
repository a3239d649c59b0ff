/* The process's StarPU: one compute worker that runs block tasks with all compute threads, and
 * service workers for loading, starting collectives and reporting.
 *
 * StarPU would bind every worker to a core of its own, and OpenMP threads started inside a task
 * would inherit that single core; the placement here replaces StarPU's. */
#ifndef SS_RUNTIME_RUNTIME_H
#define SS_RUNTIME_RUNTIME_H

#include "codelets/task.h"
#include "core/status.h"
#include "runtime/placement.h"

struct ss_cpu;

struct ss_runtime {
    struct ss_placement placement;
    struct ss_cpu *cpu;
    struct ss_run run;
};

/* Start StarPU with placement->workers service workers. One runtime per process at a time. Errors:
 * SS_ERR_LIBRARY, SS_ERR_MEMORY. The caller stops it; it does not move in memory meanwhile. */
enum ss_status ss_runtime_start(struct ss_runtime *rt, const struct ss_placement *placement);
void ss_runtime_stop(struct ss_runtime *rt);

/* "StarPU 1.4.10 (FxT, blocking drivers)". A constant string. */
const char *ss_runtime_library(void);

#endif
