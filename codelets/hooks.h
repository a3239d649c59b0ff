/* Hooks for measurement. To observe the begin and end of steps and tasks (traces, profiler
 * ranges, loader statistics), attach a struct ss_hooks to an executor (runtime/exec.h). Codelets
 * call the attached hooks and do not depend on the observers.
 *
 * An unobserved task costs a check of a short list, or of none. */
#ifndef SS_CODELETS_HOOKS_H
#define SS_CODELETS_HOOKS_H

#include "codelets/task.h"
#include "kernels/kernels.h"

/* Masks of task kinds. */
#define SS_HOOKS_KIND(kind) (1u << (unsigned)(kind))
#define SS_HOOKS_ALL (~0u)

struct ss_hooks {
    void *arg;            /* first argument of every call */
    uint64_t first, last; /* range of observed training steps */

    /* Called for a training step: before any of its tasks is submitted; and when its metrics are
     * available, in step order, on a service worker, also after a failure of the run. args: of
     * the report task. May be NULL. */
    void (*step_begins)(void *arg, uint64_t step);
    enum ss_status (*step_ends)(void *arg, const struct ss_step_args *args);
    /* Called when a task of these kinds has ended: args->times are set, and no dependent task has
     * begun. */
    unsigned ended;
    void (*task_ends)(void *arg, const struct ss_step_args *args);
    /* GPU: called before and after a task of these kinds is enqueued on its stream, one at a
     * time. For collectives between GPUs, on the thread that calls NCCL; for all others, on the
     * thread that feeds the lanes. evaluation: also for tasks of evaluation steps. After a
     * failure the end is not called. lane: enum ss_lane. */
    unsigned enqueued;
    int evaluation;
    /* 1: work enqueued by the hooks belongs to the task and may be replayed with it (segment.h);
     * 0: observed steps run task by task. */
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
