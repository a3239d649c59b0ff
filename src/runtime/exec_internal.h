/* Inside of struct ss_exec: exec.c binds and submits, exec_memory.c holds the data. */
#ifndef SS_RUNTIME_EXEC_INTERNAL_H
#define SS_RUNTIME_EXEC_INTERNAL_H

#include "codelets/allreduce.h"
#include "codelets/input.h"
#include "codelets/op.h"
#include "codelets/sgd.h"
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
};

struct bound_list {
    struct ss_bound_task *task;  /* per plan task */
    struct ss_region ***regions; /* per plan task and slot: one array of its accesses */
};

struct ss_exec {
    struct ss_exec_options options;
    const struct ss_plan *plan;
    struct ss_gpu *gpu;      /* NULL: the CPU computes */
    struct ss_op **op;       /* per block */
    struct region *buffer;   /* per plan buffer */
    struct region *params;   /* per bucket */
    struct region *grads;    /* per bucket */
    struct region *momentum; /* per bucket; without momentum it only orders */
    struct region *running;  /* per block with BN */
    struct region *images;   /* per slot and slice */
    struct region *labels;   /* per slot and slice */
    struct region *metrics;  /* per slot, then one of evaluation */
    struct region *staged;   /* per slot; GPU */
    struct region *fetched;  /* per slot; GPU */
    struct region log, token, scaler;
    struct region one; /* with several GPUs: the number, for a copy */
    char *slot_memory; /* images and labels of all slots, in host memory */
    struct bound_list train, eval;
    struct ss_sgd sgd;
    struct ss_allreduce allreduce;
    struct ss_normalise normalise;
    uint64_t eval_steps;
};

/* Everything the executor keeps data in; operations are there already. */
enum ss_status ss_exec_create_memory(struct ss_exec *e);
void ss_exec_destroy_memory(struct ss_exec *e);

#endif
