/* Internals of struct ss_exec: exec.c binds and submits, exec_memory.c allocates the data in
 * regions (exec_region.c), exec_state.c reads and writes it between steps. */
#ifndef SS_RUNTIME_EXEC_INTERNAL_H
#define SS_RUNTIME_EXEC_INTERNAL_H

#include "codelets/add.h"
#include "codelets/allreduce.h"
#include "codelets/input.h"
#include "codelets/op.h"
#include "codelets/update.h"
#include "runtime/exec.h"

/* Location and ownership of a region's memory. */
enum region_home {
    REGION_NONE,
    REGION_PART,   /* view of other host memory */
    REGION_HOST,   /* own host memory, pinned if there is a GPU */
    REGION_DEVICE, /* own device memory */
    REGION_SUMS,   /* own device memory, allocated for NCCL's all-reduces */
};

struct region {
    struct ss_region r;
    enum region_home home;
    void *data; /* address; tasks, and accesses between steps, get it from StarPU */
};

struct bound_list {
    struct ss_bound_task *task;        /* per plan task */
    struct ss_task_progress *progress; /* per plan task; NULL: no watchdog */
    struct ss_region ***regions;       /* per plan task and slot: regions of its accesses */
};

struct ss_exec {
    struct ss_exec_options options;
    const struct ss_plan *plan;
    const struct ss_kernels *kernels; /* of the device */
    struct ss_device *device;
    struct ss_op **op;      /* per block */
    struct region *buffer;  /* per plan buffer */
    struct region *params;  /* per bucket */
    struct region *grads;   /* per bucket */
    struct region *accum;   /* per bucket; empty without gradient accumulation */
    struct region *state;   /* per bucket and optimizer state; with shards this rank's share */
    float **whole;          /* with shards, rank 0: full states in host memory, while read or set */
    struct region *running; /* per block with BN */
    struct region *images;  /* per slot and slice */
    struct region *labels;  /* per slot and slice */
    struct region *metrics; /* per slot, or one for all micro-batches; last: evaluation */
    struct region *staged;  /* nstaged inputs on the device; limits the steps enqueued there */
    struct region *fetched; /* per slot; GPU */
    struct region log, token, sync, scaler, squares, keys;
    struct ss_spans *spans, *host_spans; /* per bucket; empty if all elements are updated alike */
    double *stop;                        /* with NCCL: 0 and 1, pinned, as sources of copies */
    int nstaged;
    char *slot_memory;  /* images and labels of all slots, in host memory */
    char *spare;        /* likewise, for images loaded outside their slot; NULL: unused */
    size_t spare_bytes; /* bytes of it per slot and slice */
    struct bound_list train, eval;
    struct ss_replay *replay; /* NULL: disabled */
    struct ss_updating updating;
    struct ss_adding adding;
    struct ss_allreduce allreduce;
    struct ss_normalise normalise;
    struct ss_dropout dropout;
    struct ss_input_stats feed;
    struct ss_hooks *hooks; /* linked list */
    uint64_t steps, replayed, eval_steps;
    struct ss_step_watch *watch; /* NULL: no watchdog */
};

/* 1 if the optimizer's states and updates are sharded over the ranks. */
static inline int ss_exec_shards(const struct ss_exec *e)
{
    return e->plan->options.shards > 1 && e->options.training;
}
/* Return the number of elements of this rank's share of bucket k; *begin: its first element. */
static inline size_t ss_exec_share(const struct ss_exec *e, int k, size_t *begin)
{
    const struct ss_bound_task own = {.shards = e->plan->options.shards,
                                      .shard = ss_comm_rank(e->options.comm)};
    return ss_task_share(&own, e->params[k].r.bytes, begin);
}

/* Allocate the executor's data, after its operations are created. */
enum ss_status ss_exec_create_memory(struct ss_exec *e);
void ss_exec_destroy_memory(struct ss_exec *e);

/* Create the spans of the parameter groups, for training, after the parameters are placed.
 * Errors: also SS_ERR_INVALID (options). */
enum ss_status ss_exec_create_spans(struct ss_exec *e);
void ss_exec_destroy_spans(struct ss_exec *e);

/* Regions, zeroed before creation. `what` is used in messages. Sizes are rounded up to cache
 * lines. */
/* Register existing memory. The caller sets x->home. */
void ss_region_register(const struct ss_exec *e, struct region *x, void *data, size_t bytes);
/* Allocate host memory. */
enum ss_status ss_region_new_host(const struct ss_exec *e, struct region *x, size_t bytes,
                                  const char *what);
/* Allocate memory of the compute device. ss_region_new_shared: memory that the copy or
 * communication lane also accesses. */
enum ss_status ss_region_new(const struct ss_exec *e, struct region *x, size_t bytes,
                             const char *what);
enum ss_status ss_region_new_shared(const struct ss_exec *e, struct region *x, size_t bytes,
                                    const char *what);
/* Allocate gradients to be all-reduced by NCCL. */
enum ss_status ss_region_new_summed(const struct ss_exec *e, struct region *x, size_t bytes);
/* Create a region without memory, which only orders tasks. */
void ss_region_new_token(struct region *x);
/* Access a region between steps, in the main thread. *data: its memory at home, as left by StarPU
 * and the device; valid until released. */
enum ss_status ss_region_acquire(const struct ss_exec *e, const struct region *x,
                                 enum starpu_data_access_mode mode, void **data);
void ss_region_release(const struct region *x);
/* Copy to or from host memory, starting at byte `at`. */
enum ss_status ss_region_get(const struct ss_exec *e, const struct region *x, size_t at, void *host,
                             size_t bytes);
enum ss_status ss_region_put(const struct ss_exec *e, const struct region *x, size_t at,
                             const void *host, size_t bytes);
void ss_region_drop(const struct ss_exec *e, struct region *x);
/* Drop n regions and free their array. x may be NULL. */
void ss_regions_drop(const struct ss_exec *e, struct region *x, size_t n);

#endif
