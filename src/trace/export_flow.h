/* The ways of buckets through a rank's slices, and the shares of time in which its workers were
 * busy: what arrows and counters show. */
#ifndef SS_TRACE_EXPORT_FLOW_H
#define SS_TRACE_EXPORT_FLOW_H

#include "trace/export.h"

/* Of one bucket in one step: the last task that wrote its gradients, its collective, its update. */
struct ss_export_flow {
    const struct ss_export_slice *written, *summed;
    const struct ss_export_slice *applied; /* NULL: not in the trace */
};

/* The share of time from `at` to the worker's next one; 0 where no step follows at once. */
struct ss_export_share {
    int64_t at; /* in the times of slices */
    const char *worker;
    double share;
};

/* By step, then bucket. The caller frees *out. Errors: SS_ERR_MEMORY. */
enum ss_status ss_export_flows(const struct ss_export_rank *r, struct ss_export_flow **out,
                               size_t *count);
/* By worker, then time; none of workers that did nothing. The caller frees *out. Errors:
 * SS_ERR_MEMORY. */
enum ss_status ss_export_shares(const struct ss_export *e, const struct ss_export_rank *r,
                                struct ss_export_share **out, size_t *count);

#endif
