/* The step plan: one training step of a graph, lowered to tasks. Device-independent; the runtime
 * (src/runtime) binds it to kernels, memory and StarPU handles.
 *
 * Lowering happens once. It
 *   - fuses layers into blocks, as their classes (layers/class.h) say;
 *   - lists forward and backward tasks in an order that respects data flow, and for each task which
 *     data it reads and writes, from which StarPU infers all dependencies;
 *   - assigns parameters to buckets in the order in which backward finishes their gradients;
 *   - decides tensor lifetimes and lets tensors share buffers. One buffer is one handle, so sharing
 *     can never become a race: StarPU orders the tasks that touch it.
 *
 * The gradient of a value with several readers is a list of contributions; the task that consumes
 * it adds them up on the fly, and no separate addition task or buffer exists. Beyond SS_PLAN_MAX_DY
 * of them a task adds those that are there in place of the first.
 *
 * An activation that one convolution alone reads is not stored where that can make it while it reads
 * (unstored.c).
 *
 * A tensor may be a part of another: some channels of it. What is concatenated lies in the whole from the
 * start where those who write and read it can do so, and so do the gradients (tensor_views.c). */
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
    double bucket_mb;       /* 0: a tenth of the model, from 0.25 to 25 */
    double first_bucket_mb; /* of the first bucket, whose sum begins first; 0: 1, or bucket_mb */
    double last_bucket_mb; /* of the last one, which the next forward waits for; 0: as the others */
    const char *bucket_order; /* "0,1,3,2": in which buckets are summed; NULL: as they get ready */
    /* Of the first so many blocks weights' gradients come behind all else that backward does, from the
     * first block on: so their sums come in the order in which the next forward waits for them. -1: of
     * none, but each that can be a task of its own is one. */
    int defer_weight_grads;
    int no_overlap;           /* all-reduces begin when backward has ended: for comparison */
    int slices;               /* load tasks per batch, 1 .. SS_PLAN_MAX_SLICES */
    int states;               /* of the optimizer, each as large as the parameters; may be 0 */
    enum ss_dtype dtype;      /* of activations */
    /* In which gradients travel between ranks; in buckets they are fp32. */
    enum ss_dtype grad_dtype;
    /* On a device that does not compute in the host's memory: load tasks make bytes, which are
     * uploaded and converted to activations there, with channels padded to a multiple of input_block
     * for layers that read them so; metrics are fetched. */
    int device;
    int input_block; /* device only */
    int nondeterministic; /* device only: kernels may add in another order each time */
    int device_sums; /* device only: metrics are summed over ranks there, before they are fetched */
    /* BatchNorm's statistics over so many ranks, as torch.nn.SyncBatchNorm; 0, 1: each rank's own. */
    int sync_stats;
    int clipping;     /* updates wait for the norm of all gradients */
    int norms;        /* the optimizer takes norms of each parameter */
    int loss_scaling; /* dynamic: gradients are checked; a step with an infinite one is left out */
    /* Above 1: so many ranks divide the optimizer among them. Each has its share (core/share.h) of
     * every bucket's states, sums and updates it, and gets the others' new weights. On a device only
     * with device_sums. */
    int shards;
    int accumulate; /* micro-steps of a step, each of `batch` images; 0: 1 */
    int copy_parts; /* whatever is concatenated is copied: for comparison */
    /* Can block b, which begins with a convolution, make its x while it reads it? NULL: none can. */
    int (*makes_x)(const struct ss_plan *plan, int b);
    /* Can it add a tensor that lies as y does to what it stores? */
    int (*adds)(const struct ss_plan *plan, int b);
    int algo; /* of such kernels on a CPU, enum ss_conv_algo */
};

