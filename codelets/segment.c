#include "codelets/segment.h"
#include "codelets/add.h"
#include "codelets/lane.h"
#include "codelets/op.h"
#include "core/log.h"

#include <stdio.h>

static enum ss_status run_member(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream; /* the device has the stream */
    if (d->task->plan->kind == SS_TASK_FORWARD)
        return d->task->op->cls->forward(d->task->op, d);
    return d->task->plan->kind == SS_TASK_BACKWARD ? ss_op_backward(d)
                                                   : ss_add_run(d->task->context, d);
}

static enum ss_status run_members(const struct ss_task_data *d, ss_stream stream)
{
    const struct ss_segment_work *s = d->task->context;
    for (int i = 0; i < s->count; i++) {
        struct ss_step_args args = *d->args;
        void *buffers[SS_PLAN_MAX_ACCESSES];
        args.task = s->member[i].task;
        args.region = s->member[i].region;
        for (int a = 0; a < args.task->naccess; a++)
            buffers[a] = d->buffers[s->member[i].buffer[a]];
        const struct ss_task_data member = {args.task, &args, buffers};
        SS_TRY(ss_lane_enqueue(&member, SS_LANE_COMPUTE, stream, run_member));
    }
    return SS_OK;
}

/* After a failure no work has been enqueued. */
static enum ss_status record(struct ss_segment_work *s, const struct ss_task_data *d,
                             ss_stream stream)
{
    struct ss_device *gpu = d->task->lanes->gpu;
    SS_TRY(s->kernels->capture_begin(gpu, stream));
    const enum ss_status status = run_members(d, stream);
    const enum ss_status ended = s->kernels->capture_end(gpu, stream, &s->graph);
    if (status == SS_OK || !s->graph)
        return ended != SS_OK ? ended : status;
    s->kernels->graph_destroy(s->graph);
    s->graph = NULL;
    return status;
}

/* Lanes capture errors, and discard those of a task that succeeds. */
static enum ss_status give_up(struct ss_segment_work *s, const struct ss_task_data *d,
                              enum ss_status status)
{
    char why[512];
    snprintf(why, sizeof why, "%s", ss_log_captured());
    if (s->required)
        return ss_fail(status, "--gpu-graphs on: cannot record %s as a GPU graph: %s; use auto",
                       d->task->name, why);
    ss_note("%s is not recorded as a GPU graph: %s", d->task->name, why);
    s->plain = 1;
    return SS_OK;
}

static enum ss_status run_segment(const struct ss_task_data *d, ss_stream stream)
{
    struct ss_segment_work *s = d->task->context;
    const enum ss_status status = s->graph || s->plain ? SS_OK : record(s, d, stream);
    if (status != SS_OK)
        SS_TRY(give_up(s, d, status));
    return s->graph ? s->kernels->graph_launch(s->graph, stream) : run_members(d, stream);
}

static void run(void *buffers[], void *cl_arg)
{
    ss_lane_run(buffers, cl_arg, SS_LANE_COMPUTE, run_segment);
}

static struct ss_codelet codelet = {.cl = {.cuda_funcs = {run},
                                           .can_execute = ss_can_compute,
                                           .nbuffers = STARPU_VARIABLE_NBUFFERS,
                                           .name = "segment"}};

enum ss_status ss_segment_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, args, sizeof *args);
}
