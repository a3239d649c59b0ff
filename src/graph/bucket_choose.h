/* Search for the bucket sizes and the all-reduce order that minimize the time of a training step:
 * every candidate of a list is simulated with measured times.
 *
 * The model of a step (ss_bucket_play): one worker runs forward, backward and updates, the
 * highest priority first, as the plan's tasks do. One link carries one all-reduce at a time, in
 * the given order. A bucket's all-reduce starts when all its gradients are complete; deferred
 * weight gradients are computed after all of backward, in forward order (struct ss_plan_options).
 * Its update starts when the all-reduce has ended. A block's forward pass of the next step waits
 * for the update of its bucket. On GPUs updates run beside the worker, one after the other, in
 * the order of the all-reduces. An all-reduce takes sum_s + bytes * sum_s_per_byte, as in
 * Hockney's model of messages (R. Hockney, "The communication challenge for MPP", Parallel
 * Computing 20, 1994). */
#ifndef SS_GRAPH_BUCKET_CHOOSE_H
#define SS_GRAPH_BUCKET_CHOOSE_H

#include "graph/plan.h"

/* Times in seconds. Per-block arrays have nblocks entries. The caller owns the arrays. */
struct ss_bucket_costs {
    int nblocks;
    const size_t *bytes; /* of gradients, unpadded fp32; 0: none */
    const double *forward_s, *backward_s;
    const double *weights_s; /* portion of backward_s that can be deferred; 0: none */
    const int *deferred;     /* blocks, as in ss_plan_options; NULL: searched too */
    double update_s_per_byte;
    double sum_s, sum_s_per_byte; /* per fp32 byte, whatever the wire type */
    int updates_last;             /* loss scaling: no update before the last all-reduce */
    int updates_beside;           /* updates take none of the worker's time */
    int no_overlap;               /* no all-reduce before the end of backward */
};

/* Compute the time of a step in a long sequence of steps. deferred: number of leading blocks
 * whose weight gradients are deferred. bucket: of each block, as by ss_bucket_partition. order:
 * of the n buckets' all-reduces; NULL: of the ready buckets, the one that the next forward needs
 * first. used: receives the resulting order, n entries; may be NULL. Errors: SS_ERR_MEMORY. */
enum ss_status ss_bucket_play(const struct ss_bucket_costs *costs, int deferred, const int *bucket,
                              int n, const int *order, int *used, double *step_s);

enum { SS_BUCKET_ORDER_TEXT = 4096 };

struct ss_bucket_choice {
    struct ss_bucket_caps caps;
    int deferred; /* for ss_plan_options.defer_weight_grads */
    /* for ss_plan_options.bucket_order; "": as buckets become ready */
    char order[SS_BUCKET_ORDER_TEXT];
    int buckets;
    double step_s;    /* simulated */
    double exposed_s; /* portion of step_s with no computation */
};

/* Choose buckets for the shortest step. First choose the least deferral within a quarter of a
 * percent of the shortest step, also if all-reduces take 5% longer. Then, among candidates within
 * half a percent of the shortest step with that deferral, prefer the plain order, then the fewest
 * buckets. The caps read back exactly from their %.6g text. Errors: SS_ERR_MEMORY. */
enum ss_status ss_bucket_choose(const struct ss_bucket_costs *costs, struct ss_bucket_choice *out);

/* Simulate the given caps, in the plain order, without deferral. Errors: SS_ERR_MEMORY. */
enum ss_status ss_bucket_rate(const struct ss_bucket_costs *costs,
                              const struct ss_bucket_caps *caps, struct ss_bucket_choice *out);

#endif
