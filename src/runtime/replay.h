/* Graph replay: runs each segment of the training step (graph/segments.h) as one launch, on a GPU
 * in stream order.
 *
 * The first steps run task by task, because drivers load kernels and libraries create plans on
 * first use. After that a segment is one task (codelets/segment.h), except in steps with
 * measurements of single tasks. Both run the same kernels in the same order, so results are
 * bit-identical. */
#ifndef SS_RUNTIME_REPLAY_H
#define SS_RUNTIME_REPLAY_H

#include "codelets/hooks.h"
#include "codelets/lane.h"
#include "graph/plan.h"

enum ss_replay_mode {
    SS_REPLAY_AUTO, /* if enqueuing a step task by task takes longer than the GPU needs for it */
    SS_REPLAY_OFF,
    SS_REPLAY_ON,
};

struct ss_replay;

struct ss_replay_options {
    enum ss_replay_mode mode;
    double predicted_s; /* GPU time of a step; 0: unknown, AUTO acts as OFF */
    const struct ss_plan *plan;
    struct ss_lanes *lanes;           /* NULL: CPU */
    const struct ss_bound_task *task; /* of the training step */
    struct ss_region ***regions;      /* per task and slot */
    int slots;
};

/* *out is NULL if nothing can be replayed: OFF, a CPU, asynchronous execution, or input slots
 * that alternate on the device (plan option no_overlap). With ON these are SS_ERR_UNSUPPORTED,
 * except a CPU. Everything in options must outlive it. Close it while no task is running; r may
 * be NULL. */
enum ss_status ss_replay_open(const struct ss_replay_options *options, struct ss_replay **out);
void ss_replay_close(struct ss_replay *r);

/* Begin the next step. Returns 1 if it is replayed. r may be NULL. */
int ss_replay_begin_step(struct ss_replay *r, const struct ss_hooks *hooks, uint64_t step);
/* Submit the segment whose first member is training task i. Does nothing for other members. */
enum ss_status ss_replay_submit(struct ss_replay *r, int i, uint64_t step, uint64_t submitted_ns);

#endif
