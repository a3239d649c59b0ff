/* Reports of a trace analysis, as text and as JSON. */
#ifndef SS_APPS_TRACE_TRACE_REPORT_H
#define SS_APPS_TRACE_TRACE_REPORT_H

#include "apps/trace/rank_sums.h"

#include <stdio.h>

struct ss_trace_report_options {
    int rank;  /* -1: all; else print per-rank results of this one only */
    int steps; /* print a line per step, for any number of steps */
    int path;  /* print the tasks of critical paths */
};

/* Print tables of at most 120 columns. Errors: SS_ERR_IO. */
enum ss_status ss_trace_report_text(const struct ss_run_times *run,
                                    const struct ss_trace_report_options *o, FILE *out);

/* Write one JSON object with all results; times in ms, shares between 0 and 1, bandwidths in
 * GB/s, null for a division by zero. Errors: SS_ERR_IO (names the file), SS_ERR_MEMORY. */
enum ss_status ss_trace_report_json(const struct ss_run_times *run,
                                    const struct ss_trace_report_options *o, const char *file);

/* Measured and predicted times of a task, in ns; 0: unknown. */
struct ss_compared {
    double measured, predicted;
};
static inline struct ss_compared ss_rank_compare(const struct ss_rank_times *r, size_t task)
{
    const struct ss_task_time *g = &r->task_time[task];
    return (struct ss_compared){g->count ? (double)g->sum / (double)g->count : 0,
                                (double)g->predicted};
}

#endif
