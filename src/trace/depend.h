/* Which task of a trace waited for which.
 *
 * A run of a task is a task of one step. Its times are those of the mark "t", on a GPU those of its
 * mark "g" where there is one: when the GPU worked on it, not when it was enqueued. Collectives of
 * CPUs hold no worker: theirs starts them and goes on.
 *
 * Steps all submit the same tasks in the same order, so that the tasks that one waits for follow
 * from the access lists alone, once for all steps: task j of the step `back` steps before. For each
 * piece of data, StarPU lets a reader wait for the last writer, and a writer for the readers since
 * then, or for the last writer if there were none. Walking back from an access through the list of
 * those that touch the same data meets them; the walk goes on at the list's end in the step that
 * had the data before: the step before, or `slots` micro-steps before for data of a slot. Writers further
 * back need not be looked at: what is found waited for them. */
#ifndef SS_TRACE_DEPEND_H
#define SS_TRACE_DEPEND_H

#include "trace/read.h"

#define SS_TRACE_NO_RUN SIZE_MAX

struct ss_depend_run {
    int64_t step, ready, begin, end;
    int32_t task;
    int32_t worker;  /* number; lanes of a GPU follow after the workers */
    int8_t on_gpu;   /* times are the GPU's */
    int8_t computes; /* a computing task, on the worker or lane that computes */
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
    size_t *step_run;  /* nsteps + 1: where theirs begin */
    size_t *run_step;  /* per run: its position in `step` */
    size_t *before;    /* per run: the one before it on its worker; SS_TRACE_NO_RUN */
    size_t *edge_from; /* per task and one more: where its edges begin */
    SS_TRACE_ARRAY(struct ss_depend_edge) edge;
    size_t *feed_from; /* likewise, of collectives: tasks that write what they sum */
    SS_TRACE_ARRAY(int) feed;
    int gpu_computes; /* some computing tasks have times of the GPU: only those count */
};

/* trace outlives it. Errors: SS_ERR_FORMAT (two marks of one task), SS_ERR_MEMORY. */
enum ss_status ss_depend_create(const struct ss_trace_rank *trace, struct ss_depend **out);
void ss_depend_destroy(struct ss_depend *d); /* NULL is fine */

/* A task of the step at position `at` of d->step, or `back` steps before that one. */
size_t ss_depend_find(const struct ss_depend *d, size_t at, int64_t back, int task);

/* Of the tasks that run i waited for, the one that ended last; SS_TRACE_NO_RUN: none is in the
 * trace. */
size_t ss_depend_last(const struct ss_depend *d, size_t i);

/* When the data that collective i sums was complete: the end of its last writer among the forward,
 * backward and fetch tasks of its step. 0: none is in the trace. */
int ss_depend_summed_ready(const struct ss_depend *d, size_t i, int64_t *out);

/* One stretch of a critical path: a task, or nothing: waiting, or the step was not submitted. */
enum { SS_PATH_WAIT = -1, SS_PATH_SUBMIT = -2 };
struct ss_path_part {
    int64_t step, begin, end;
    int32_t task; /* number, or one of those */
    int32_t worker;
};
struct ss_path {
    SS_TRACE_ARRAY(struct ss_path_part) part;
};

/* Append the critical path to the end of run i (with_i) or to its begin, latest part first, back to
 * the time `from`: at each task it goes on with what ended last among the tasks that it waited for
 * and the one before it on its worker; where that one ended earlier, there is waiting between.
 * Parts are disjoint and without gaps, so they add up to the time
 * between. Errors: SS_ERR_MEMORY. */
enum ss_status ss_path_walk(const struct ss_depend *d, size_t i, int with_i, int64_t from,
                            struct ss_path *out);

#endif
