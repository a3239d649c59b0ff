#include "codelets/task.h"
#include "codelets/hooks.h"
#include "core/clock.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

static struct ss_worker_classes classes = {.compute = -1, .comm = -1, .copy = -1};
static unsigned generation;

int ss_nodes_in_place[SS_PLAN_MAX_ACCESSES] = {
    [0 ... SS_PLAN_MAX_ACCESSES - 1] = STARPU_SPECIFIC_NODE_LOCAL_OR_CPU,
};

void ss_run_fail(struct ss_run *run, enum ss_status status)
{
    int expected = SS_OK;
    if (status != SS_OK)
        atomic_compare_exchange_strong(&run->status, &expected, (int)status);
}

void ss_set_worker_classes(struct ss_worker_classes now)
{
    classes = now;
    generation++;
}

struct outside {
    enum ss_status (*work)(void *arg);
    void *arg;
    enum ss_status status;
};

static void run_outside(void *arg)
{
    struct outside *o = arg;
    o->status = o->work(o->arg);
}

enum ss_status ss_on_compute(enum ss_status (*work)(void *arg), void *arg)
{
    if (classes.compute < 0 || classes.end != SS_ENDS_DONE)
        return work(arg);
    unsigned worker = (unsigned)classes.compute;
    struct outside o = {work, arg, SS_ERR_LIBRARY};
    starpu_execute_on_specific_workers(run_outside, &o, 1, &worker, "outside of steps");
    return o.status;
}

int ss_can_compute(unsigned worker, struct starpu_task *task, unsigned nimpl)
{
    (void)task;
    (void)nimpl;
    return (int)worker == classes.compute;
}

int ss_can_communicate(unsigned worker, struct starpu_task *task, unsigned nimpl)
{
    (void)task;
    (void)nimpl;
    return (int)worker == classes.comm;
}

int ss_can_copy(unsigned worker, struct starpu_task *task, unsigned nimpl)
{
    (void)task;
    (void)nimpl;
    return (int)worker == classes.copy;
}

int ss_can_serve(unsigned worker, struct starpu_task *task, unsigned nimpl)
{
    (void)task;
    (void)nimpl;
    return (int)worker != classes.compute;
}

int ss_can_load(unsigned worker, struct starpu_task *task, unsigned nimpl)
{
    return classes.one_queue || ss_can_serve(worker, task, nimpl);
}

static enum starpu_data_access_mode starpu_mode(enum ss_mode mode)
{
    return mode == SS_READ ? STARPU_R : mode == SS_WRITE ? STARPU_W : STARPU_RW;
}

static void count_end(void *arg)
{
    struct ss_task_progress *progress = arg;
    atomic_fetch_add_explicit(&progress->ended, 1, memory_order_relaxed);
}

static void count_submission(const struct ss_step_args *args, struct starpu_task *task)
{
    struct ss_task_progress *progress = args->task->progress;
    if (!progress)
        return;
    atomic_store_explicit(&progress->step, args->step, memory_order_relaxed);
    atomic_fetch_add(&progress->submitted, 1);
    task->callback_func = count_end;
    task->callback_arg = progress;
}

static void on_ready(void *arg)
{
    ((struct ss_step_args *)arg)->times.ready = ss_now_ns();
}

static void on_begin(void *arg)
{
    struct ss_step_args *args = arg;
    const int worker = starpu_worker_get_id();
    args->times.begin = ss_now_ns();
    /* A STARPU_NOWHERE task may begin on the submitting thread. */
    args->times.worker = worker < 0 ? classes.compute : worker;
}

static void on_end(void *arg)
{
    struct ss_step_args *args = arg;
    args->times.end = ss_now_ns();
    for (const struct ss_hooks *h = *args->task->hooks; h; h = h->next)
        if (ss_hooks_want_end(h, args))
            h->task_ends(h->arg, args);
}

/* Release a task that was not submitted. */
static enum ss_status drop(struct starpu_task *task, enum ss_status status)
{
    if (task) {
        task->destroy = 0;
        starpu_task_destroy(task);
    }
    return status;
}

