/* The step plan: one training step of a graph, lowered to tasks. The plan is device-independent;
 * the runtime (src/runtime) binds it to kernels, memory and StarPU handles.
 *
 * Lowering happens once. It
 *   - fuses layers into blocks, as their classes (layers/class.h) specify;
 *   - lists forward and backward tasks in an order that respects data flow, with the data that
 *     each task reads and writes, from which StarPU infers all dependencies;
 *   - assigns parameters to buckets in the order in which backward completes their gradients;
 *   - computes tensor lifetimes and lets tensors share buffers. One buffer is one StarPU handle,
 *     so sharing cannot cause a race: StarPU orders the tasks that access it.
 *
 * The gradient of a value with several readers is a list of contributions. The task that consumes
 * it adds them on the fly, without a separate addition task or buffer. Beyond SS_PLAN_MAX_DY
 * contributions, a task accumulates those already made into the first one.
 *
 * An activation whose only reader is a convolution is not stored if the convolution can recompute
 * it while reading (unstored.c).
 *
 * A tensor may be a view of another: a range of its channels. The inputs of a concatenation are
 * written directly into its output, and so are their gradients, if all their producers and
 * readers support views (tensor_views.c). */
#ifndef SS_GRAPH_PLAN_H
#define SS_GRAPH_PLAN_H

#include "core/dtype.h"
#include "graph/graph.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    SS_PLAN_MAX_DY = 4,
    SS_PLAN_MAX_SLICES = 8,
    SS_PLAN_MAX_STATES = 4,
    SS_PLAN_MAX_ACCESSES = 24
};

struct ss_plan;

struct ss_plan_options {
    int batch;         /* images per rank and step, >= 1 */
    int channel_block; /* activation layout, see src/kernels/shapes.h; 0: NHWC */
    /* Caps in MiB; a larger single block gets a bucket of its own. */
    double bucket_mb; /* 0: a tenth of the model, clamped to 0.25 .. 25 */
    /* first bucket, all-reduced first; 0: 1, or bucket_mb if that is less */
    double first_bucket_mb;
    double last_bucket_mb;    /* last bucket, which the next forward waits for; 0: as the others */
    const char *bucket_order; /* all-reduce order, as "0,1,3,2"; NULL: as buckets become ready */
    /* Number of leading blocks whose weight gradients are computed after the rest of backward,
     * first block first, so that their all-reduces run in the order in which the next forward
     * needs them. -1: defer none, but lower every weight gradient that can be a separate task as
     * one. */
    int defer_weight_grads;
    int no_overlap;      /* all-reduces start when backward has ended; for comparison */
    int slices;          /* load tasks per batch, 1 .. SS_PLAN_MAX_SLICES */
    int states;          /* of the optimizer, each as large as the parameters; may be 0 */
    enum ss_dtype dtype; /* of activations */
    /* Wire type of gradients between ranks. In buckets they are fp32. */
    enum ss_dtype grad_dtype;
    /* The device does not compute in host memory: load tasks write bytes, which are uploaded and
     * converted to activations on the device. Layers that read padded samples get channels padded
     * to a multiple of input_block. Metrics are fetched. */
    int device;
    int input_block;      /* device only */
    int nondeterministic; /* device only: kernels may vary their summation order */
    int device_sums;      /* device only: all-reduce metrics there, before the fetch */
    /* Compute BatchNorm statistics over this number of ranks, as torch.nn.SyncBatchNorm does; 0,
     * 1: per rank. */
    int sync_stats;
    int clipping;     /* updates wait for the norm of all gradients */
    int norms;        /* the optimizer uses norms of each parameter */
    int loss_scaling; /* dynamic; steps with infinite gradients are skipped */
    /* Above 1: number of ranks that shard the optimizer. Each rank owns a share (core/share.h) of
     * every bucket's states, reduces and updates it, and gathers the new weights of the others.
     * On a device only with device_sums. */
    int shards;
    int accumulate; /* micro-batches per step, each of `batch` images; 0: 1 */
    int copy_parts; /* copy all inputs of concatenations; for comparison */
    /* Returns whether block b, which begins with a convolution, can recompute its x while reading
     * it. NULL: no block can. */
    int (*makes_x)(const struct ss_plan *plan, int b);
    /* Returns whether block b can add a tensor with the layout of y to its output while storing
     * it. */
    int (*adds)(const struct ss_plan *plan, int b);
    int algo; /* of these kernels on a CPU, enum ss_conv_algo */
};

