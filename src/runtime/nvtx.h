/* NVTX ranges for Nsight Systems and similar tools: one around the enqueuing of each task of a
 * GPU's lane, which the tool projects onto the enqueued work, and one per training step, from its
 * first enqueued task to its report.
 *
 * All ranges are in the domain "starstep". A task's range has the task's name, its kind as
 * category, and as payload the step, or for collectives the bytes transferred. A step's range is
 * named "step 12" and has the category "step". Without a tool (NVTX_INJECTION64_PATH), or built
 * without NVTX's headers, all functions do nothing. */
#ifndef SS_RUNTIME_NVTX_H
#define SS_RUNTIME_NVTX_H

#include "codelets/hooks.h"

struct ss_nvtx;

/* plan must outlive the ranges. slots: steps in flight. *out is NULL if no tool is attached. The
 * caller closes it. Errors: SS_ERR_MEMORY. */
enum ss_status ss_nvtx_open(const struct ss_plan *plan, int slots, struct ss_nvtx **out);
/* Return the hooks to attach to the executor. */
struct ss_hooks *ss_nvtx_hooks(struct ss_nvtx *nvtx);
void ss_nvtx_close(struct ss_nvtx *nvtx); /* no task is running; may be NULL */

#endif
