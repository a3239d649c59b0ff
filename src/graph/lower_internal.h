/* Shared by the files that lower a graph: blocks (fuse.c), buckets (bucket.c), tensor views
 * (tensor_views.c), activations that are not stored (unstored.c), tasks of blocks
 * (lower_blocks.c) and of buckets (lower_collectives.c). lower.c combines them. */
#ifndef SS_GRAPH_LOWER_INTERNAL_H
#define SS_GRAPH_LOWER_INTERNAL_H

#include "graph/plan.h"

/* Fill plan->block from plan->graph. The order of the blocks respects data flow. */
enum ss_status ss_plan_fuse(struct ss_plan *plan);

/* Group parameters into buckets. Fills plan->finished, plan->param, plan->bucket, plan->sum_order
 * and the blocks' bucket. */
enum ss_status ss_plan_make_buckets(struct ss_plan *plan);

/* Record that t accesses (space, index) as `role`. A second role on the same data shares the
 * access. SS_ERR_UNSUPPORTED if there are too many. */
enum ss_status ss_plan_touch(struct ss_plan_task *t, enum ss_role_kind role, enum ss_space space,
                             int index, enum ss_mode mode);

/* Priorities: a collective that can start must start. Then additions, backward from its end,
 * updates (those that the next forward needs first), forward, loading. */
enum {
    SS_PRIORITY_COMM = 100000,
    SS_PRIORITY_REPORT = 90000,
    SS_PRIORITY_ADD = 60000, /* an all-reduce waits for it */
    SS_PRIORITY_BACKWARD = 50000,
    SS_PRIORITY_UPDATE = 30000,
    SS_PRIORITY_FORWARD = 20000,
    SS_PRIORITY_UPLOAD = 1,
    SS_PRIORITY_LOAD = 0
};

/* The location of a value that is a view of a concatenation's output. */
struct ss_lower_view {
    int block; /* the concatenation's; -1: not a view */
    int at;    /* its first channel there */
};

struct ss_lowerer {
    struct ss_plan *plan;
    struct ss_task_list *list;
    int capacity;      /* of plan->tensor */
    int *value_tensor; /* per value: its tensor in the list being built; -1: the input slot */
    int (*grad)[SS_PLAN_MAX_DY]; /* per value: contributions to its gradient */
    int *ngrad;
    int input; /* the input value */
    int dense; /* on a device with padded input: its tensor without padding; else -1 */
    struct ss_lower_view *part; /* per value */
    int *forward;               /* per block: its forward task in `list`, the last one */
    int weights;                /* block whose weight gradient remains to be lowered; -1: none */
    int summed;                 /* number of buckets whose all-reduce has been lowered */
    enum ss_status status;
};

/* lower_tasks.c. Add a tensor named BLOCK.WHAT. Returns -1 after a failure, which is stored in
 * lo->status. */
int ss_lower_add_tensor(struct ss_lowerer *lo, const char *block, const char *what,
                        struct ss_plan_tensor t);
/* Add an activation with the shape of value v. ss_lower_layout_block returns the channel block of
 * its layout. */
int ss_lower_add_activation(struct ss_lowerer *lo, const char *block, const char *what, ss_value v);
int ss_lower_add_blocked(struct ss_lowerer *lo, const char *block, const char *what, ss_value v,
                         int channel_block);
int ss_lower_layout_block(const struct ss_plan *plan, ss_value v);
/* Add value v as a view of the channels of tensor `whole` starting at `at`. */
int ss_lower_add_view(struct ss_lowerer *lo, const char *block, const char *what, ss_value v,
                      int whole, int at);
/* Append a task to the list. Returns NULL after a failure. */
struct ss_plan_task *ss_lower_add_task(struct ss_lowerer *lo, enum ss_task_kind kind,
                                       const char *name, int priority);
/* As ss_plan_touch, with failures stored in lo->status. The second one does this for a tensor;
 * -1: no-op. */
