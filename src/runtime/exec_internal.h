/* Inside of struct ss_exec: exec.c binds and submits, exec_memory.c holds the data in regions
 * (exec_region.c), exec_state.c reads and writes it between steps. */
#ifndef SS_RUNTIME_EXEC_INTERNAL_H
#define SS_RUNTIME_EXEC_INTERNAL_H

#include "codelets/add.h"
#include "codelets/allreduce.h"
#include "codelets/input.h"
#include "codelets/op.h"
#include "codelets/update.h"
#include "runtime/exec.h"

/* Where a region's memory is and who frees it. */
enum region_home {
    REGION_NONE,
    REGION_PART,   /* of other host memory */
    REGION_HOST,   /* its own, pinned where there is a GPU */
    REGION_DEVICE, /* its own */
    REGION_SUMS,   /* its own, of the kind that NCCL sums best */
};

struct region {
    struct ss_region r;
    enum region_home home;
    void *data; /* at home; tasks know it from StarPU, and so does what works on it between steps */
};

struct bound_list {
    struct ss_bound_task *task;        /* per plan task */
    struct ss_task_progress *progress; /* per plan task; NULL: nobody watches */
    struct ss_region ***regions;       /* per plan task and slot: one array of its accesses */
};

struct ss_exec {
    struct ss_exec_options options;
    const struct ss_plan *plan;
    const struct ss_kernels *kernels; /* of the device */
    struct ss_device *device;
    struct ss_op **op;     /* per block */
    struct region *buffer; /* per plan buffer */
    struct region *params; /* per bucket */
    struct region *grads;  /* per bucket */
    struct region *accum;  /* per bucket; empty without micro-steps */
    struct region *state;  /* per bucket and state of the optimizer; with shards the own share */
    float *
        *whole; /* with shards, rank 0: whole states in host memory, while they are read or set */
    struct region *running; /* per block with BN */
    struct region *images;  /* per slot and slice */
    struct region *labels;  /* per slot and slice */
    struct region *metrics; /* per slot, or one with several micro-steps; last: of evaluation */
    struct region *staged;  /* input on the device: nstaged, which bound the steps enqueued there */
    struct region *fetched; /* per slot; GPU */
    struct region log, token, sync, scaler, squares, keys;
    struct ss_spans *spans, *host_spans; /* per bucket; of one that is all alike empty */
    double *stop;           /* with several GPUs: 0 and 1, pinned, for a copy */
    int nstaged;
    char *slot_memory; /* images and labels of all slots, in host memory */
    char *spare;       /* for images that are loaded beside their slot, likewise; else NULL */
    size_t spare_bytes; /* of it, for each slot and slice */
    struct bound_list train, eval;
    struct ss_replay *replay; /* NULL: never */
    struct ss_updating updating;
    struct ss_adding adding;
    struct ss_allreduce allreduce;
    struct ss_normalise normalise;
    struct ss_dropout dropout;
    struct ss_input_stats feed;
    struct ss_hooks *hooks; /* list */
    uint64_t steps, replayed, eval_steps;
    struct ss_step_watch *watch; /* NULL: nobody watches */
};

/* Are the optimizer's states and its work divided among ranks? */
static inline int ss_exec_shards(const struct ss_exec *e)
{
    return e->plan->options.shards > 1 && e->options.training;
}
/* This rank's share of bucket k: its first element and their number. */
static inline size_t ss_exec_share(const struct ss_exec *e, int k, size_t *begin)
{
    const struct ss_bound_task own = {.shards = e->plan->options.shards,
                                      .shard = ss_comm_rank(e->options.comm)};
    return ss_task_share(&own, e->params[k].r.bytes, begin);
}

/* Everything the executor keeps data in; operations are there already. */
enum ss_status ss_exec_create_memory(struct ss_exec *e);
void ss_exec_destroy_memory(struct ss_exec *e);

/* Groups of parameters to spans, of training; the parameters have their places. Errors: also
 * SS_ERR_INVALID, of the options. */
enum ss_status ss_exec_create_spans(struct ss_exec *e);
void ss_exec_destroy_spans(struct ss_exec *e);

/* Regions, empty before; what is for messages. Sizes are rounded up to cache lines. */
/* Memory that is there already; x->home says where. */
void ss_region_register(const struct ss_exec *e, struct region *x, void *data, size_t bytes);
/* Host memory of its own. */
enum ss_status ss_region_new_host(const struct ss_exec *e, struct region *x, size_t bytes,
                                  const char *what);
/* Memory of the device that computes; the second: that the copy or the comm lane touches, too. */
enum ss_status ss_region_new(const struct ss_exec *e, struct region *x, size_t bytes,
                             const char *what);
enum ss_status ss_region_new_shared(const struct ss_exec *e, struct region *x, size_t bytes,
                                    const char *what);
/* Gradients that NCCL sums. */
enum ss_status ss_region_new_summed(const struct ss_exec *e, struct region *x, size_t bytes);
/* No memory at all: what orders tasks. */
void ss_region_new_token(struct region *x);
/* Between steps, in the main thread: its memory at home, as StarPU and the device have left it, until it is
 * released. */
enum ss_status ss_region_acquire(const struct ss_exec *e, const struct region *x,
                                 enum starpu_data_access_mode mode, void **data);
void ss_region_release(const struct region *x);
/* Likewise from byte `at` on, to or from host memory. */
enum ss_status ss_region_get(const struct ss_exec *e, const struct region *x, size_t at, void *host,
                             size_t bytes);
enum ss_status ss_region_put(const struct ss_exec *e, const struct region *x, size_t at,
                             const void *host, size_t bytes);
void ss_region_drop(const struct ss_exec *e, struct region *x);
/* n of them, and their table. NULL is fine. */
void ss_regions_drop(const struct ss_exec *e, struct region *x, size_t n);

#endif
