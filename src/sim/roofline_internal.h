/* Internals of the prediction: roofline.c runs the tasks, roofline_time.c computes the time of a
 * launch. */
#ifndef SS_SIM_ROOFLINE_INTERNAL_H
#define SS_SIM_ROOFLINE_INTERNAL_H

#include "sim/roofline.h"

/* Bytes in L2 of the most recently accessed tensors. */
struct ss_l2 {
    int count;
    struct ss_l2_part {
        const void *data;
        double bytes;
    } part[2 * SS_COST_ACCESSES];
};

/* Count a launch. Launches must be in step order. Without a machine (r->machine NULL) only its
 * bytes and operations are counted, not its time. */
void ss_roofline_count(const struct ss_roofline *r, struct ss_l2 *l2,
                       const struct ss_cost_launch *launch, struct ss_roofline_work *out);
/* Returns the seconds of a convolution at the best rates; 0 for other kernels. */
double ss_roofline_floor(const struct ss_roofline *r, const struct ss_cost_launch *launch);
void ss_roofline_add(struct ss_roofline_work *sum, const struct ss_roofline_work *w);

#endif