/* A fused group of layers: one forward task and one backward task. */
struct ss_block {
    const struct ss_layer_class *cls; /* of its first layer; defines how the block runs */
    char name[SS_NAME_BYTES];         /* of its first named layer, or "operation.INDEX" */
    int first_layer;                  /* index; does not depend on fusion */
    int layer[SS_PLACES];             /* index of the layer at each place; -1: none */
    enum ss_place last;               /* the last occupied place */
    ss_value x, residual, y;          /* residual -1: none; y -1: the loss */
    int bucket;                       /* of its parameters; -1: none */
    int64_t running;                  /* elements of its fp32 running statistics; 0: none */
    /* Devices only. A block may delegate its end, NORM or else its bias, to the only block that
     * reads its output. That block applies it to the residual that it adds, and computes its
     * parameters' gradients. Until then y is the input of NORM or of the bias addition. */
    int left_to;  /* the block that it delegates to; -1: none */
    int shortcut; /* the block whose end is delegated to this one; -1: none */
    /* y is not stored if its only reader is a convolution that can recompute it tile by tile from
     * the input of NORM, ACT and DROP (unstored.c). */
    int made_by;       /* that reader's block; -1: none */
    int makes;         /* the block whose y this one recomputes; -1: none */
    int frozen_head;   /* all parameters of HEAD are frozen */
    unsigned in_place; /* bit k: input k is a view of y; if all are, the block has no tasks */
};

/* A tensor of one step, or a gradient. */
struct ss_plan_tensor {
    char name[SS_NAME_BYTES];
    int n, c, h, w, block; /* activation (kernels/shapes.h); n = 0: `bytes` of other data */
    size_t bytes;
    int of, at;      /* the tensor that it is a view of, and its first channel there; -1: none */
    int first, last; /* index of the first and last task that accesses it, in its task list */
    int buffer;      /* -1: an input slot, which has its own memory */
};

struct ss_plan_param {
    int graph_param;
    int block;
    int bucket; /* -1 for buffers */
    int frozen; /* not trained: no gradient, no optimizer state */
    int64_t elements;
    int64_t at; /* fp32 buffers: offset in its block's running statistics */
};

struct ss_bucket {
    int first_param, nparams;  /* range of the plan's trained params, in bucket order */
    int first_frozen, nfrozen; /* range of its frozen params, which follow the trained ones */
    size_t bytes;              /* of its gradients, unpadded fp32 */
    int ready_task;            /* train task after which all its gradients are complete */
    int need;                  /* number of buckets that the next forward needs before this one */
};

/* Data that a task accesses. */
enum ss_space {
    SS_SPACE_BUFFER,  /* index: buffer */
    SS_SPACE_IMAGES,  /* index: slice of the step's input slot */
    SS_SPACE_LABELS,  /* likewise */
    SS_SPACE_PARAMS,  /* index: bucket */
    SS_SPACE_GRADS,   /* index: bucket; nbuckets: scratch for unused gradients */
    SS_SPACE_STATE,   /* index: bucket * options.states + state of the optimizer */
    SS_SPACE_RUNNING, /* index: block; its running statistics */
    SS_SPACE_METRICS, /* of the step */
    SS_SPACE_LOG,     /* orders the reports */
    /* Orders the collectives, identically on every rank. With no_overlap backward reads it. */
    SS_SPACE_TOKEN,
    SS_SPACE_STAGED,  /* images and labels of the step's input slot, on the device */
    SS_SPACE_FETCHED, /* metrics of the step, on the host */
    SS_SPACE_SCALER,  /* state of loss scaling */
    SS_SPACE_ACCUM, /* index: bucket; gradients accumulated over the step's earlier micro-batches */
    SS_SPACE_SYNC,  /* orders the all-reduces of statistics, which do not wait for buckets */
    SS_SPACE_SQUARES, /* sum of the squares of the step's gradients */
    SS_SPACE_KEYS,    /* of dropout, per micro-batch; device only */
};
enum ss_mode { SS_READ = 1, SS_WRITE = 2, SS_READ_WRITE = 3 };

