/* What a trace says: numbers per rank and step, and between ranks. Definitions.
 *
 * Compute: the merged times of the tasks convert, forward, backward, check, update and scale on the
 * compute worker; on a GPU their times on its compute lane. Loading, reports and updates on a service
 * worker are not compute.
 * Communication: the merged times of collectives: from where this rank entered one to its end, so
 * waiting for the last rank is part of it; on a GPU the times on its comm lane of those that ran
 * there.
 *     overlap % = |compute and communication| / |communication|
 *     exposed   = |communication without compute|
 *
 * Window of a step: from the begin of its first computing task to that of the next step's, and for
 * the last step before a hole (or the end) of the trace to the end of its last computing task.
 * Windows do not overlap, and everything per step is what falls into its window: with steps in
 * flight, a collective of a step may count for the next one's window, which is when it was in the
 * way. A step counts if all its computing tasks are in the trace (it is whole).
 *
 * Idle: each gap of the compute worker, up to the task X that ends it. Of X's predecessors p is the
 * one that ended last.
 *   - while X's step was not submitted: nothing to do;
 *   - from then until X was ready (X's mark, but not before p's end; on a GPU p's end): waiting for
 *     input if p is a load or upload task, for communication if p is a collective, else for a
 *     dependency;
 *   - while X was ready, and its worker loaded (it began while it had nothing else to do): waiting for
 *     input;
 *   - while X was ready, and nobody computed: runtime.
 * Compute and the five kinds of idle time add up to the window.
 *
 * Critical path of a step: what led to the end of its window, that is to the begin of the next
 * step's first computing task (or to the end of its own last one, where the window ends there),
 * back to the window's begin. At each task it goes on with what ended last: a task that this one
 * waited for, or the one before it on its worker (depend.h). So it is as long as the window and
 * says what the window was spent on; input that came late is on it as a load task.
 *
 * A bucket's collective: its delay is from the end of the last task of the step that wrote the
 * gradients to its start on that rank. Bandwidths as NCCL's tests define them, of the bytes that
 * travel: algorithm bandwidth = bytes / duration, bus bandwidth = algorithm bandwidth * 2(n-1)/n,
 * of the halves of a sum (reduce-scatter, gather) half of it;
 * for n ranks, which is what the links carry if each byte is sent once and received once per rank.
 * Skew: between the first and the last rank that start it, on rank 0's clock; what a rank waits for
 * the last one is from its own start to that one's (at most to its own end). Skews below the error
 * of the clocks say nothing.
 *
 * Head-room of the loader: images/s that its workers could load, if they did nothing else: images
 * loaded / time in load tasks * workers; divided by the rate of training. */
#ifndef SS_TRACE_ANALYSE_H
#define SS_TRACE_ANALYSE_H

#include "trace/depend.h"

enum ss_idle {
    SS_IDLE_INPUT,
    SS_IDLE_COMM,
    SS_IDLE_DEPENDENCY,
    SS_IDLE_RUNTIME,
    SS_IDLE_NOTHING,
    SS_IDLE_KINDS
};
const char *ss_idle_name(enum ss_idle kind);

/* Kinds of parts of a critical path: those of tasks, and two without. */
enum { SS_PATH_WAITING = SS_TASK_REPORT + 1, SS_PATH_UNSUBMITTED, SS_PATH_KINDS };
const char *ss_path_kind_name(int kind);

/* Times in ns. */
struct ss_step_times {
    int64_t step, begin, end; /* its window, on the rank's clock */
    int64_t compute, comm, overlap, exposed, idle[SS_IDLE_KINDS];
    int64_t load;                     /* in load tasks of the step, whenever they ran */
    int64_t path_kind[SS_PATH_KINDS]; /* add up to the window */
    size_t path_from, path_count;     /* of the rank's path; with keep_path */
};

struct ss_sum_times {
    int64_t step, begin, end; /* on rank 0's clock */
    int64_t delay;            /* with has_delay */
    int64_t waited;           /* for the last rank; set by ss_analyse_run() */
    int32_t bucket, rank;
    int has_delay;
};

