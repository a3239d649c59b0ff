/* Lanes: the streams of work on a GPU, each fed by one StarPU worker; the update lane, by that of the
 * communication lane.
 *
 * Stream-ordered execution (the default): a compute task enqueues on the compute lane's stream and
 * ends for StarPU at once, so that its dependents are enqueued right behind it. Inside a lane the
 * stream keeps the order; between lanes, regions that several lanes touch have notes of who touched
 * them: a task waits, on the GPU, for what other lanes last did to its regions. Tasks of the copy
 * lane end only when the GPU has done them; they are the fences behind which the host reads a result
 * or fills a slot again.
 *
 * Asynchronous execution: every task enqueues on its worker's own stream and ends when the GPU has
 * run it; StarPU keeps all order, and dependent tasks are never enqueued back to back. */
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

/* A lane's stream is marked behind each of its tasks that others may wait for: mark n is the n-th. Who has
 * waited for one has waited for all before it. Events are used again, later events for earlier ones
 * then; a step leaves far fewer. Known to the thread alone that enqueues on the lane, but for the
 * events. */
struct ss_lane_events {
    uint64_t last;
    uint64_t seen[SS_LANE_COUNT]; /* of each lane, the last mark that this one has waited for */
    ss_event event[SS_LANE_EVENTS];
};

struct ss_lanes {
    const struct ss_kernels *kernels;
    struct ss_device *gpu;
    int ordered;
    ss_stream stream[SS_LANE_COUNT]; /* ordered; the copy lane uses its worker's own */
    struct ss_lane_events *events;   /* SS_LANE_COUNT; ordered */
    struct ss_comm *comm;            /* told when the GPU fails; NULL: nobody */
    struct ss_nccl *nccl;            /* sums over GPUs; NULL: one rank */
    const double *stop;              /* 0 and 1, pinned; with nccl */
    /* Tasks so far, without sums, and what enqueuing them has taken. */
    _Atomic uint64_t fed, busy_ns;
};

/* What lanes did last to a region: their events behind it; 0: nothing. */
struct ss_order {
    int writer;                            /* lane, of written */
    uint64_t written, read[SS_LANE_COUNT]; /* read since the last write */
};

/* Make the order of a region that several lanes touch; the caller frees it. */
enum ss_status ss_order_create(struct ss_order **out);
/* Make and drop the lanes' events. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY; what there is of them then is
 * dropped as if it were all. */
enum ss_status ss_lanes_create_events(struct ss_lanes *lanes);
void ss_lanes_destroy_events(struct ss_lanes *lanes);

/* A GPU that fails for good, as by a kernel's illegal access, ends the process, and with it all ranks,
 * with a message that names the task. Before the first one. */
void ss_lanes_set_error_handler(const struct ss_kernels *kernels);

/* Run body, which enqueues the task's work on the stream that it is given, in order with the other
 * lanes; without lanes, on a CPU, which does it at once. Does nothing when the run has failed, and
 * records a failure. */
typedef enum ss_status (*ss_lane_body)(const struct ss_task_data *d, ss_stream stream);
void ss_lane_run(void *buffers[], void *cl_arg, enum ss_lane lane, ss_lane_body body);
/* Inside of such a body: the work of another task, with the hooks that hang on it. */
enum ss_status ss_lane_enqueue(const struct ss_task_data *d, enum ss_lane lane, ss_stream stream,
                               ss_lane_body body);
/* The same of what follows a sum. Behind sums over GPUs it has a lane of its own: there it waits for its
 * sum alone, and neither backward nor the next forward, but for the layers whose weights it changes,
 * waits for it. Such a task goes to the communication worker, else all is the compute lane's. */
void ss_lane_run_behind_sum(void *buffers[], void *cl_arg, ss_lane_body body);
/* Its starpu_codelet.can_execute, and its codelet. */
int ss_can_follow_sum(unsigned worker, struct starpu_task *task, unsigned nimpl);
#define SS_BEHIND_SUM_CODELET(name, function)                                                      \
    SS_CODELET(name, STARPU_HISTORY_BASED, .cpu_funcs = {function}, .cuda_funcs = {function},      \
               .can_execute = ss_can_follow_sum)
/* The same of a sum, on the communication lane, by the thread that calls NCCL: the one that feeds all
 * lanes does not wait for it, and the task ends once its work is enqueued. */
void ss_lane_pass(void *buffers[], void *cl_arg, ss_lane_body body);

#endif
