/* Ranges for Nsight Systems and other tools that listen to NVTX: one around the enqueuing of each
 * task of a GPU's lane, which the tool projects on what it enqueued, and one per training step,
 * from the first of its tasks that enqueues to its report.
 *
 * All are of the domain "starstep". A task's range has its name, its kind as category, and as
 * payload the step, or of sums between ranks the bytes that travel. A step's is called "step 12",
 * of category "step". Without a tool (NVTX_INJECTION64_PATH), or built without NVTX's headers, all
 * of this does nothing. */
#ifndef SS_RUNTIME_NVTX_H
#define SS_RUNTIME_NVTX_H

#include "codelets/hooks.h"

struct ss_nvtx;

/* plan outlives the ranges; slots: steps in flight. *out NULL: nobody listens. Errors:
 * SS_ERR_MEMORY. The caller closes it. */
enum ss_status ss_nvtx_open(const struct ss_plan *plan, int slots, struct ss_nvtx **out);
/* To be hung on the executor. */
struct ss_hooks *ss_nvtx_hooks(struct ss_nvtx *nvtx);
void ss_nvtx_close(struct ss_nvtx *nvtx); /* no task is running; NULL is fine */

#endif
