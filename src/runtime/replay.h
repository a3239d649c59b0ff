/* Replay: the training step's segments (graph/segments.h) as one launch each, on a GPU in stream order.
 *
 * Steps begin task by task, as drivers load kernels and libraries make plans when they are first used.
 * From then on a segment is one task (codelets/segment.h), but in steps that somebody measures task by
 * task. Both run the same kernels in the same order, so bits do not depend on it. */
#ifndef SS_RUNTIME_REPLAY_H
#define SS_RUNTIME_REPLAY_H

#include "codelets/hooks.h"
#include "codelets/lane.h"
#include "graph/plan.h"

enum ss_replay_mode {
    SS_REPLAY_AUTO, /* where enqueuing a step task by task takes longer than the GPU needs for it */
    SS_REPLAY_OFF,
    SS_REPLAY_ON,
};

struct ss_replay;

struct ss_replay_options {
    enum ss_replay_mode mode;
    double predicted_s; /* what the GPU needs for a step; 0: unknown, and AUTO is OFF */
    const struct ss_plan *plan;
    struct ss_lanes *lanes;           /* NULL: a CPU */
    const struct ss_bound_task *task; /* of the training step */
    struct ss_region ***regions;      /* per task and slot */
    int slots;
};

/* *out NULL where nothing is ever replayed: OFF, a CPU, asynchronous execution, input slots that take
 * turns on the device (plan option no_overlap); ON is SS_ERR_UNSUPPORTED then, but on a CPU. Everything
 * in options outlives it. Close it while no task is running; NULL is fine. */
enum ss_status ss_replay_open(const struct ss_replay_options *options, struct ss_replay **out);
void ss_replay_close(struct ss_replay *r);

/* Is this step, the next one, replayed? r may be NULL. */
int ss_replay_begin_step(struct ss_replay *r, const struct ss_hooks *hooks, uint64_t step);
/* Submit the segment whose first member training task i is; nothing of another member. */
enum ss_status ss_replay_submit(struct ss_replay *r, int i, uint64_t step, uint64_t submitted_ns);

#endif
