/* Which bucket sizes, and which order of their sums, make a training step shortest: every choice of
 * a list is played through with measured times.
 *
 * The model of a step (ss_bucket_play): one worker runs forward, backward and updates, the one with
 * the higher priority first, as the plan's tasks do; one link carries one sum at a time, in the
 * given order; a bucket's sum begins when all its gradients are there, those of weights that are
 * put off behind all of backward, in forward's order (struct ss_plan_options); its update when the
 * sum has ended; a block's forward pass of the next step waits for the update of its bucket. On
 * GPUs updates run beside the worker, in the order of the sums, one after the other. A sum takes
 * sum_s + bytes * sum_s_per_byte, as in Hockney's model of messages (R. Hockney, "The communication
 * challenge for MPP", Parallel Computing 20, 1994). */
#ifndef SS_GRAPH_BUCKET_CHOOSE_H
#define SS_GRAPH_BUCKET_CHOOSE_H

#include "graph/plan.h"

/* Seconds; of blocks: nblocks entries. The caller keeps the arrays. */
struct ss_bucket_costs {
    int nblocks;
    const size_t *bytes; /* of gradients, unpadded fp32; 0: none */
    const double *forward_s, *backward_s;
    const double *weights_s; /* of backward_s, what can be put off; 0: nothing */
    const int *deferred;     /* blocks, as ss_plan_options has it; NULL: chosen, too */
    double update_s_per_byte;
    double sum_s, sum_s_per_byte; /* per byte of fp32, whatever travels */
    int updates_last;             /* loss scaling: no update before the last sum */
    int updates_beside;           /* they take none of the worker's time */
    int no_overlap;               /* no sum before the end of backward */
};

/* How long a step takes when many follow each other. deferred: weights of so many blocks; bucket: of each
 * block, as by ss_bucket_partition; order: of the n buckets' sums, NULL: whichever is ready, the one that the
 * next forward pass needs first in front. used: what that came to, n entries; NULL: not asked for.
 * Errors: SS_ERR_MEMORY. */
enum ss_status ss_bucket_play(const struct ss_bucket_costs *costs, int deferred, const int *bucket,
                              int n, const int *order, int *used, double *step_s);

enum { SS_BUCKET_ORDER_TEXT = 4096 };

struct ss_bucket_choice {
    struct ss_bucket_caps caps;
    int deferred;                     /* for ss_plan_options.defer_weight_grads */
    char order[SS_BUCKET_ORDER_TEXT]; /* for ss_plan_options.bucket_order; "": as they get ready */
    int buckets;
    double step_s;    /* as played */
    double exposed_s; /* of it, in which nothing is computed */
};

/* The shortest step; first as little put off as comes within a quarter of a percent of it, and would
 * if sums took a twentieth longer; of choices within half a percent of what can be reached with that,
 * then one in the plain order, and then the one with the fewest buckets. Caps are such that their %.6g text reads back as them. Errors: SS_ERR_MEMORY. */
enum ss_status ss_bucket_choose(const struct ss_bucket_costs *costs, struct ss_bucket_choice *out);

/* What the given caps come to, in the plain order, with nothing put off. Errors: SS_ERR_MEMORY. */
enum ss_status ss_bucket_rate(const struct ss_bucket_costs *costs,
                              const struct ss_bucket_caps *caps, struct ss_bucket_choice *out);

#endif