/* A fused group of layers: one forward task and one backward task. */
struct ss_block {
    const struct ss_layer_class *cls; /* of its first layer; the block runs as it says */
    char name[SS_NAME_BYTES];         /* of its first named layer, or "operation.INDEX" */
    int first_layer;                  /* index: the same whatever else is fused */
    int layer[SS_PLACES];             /* index of the layer at each place; -1: none */
    enum ss_place last;               /* the last place that is taken */
    ss_value x, residual, y;          /* residual -1: none; y -1: the loss */
    int bucket;                       /* of its parameters; -1: none */
    int64_t running;                  /* numbers in its fp32 buffers, running statistics; 0: none */
    /* On devices. A block may leave what ends it, NORM or else its bias, to the one block that reads
     * it, which applies it to the residual that it adds, and makes its parameters' gradients. In
     * between y is what NORM or the bias would be applied to. */
    int left_to;  /* the block that does so; -1: none */
    int shortcut; /* the block whose residual has been left to this one; -1: none */
    /* y is not stored where a convolution is its one reader and can make it, piece by piece of what NORM, ACT
     * and DROP are applied to (unstored.c). */
    int made_by;       /* that reader's block; -1: none */
    int makes;         /* the block whose y this one makes; -1: none */
    int frozen_head;   /* HEAD's parameters are all frozen */
    unsigned in_place; /* bit k: input k lies in y. Where all do the block has no tasks. */
};

/* A tensor of one step, or a gradient. */
struct ss_plan_tensor {
    char name[SS_NAME_BYTES];
    int n, c, h, w, block; /* activation (kernels/shapes.h); n = 0: `bytes` of something else */
    size_t bytes;
    int of, at;      /* the tensor that it is a part of, and its first channel there; -1: none */
    int first, last; /* index of the first and last task that touches it, in its task list */
    int buffer;      /* -1: an input slot, which has its own memory */
};

struct ss_plan_param {
    int graph_param;
    int block;
    int bucket; /* -1 for buffers */
    int frozen; /* not trained: no gradient, no state of the optimizer */
    int64_t elements;
    int64_t at; /* fp32 buffers: where it begins in its block's running statistics */
};

struct ss_bucket {
    int first_param, nparams; /* a slice of the plan's trained params, in bucket order */
    int first_frozen, nfrozen; /* likewise of its frozen ones, which lie behind them */
    size_t bytes;             /* of its gradients, unpadded fp32 */
    int ready_task;           /* train task after which all its gradients are there */
    int need;                 /* so many buckets the next forward needs before this one */
};

/* What a task touches. */
enum ss_space {
    SS_SPACE_BUFFER,  /* index: buffer */
    SS_SPACE_IMAGES,  /* index: slice of the step's input slot */
    SS_SPACE_LABELS,  /* likewise */
    SS_SPACE_PARAMS,  /* index: bucket */
    SS_SPACE_GRADS,   /* index: bucket; nbuckets: what backward makes beside, and nobody wants */
    SS_SPACE_STATE,   /* index: bucket * options.states + state of the optimizer */
    SS_SPACE_RUNNING, /* index: block; its running statistics */
    SS_SPACE_METRICS, /* of the step */
    SS_SPACE_LOG,     /* orders the reports */
    /* Orders the collectives, the same on every rank. With no_overlap backward reads it. */
    SS_SPACE_TOKEN,
    SS_SPACE_STAGED,  /* images and labels of the step's input slot, on the device */
    SS_SPACE_FETCHED, /* metrics of the step, on the host */
    SS_SPACE_SCALER,  /* state of the loss scaling */
    SS_SPACE_ACCUM,   /* index: bucket; its gradients of the step's earlier micro-steps, added up */
    SS_SPACE_SYNC,    /* orders the sums of statistics, which do not wait behind buckets */
    SS_SPACE_SQUARES, /* sum of the squares of the step's gradients */
    SS_SPACE_KEYS,    /* of dropout, of the micro-step; device only */
};
enum ss_mode { SS_READ = 1, SS_WRITE = 2, SS_READ_WRITE = 3 };

