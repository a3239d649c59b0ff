/* Trace analysis: metrics per rank and step, and across ranks. Definitions:
 *
 * Compute: the merged times of the tasks convert, forward, backward, check, update and scale on
 * the compute worker; on a GPU their times on its compute lane. Loading, reports and updates on a
 * service worker are not compute.
 * Communication: the merged times of collectives, each from where this rank entered it to its end,
 * so waiting for the last rank is included; on a GPU the times on its comm lane for those that ran
 * there.
 *     overlap % = |compute and communication| / |communication|
 *     exposed   = |communication without compute|
 *
 * Window of a step: from the begin of its first computing task to that of the next step. For the
 * last step before a gap in the trace (or its end), the window ends with the step's last
 * computing task. Windows do not overlap, and per-step metrics count everything inside the
 * window. With steps in flight, a collective of one step may fall into the next step's window,
 * where it delayed the work. A step counts if all its computing tasks are in the trace (it is
 * complete).
 *
 * Idle: each gap of the compute worker, up to the task X that ends it. p is the predecessor of X
 * that ended last.
 *   - until X's step was submitted: nothing to do;
 *   - from then until X was ready (X's ready time, but not before p's end; on a GPU p's end):
 *     waiting for input if p is a load or upload task, for communication if p is a collective,
 *     else for a dependency;
 *   - X was ready, and its worker was loading (started while it had nothing else to do):
 *     waiting for input;
 *   - X was ready, and the worker did not run anything: runtime.
 * Compute and the five kinds of idle time add up to the window.
 *
 * Critical path of a step: the chain of tasks that leads to the end of its window, that is to the
 * begin of the next step's first computing task (or to the end of its own last one, where the
 * window ends there), back to the window's begin. At each task it continues with whichever ended
 * last: a dependency, or the preceding task on the same worker (depend.h). The path is therefore
 * as long as the window and attributes all of its time; input that arrived late appears on it as
 * a load task.
 *
 * The delay of a bucket's collective is the time from the end of the last task of the step that
 * wrote the gradients to the start of the collective on that rank. Bandwidths are defined as in
 * NCCL's tests, from the bytes sent: algorithm bandwidth = bytes / duration; bus bandwidth =
 * algorithm bandwidth * 2(n-1)/n for n ranks, which is the load on the links if each byte is sent
 * once and received once per rank; half of that for reduce-scatter and all-gather. Skew: the time
 * between the first and the last rank that start a collective, on rank 0's clock. A rank's wait
 * for the last rank runs from its own start to that rank's start (at most to its own end). Skews
 * below the clock error are not significant.
 *
 * Loader headroom: images/s that the workers could load if they did nothing else (images loaded /
 * time in load tasks * workers), divided by the training rate. */
#ifndef SS_APPS_TRACE_ANALYSE_H
#define SS_APPS_TRACE_ANALYSE_H

#include "apps/trace/depend.h"

enum ss_idle {
    SS_IDLE_INPUT,
    SS_IDLE_COMM,
    SS_IDLE_DEPENDENCY,
    SS_IDLE_RUNTIME,
    SS_IDLE_NOTHING,
    SS_IDLE_KINDS
};
const char *ss_idle_name(enum ss_idle kind);

/* Kinds of critical-path segments: the task kinds, and two without a task. */
enum { SS_PATH_WAITING = SS_TASK_REPORT + 1, SS_PATH_UNSUBMITTED, SS_PATH_KINDS };
const char *ss_path_kind_name(int kind);

/* Times in ns. */
struct ss_step_times {
    int64_t step, begin, end; /* its window, on the rank's clock */
    int64_t compute, comm, overlap, exposed, idle[SS_IDLE_KINDS];
    int64_t load;                     /* in load tasks of the step, whenever they ran */
    int64_t path_kind[SS_PATH_KINDS]; /* add up to the window */
    size_t path_from, path_count;     /* into the rank's path; with keep_path */
};

struct ss_sum_times {
    int64_t step, begin, end; /* on rank 0's clock */
    int64_t delay;            /* with has_delay */
    int64_t waited;           /* for the last rank; set by ss_analyse_run() */
    int32_t bucket, rank;
    int has_delay;
};

