/* Shared by all codelets: conversion of a plan's task to a StarPU task.
 *
 * A bound task is a plan task plus the operation that runs it. It lives as long as the run. Each
 * submission adds the few values that change from step to step (struct ss_step_args), copied into
 * StarPU's cl_arg. Data are passed in StarPU's buffers; wrappers access them by role, never by
 * index.
 *
 * Every region of memory is a StarPU vector whose home is the memory node of the device that
 * works on it, so no data are copied between nodes. The tasks that cross nodes are upload and
 * fetch (input.c), which read or write host memory in place.
 *
 * Workers have classes. The compute worker runs forward, backward and update, one task at a time:
 * a CPU worker with all compute threads, or the CUDA worker of the compute lane (lane.h). The
 * copy worker, on a GPU only, transfers input and metrics. Service workers, always CPU, run
 * everything short or independent: loading, starting collectives, reporting. Two kinds of task
 * run on workers of more than one class: loads on any CPU worker (ss_can_load), updates if the
 * scheduler places tasks by their models (update.c). */
#ifndef SS_CODELETS_TASK_H
#define SS_CODELETS_TASK_H

#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/share.h"
#include "core/status.h"
#include "graph/plan.h"

#include <starpu.h>
#include <stdatomic.h>

/* State of a run that tasks may change. The first failure ends the run; later tasks do nothing. */
struct ss_run {
    _Atomic int status; /* enum ss_status */
    /* 1: a signal requested this rank to end; sent to all ranks with the next step's metrics.
     * NULL: never. A watchdog may run before it is set. */
    const _Atomic int *_Atomic stop;
};
static inline int ss_run_ok(const struct ss_run *run)
{
    return atomic_load_explicit(&run->status, memory_order_relaxed) == SS_OK;
}
static inline int ss_run_asked_to_stop(const struct ss_run *run)
{
    const _Atomic int *stop = atomic_load(&run->stop);
    return stop && atomic_load(stop);
}
/* Record a failure unless one is recorded already. */
void ss_run_fail(struct ss_run *run, enum ss_status status);

struct ss_op;
struct ss_hooks;
struct ss_lanes;
struct ss_order;

/* Memory with one StarPU handle, and its properties other than the address. */
struct ss_region {
    size_t bytes;
    size_t frozen; /* of a bucket, after `bytes`: bytes of frozen parameters (op.h) */
    /* On a device, the offset of a copy after them: parameters in the compute type, gradients in
     * the wire type; 0: none, as that is fp32. */
    size_t copy_at;
    starpu_data_handle_t handle;
    struct ss_order *order; /* accessed by several lanes of a GPU (lane.h); else NULL */
};

/* For a watchdog: numbers of tasks submitted and ended, and the step submitted last. */
struct ss_task_progress {
    _Atomic uint64_t submitted, ended, step;
};

struct ss_bound_task {
    const struct ss_plan_task *plan; /* of a segment (segment.h): of its first member */
    const char *name;
    int index; /* in its list */
    int naccess;
    const struct ss_access *access; /* the plan's; for a segment, of all its members */
    struct ss_run *run;
    struct ss_op *op;                  /* of its block; NULL for tasks without one */
    void *context;                     /* of its codelet, for tasks without a block */
    struct ss_lanes *lanes;            /* NULL: no GPU */
    int training;                      /* 0: evaluation */
    int shards, shard;                 /* plan option, and this rank's index */
    struct ss_hooks *const *hooks;     /* list of observers (hooks.h) */
    struct ss_task_progress *progress; /* NULL: not watched */
    uint32_t footprint;                /* of its performance model (model.h) */
    size_t bytes;                      /* likewise, its size */
};

/* When a task ran, CLOCK_MONOTONIC in ns, recorded for observers only: its dependencies were met,
 * it began on that worker, it ended (a collective: when it was complete). For lanes of a GPU in
 * stream order, begin and end are those of enqueuing. */
struct ss_task_times {
    uint64_t ready, begin, end;
    int worker;
};

