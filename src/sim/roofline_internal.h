/* Inside of the prediction: roofline.c runs the tasks, roofline_time.c says how long a launch is. */
#ifndef SS_SIM_ROOFLINE_INTERNAL_H
#define SS_SIM_ROOFLINE_INTERNAL_H

#include "sim/roofline.h"

/* What L2 still holds of the tensors that were touched last. */
struct ss_l2 {
    int count;
    struct ss_l2_part {
        const void *data;
        double bytes;
    } part[2 * SS_COST_ACCESSES];
};

/* Count a launch; launches come in the order of the step. Without figures of a machine (r->machine NULL) its
 * bytes and operations are counted, and no seconds. */
void ss_roofline_count(const struct ss_roofline *r, struct ss_l2 *l2,
                       const struct ss_cost_launch *launch, struct ss_roofline_work *out);
/* Seconds of a convolution at the best rates; 0 for all else. */
double ss_roofline_floor(const struct ss_roofline *r, const struct ss_cost_launch *launch);
void ss_roofline_add(struct ss_roofline_work *sum, const struct ss_roofline_work *w);

#endif
