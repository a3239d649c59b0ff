/* What all codelets share: how a plan's task becomes a StarPU task.
 *
 * A bound task is a plan task plus the operation that runs it; it lives as long as the run. Each
 * submission adds the few values that change from step to step (struct ss_step_args), copied into
 * StarPU's cl_arg. Wrappers ask for data by role and never count buffers.
 *
 * Workers come in two classes. The compute worker runs forward, backward and update, one task at a
 * time with all compute threads. Service workers run everything short or independent: loading,
 * starting collectives, reporting. */
#ifndef SS_CODELETS_TASK_H
#define SS_CODELETS_TASK_H

#include <stdatomic.h>
#include <starpu.h>
#include "core/status.h"
#include "graph/plan.h"

/* The state of a run that tasks may change: the first failure ends it. Later tasks then do nothing.
 */
struct ss_run {
    _Atomic int status; /* enum ss_status */
    _Atomic int stop;   /* a signal asked this rank to end; told to all with the next step's metrics */
};
static inline int ss_run_ok(const struct ss_run *run)
{
    return atomic_load_explicit(&run->status, memory_order_relaxed) == SS_OK;
}
/* Keep the first failure. */
void ss_run_fail(struct ss_run *run, enum ss_status status);

struct ss_op;

struct ss_bound_task {
    const struct ss_plan_task *plan;
    struct ss_run *run;
    struct ss_op *op; /* of its block; NULL for tasks without one */
    void *context;    /* of its codelet, for tasks without a block */
    int training;     /* 0: evaluation */
};

/* What differs between two submissions of one bound task. */
struct ss_step_args {
    const struct ss_bound_task *task;
    uint64_t step;        /* from 1; of training */
    uint64_t dropout_key; /* forward, backward */
    double lr;            /* update */
};

/* A task's view of its data inside a wrapper. */
struct ss_task_data {
    const struct ss_bound_task *task;
    const struct ss_step_args *args;
    void **buffers;
};
static inline struct ss_task_data ss_task_data(void **buffers, void *cl_arg)
{
    const struct ss_step_args *args = cl_arg;
    return (struct ss_task_data){args->task, args, buffers};
}
/* The data of a role, NULL when the task has none. */
static inline void *ss_role(const struct ss_task_data *d, int role)
{
    int i = d->task->plan->role[role];
    return i < 0 ? NULL : (void *)STARPU_VECTOR_GET_PTR(d->buffers[i]);
}

/* The StarPU worker that computes; all other CPU workers are service workers. Set once by the
 * runtime before the first task. */
void ss_set_compute_worker(unsigned worker);
/* For starpu_codelet.can_execute. */
int ss_can_compute(unsigned worker, struct starpu_task *task, unsigned nimpl);
int ss_can_serve(unsigned worker, struct starpu_task *task, unsigned nimpl);

/* Submit bound task `args->task` on `codelet`; handles[i] is the handle of its i-th access. A copy
 * of extra_bytes bytes at `args` (which begins with a struct ss_step_args) travels with the task.
 * Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_task_submit(struct starpu_codelet *codelet, const starpu_data_handle_t *handles,
                              const struct ss_step_args *args, size_t args_bytes);

/* Report a failing StarPU call. */
#define SS_STARPU_TRY(call)                                                                        \
    do {                                                                                           \
        int ss_starpu_ret_ = (call);                                                               \
        if (ss_starpu_ret_ != 0)                                                                   \
            return ss_fail(SS_ERR_LIBRARY, "StarPU: %s: %s", #call, strerror(-ss_starpu_ret_));    \
    } while (0)

#endif