/* Values that differ between submissions of one bound task. */
struct ss_step_args {
    const struct ss_bound_task *task;
    struct ss_region *const *region; /* per access of the plan task, for this step's slot */
    uint64_t step;                   /* from 1; of training */
    uint64_t dropout_key;            /* forward, backward; on a CPU */
    uint64_t source_key;             /* the same for the block whose y it recomputes */
    int absent;            /* training: number of images missing at the end of the batch (op.h) */
    double lr;             /* update */
    uint64_t submitted_ns; /* training: when the step's submission began */
    struct ss_task_times times;
};

/* A task's data inside a wrapper. */
struct ss_task_data {
    const struct ss_bound_task *task;
    const struct ss_step_args *args;
    void *const *buffers; /* StarPU's interfaces, per access of the plan task */
};
static inline struct ss_task_data ss_task_unpack(void *buffers[], void *cl_arg)
{
    const struct ss_step_args *args = cl_arg;
    return (struct ss_task_data){args->task, args, buffers};
}
/* Returns the region of a role, or NULL. */
static inline struct ss_region *ss_role_region(const struct ss_task_data *d, int role)
{
    int i = d->task->plan->role[role];
    return i < 0 ? NULL : d->args->region[i];
}
/* Return its memory; its memory from the role's offset on; its copy. NULL if there is none. */
static inline char *ss_role_buffer(const struct ss_task_data *d, int role)
{
    int i = d->task->plan->role[role];
    return i < 0 ? NULL : (char *)STARPU_VECTOR_GET_PTR(d->buffers[i]);
}
static inline void *ss_role(const struct ss_task_data *d, int role)
{
    char *buffer = ss_role_buffer(d, role);
    return buffer ? buffer + d->task->plan->at[role] : NULL;
}
static inline void *ss_role_copy(const struct ss_task_data *d, int role)
{
    const struct ss_region *r = ss_role_region(d, role);
    return r && r->copy_at ? ss_role_buffer(d, role) + r->copy_at : NULL;
}

/* Returns the number of floats of this rank's share of a bucket of `bytes` bytes, and its begin;
 * without shards the whole bucket. */
static inline size_t ss_task_share(const struct ss_bound_task *t, size_t bytes, size_t *begin)
{
    const size_t count = bytes / sizeof(float);
    *begin = t->shards > 1 ? ss_share_begin(count, t->shards, t->shard) : 0;
    return t->shards > 1 ? ss_share_begin(count, t->shards, t->shard + 1) - *begin : count;
}
/* The same for a role's bucket: its number of floats, and this rank's share of them. */
static inline size_t ss_role_count(const struct ss_task_data *d, int role)
{
    return ss_role_region(d, role)->bytes / sizeof(float);
}
static inline size_t ss_role_share(const struct ss_task_data *d, int role, size_t *begin)
{
    return ss_task_share(d->task, ss_role_region(d, role)->bytes, begin);
}

/* Accesses of a task that runs without StarPU, as in predictions and benchmarks. */
struct ss_accessed {
    struct ss_region region[SS_PLAN_MAX_ACCESSES], *regions[SS_PLAN_MAX_ACCESSES];
    struct starpu_vector_interface vector[SS_PLAN_MAX_ACCESSES];
    void *buffers[SS_PLAN_MAX_ACCESSES];
};
/* Set access i to `region` with memory at `data`. */
static inline void ss_accessed_set(struct ss_accessed *x, int i, struct ss_region region,
                                   uintptr_t data)
{
    x->region[i] = region;
    x->regions[i] = &x->region[i];
    x->vector[i] = (struct starpu_vector_interface){.ptr = data};
    x->buffers[i] = &x->vector[i];
}

/* The StarPU workers for computation, for collectives over GPUs and for copies (-1: none). All
 * other CPU workers are service workers. Set once by the runtime before the first task. */
struct ss_worker_classes {
    int compute, comm, copy;
    /* 1: workers share one queue with priorities. The compute worker of a CPU then takes a load,
     * which has the lowest priority, only while no other task is ready. */
    int one_queue;
    enum ss_task_end {
        SS_ENDS_DONE,     /* CPU: tasks end when their work is done */
        SS_ENDS_ENQUEUED, /* GPU: compute and comm tasks end when they are enqueued */
        SS_ENDS_POLLED,   /* GPU: they end when StarPU detects their completion */
    } end;
};
void ss_set_worker_classes(struct ss_worker_classes classes);
/* Run work(arg) outside of steps, and wait for it. On a CPU it runs on the compute worker: the
 * team of a second thread would make more OpenMP threads than cores. GCC's library then makes all
 * threads sleep at the end of each loop instead of spinning briefly
 * (gomp_throttled_spin_count_var). SS_ERR_LIBRARY: it could not run. */
