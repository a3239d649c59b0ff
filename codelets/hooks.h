/* Hooks: where measurement hangs. Who wants to know when steps and tasks begin and end (traces,
 * ranges for tools, the loader's figures) hangs a struct ss_hooks on an executor
 * (runtime/exec.h); codelets call what hangs there and know none of those who listen.
 *
 * A task that nobody wants costs a look at a short list, or at none. */
#ifndef SS_CODELETS_HOOKS_H
#define SS_CODELETS_HOOKS_H

#include "codelets/task.h"
#include "kernels/kernels.h"

/* Kinds of tasks. */
#define SS_HOOKS_KIND(kind) (1u << (unsigned)(kind))
#define SS_HOOKS_ALL (~0u)

struct ss_hooks {
    void *arg;            /* first of every call */
    uint64_t first, last; /* training steps that it wants */

    /* A training step: before anything of it is submitted; when its metrics are there, in step
     * order, on a service worker, also after a failure of the run. args: of the report task.
     * NULL: not called. */
    void (*step_begins)(void *arg, uint64_t step);
    enum ss_status (*step_ends)(void *arg, const struct ss_step_args *args);
    /* A task of these kinds has ended, and args->times are known; nothing that depends on it has
     * begun. */
    unsigned ended;
    void (*task_ends)(void *arg, const struct ss_step_args *args);
    /* GPU: around the enqueuing of a task of these kinds on its stream, one at a time: of sums
     * between GPUs on the thread that calls NCCL, of all else on the one that feeds the lanes;
     * evaluation: also of those of evaluation steps. After a failure the end is not told. lane: enum
     * ss_lane. */
    unsigned enqueued;
    int evaluation;
    /* 1: what it enqueues around a task belongs to the task, and may be replayed with it (segment.h);
     * 0: steps that it wants are run task by task. */
    int replayed;
    enum ss_status (*enqueue_begins)(void *arg, const struct ss_step_args *args, int lane,
                                     ss_stream stream);
    enum ss_status (*enqueue_ends)(void *arg, const struct ss_step_args *args, ss_stream stream);

    struct ss_hooks *next;
};

static inline int ss_hooks_want_step(const struct ss_hooks *h, uint64_t step)
{
    return step >= h->first && step <= h->last;
}
static inline int ss_hooks_want_end(const struct ss_hooks *h, const struct ss_step_args *args)
{
    return (h->ended & SS_HOOKS_KIND(args->task->plan->kind)) && args->task->training &&
           ss_hooks_want_step(h, args->step);
}
static inline int ss_hooks_want_enqueue(const struct ss_hooks *h, const struct ss_step_args *args)
{
    return (h->enqueued & SS_HOOKS_KIND(args->task->plan->kind)) &&
           (args->task->training ? ss_hooks_want_step(h, args->step) : h->evaluation);
}

#endif