/* What the accessed data means to the task. */
enum ss_role_kind {
    SS_ROLE_X,
    SS_ROLE_INPUT, /* .. SS_ROLE_INPUT + SS_MAX_INPUTS - 2: what the first layer reads beside x */
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
    SS_ROLE_SHORTCUT_PARAMS, /* of the block whose end was left to this one */
    SS_ROLE_SHORTCUT_GRADS,
    SS_ROLE_SHORTCUT_SAVED,
    SS_ROLE_X_PARAMS, /* of the block whose y this one makes: x is what that is made of */
    SS_ROLE_X_SAVED,
    SS_ROLE_ACCUM,
    SS_ROLE_SUMS, /* of statistics, see norm_act_sums and norm_act_backward_sums */
    SS_ROLE_KEYS, /* from the block's own on; convert: all */
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
    SS_TASK_SUM, /* contributions to one gradient, where there are more than one task may add */
    SS_TASK_ADD, /* a bucket's gradients: to those of earlier micro-steps, or in the last one these */
    SS_TASK_SYNC, /* a block's statistics: the sum over ranks */
    SS_TASK_ALLREDUCE,
    SS_TASK_REDUCE_SCATTER, /* with shards: of a bucket's gradients; only the own share is complete */
    SS_TASK_CHECK,   /* a bucket's summed gradients for infinities; else backward looks itself */
    SS_TASK_SQUARES, /* of a bucket's summed gradients, with clipping */
    SS_TASK_UPDATE,
    SS_TASK_GATHER, /* with shards: the weights of a bucket that the ranks have updated */
    SS_TASK_SCALE,  /* end of a step: the new loss scale */
    SS_TASK_FETCH,  /* metrics: device to host */
    SS_TASK_REDUCE_METRICS,
    SS_TASK_REDUCE_FOUND,   /* with shards and loss scaling: has any rank found an infinity */
    SS_TASK_REDUCE_SQUARES, /* with shards and clipping: of all ranks' shares */
    SS_TASK_REPORT,
};

/* With sync_stats, forward and backward of a block with NORM are several tasks of its kind, with a sum
 * over ranks behind the first. With defer_weight_grads other blocks' backward may be two. */
enum ss_part {
    SS_PART_WHOLE,
    SS_PART_SUMS,    /* up to this rank's sums: convolution, sums; backward: ds, sums */
    SS_PART_APPLY,   /* from the sums on: statistics, y; backward: dz, dx, gradients of NORM */
    SS_PART_DATA,    /* backward: all but what comes in the next part */
    SS_PART_WEIGHTS, /* backward: gradients of HEAD's parameters, behind APPLY or DATA */
};

struct ss_plan_task {
    enum ss_task_kind kind;
    enum ss_part part; /* forward, backward */
    char name[SS_NAME_BYTES];
    int block;    /* forward, backward, sync; else -1 */
    int sums;     /* sync: numbers, fp64 */
    size_t count; /* sum: elements */
    int bucket;   /* its add, sum, check, squares, update, gather; else -1 */
    int slice;    /* load; else -1 */
    int micro;    /* of which micro-step, from 0; what comes once a step: of the last */
    int priority; /* larger runs first */
    int ndy;
    int naccess;
    struct ss_access access[SS_PLAN_MAX_ACCESSES];
    int role[SS_ROLE_COUNT];   /* role -> index into access, -1: none */
    int tensor[SS_ROLE_COUNT]; /* role -> tensor, -1: none or not a tensor */
    size_t at[SS_ROLE_COUNT];  /* role -> where it begins in what is accessed, in bytes */
    int adds_dx;               /* backward adds dx to what is there */
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
    int *finished; /* the blocks, in the order in which backward ends their gradients */
    int nparams; /* trained ones first, bucket by bucket; then frozen ones likewise, then buffers */
    struct ss_plan_param *param;
    int nbuckets; /* that are summed and updated; may be 0 */
    int nfrozen;  /* further ones, of a block each whose parameters are all frozen */
    struct ss_bucket *bucket;
    int *sum_order; /* of the buckets' sums */
    int ntensors;
    struct ss_plan_tensor *tensor;
    int nbuffers;
    size_t *buffer_bytes;
    struct ss_task_list train; /* one training step: micro-step after micro-step */
    struct ss_task_list eval;  /* forward only, with running statistics; shares the buffers */
    int slice_begin[SS_PLAN_MAX_SLICES + 1]; /* images of slice s: [begin[s], begin[s+1]) */
};

/* graph outlives the plan. Errors: SS_ERR_INVALID (options), SS_ERR_UNSUPPORTED (a layer that no
 * block takes in), SS_ERR_MEMORY. The caller destroys *out. */
enum ss_status ss_plan_lower(const struct ss_graph *graph, const struct ss_plan_options *options,
                             struct ss_plan **out);
void ss_plan_destroy(struct ss_plan *plan);

/* Bytes of all buffers, and of all tensors if none shared. */
size_t ss_plan_buffer_bytes(const struct ss_plan *plan);
size_t ss_plan_tensor_bytes(const struct ss_plan *plan);

/* Print as a table, or as a DOT graph (edges: dependencies that StarPU infers inside one step). */
enum ss_status ss_plan_print_table(const struct ss_plan *plan, FILE *out);
enum ss_status ss_plan_print_dot(const struct ss_plan *plan, FILE *out);

