/* codelets/lane_nvtx.c: ranges for Nsight Systems and other tools that listen to NVTX: one around
 * the enqueuing of each task of a lane, which the tool projects on what it enqueued, and one per
 * training step, from the first of its tasks that enqueues to its report.
 *
 * All are of the domain "starstep". A task's range has its name, its kind as category, and as
 * payload the step, or of sums between ranks the bytes that travel. A step's is called "step 12",
 * of category "step". Without a tool (NVTX_INJECTION64_PATH), or built without NVTX's headers, all
 * of this does nothing. */
#ifndef SS_CODELETS_LANE_NVTX_H
#define SS_CODELETS_LANE_NVTX_H

#include "codelets/lane.h"

/* plan outlives the ranges; slots: steps in flight. Errors: SS_ERR_MEMORY. Closed in every case. */
enum ss_status ss_lane_nvtx_open(struct ss_lanes *lanes, const struct ss_plan *plan, int slots);
void ss_lane_nvtx_close(struct ss_lanes *lanes); /* no task is running; not open is fine */

/* Around a task's enqueuing, on the thread that does it; there is one for all lanes. */
void ss_lane_nvtx_begin(const struct ss_task_data *d);
void ss_lane_nvtx_end(const struct ss_task_data *d);
/* A training step has been reported. Any thread. */
void ss_lane_nvtx_reported(const struct ss_lanes *lanes, uint64_t step);

#endif
