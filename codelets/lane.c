#include "codelets/lane.h"
#include "codelets/lane_nvtx.h"
#include "codelets/lane_trace.h"
#include "core/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One timed task. */
struct timed {
    const char *name; /* of its plan task */
    uint64_t step;
    enum ss_lane lane;
    ss_event begin, end;
};

struct ss_lane_times {
    uint64_t first, count;
    size_t capacity;
    _Atomic size_t used;
    struct timed task[];
};

enum ss_status ss_order_create(struct ss_gpu *gpu, struct ss_order **out)
{
    struct ss_order *o = calloc(1, sizeof *o);
    if (!o)
        return ss_fail_memory("the order of a region", sizeof *o);
    o->writer = -1;
    enum ss_status status = ss_gpu_event_create(gpu, 0, &o->written);
    for (int l = 0; status == SS_OK && l < SS_LANE_COUNT; l++)
        status = ss_gpu_event_create(gpu, 0, &o->read[l]);
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
    ss_gpu_event_destroy(o->written);
    for (int l = 0; l < SS_LANE_COUNT; l++)
        ss_gpu_event_destroy(o->read[l]);
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
            SS_TRY(ss_gpu_wait(stream, o->written));
        if (!(plan->access[i].mode & SS_WRITE))
            continue;
        for (int l = 0; l < SS_LANE_COUNT; l++)
            if (l != (int)lane && (o->readers & (1u << l)))
                SS_TRY(ss_gpu_wait(stream, o->read[l]));
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
            SS_TRY(ss_gpu_record(o->written, stream));
            o->writer = (int)lane;
            o->readers = 0;
        } else {
            SS_TRY(ss_gpu_record(o->read[lane], stream));
            o->readers |= 1u << lane;
        }
    }
    return SS_OK;
}

static struct timed *next_timed(const struct ss_task_data *d, enum ss_lane lane)
{
    struct ss_lane_times *t = d->task->lanes->times;
    uint64_t step = d->args->step;
    if (!t || !d->task->training || step < t->first || step - t->first >= t->count)
        return NULL;
    size_t i = atomic_fetch_add(&t->used, 1);
    if (i >= t->capacity)
        return NULL;
    t->task[i].name = d->task->plan->name;
    t->task[i].step = step;
    t->task[i].lane = lane;
    return &t->task[i];
}

static enum ss_status run(const struct ss_task_data *d, enum ss_lane lane, ss_lane_body body)
{
    const struct ss_lanes *lanes = d->task->lanes;
    /* Asked for in any case: StarPU warns when a worker never uses its stream. */
    ss_stream stream = starpu_cuda_get_local_stream();
    if (lanes->ordered && lane != SS_LANE_COPY)
        stream = lanes->stream[lane];
    if (lane == SS_LANE_COMPUTE)
        SS_TRY(ss_gpu_set_stream(lanes->gpu, stream));
    struct timed *timed = next_timed(d, lane);
    ss_gpu_forget_errors();
    if (lanes->ordered)
        SS_TRY(wait_for_lanes(d, lane, stream));
    struct ss_lane_mark *mark;
    SS_TRY(ss_lane_trace_begin(d, lane, stream, &mark));
    if (timed)
        SS_TRY(ss_gpu_record(timed->begin, stream));
    SS_TRY(body(d, stream));
    SS_TRY(ss_lane_trace_end(mark, stream));
    if (timed)
        SS_TRY(ss_gpu_record(timed->end, stream));
    return lanes->ordered ? leave_events(d, lane, stream) : SS_OK;
}

void ss_lane_run(void *cl_arg, enum ss_lane lane, ss_lane_body body)
{
    struct ss_task_data d = ss_task_data(cl_arg);
    if (!ss_run_ok(d.task->run))
        return;
    ss_lane_nvtx_begin(&d);
    ss_run_fail(d.task->run, run(&d, lane, body));
    ss_lane_nvtx_end(&d);
}

enum ss_status ss_lane_times_create(struct ss_lanes *lanes, uint64_t first, uint64_t count,
                                    size_t tasks_per_step)
{
    size_t capacity = (size_t)count * tasks_per_step;
    size_t bytes = sizeof(struct ss_lane_times) + capacity * sizeof(struct timed);
    struct ss_lane_times *t = calloc(1, bytes);
    if (!t)
        return ss_fail_memory("times of tasks", bytes);
    t->first = first;
    t->count = count;
    t->capacity = capacity;
    lanes->times = t;
    for (size_t i = 0; i < capacity; i++) {
        SS_TRY(ss_gpu_event_create(lanes->gpu, 1, &t->task[i].begin));
        SS_TRY(ss_gpu_event_create(lanes->gpu, 1, &t->task[i].end));
    }
    return SS_OK;
}

static enum ss_status write_times(const struct ss_lane_times *t, FILE *out)
{
    static const char *const names[] = {"compute", "comm", "copy"};
    size_t used = t->used < t->capacity ? t->used : t->capacity;
    size_t zero = 0; /* the first compute task: all times count from its begin */
    while (zero < used && t->task[zero].lane != SS_LANE_COMPUTE)
        zero++;
    for (size_t i = 0; zero < used && i < used; i++) {
        const struct timed *task = &t->task[i];
        float begin, length;
        SS_TRY(ss_gpu_elapsed(t->task[zero].begin, task->begin, &begin));
        SS_TRY(ss_gpu_elapsed(task->begin, task->end, &length));
        fprintf(out,
                "{\"step\": %llu, \"task\": \"%s\", \"lane\": \"%s\", \"begin_ms\": %.4f, "
                "\"end_ms\": %.4f}\n",
                (unsigned long long)task->step, task->name, names[task->lane], (double)begin,
                (double)begin + (double)length);
    }
    return SS_OK;
}

enum ss_status ss_lane_times_write(struct ss_lanes *lanes, const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return ss_fail(SS_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    enum ss_status status = write_times(lanes->times, out);
    if (fclose(out) && status == SS_OK)
        status = ss_fail(SS_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    return status;
}

void ss_lane_times_destroy(struct ss_lanes *lanes)
{
    struct ss_lane_times *t = lanes->times;
    for (size_t i = 0; t && i < t->capacity; i++) {
        ss_gpu_event_destroy(t->task[i].begin);
        ss_gpu_event_destroy(t->task[i].end);
    }
    free(t);
    lanes->times = NULL;
}
