/* Totals over all steps of a rank. */
#ifndef SS_APPS_TRACE_RANK_SUMS_H
#define SS_APPS_TRACE_RANK_SUMS_H

#include "apps/trace/analyse.h"

/* ns. */
struct ss_rank_sums {
    size_t steps;
    int64_t window, compute, comm, overlap, exposed, idle[SS_IDLE_KINDS], load;
    int64_t path_kind[SS_PATH_KINDS];
    double train_rate, load_rate; /* images/s; 0: unknown */
    double headroom;              /* load rate / training rate; 0: nothing loaded */
};
void ss_rank_add_step(struct ss_rank_sums *sum, const struct ss_step_times *s);
struct ss_rank_sums ss_rank_sum(const struct ss_rank_times *r);

#endif
