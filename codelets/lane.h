/* Lanes: the streams of work on a GPU, each fed by one StarPU worker. The update lane is fed by
 * the communication lane's worker.
 *
 * Stream-ordered execution (the default): a compute task enqueues on the compute lane's stream
 * and ends for StarPU immediately, so that its dependents are enqueued directly after it. Within
 * a lane the stream preserves the order. Regions accessed by several lanes record each lane's
 * last access: a task waits, on the GPU, for the last conflicting accesses by other lanes. Tasks
 * of the copy lane end only when the GPU has completed them; after them the host may read a
 * result or refill a slot.
 *
 * Asynchronous execution: every task enqueues on its worker's own stream and ends when the GPU
 * has completed it. StarPU enforces all order, and dependent tasks are never enqueued back to
 * back. */
#ifndef SS_CODELETS_LANE_H
#define SS_CODELETS_LANE_H

#include "codelets/task.h"
#include "kernels/kernels.h"

enum { SS_LANE_EVENTS = 2048 };

enum ss_lane {
    SS_LANE_COMPUTE,
    SS_LANE_COMM,
    SS_LANE_COPY,
    SS_LANE_WORKERS,
    SS_LANE_UPDATE = SS_LANE_WORKERS,
    SS_LANE_COUNT
};

/* A lane's stream records an event after each of its tasks that others may wait for, numbered
 * from 1. Waiting for one event includes all earlier ones. Events are reused in a ring, so that a
 * later event stands for an earlier one; a step records far fewer. Except the events, this is
 * only accessed by the thread that enqueues on the lane. */
struct ss_lane_events {
    uint64_t last;
    /* per lane: number of its last event that this lane has waited for */
    uint64_t seen[SS_LANE_COUNT];
    ss_event event[SS_LANE_EVENTS];
};

struct ss_lanes {
    const struct ss_kernels *kernels;
    struct ss_device *gpu;
    int ordered;
    ss_stream stream[SS_LANE_COUNT]; /* ordered; the copy lane uses its worker's stream */
    struct ss_lane_events *events;   /* SS_LANE_COUNT; ordered */
    struct ss_comm *comm;            /* notified when the GPU fails; may be NULL */
    struct ss_nccl *nccl;            /* collectives over GPUs; NULL: one rank */
    const double *stop;              /* 0 and 1, pinned; with nccl */
    /* Number of tasks so far, except collectives, and the time spent on enqueuing them. */
    _Atomic uint64_t fed, busy_ns;
};

/* Each lane's last access to a region, as event numbers; 0: none. */
struct ss_order {
    int writer;                            /* lane of `written` */
    uint64_t written, read[SS_LANE_COUNT]; /* read since the last write */
};

/* Create the access record of a region that several lanes access. The caller frees it. */
enum ss_status ss_order_create(struct ss_order **out);
/* Create and destroy the lanes' events. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. After an error,
 * destroy them as well. */
enum ss_status ss_lanes_create_events(struct ss_lanes *lanes);
void ss_lanes_destroy_events(struct ss_lanes *lanes);

/* Make a permanent GPU failure, such as a kernel's illegal access, end the process, and with it
 * all ranks, with a message that names the task. Call before the first task. */
void ss_lanes_set_error_handler(const struct ss_kernels *kernels);

/* Run body, which enqueues the task's work on the given stream, ordered with the other lanes.
 * Without lanes, on a CPU, body does the work immediately. Does nothing if the run has failed,
 * and records a failure. */
typedef enum ss_status (*ss_lane_body)(const struct ss_task_data *d, ss_stream stream);
void ss_lane_run(void *buffers[], void *cl_arg, enum ss_lane lane, ss_lane_body body);
/* Within such a body: enqueue the work of another task, with its hooks. */
enum ss_status ss_lane_enqueue(const struct ss_task_data *d, enum ss_lane lane, ss_stream stream,
                               ss_lane_body body);
/* As ss_lane_run, for a task that follows a collective. After a collective over GPUs it runs on
 * the update lane: it waits only for its collective, and only the layers whose weights it changes
 * wait for it in the next forward. Such a task runs on the communication worker, otherwise on the
 * compute lane. */
void ss_lane_run_behind_sum(void *buffers[], void *cl_arg, ss_lane_body body);
/* starpu_codelet.can_execute of such tasks, and their codelet. */
int ss_can_follow_sum(unsigned worker, struct starpu_task *task, unsigned nimpl);
#define SS_BEHIND_SUM_CODELET(name, function)                                                      \
    SS_CODELET(name, STARPU_HISTORY_BASED, .cpu_funcs = {function}, .cuda_funcs = {function},      \
               .can_execute = ss_can_follow_sum)
/* As ss_lane_run, for a collective on the communication lane. The thread that calls NCCL enqueues
 * it, so the thread that feeds all lanes does not wait. The task ends once its work is enqueued. */
void ss_lane_pass(void *buffers[], void *cl_arg, ss_lane_body body);

#endif