void ss_lower_touch(struct ss_lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                    enum ss_space space, int index, enum ss_mode mode);
void ss_lower_touch_tensor(struct ss_lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                           int tensor, enum ss_mode mode);

/* Get the inputs of a block's first layer other than x. Returns their number, 0 for an addition,
 * whose other input is the residual. */
int ss_lower_other_inputs(const struct ss_plan *plan, const struct ss_block *b, const ss_value **v);

/* Returns whether block b can read a device's padded samples directly. */
static inline int ss_lower_reads_samples(const struct ss_plan *plan, const struct ss_block *b)
{
    const struct ss_layer *first = ss_graph_layer(plan->graph, b->first_layer);
    return b->cls->reads_samples && b->cls->reads_samples(first);
}

/* Decide which values are views of the concatenation that reads them (tensor_views.c). Fills
 * lo->part and the blocks' in_place. */
void ss_lower_place_views(struct ss_lowerer *lo);
/* Returns whether the last pass of block b only writes y, without an addition or a pool. */
int ss_lower_writes_y_alone(const struct ss_block *b);
/* Decide which blocks' y is not stored (unstored.c). */
void ss_lower_leave_unstored(const struct ss_lowerer *lo);
/* Returns the tensor of block i's y in the list being built; adds it, and the tensor that it is a
 * view of, if necessary. */
int ss_lower_add_output(struct ss_lowerer *lo, int i);
/* Returns whether any task adds to the gradients of the views of block i's y. */
int ss_lower_adds_to_views(const struct ss_lowerer *lo, int i);
/* Returns whether block b has tasks. */
static inline int ss_lower_has_tasks(const struct ss_plan *plan, const struct ss_block *b)
{
    return b->in_place + 1 != 1u << ss_graph_layer(plan->graph, b->first_layer)->ninputs;
}

/* The tasks of block i (lower_blocks.c). */
void ss_lower_forward(struct ss_lowerer *lo, int i, int training);
void ss_lower_backward(struct ss_lowerer *lo, int i);
/* Lower the weight gradient of block i after the backward of all blocks; lower that of a block
 * whose backward has deferred it until the next block, before its bucket is all-reduced. */
void ss_lower_weights(struct ss_lowerer *lo, int i);
void ss_lower_deferred_weights(struct ss_lowerer *lo);
/* Add `tensor` as a contribution to the gradient of v, made by block i. Contributions that are
 * too many for one task are added first. */
void ss_lower_contribute(struct ss_lowerer *lo, ss_value v, int tensor, int i);

/* Lower the tasks that follow once all gradients of bucket k are complete: accumulation with
 * earlier micro-batches, the all-reduce and, with loss scaling or clipping, the updates after the
 * gradients of all buckets (lower_collectives.c). */
void ss_lower_add(struct ss_lowerer *lo, int k);
void ss_lower_bucket(struct ss_lowerer *lo, int k);
void ss_lower_last_updates(struct ss_lowerer *lo);
/* With shards: lower the all-gathers at the end of a step. */
void ss_lower_gathers(struct ss_lowerer *lo);
/* Lower the all-reduce and the report of the step's metrics. */
void ss_lower_metrics(struct ss_lowerer *lo);

/* Returns whether ranks share a block's statistics. */
static inline int ss_lower_syncs(const struct ss_plan *plan, const struct ss_block *b)
{
    return plan->options.sync_stats > 1 && b->layer[SS_PLACE_NORM] >= 0;
}

static inline int ss_lower_updates_last(const struct ss_plan *plan)
{
    return plan->options.loss_scaling || plan->options.clipping;
}

/* With loss scaling, returns whether a backward task itself checks its gradients for infinities.
 * This requires that they do not change afterwards: an all-reduce includes the infinities of
 * other ranks and may overflow in a 2-byte type; accumulation includes those of all
 * micro-batches. */
static inline int ss_lower_checks_inf_inline(const struct ss_plan *plan)
{
    return plan->options.loss_scaling && !plan->options.device_sums &&
           plan->options.accumulate == 1;
}

#endif