/* The role of the accessed data in the task. */
enum ss_role_kind {
    SS_ROLE_X,
    SS_ROLE_INPUT, /* .. SS_ROLE_INPUT + SS_MAX_INPUTS - 2: further inputs of the first layer */
    SS_ROLE_RESIDUAL = SS_ROLE_INPUT + SS_MAX_INPUTS - 1,
    SS_ROLE_Y,
    SS_ROLE_Z,
    SS_ROLE_SAVED,
    SS_ROLE_WORKSPACE,
    SS_ROLE_DY, /* .. SS_ROLE_DY + SS_PLAN_MAX_DY - 1: contributions to the gradient of y */
    SS_ROLE_DS = SS_ROLE_DY + SS_PLAN_MAX_DY, /* their sum */
    SS_ROLE_DX,
    SS_ROLE_DINPUT, /* .. SS_ROLE_DINPUT + SS_MAX_INPUTS - 2: their gradients */
    SS_ROLE_PARAMS = SS_ROLE_DINPUT + SS_MAX_INPUTS - 1,
    SS_ROLE_GRADS,
    SS_ROLE_STATE, /* .. SS_ROLE_STATE + SS_PLAN_MAX_STATES - 1: the optimizer's */
    SS_ROLE_RUNNING = SS_ROLE_STATE + SS_PLAN_MAX_STATES,
    SS_ROLE_METRICS,
    SS_ROLE_LABELS,
    SS_ROLE_LOG,
    SS_ROLE_TOKEN,
    SS_ROLE_STAGED,
    SS_ROLE_FETCHED,
    SS_ROLE_SCALER,
    SS_ROLE_SQUARES,
    SS_ROLE_SHORTCUT_PARAMS, /* of the block whose end is delegated to this one */
    SS_ROLE_SHORTCUT_GRADS,
    SS_ROLE_SHORTCUT_SAVED,
    SS_ROLE_X_PARAMS, /* of the block whose y this one recomputes; x is the source of that y */
    SS_ROLE_X_SAVED,
    SS_ROLE_ACCUM,
    SS_ROLE_SUMS, /* of statistics, see norm_act_sums and norm_act_backward_sums */
    SS_ROLE_KEYS, /* offset to the block's own; convert: all */
    SS_ROLE_COUNT
};

struct ss_access {
    enum ss_space space;
    int index;
    enum ss_mode mode;
};

enum ss_task_kind {
    SS_TASK_LOAD,
    SS_TASK_UPLOAD,  /* input slot: host to device */
    SS_TASK_CONVERT, /* bytes to activations */
    SS_TASK_FORWARD,
    SS_TASK_BACKWARD,
    SS_TASK_SUM, /* adds contributions to one gradient, if there are too many for one task */
    SS_TASK_ADD, /* accumulates a bucket's gradients; in the last micro-batch, into the gradients */
    SS_TASK_SYNC, /* all-reduce of a block's statistics */
    SS_TASK_ALLREDUCE,
    /* with shards: of a bucket's gradients; only the own share is complete */
    SS_TASK_REDUCE_SCATTER,
    SS_TASK_CHECK, /* checks a bucket's all-reduced gradients for infinities; else backward does */
    SS_TASK_SQUARES, /* of a bucket's all-reduced gradients, with clipping */
    SS_TASK_UPDATE,
    SS_TASK_GATHER, /* with shards: all-gather of a bucket's updated weights */
    SS_TASK_SCALE,  /* end of a step: the new loss scale */
    SS_TASK_FETCH,  /* metrics: device to host */
    SS_TASK_REDUCE_METRICS,
    SS_TASK_REDUCE_FOUND,   /* with shards and loss scaling: has any rank found an infinity */
    SS_TASK_REDUCE_SQUARES, /* with shards and clipping: over all ranks' shares */
    SS_TASK_REPORT,
};

