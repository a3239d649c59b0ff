/* Shared by the files that lower a graph: blocks (fuse.c), buckets and tasks (lower.c). */
#ifndef SS_GRAPH_LOWER_INTERNAL_H
#define SS_GRAPH_LOWER_INTERNAL_H

#include "graph/plan.h"

/* Fill plan->block from plan->graph. Blocks come in an order that respects data flow. */
enum ss_status ss_plan_fuse(struct ss_plan *plan);

/* Group parameters into buckets; fills plan->param, plan->bucket, plan->sum_order and the blocks'
 * bucket. */
enum ss_status ss_plan_make_buckets(struct ss_plan *plan);

/* Record that t touches (space, index) as `role`; a second role on the same data shares the access.
 * SS_ERR_UNSUPPORTED when there are too many. */
enum ss_status ss_plan_touch(struct ss_plan_task *t, enum ss_role_kind role, enum ss_space space,
                             int index, enum ss_mode mode);

#endif
