/* session_emulation.c: --task-times, training on an emulated GPU that computes no values
 * (interface in session.h). */
#include "core/folder.h"
#include "core/log.h"
#include "runtime/timed_emulation.h"
#include "sim/roofline.h"
#include "trace/read.h"
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

enum ss_status ss_session_emulate(struct ss_session *s)
{
    const struct ss_train_options *o = s->options;
    if (!o->task_times)
        return SS_OK;
    if (!s->device.gpu)
        return ss_fail(SS_ERR_INVALID,
                       "--task-times %s needs an emulated GPU; give "
                       "--device cuda",
                       o->task_times);
    return ss_cuda_kernels.emulate_time();
}

struct length {
    int32_t task;
    int64_t ns;
};

static int by_task(const void *a, const void *b)
{
    const struct length *x = a, *y = b;
    return x->task != y->task ? (x->task > y->task) - (x->task < y->task)
                              : (x->ns > y->ns) - (x->ns < y->ns);
}

/* Set the seconds of each task of the trace to the median over its steps; 0 if it did not run on
 * the GPU. */
static enum ss_status take_medians(const struct ss_trace_rank *r, double *seconds)
{
    const size_t n = r->gpu.count;
    struct length *length = calloc(n, sizeof *length);
    if (!length)
        return ss_fail_memory("times of a trace", n * sizeof *length);
    for (size_t i = 0; i < n; i++)
        length[i] = (struct length){r->gpu.at[i].task, r->gpu.at[i].end - r->gpu.at[i].begin};
    qsort(length, n, sizeof *length, by_task);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && length[end].task == length[i].task; end++)
            ;
        seconds[length[i].task] = 1e-9 * (double)length[i + (end - i) / 2].ns;
    }
    free(length);
    return SS_OK;
}

/* Find the trace's task that corresponds to t. Returns r->task.count if there is none. */
static size_t find_task(const struct ss_trace_rank *r, const struct ss_plan_task *t)
{
    size_t k = 0;
    while (k < r->task.count && (r->task.at[k].kind != t->kind || r->task.at[k].micro != t->micro ||
                                 strcmp(r->task.at[k].name, t->name) != 0))
        k++;
    return k;
}

/* Map the times of the trace's tasks, `traced`, to the plan's tasks. Collectives are excluded:
 * their times result from the emulated link. */
static enum ss_status match_tasks(const struct ss_session *s, const struct ss_trace_rank *r,
                                  const double *traced, double *seconds)
{
    for (int i = 0; i < s->plan->train.count; i++) {
        const struct ss_plan_task *t = &s->plan->train.task[i];
        if (ss_task_sums(t->kind))
            continue;
        const size_t k = find_task(r, t);
        if (k == r->task.count)
            return ss_fail(SS_ERR_MISMATCH,
                           "--task-times %s: the trace has no task %s; record one of the same "
                           "model with the same options",
                           s->options->task_times, t->name);
        seconds[i] = traced[k];
    }
    return SS_OK;
}

static enum ss_status times_of_trace(const struct ss_session *s, const struct ss_trace_rank *r,
                                     double **out)
{
    const size_t tasks = (size_t)s->plan->train.count;
    if (!r->gpu.count)
        return ss_fail(SS_ERR_INVALID, "--task-times %s: the trace was not recorded on a GPU",
                       s->options->task_times);
    double *traced = calloc(r->task.count, sizeof *traced);
    *out = calloc(tasks, sizeof **out);
    enum ss_status status =
        traced && *out ? take_medians(r, traced)
                       : ss_fail_memory("times of tasks", (r->task.count + tasks) * sizeof **out);
    if (status == SS_OK)
        status = match_tasks(s, r, traced, *out);
    free(traced);
    return status;
}

/* --task-times none: all tasks take no time, except 1 ns for the input conversion, the first
 * task: emulated collectives transfer no data once time was spent (kernels/list.h). */
static enum ss_status take_none(const struct ss_plan *plan, double **out)
{
    const size_t tasks = (size_t)plan->train.count;
    *out = calloc(tasks, sizeof **out);
    if (!*out)
        return ss_fail_memory("times of tasks", tasks * sizeof **out);
    for (size_t i = 0; i < tasks; i++)
        if (plan->train.task[i].kind == SS_TASK_CONVERT)
            (*out)[i] = 1e-9;
    return SS_OK;
}

/* Get the task times: from a trace folder, or from the roofline of the named GPU. The caller
 * frees *out, also after an error. */
static enum ss_status take_times(const struct ss_session *s, double **out)
{
    const char *from = s->options->task_times;
    const struct ss_machine *machine;
    struct ss_trace_rank *r;
    if (!strcmp(from, "none"))
        return take_none(s->plan, out);
    if (!ss_folder_has(from, ".")) {
        SS_TRY(ss_machine_find(from, &machine));
        return ss_roofline_seconds(s->plan, machine, s->options->tf32, out);
    }
    SS_TRY(ss_trace_read(from, 0, &r));
    enum ss_status status = times_of_trace(s, r, out);
    ss_trace_free(r);
    return status;
}

enum ss_status ss_session_hook_times(struct ss_session *s)
{
    double *seconds = NULL;
    if (!s->options->task_times)
        return SS_OK;
    enum ss_status status = take_times(s, &seconds);
    if (status == SS_OK)
        status = ss_timed_emulation_open(s->runtime.kernels, seconds, (size_t)s->plan->train.count,
                                         &s->emulation);
    if (status == SS_OK)
        ss_exec_hook(s->exec, ss_timed_emulation_hooks(s->emulation));
    free(seconds);
    return status;
}
