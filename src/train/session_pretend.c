/* session_pretend.c: --task-times, a training on an emulated GPU that computes nothing (contract in
 * session.h). */
#include "core/folder.h"
#include "core/log.h"
#include "runtime/pretend.h"
#include "sim/roofline.h"
#include "trace/read.h"
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

enum ss_status ss_session_pretend(struct ss_session *s)
{
    const struct ss_train_options *o = s->options;
    if (!o->task_times)
        return SS_OK;
    if (!s->device.gpu)
        return ss_fail(SS_ERR_INVALID,
                       "--task-times %s: tasks of an emulated GPU are meant; give "
                       "--device cuda",
                       o->task_times);
    return ss_cuda_kernels.pretend();
}

static enum ss_status predicted_times(const struct ss_session *s, const struct ss_machine *machine,
                                      double *seconds)
{
    struct ss_roofline r;
    SS_TRY(ss_roofline_predict(s->plan, machine, s->options->tf32, &r));
    for (int i = 0; i < s->plan->train.count; i++)
        seconds[i] = r.task[i].seconds;
    ss_roofline_close(&r);
    return SS_OK;
}

static int by_length(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The median over the steps of task t of the trace; 0: it never ran on the GPU. lengths: room. */
static double traced_seconds(const struct ss_trace_rank *r, int t, int64_t *lengths)
{
    size_t n = 0;
    for (size_t i = 0; i < r->gpu.count; i++)
        if (r->gpu.at[i].task == t)
            lengths[n++] = r->gpu.at[i].end - r->gpu.at[i].begin;
    if (!n)
        return 0;
    qsort(lengths, n, sizeof *lengths, by_length);
    return 1e-9 * (double)lengths[n / 2];
}

static enum ss_status times_of_trace(const struct ss_session *s, const struct ss_trace_rank *r,
                                     double *seconds)
{
    int64_t *lengths = calloc(r->gpu.count + 1, sizeof *lengths);
    if (!lengths)
        return ss_fail_memory("times of a trace", r->gpu.count * sizeof *lengths);
    enum ss_status status = SS_OK;
    for (int i = 0; i < s->plan->train.count && status == SS_OK; i++) {
        const struct ss_plan_task *t = &s->plan->train.task[i];
        size_t k = 0;
        while (k < r->task.count &&
               (r->task.at[k].kind != t->kind || r->task.at[k].micro != t->micro ||
                strcmp(r->task.at[k].name, t->name) != 0))
            k++;
        if (ss_trace_sums(t->kind))
            continue; /* they take what the emulated link gives */
        if (k == r->task.count)
            status = ss_fail(SS_ERR_MISMATCH,
                             "--task-times %s: that trace has no task %s; record one of the same "
                             "model with the same options",
                             s->options->task_times, t->name);
        else
            seconds[i] = traced_seconds(r, (int)k, lengths);
    }
    free(lengths);
    return status;
}

static enum ss_status traced_times(const struct ss_session *s, double *seconds)
{
    struct ss_trace_rank *r;
    SS_TRY(ss_trace_read(s->options->task_times, 0, &r));
    enum ss_status status =
        r->gpu.count ? times_of_trace(s, r, seconds)
                     : ss_fail(SS_ERR_INVALID, "--task-times %s: that trace is not one of a GPU",
                               s->options->task_times);
    ss_trace_free(r);
    return status;
}

/* What is no folder is meant to be a GPU. */
static enum ss_status take_times(const struct ss_session *s, double *seconds)
{
    const char *from = s->options->task_times;
    const struct ss_machine *machine;
    if (ss_folder_has(from, "."))
        return traced_times(s, seconds);
    SS_TRY(ss_machine_find(from, &machine));
    return predicted_times(s, machine, seconds);
}

enum ss_status ss_session_hook_times(struct ss_session *s)
{
    const size_t tasks = (size_t)s->plan->train.count;
    if (!s->options->task_times)
        return SS_OK;
    double *seconds = calloc(tasks, sizeof *seconds);
    if (!seconds)
        return ss_fail_memory("times of tasks", tasks * sizeof *seconds);
    enum ss_status status = take_times(s, seconds);
    if (status == SS_OK)
        status = ss_pretend_open(s->runtime.kernels, seconds, tasks, &s->pretend);
    if (status == SS_OK)
        ss_exec_hook(s->exec, ss_pretend_hooks(s->pretend));
    free(seconds);
    return status;
}