struct ss_worker_times {
    char name[SS_TRACE_TEXT]; /* "compute lane": of a GPU */
    int64_t busy, load;       /* in tasks; of that, in load tasks; inside windows */
    int64_t *step_busy;       /* busy, of each step's window */
};

/* A task of a GPU's compute lane, or one on a CPU that has a prediction, over the steps looked at. */
struct ss_task_time {
    int64_t sum, count; /* ns, and of how many steps */
    int64_t predicted;  /* ns; 0: not told */
};

struct ss_rank_times {
    int rank, ranks, cuda, overlap, ended, cut;
    int has_clock;
    int64_t batch, lost, clock_error, first_step, last_step;
    char host[SS_TRACE_TEXT], model[SS_TRACE_TEXT], backend[SS_TRACE_TEXT];
    char machine[SS_TRACE_TEXT]; /* of the predictions; "": there are none */
    int loaders;          /* workers that can load */
    int64_t steps_broken; /* not whole: left out */
    int64_t window;       /* of all steps together */
    size_t tasks;
    char (*task_name)[SS_NAME_BYTES];
    enum ss_task_kind *task_kind;
    struct ss_task_time *task_time;
    SS_TRACE_ARRAY(struct ss_step_times) step;
    SS_TRACE_ARRAY(struct ss_sum_times) sum;
    SS_TRACE_ARRAY(struct ss_worker_times) worker; /* the trace's, then a GPU's lanes */
    SS_TRACE_ARRAY(struct ss_trace_bucket) bucket;
    SS_TRACE_ARRAY(struct ss_trace_memory) memory;
    struct ss_path path;
};

struct ss_analyse_options {
    int64_t first, last; /* steps looked at; last 0: all from first on */
    int keep_path;
};

int ss_rank_path_kind(const struct ss_rank_times *r, const struct ss_path_part *part);

/* Errors: SS_ERR_FORMAT, SS_ERR_MEMORY. The caller frees *out. Nothing of the trace is kept. */
enum ss_status ss_analyse_rank(const struct ss_trace_rank *trace,
                               const struct ss_analyse_options *options,
                               struct ss_rank_times **out);
void ss_rank_times_free(struct ss_rank_times *r); /* NULL is fine */

/* Means, medians and maxima; in ns. All 0 if count is. */
struct ss_spread {
    double mean, median, max;
    size_t count;
};

/* One collective of a step, over the steps: of all ranks, or of one. */
struct ss_bucket_times {
    int bucket;             /* number of the collective; -1: metrics */
    enum ss_task_kind kind; /* all-reduce, reduce-scatter, gather ... */
    int of;                 /* ... of this bucket */
    int64_t bytes, wire_bytes;
    struct ss_spread delay, duration, skew; /* skew: of all ranks only */
    double algorithm_bw, bus_bw;            /* GB/s (1e9 bytes), at the mean duration */
    double waiting;                         /* share of the duration spent for the last rank */
};

/* How ranks waited for each other. */
struct ss_straggling {
    int64_t waited_ns; /* this rank for others */
    int64_t caused_ns; /* others for this rank, together */
    /* Steps in which others waited for it more than for any other, and longer than the clocks'
     * error. */
    int64_t steps;
};
struct ss_straggler {
    int64_t step, caused_ns;
    int rank; /* -1: nobody waited for longer than the clocks' error */
};

struct ss_run_times {
    int ranks;                       /* of the run */
    int count;                       /* that have a trace */
    struct ss_rank_times **rank;     /* count */
    struct ss_straggling *straggler; /* count */
    size_t nbuckets;                 /* with the metrics, which come last if there are any */
    struct ss_bucket_times *bucket;  /* nbuckets, of all ranks */
    struct ss_bucket_times *of_rank; /* count * nbuckets */
    SS_TRACE_ARRAY(struct ss_straggler) step;
    int64_t clock_error; /* largest of a rank */
};

/* Takes `count` results of one run, in the order of ranks, which stay the caller's and are outlived
 * by *out. Errors: SS_ERR_MISMATCH (of different runs), SS_ERR_MEMORY. */
enum ss_status ss_analyse_run(struct ss_rank_times **rank, int count, struct ss_run_times **out);
void ss_run_times_free(struct ss_run_times *run); /* NULL is fine */

#endif
