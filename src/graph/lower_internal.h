/* Shared by the files that lower a graph: blocks (fuse.c), buckets (bucket.c), what lies in what
 * (tensor_views.c), what is not stored (unstored.c) and tasks: those of blocks (lower_blocks.c) and of buckets
 * (lower_collectives.c), put together in lower.c. */
#ifndef SS_GRAPH_LOWER_INTERNAL_H
#define SS_GRAPH_LOWER_INTERNAL_H

#include "graph/plan.h"

/* Fill plan->block from plan->graph. Blocks come in an order that respects data flow. */
enum ss_status ss_plan_fuse(struct ss_plan *plan);

/* Group parameters into buckets; fills plan->finished, plan->param, plan->bucket, plan->sum_order and the
 * blocks' bucket. */
enum ss_status ss_plan_make_buckets(struct ss_plan *plan);

/* Record that t touches (space, index) as `role`; a second role on the same data shares the access.
 * SS_ERR_UNSUPPORTED when there are too many. */
enum ss_status ss_plan_touch(struct ss_plan_task *t, enum ss_role_kind role, enum ss_space space,
                             int index, enum ss_mode mode);

/* Priorities: a collective that can start must start; then additions, the backward pass from its end, updates
 * (those the next forward needs first), forward, loading. */
enum {
    SS_PRIORITY_COMM = 100000,
    SS_PRIORITY_REPORT = 90000,
    SS_PRIORITY_ADD = 60000, /* a sum waits for it */
    SS_PRIORITY_BACKWARD = 50000,
    SS_PRIORITY_UPDATE = 30000,
    SS_PRIORITY_FORWARD = 20000,
    SS_PRIORITY_UPLOAD = 1,
    SS_PRIORITY_LOAD = 0
};

/* Where a value lies, if in a concatenation's output. */
struct ss_lower_view {
    int block; /* the concatenation's; -1: in a tensor of its own */
    int at;    /* its first channel there */
};

struct ss_lowerer {
    struct ss_plan *plan;
    struct ss_task_list *list;
    int capacity;      /* of plan->tensor */
    int *value_tensor; /* per value: its tensor in the list being built; -1: the input slot */
    int (*grad)[SS_PLAN_MAX_DY]; /* per value: contributions to its gradient */
    int *ngrad;
    int input;    /* the input value */
    int dense;    /* on a device, where some read it padded: its tensor without padding; else -1 */
    struct ss_lower_view *part; /* per value */
    int *forward; /* per block: its forward task in `list`, the last one */
    int weights;  /* a block whose weight's gradient is still to be lowered; -1: none */
    int summed;   /* buckets whose sum has been lowered */
    enum ss_status status;
};

/* lower_tasks.c. A tensor called BLOCK.WHAT; -1 after a failure, which lo->status keeps. */
int ss_lower_add_tensor(struct ss_lowerer *lo, const char *block, const char *what,
                        struct ss_plan_tensor t);
/* An activation of value v's shape, and the channel block of its layout. */
int ss_lower_add_activation(struct ss_lowerer *lo, const char *block, const char *what, ss_value v);
int ss_lower_add_blocked(struct ss_lowerer *lo, const char *block, const char *what, ss_value v,
                         int channel_block);
int ss_lower_layout_block(const struct ss_plan *plan, ss_value v);
/* The channels of value v that lie in tensor `whole`, from `at` of it on. */
int ss_lower_add_view(struct ss_lowerer *lo, const char *block, const char *what, ss_value v,
                      int whole, int at);
/* A task at the end of the list; NULL after a failure. */
struct ss_plan_task *ss_lower_add_task(struct ss_lowerer *lo, enum ss_task_kind kind,
                                       const char *name, int priority);
/* As ss_plan_touch; lo->status keeps failures. The second does so for a tensor; -1: nothing. */
void ss_lower_touch(struct ss_lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                    enum ss_space space, int index, enum ss_mode mode);
void ss_lower_touch_tensor(struct ss_lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                           int tensor, enum ss_mode mode);

/* What a block's first layer reads beside x; of an addition that is the residual. */
int ss_lower_other_inputs(const struct ss_plan *plan, const struct ss_block *b, const ss_value **v);

/* Can it read a device's samples as they are, padded? */
static inline int ss_lower_reads_samples(const struct ss_plan *plan, const struct ss_block *b)
{
    const struct ss_layer *first = ss_graph_layer(plan->graph, b->first_layer);
    return b->cls->reads_samples && b->cls->reads_samples(first);
}

/* Decide which values are made in the concatenation that reads them (tensor_views.c): fills lo->part and the
 * blocks' in_place. */
void ss_lower_place_views(struct ss_lowerer *lo);
/* Does the last pass of block b write y and do nothing else: no addition, no pool? */
int ss_lower_writes_y_alone(const struct ss_block *b);
/* Decide which blocks' y is not stored (unstored.c). */
void ss_lower_leave_unstored(const struct ss_lowerer *lo);
/* y of block i, in the list being built: a tensor, or a part of one that comes into being with it. */
int ss_lower_add_output(struct ss_lowerer *lo, int i);
/* Does anybody add to the gradients of what lies in block i's y? */
int ss_lower_adds_to_views(const struct ss_lowerer *lo, int i);
/* Does it have tasks? */
static inline int ss_lower_has_tasks(const struct ss_plan *plan, const struct ss_block *b)
{
    return b->in_place + 1 != 1u << ss_graph_layer(plan->graph, b->first_layer)->ninputs;
}

/* The tasks of block i (lower_blocks.c). */
void ss_lower_forward(struct ss_lowerer *lo, int i, int training);
void ss_lower_backward(struct ss_lowerer *lo, int i);
/* The weight's gradient of block i, which comes behind all blocks' backward; and that of a block which
 * backward has put off until the next one: before its bucket is summed. */
void ss_lower_weights(struct ss_lowerer *lo, int i);
void ss_lower_deferred_weights(struct ss_lowerer *lo);
/* `tensor` is a contribution to the gradient of v, made by block i; contributions that are too many for
 * one task are added up first. */
void ss_lower_contribute(struct ss_lowerer *lo, ss_value v, int tensor, int i);

/* What follows once all gradients of bucket k are there: with those of earlier micro-steps; its sum;
 * and, with loss scaling or clipping, once those of all buckets are (lower_collectives.c). */
void ss_lower_add(struct ss_lowerer *lo, int k);
void ss_lower_bucket(struct ss_lowerer *lo, int k);
void ss_lower_last_updates(struct ss_lowerer *lo);
/* With shards: the end of a step. */
void ss_lower_gathers(struct ss_lowerer *lo);
/* The step's metrics to all ranks' sum and the report. */
void ss_lower_metrics(struct ss_lowerer *lo);

/* Do ranks share a block's statistics? */
static inline int ss_lower_syncs(const struct ss_plan *plan, const struct ss_block *b)
{
    return plan->options.sync_stats > 1 && b->layer[SS_PLACE_NORM] >= 0;
}

static inline int ss_lower_updates_last(const struct ss_plan *plan)
{
    return plan->options.loss_scaling || plan->options.clipping;
}

/* With loss scaling, does a backward task itself look for infinities in the gradients that it makes?
 * Only where these stay as they are: a sum over ranks has other ranks' infinities too, and in 2 bytes
 * may become infinite on its way; a sum over micro-steps has those of all of them. */
static inline int ss_lower_checks_inf_inline(const struct ss_plan *plan)
{
    return plan->options.loss_scaling && !plan->options.device_sums &&
           plan->options.accumulate == 1;
}

#endif
