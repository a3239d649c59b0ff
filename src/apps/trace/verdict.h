/* Verdict on a trace in three lines: the bottleneck of the step, the exposed communication, and a
 * suggestion. Means over the steps of all ranks, as in analyse.h. */
#ifndef SS_APPS_TRACE_VERDICT_H
#define SS_APPS_TRACE_VERDICT_H

#include "apps/trace/analyse.h"

struct ss_trace_verdict {
    int steps;             /* 0: no complete step; all other fields are unset */
    const char *bound;     /* "compute", or the largest idle share (ss_idle_name) */
    const char *meanwhile; /* state during the longest idle time: "waiting for input" */
    double step_ms;        /* window */
    double computing;      /* compute share of it */
    double waiting;        /* idle share of it, of the longest kind */
    double comm_ms, exposed_ms;
    int last; /* the rank that others waited for most; -1: none */
    /* per step, the mean wait of each other rank for it, over all collectives */
    double for_last_ms;
    char advice[512];
};

/* Whether the other ranks wait for the last rank, rather than for the links. */
static inline int ss_trace_is_late(const struct ss_trace_verdict *v)
{
    return v->last >= 0 && v->for_last_ms > 0.5 * v->exposed_ms;
}

struct ss_trace_verdict ss_trace_judge(const struct ss_run_times *run);

#endif
