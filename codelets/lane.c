#include "codelets/lane.h"
#include "codelets/hooks.h"
#include "core/log.h"

#include <stdlib.h>

enum ss_status ss_order_create(const struct ss_lanes *lanes, struct ss_order **out)
{
    struct ss_order *o = calloc(1, sizeof *o);
    if (!o)
        return ss_fail_memory("the order of a region", sizeof *o);
    o->kernels = lanes->kernels;
    o->writer = -1;
    enum ss_status status = lanes->kernels->event_create(lanes->gpu, 0, &o->written);
    for (int l = 0; status == SS_OK && l < SS_LANE_COUNT; l++)
        status = lanes->kernels->event_create(lanes->gpu, 0, &o->read[l]);
    if (status != SS_OK) {
        ss_order_destroy(o);
        return status;
    }
    *out = o;
    return SS_OK;
}

void ss_order_destroy(struct ss_order *o)
{
    if (!o)
        return;
    o->kernels->event_destroy(o->written);
    for (int l = 0; l < SS_LANE_COUNT; l++)
        o->kernels->event_destroy(o->read[l]);
    free(o);
}

/* StarPU starts a task only after its predecessors were enqueued, and orders tasks that touch one
 * region unless both read it. So nobody else writes this order now; two readers of different lanes
 * may meet here, and lanes of one GPU are fed by one thread. */
static enum ss_status wait_for_lanes(const struct ss_task_data *d, enum ss_lane lane,
                                     ss_stream stream)
{
    const struct ss_plan_task *plan = d->task->plan;
    for (int i = 0; i < plan->naccess; i++) {
        const struct ss_order *o = d->args->region[i]->order;
        if (!o)
            continue;
        if (o->writer >= 0 && o->writer != (int)lane)
            SS_TRY(o->kernels->wait(stream, o->written));
        if (!(plan->access[i].mode & SS_WRITE))
            continue;
        for (int l = 0; l < SS_LANE_COUNT; l++)
            if (l != (int)lane && (o->readers & (1u << l)))
                SS_TRY(o->kernels->wait(stream, o->read[l]));
    }
    return SS_OK;
}

static enum ss_status leave_events(const struct ss_task_data *d, enum ss_lane lane,
                                   ss_stream stream)
{
    const struct ss_plan_task *plan = d->task->plan;
    for (int i = 0; i < plan->naccess; i++) {
        struct ss_order *o = d->args->region[i]->order;
        if (!o)
            continue;
        if (plan->access[i].mode & SS_WRITE) {
            SS_TRY(o->kernels->record(o->written, stream));
            o->writer = (int)lane;
            o->readers = 0;
        } else {
            SS_TRY(o->kernels->record(o->read[lane], stream));
            o->readers |= 1u << lane;
        }
    }
    return SS_OK;
}

static enum ss_status enqueue(const struct ss_task_data *d, enum ss_lane lane, ss_stream stream,
                              ss_lane_body body)
{
    const struct ss_hooks *h;
    for (h = *d->task->hooks; h; h = h->next)
        if (ss_hooks_want_enqueue(h, d->args))
            SS_TRY(h->enqueue_begins(h->arg, d->args, (int)lane, stream));
    SS_TRY(body(d, stream));
    for (h = *d->task->hooks; h; h = h->next)
        if (ss_hooks_want_enqueue(h, d->args))
            SS_TRY(h->enqueue_ends(h->arg, d->args, stream));
    return SS_OK;
}

/* This worker's own. */
static ss_stream own_stream(void)
{
#ifdef STARPU_USE_CUDA
    return starpu_cuda_get_local_stream();
#else
    return NULL; /* there are no lanes */
#endif
}

static enum ss_status run(const struct ss_task_data *d, enum ss_lane lane, ss_lane_body body)
{
    const struct ss_lanes *lanes = d->task->lanes;
    if (!lanes)
        return body(d, NULL);
    /* Asked for in any case: StarPU warns when a worker never uses its stream. */
    ss_stream stream = own_stream();
    if (lanes->ordered && lane != SS_LANE_COPY)
        stream = lanes->stream[lane];
    if (lane == SS_LANE_COMPUTE)
        SS_TRY(lanes->kernels->set_stream(lanes->gpu, stream));
    lanes->kernels->forget_errors();
    if (lanes->ordered)
        SS_TRY(wait_for_lanes(d, lane, stream));
    SS_TRY(enqueue(d, lane, stream, body));
    return lanes->ordered ? leave_events(d, lane, stream) : SS_OK;
}

void ss_lane_run(void *cl_arg, enum ss_lane lane, ss_lane_body body)
{
    struct ss_task_data d = ss_task_unpack(cl_arg);
    if (ss_run_ok(d.task->run))
        ss_run_fail(d.task->run, run(&d, lane, body));
}