/* With sync_stats, forward and backward of a block with NORM are several tasks of the same kind,
 * with an all-reduce after the first. With defer_weight_grads the backward of other blocks may be
 * two tasks. */
enum ss_part {
    SS_PART_WHOLE,
    SS_PART_SUMS,    /* up to this rank's sums: convolution, sums; backward: ds, sums */
    SS_PART_APPLY,   /* after the all-reduce: statistics, y; backward: dz, dx, gradients of NORM */
    SS_PART_DATA,    /* backward: everything except WEIGHTS */
    SS_PART_WEIGHTS, /* backward: gradients of HEAD's parameters, after APPLY or DATA */
};

struct ss_plan_task {
    enum ss_task_kind kind;
    enum ss_part part; /* forward, backward */
    char name[SS_NAME_BYTES];
    int block;    /* forward, backward, sync; else -1 */
    int sums;     /* sync: number of fp64 values */
    size_t count; /* sum: elements */
    int bucket;   /* add, all-reduce, check, squares, update, gather; else -1 */
    int slice;    /* load; else -1 */
    int micro;    /* micro-batch, from 0; tasks that run once per step: the last one */
    int priority; /* larger runs first */
    int ndy;
    int naccess;
    struct ss_access access[SS_PLAN_MAX_ACCESSES];
    int role[SS_ROLE_COUNT];   /* role -> index into access, -1: none */
    int tensor[SS_ROLE_COUNT]; /* role -> tensor, -1: none or not a tensor */
    size_t at[SS_ROLE_COUNT];  /* role -> offset in the accessed data, in bytes */
    int adds_dx;               /* backward adds dx to the existing contents */
};

struct ss_task_list {
    int count, capacity;
    struct ss_plan_task *task;
};

struct ss_plan {
    const struct ss_graph *graph;
    struct ss_plan_options options;
    int nblocks;
    struct ss_block *block;
    int *finished; /* the blocks, in the order in which backward completes their gradients */
    int nparams;   /* trained ones first, by bucket; then frozen ones, by bucket; then buffers */
    struct ss_plan_param *param;
    int nbuckets; /* that are all-reduced and updated; may be 0 */
    int nfrozen;  /* additional ones, each of a block whose parameters are all frozen */
    struct ss_bucket *bucket;
    int *sum_order; /* order of the buckets' all-reduces */
    int ntensors;
    struct ss_plan_tensor *tensor;
    int nbuffers;
    size_t *buffer_bytes;
    struct ss_task_list train; /* one training step: all its micro-batches in sequence */
    struct ss_task_list eval;  /* forward only, with running statistics; shares the buffers */
    int slice_begin[SS_PLAN_MAX_SLICES + 1]; /* images of slice s: [begin[s], begin[s+1]) */
};

/* Lower a graph to a plan. graph must outlive the plan. Errors: SS_ERR_INVALID (options),
 * SS_ERR_UNSUPPORTED (a layer that no block can fuse), SS_ERR_MEMORY. The caller destroys *out. */
enum ss_status ss_plan_lower(const struct ss_graph *graph, const struct ss_plan_options *options,
                             struct ss_plan **out);
void ss_plan_destroy(struct ss_plan *plan);

/* Bytes of all buffers, and of all tensors without sharing. */
size_t ss_plan_buffer_bytes(const struct ss_plan *plan);
size_t ss_plan_tensor_bytes(const struct ss_plan *plan);

/* Print as a table, or as a DOT graph (edges: dependencies that StarPU infers inside one step). */
enum ss_status ss_plan_print_table(const struct ss_plan *plan, FILE *out);
enum ss_status ss_plan_print_dot(const struct ss_plan *plan, FILE *out);