/* Before its first task on these workers. StarPU cannot time a task that ends when it is
 * enqueued, nor a copy, whose stream waits for those of other lanes. */
static void prepare(struct ss_codelet *codelet)
{
    struct starpu_codelet *cl = &codelet->cl;
    const int serves = !cl->cuda_funcs[0];
    const int on_lane = !serves && cl->can_execute != ss_can_copy;
    const int timed = serves || classes.end != SS_ENDS_ENQUEUED;
    if (codelet->generation == generation)
        return;
    codelet->generation = generation;
    cl->model = codelet->model.symbol && timed ? &codelet->model : NULL;
    if (on_lane)
        cl->cuda_flags[0] = classes.end == SS_ENDS_POLLED ? STARPU_CUDA_ASYNC : 0;
}

/* args: the task's copy. */
static void take_times(struct ss_step_args *args, struct starpu_task *task)
{
    const struct ss_hooks *h = *args->task->hooks;
    while (h && !ss_hooks_want_end(h, args))
        h = h->next;
    if (!h)
        return;
    task->prologue_callback_func = on_ready;
    task->prologue_callback_pop_func = on_begin;
    task->epilogue_callback_func = on_end;
    task->prologue_callback_arg = task->prologue_callback_pop_arg = task->epilogue_callback_arg =
        args;
}

uint32_t ss_task_footprint(struct starpu_task *task)
{
    return ((const struct ss_step_args *)task->cl_arg)->task->footprint;
}

size_t ss_task_bytes(struct starpu_task *task, unsigned nimpl)
{
    (void)nimpl;
    return ((const struct ss_step_args *)task->cl_arg)->task->bytes;
}

enum ss_status ss_task_submit(struct ss_codelet *codelet, const struct ss_step_args *args,
                              size_t args_bytes)
{
    const struct ss_bound_task *bound = args->task;
    struct starpu_task *task = starpu_task_create();
    void *copy = malloc(args_bytes);
    if (!task || !copy) {
        free(copy);
        return drop(task, ss_fail_memory("a StarPU task", args_bytes));
    }
    prepare(codelet);
    memcpy(copy, args, args_bytes);
    task->cl = &codelet->cl;
    task->cl_arg = copy;
    task->cl_arg_size = args_bytes;
    task->cl_arg_free = 1;
    task->name = bound->name;
    task->priority = bound->plan->priority;
    task->nbuffers = bound->naccess;
    if (bound->naccess > STARPU_NMAXBUFS) {
        /* A StarPU built for fewer buffers per task uses larger tables from the heap, and frees
         * them. */
        task->dyn_handles = malloc((size_t)bound->naccess * sizeof *task->dyn_handles);
        task->dyn_modes = malloc((size_t)bound->naccess * sizeof *task->dyn_modes);
        if (!task->dyn_handles || !task->dyn_modes)
            return drop(task, ss_fail_memory("a StarPU task's handles",
                                             (size_t)bound->naccess * sizeof(void *)));
    }
    for (int i = 0; i < bound->naccess; i++) {
        STARPU_TASK_SET_HANDLE(task, args->region[i]->handle, i);
        STARPU_TASK_SET_MODE(task, starpu_mode(bound->access[i].mode), i);
    }
    take_times(copy, task);
    count_submission(args, task);
    int ret = starpu_task_submit(task);
    if (ret != 0) {
        if (args->task->progress)
            atomic_fetch_sub(&args->task->progress->submitted, 1);
        return drop(task, ss_fail(SS_ERR_LIBRARY, "StarPU: submitting task %s: %s", bound->name,
                                  strerror(-ret)));
    }
    return SS_OK;
}

void ss_task_end(void *task)
{
    struct starpu_task *t = task;
    /* At a task's end, dm and similar schedulers correct the expected time of a worker's tasks,
     * and abort on a thread that is not a worker. They are not called for STARPU_NOWHERE tasks,
     * and no time was expected for this one. */
    t->where = STARPU_NOWHERE;
    starpu_task_end_dep_release(t);
}