enum ss_status ss_on_compute(enum ss_status (*work)(void *arg), void *arg);
/* For starpu_codelet.can_execute. */
int ss_can_compute(unsigned worker, struct starpu_task *task, unsigned nimpl);
int ss_can_communicate(unsigned worker, struct starpu_task *task, unsigned nimpl);
int ss_can_copy(unsigned worker, struct starpu_task *task, unsigned nimpl);
int ss_can_serve(unsigned worker, struct starpu_task *task, unsigned nimpl);
int ss_can_load(unsigned worker, struct starpu_task *task, unsigned nimpl);

/* A codelet with its performance model (model.h). */
#define SS_MODEL_SYMBOL(name) "starstep_" name
struct ss_codelet {
    struct starpu_codelet cl;
    struct starpu_perfmodel model; /* without a symbol: none */
    unsigned generation;           /* of the worker classes that it has been initialized for */
};
/* For its model: the task's footprint and size. */
uint32_t ss_task_footprint(struct starpu_task *task);
size_t ss_task_bytes(struct starpu_task *task, unsigned nimpl);

/* Submit bound task `args->task` on `codelet`. The args_bytes bytes at `args` (which begin with a
 * struct ss_step_args) are copied. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_task_submit(struct ss_codelet *codelet, const struct ss_step_args *args,
                              size_t args_bytes);

/* End a struct starpu_task that waits for this call after starpu_task_end_dep_add(). Callable
 * from any thread. */
void ss_task_end(void *task);

/* STARPU_SPECIFIC_NODE_LOCAL_OR_CPU for every access. */
extern int ss_nodes_in_place[SS_PLAN_MAX_ACCESSES];

/* Initializers of codelets: for the compute worker of any kind, ... */
#define SS_CODELET(codelet_name, based, ...)                                                       \
    {                                                                                              \
        .cl = {.nbuffers = STARPU_VARIABLE_NBUFFERS, .name = codelet_name, __VA_ARGS__},           \
        .model = {                                                                                 \
            .type = based,                                                                         \
            .symbol = SS_MODEL_SYMBOL(codelet_name),                                               \
            .footprint = ss_task_footprint,                                                        \
            .size_base = ss_task_bytes,                                                            \
        }                                                                                          \
    }
#define SS_COMPUTE_CODELET(codelet_name, func)                                                     \
    SS_CODELET(codelet_name, STARPU_HISTORY_BASED, .cpu_funcs = {func}, .cuda_funcs = {func},      \
               .can_execute = ss_can_compute)
/* ... for service workers, ... */
#define SS_SERVICE_CODELET(codelet_name, cpu_func)                                                 \
    SS_CODELET(codelet_name, STARPU_HISTORY_BASED, .cpu_funcs = {cpu_func},                        \
               .can_execute = ss_can_serve)
/* ... for the communication worker of a GPU, ... */
#define SS_COMM_CODELET(codelet_name, cuda_func)                                                   \
    SS_CODELET(codelet_name, STARPU_HISTORY_BASED, .cuda_funcs = {cuda_func},                      \
               .can_execute = ss_can_communicate)
/* ... and for the copy worker, whose tasks end when the copy is complete. They access each region
 * where it resides, on the device or in host memory. */
#define SS_COPY_CODELET(codelet_name, cuda_func)                                                   \
    SS_CODELET(codelet_name, STARPU_HISTORY_BASED, .cuda_funcs = {cuda_func},                      \
               .cuda_flags = {STARPU_CUDA_ASYNC}, .can_execute = ss_can_copy, .specific_nodes = 1, \
               .dyn_nodes = ss_nodes_in_place)

/* Report a failed StarPU call and return. */
#define SS_STARPU_TRY(call)                                                                        \
    do {                                                                                           \
        int ss_starpu_ret_ = (call);                                                               \
        if (ss_starpu_ret_ != 0)                                                                   \
            return ss_fail(SS_ERR_LIBRARY, "StarPU: %s: %s", #call, strerror(-ss_starpu_ret_));    \
    } while (0)

#endif
