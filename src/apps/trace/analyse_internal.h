/* Internals of the single-rank analysis, for src/apps/trace/analyse*.c only. */
#ifndef SS_APPS_TRACE_ANALYSE_INTERNAL_H
#define SS_APPS_TRACE_ANALYSE_INTERNAL_H

#include "apps/trace/analyse.h"
#include "apps/trace/interval.h"

struct ss_analysis {
    const struct ss_trace_rank *trace;
    const struct ss_analyse_options *options;
    struct ss_depend *depend;
    struct ss_rank_times *out;
    struct ss_intervals compute, comm, overlap, exposed;
    struct ss_intervals idle[SS_IDLE_KINDS];
};

static inline int ss_analysis_wants(const struct ss_analysis *a, int64_t step)
{
    return step >= a->options->first && (!a->options->last || step <= a->options->last);
}

/* analyse_sums.c: analyze the collectives; requires compute. */
enum ss_status ss_analysis_sums(struct ss_analysis *a);
/* analyse_use.c: copy what the report shows unchanged from the trace; no prerequisites. */
enum ss_status ss_analysis_facts(struct ss_analysis *a);
/* analyse_use.c: compute utilization of workers and lanes; requires the windows. */
enum ss_status ss_analysis_workers(struct ss_analysis *a);

#endif