const char *ss_task_kind_name(enum ss_task_kind kind);
/* Is it the sum of a bucket's gradients over ranks? */
static inline int ss_task_sums_bucket(enum ss_task_kind kind)
{
    return kind == SS_TASK_ALLREDUCE || kind == SS_TASK_REDUCE_SCATTER;
}
/* Is it any exchange between ranks? */
static inline int ss_task_sums(enum ss_task_kind kind)
{
    return ss_task_sums_bucket(kind) || kind == SS_TASK_GATHER || kind == SS_TASK_REDUCE_METRICS ||
           kind == SS_TASK_REDUCE_FOUND || kind == SS_TASK_REDUCE_SQUARES || kind == SS_TASK_SYNC;
}
/* Is it of a kind that the compute worker runs, or a GPU's compute and update lanes? */
static inline int ss_task_computes(enum ss_task_kind kind)
{
    return !ss_task_sums(kind) && kind != SS_TASK_LOAD && kind != SS_TASK_UPLOAD &&
           kind != SS_TASK_FETCH && kind != SS_TASK_REPORT;
}
const char *ss_space_name(enum ss_space space);

/* Is parameter i trained? Buffers and frozen ones are not. */
static inline int ss_plan_trains(const struct ss_plan *plan, int i)
{
    return plan->param[i].bucket >= 0 && !plan->param[i].frozen;
}
/* Numbers in frozen parameters. */
int64_t ss_plan_frozen(const struct ss_plan *plan);
/* States that the optimizer has of it. */
static inline int ss_plan_states(const struct ss_plan *plan, int i)
{
    return ss_plan_trains(plan, i) ? plan->options.states : 0;
}

/* A block that begins with HEAD adds its residual while it stores, and does nothing else: it has no z. */
static inline int ss_block_only_adds(const struct ss_block *b)
{
    return b->last == SS_PLACE_ADD && b->layer[SS_PLACE_NORM] < 0 && b->layer[SS_PLACE_ACT] < 0 &&
           b->layer[SS_PLACE_DROP] < 0;
}

/* Can the weight's gradient of block i be a task of its own, is it wanted, and is it put off? */
static inline int ss_plan_parts_weights(const struct ss_plan *plan, int i)
{
    return plan->block[i].cls->parts_weights && !plan->block[i].frozen_head;
}
static inline int ss_plan_puts_off(const struct ss_plan *plan, int i)
{
    return i < plan->options.defer_weight_grads && ss_plan_parts_weights(plan, i);
}

/* The channels of a device's padded input, of c channels. */
static inline int ss_plan_input_block(const struct ss_plan *plan, int c)
{
    const int unit = plan->options.input_block;
    return (c + unit - 1) / unit * unit;
}

/* Bytes of the gradients of a block, unpadded fp32. */
size_t ss_plan_block_bytes(const struct ss_plan *plan, int block);

/* Does block i drop something, in training? And how many of the first `blocks` blocks do. */
int ss_plan_drops(const struct ss_plan *plan, int i);
int ss_plan_count_drops(const struct ss_plan *plan, int blocks);

struct ss_bucket_caps {
    double mb, first_mb, last_mb; /* as in ss_plan_options, none of them left out but last_mb */
};
/* What sizes of 0 stand for, with `total` bytes of gradients. */
struct ss_bucket_caps ss_bucket_default_caps(size_t total, double mb, double first_mb,
                                             double last_mb);
/* Fill `finished` as in struct ss_plan: from the last block to the first, and behind all others those
 * before `deferred` whose weight gradients can be deferred, from the first one on. can[i]: can those
 * of block i? */
void ss_bucket_finish(const unsigned char *can, int nblocks, int deferred, int *finished);
/* Which bucket each block goes to, -1 without gradients; returns the number of buckets. Buckets fill in
 * the order of `finished`. */
int ss_bucket_partition(const size_t *bytes, int nblocks, const int *finished,
                        const struct ss_bucket_caps *caps, int *bucket);

/* Assign tensors to buffers from their lifetimes (memory.c, called by ss_plan_lower). */
enum ss_status ss_plan_assign_buffers(struct ss_plan *plan);

/* Put the step's earlier micro-steps in front of the last one (accumulate.c, called by ss_plan_lower). */
enum ss_status ss_plan_accumulate(struct ss_plan *plan);

#endif