struct ss_worker_times {
    char name[SS_TRACE_TEXT]; /* "compute lane" for a GPU lane */
    int64_t busy, load;       /* in all tasks; in load tasks; inside windows */
    int64_t *step_busy;       /* busy time per step window */
};

/* A task of a GPU's compute lane, or a CPU task that has a prediction, over the selected steps. */
struct ss_task_time {
    int64_t sum, count; /* ns; number of steps */
    int64_t predicted;  /* ns; 0: unknown */
};

struct ss_rank_times {
    int rank, ranks, cuda, overlap, ended, cut;
    int has_clock;
    int64_t batch, lost, clock_error, first_step, last_step;
    char host[SS_TRACE_TEXT], model[SS_TRACE_TEXT], backend[SS_TRACE_TEXT];
    char machine[SS_TRACE_TEXT]; /* of the predictions; "": no predictions */
    int loaders;                 /* workers that can load */
    int64_t steps_broken;        /* incomplete, excluded */
    int64_t window;              /* sum over all steps */
    size_t tasks;
    char (*task_name)[SS_NAME_BYTES];
    enum ss_task_kind *task_kind;
    struct ss_task_time *task_time;
    SS_TRACE_ARRAY(struct ss_step_times) step;
    SS_TRACE_ARRAY(struct ss_sum_times) sum;
    SS_TRACE_ARRAY(struct ss_worker_times) worker; /* those of the trace, then a GPU's lanes */
    SS_TRACE_ARRAY(struct ss_trace_bucket) bucket;
    SS_TRACE_ARRAY(struct ss_trace_memory) memory;
    struct ss_path path;
};

struct ss_analyse_options {
    int64_t first, last; /* selected steps; last 0: all from first on */
    int keep_path;
};

int ss_rank_path_kind(const struct ss_rank_times *r, const struct ss_path_part *part);

/* Analyze one rank. The caller frees *out, which does not refer to the trace. Errors:
 * SS_ERR_FORMAT, SS_ERR_MEMORY. */
enum ss_status ss_analyse_rank(const struct ss_trace_rank *trace,
                               const struct ss_analyse_options *options,
                               struct ss_rank_times **out);
void ss_rank_times_free(struct ss_rank_times *r); /* NULL is fine */

/* Mean, median and maximum in ns. All 0 if count is 0. */
struct ss_spread {
    double mean, median, max;
    size_t count;
};

/* One collective over the steps: of all ranks, or of one rank. */
struct ss_bucket_times {
    int bucket;             /* number of the collective; -1: metrics */
    enum ss_task_kind kind; /* all-reduce, reduce-scatter, gather ... */
    int of;                 /* ... of this bucket */
    int64_t bytes, wire_bytes;
    struct ss_spread delay, duration, skew; /* skew: of all ranks only */
    double algorithm_bw, bus_bw;            /* GB/s (1e9 bytes), at the mean duration */
    /* share of the duration spent waiting for the last rank */
    double waiting;
};

/* How ranks waited for each other, ns. */
struct ss_straggling {
    int64_t waited_ns; /* by this rank for others */
    int64_t caused_ns; /* by all others together for this rank */
    /* Steps in which others waited for this rank more than for any other, and longer than the
     * clock error. */
    int64_t steps;
};
struct ss_straggler {
    int64_t step, caused_ns;
    int rank; /* -1: no rank was waited for longer than the clock error */
};

struct ss_run_times {
    int ranks;                       /* of the run */
    int count;                       /* ranks that have a trace */
    struct ss_rank_times **rank;     /* count */
    struct ss_straggling *straggler; /* count */
    size_t nbuckets;                 /* including the metrics, which come last if present */
    struct ss_bucket_times *bucket;  /* nbuckets, of all ranks */
    struct ss_bucket_times *of_rank; /* count * nbuckets */
    SS_TRACE_ARRAY(struct ss_straggler) step;
    int64_t clock_error; /* the largest of all ranks */
};

/* Combine the results of `count` ranks of one run, in rank order. The caller retains ownership of
 * `rank`, which must outlive *out, and frees *out. Errors: SS_ERR_MISMATCH (different runs),
 * SS_ERR_MEMORY. */
enum ss_status ss_analyse_run(struct ss_rank_times **rank, int count, struct ss_run_times **out);
void ss_run_times_free(struct ss_run_times *run); /* NULL is fine */

#endif
