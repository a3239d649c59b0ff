/* Reconstruct the dependencies between the tasks of a trace.
 *
 * A run of a task is that task in one step. Its times come from the "t" event, or on a GPU from
 * the "g" event if present: the execution on the GPU rather than the enqueuing. CPU collectives
 * do not occupy a worker: the worker starts them and continues.
 *
 * All steps submit the same tasks in the same order. The dependencies therefore follow from the
 * access lists alone, once for all steps: task j of the step `back` steps earlier. For each piece
 * of data, StarPU makes a reader depend on the last writer, and a writer on all readers since
 * then, or on the last writer if there were none. A backward walk from an access through the list
 * of accesses to the same data finds them. At the start of the list the walk continues at the end
 * of the list of the step that used the data before: the previous step, or `slots` micro-batches
 * earlier for data of a slot. Earlier writers need no search: the tasks found depend on them. */
#ifndef SS_APPS_TRACE_DEPEND_H
#define SS_APPS_TRACE_DEPEND_H

#include "trace/read.h"

#define SS_TRACE_NO_RUN SIZE_MAX

struct ss_depend_run {
    int64_t step, ready, begin, end;
    int32_t task;
    int32_t worker;  /* number; GPU lanes are numbered after the workers */
    int8_t on_gpu;   /* times are from the GPU */
    int8_t computes; /* a computing task, on the compute worker or lane */
    int8_t serves;   /* a computing task, on a service worker */
};

struct ss_depend_edge {
    int task, back;
};

struct ss_depend {
    const struct ss_trace_rank *trace;
    struct ss_depend_run *run; /* by step, then task */
    size_t count;
    size_t nsteps;
    int64_t *step;     /* steps that have runs, ascending */
    size_t *step_run;  /* nsteps + 1: where the runs of each step begin */
    size_t *run_step;  /* per run: its position in `step` */
    size_t *before;    /* per run: the preceding run on its worker, or SS_TRACE_NO_RUN */
    size_t *edge_from; /* per task, plus one: where its edges begin */
    SS_TRACE_ARRAY(struct ss_depend_edge) edge;
    size_t *feed_from; /* likewise, per collective: tasks that write its input */
    SS_TRACE_ARRAY(int) feed;
    int gpu_computes; /* some computing tasks have GPU times: only those count */
};

/* Build the dependencies. trace must outlive *out. Errors: SS_ERR_FORMAT (two events of one
 * task), SS_ERR_MEMORY. */
enum ss_status ss_depend_create(const struct ss_trace_rank *trace, struct ss_depend **out);
void ss_depend_destroy(struct ss_depend *d); /* NULL is fine */

/* The run of a task in the step at position `at` of d->step, or `back` steps earlier.
 * SS_TRACE_NO_RUN if it is not in the trace. */
size_t ss_depend_find(const struct ss_depend *d, size_t at, int64_t back, int task);

/* The dependency of run i that ended last; SS_TRACE_NO_RUN if none is in the trace. */
size_t ss_depend_last(const struct ss_depend *d, size_t i);

/* Set *out to the time when the input of collective i was complete: the end of its last writer
 * among the forward, backward, add and fetch tasks of its step (for a gather also the updates).
 * Returns 0 if no writer is in the trace. */
int ss_depend_summed_ready(const struct ss_depend *d, size_t i, int64_t *out);

/* One segment of a critical path: a task, waiting, or a step not yet submitted. */
enum { SS_PATH_WAIT = -1, SS_PATH_SUBMIT = -2 };
struct ss_path_part {
    int64_t step, begin, end;
    int32_t task; /* task number, or one of the above */
    int32_t worker;
};
struct ss_path {
    SS_TRACE_ARRAY(struct ss_path_part) part;
};

/* Append the critical path to the end of run i (with_i) or to its begin, latest segment first,
 * back to the time `from`. At each task the path continues with whichever ended last: a
 * dependency, or the preceding run on the same worker. If that one ended earlier, a waiting
 * segment fills the gap. Segments are disjoint and contiguous, so they add up to the time
 * covered. Errors: SS_ERR_MEMORY. */
enum ss_status ss_path_walk(const struct ss_depend *d, size_t i, int with_i, int64_t from,
                            struct ss_path *out);

#endif
