/* What a trace comes to in three lines: what bounds the step, how much of communication is exposed, and
 * what to try. Means over the steps of all ranks, as in analyse.h. */
#ifndef SS_TRACE_VERDICT_H
#define SS_TRACE_VERDICT_H

#include "trace/analyse.h"

struct ss_trace_verdict {
    int steps;             /* 0: no whole step, and nothing else is set */
    const char *bound;     /* "compute", or the longest idle time (ss_idle_name) */
    const char *meanwhile; /* what a rank does in the longest idle time: "it waits for input" */
    double step_ms;        /* a window */
    double computing;      /* share of it */
    double waiting;        /* share of it, of the longest idle time */
    double comm_ms, exposed_ms;
    int last;           /* the rank that others waited for most; -1: none */
    double for_last_ms; /* of a step, what each of the others waited for it, over all collectives */
    char advice[512];
};

/* Is it the last rank that the others wait for, rather than the links? */
static inline int ss_trace_is_late(const struct ss_trace_verdict *v)
{
    return v->last >= 0 && v->for_last_ms > 0.5 * v->exposed_ms;
}

struct ss_trace_verdict ss_trace_judge(const struct ss_run_times *run);

#endif