const char *ss_task_kind_name(enum ss_task_kind kind);
/* Returns whether it is the all-reduce or reduce-scatter of a bucket's gradients. */
static inline int ss_task_sums_bucket(enum ss_task_kind kind)
{
    return kind == SS_TASK_ALLREDUCE || kind == SS_TASK_REDUCE_SCATTER;
}
/* Returns whether it is any collective. */
static inline int ss_task_sums(enum ss_task_kind kind)
{
    return ss_task_sums_bucket(kind) || kind == SS_TASK_GATHER || kind == SS_TASK_REDUCE_METRICS ||
           kind == SS_TASK_REDUCE_FOUND || kind == SS_TASK_REDUCE_SQUARES || kind == SS_TASK_SYNC;
}
/* Returns whether it runs on the compute worker, or on a GPU's compute and update lanes. */
static inline int ss_task_computes(enum ss_task_kind kind)
{
    return !ss_task_sums(kind) && kind != SS_TASK_LOAD && kind != SS_TASK_UPLOAD &&
           kind != SS_TASK_FETCH && kind != SS_TASK_REPORT;
}
const char *ss_space_name(enum ss_space space);

/* Returns whether parameter i is trained. Buffers and frozen parameters are not. */
static inline int ss_plan_trains(const struct ss_plan *plan, int i)
{
    return plan->param[i].bucket >= 0 && !plan->param[i].frozen;
}
/* Number of elements in frozen parameters. */
int64_t ss_plan_frozen(const struct ss_plan *plan);
/* Number of optimizer states of parameter i. */
static inline int ss_plan_states(const struct ss_plan *plan, int i)
{
    return ss_plan_trains(plan, i) ? plan->options.states : 0;
}

/* Returns whether block b, which has an addition, applies nothing else after HEAD. Such a block
 * adds its residual while storing and has no z. */
static inline int ss_block_only_adds(const struct ss_block *b)
{
    return b->last == SS_PLACE_ADD && b->layer[SS_PLACE_NORM] < 0 && b->layer[SS_PLACE_ACT] < 0 &&
           b->layer[SS_PLACE_DROP] < 0;
}

/* Returns whether the weight gradient of block i is needed and can be a separate task;
 * ss_plan_puts_off: and is deferred. */
static inline int ss_plan_parts_weights(const struct ss_plan *plan, int i)
{
    return plan->block[i].cls->parts_weights && !plan->block[i].frozen_head;
}
static inline int ss_plan_puts_off(const struct ss_plan *plan, int i)
{
    return i < plan->options.defer_weight_grads && ss_plan_parts_weights(plan, i);
}

/* Channels of a device's padded input that has c channels. */
static inline int ss_plan_input_block(const struct ss_plan *plan, int c)
{
    const int unit = plan->options.input_block;
    return (c + unit - 1) / unit * unit;
}

/* Bytes of the gradients of a block, unpadded fp32. */
size_t ss_plan_block_bytes(const struct ss_plan *plan, int block);

/* Returns whether block i applies dropout in training; the number of such blocks among the first
 * `blocks`. */
int ss_plan_drops(const struct ss_plan *plan, int i);
int ss_plan_count_drops(const struct ss_plan *plan, int blocks);

struct ss_bucket_caps {
    double mb, first_mb, last_mb; /* as in ss_plan_options; only last_mb may be 0 */
};
/* Replace sizes of 0 by defaults, for `total` bytes of gradients. */
struct ss_bucket_caps ss_bucket_default_caps(size_t total, double mb, double first_mb,
                                             double last_mb);
/* Fill `finished` as in struct ss_plan: from the last block to the first, followed by those
 * before `deferred` whose weight gradients can be deferred, first block first. can[i]: those of
 * block i can be deferred. */
void ss_bucket_finish(const unsigned char *can, int nblocks, int deferred, int *finished);
/* Assign each block to a bucket, -1 without gradients. Buckets are filled in the order of
 * `finished`. Returns the number of buckets. */
int ss_bucket_partition(const size_t *bytes, int nblocks, const int *finished,
                        const struct ss_bucket_caps *caps, int *bucket);

/* Assign tensors to buffers from their lifetimes (memory.c, called by ss_plan_lower). */
enum ss_status ss_plan_assign_buffers(struct ss_plan *plan);

/* Insert the step's earlier micro-batches before the last one (accumulate.c, called by
 * ss_plan_lower). */
enum ss_status ss_plan_accumulate(struct ss_plan *plan);

#endif
