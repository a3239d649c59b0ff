/* Flows of buckets through a rank's slices, and worker utilization: the data of arrows and
 * counters. */
#ifndef SS_APPS_TRACE_EXPORT_FLOW_H
#define SS_APPS_TRACE_EXPORT_FLOW_H

#include "apps/trace/export.h"

/* One bucket in one step: the last task that wrote its gradients, its collective, its update. */
struct ss_export_flow {
    const struct ss_export_slice *written, *summed;
    const struct ss_export_slice *applied; /* NULL: not in the trace */
};

/* The utilization from `at` to the worker's next sample; 0 if no step follows immediately. */
struct ss_export_share {
    int64_t at; /* in the time base of slices */
    const char *worker;
    double share;
};

/* By step, then bucket. The caller frees *out. Errors: SS_ERR_MEMORY. */
enum ss_status ss_export_flows(const struct ss_export_rank *r, struct ss_export_flow **out,
                               size_t *count);
/* Sorted by worker, then time; without workers that ran nothing. The caller frees *out. Errors:
 * SS_ERR_MEMORY. */
enum ss_status ss_export_shares(const struct ss_export *e, const struct ss_export_rank *r,
                                struct ss_export_share **out, size_t *count);

#endif
