/* codelets/lane_trace.c: when the tasks of recorded steps ran on the GPU, for traces
 * (trace/record.h).
 *
 * Events around each task say how far it is from an event that was recorded on an idle stream when
 * its step began, while the host looked at its clock: a GPU time is right to what that look took,
 * some 10 microseconds. From step to step the GPU's own clock counts. */
#ifndef SS_CODELETS_LANE_TRACE_H
#define SS_CODELETS_LANE_TRACE_H

#include "codelets/lane.h"

struct ss_trace;
struct ss_lane_trace;
struct ss_lane_mark;

/* For plans of so many tasks a step. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. Always closed. */
enum ss_status ss_lane_trace_open(struct ss_lanes *lanes, struct ss_trace *trace, size_t tasks,
                                  int slots);
/* whole: all work is done, hand over what is left. Not open is fine. */
enum ss_status ss_lane_trace_close(struct ss_lanes *lanes, int whole);

/* Around a task's work on its stream; *mark NULL: not recorded. */
enum ss_status ss_lane_trace_begin(const struct ss_task_data *d, enum ss_lane lane,
                                   ss_stream stream, struct ss_lane_mark **mark);
enum ss_status ss_lane_trace_end(struct ss_lane_mark *mark, ss_stream stream);

#endif
