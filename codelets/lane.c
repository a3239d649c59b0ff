#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "codelets/lane.h"
#include "codelets/hooks.h"
#include "comm/comm.h"
#include "comm/nccl.h"
#include "core/clock.h"
#include "core/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* The task that this thread, which feeds all lanes, enqueued last. */
static _Thread_local struct {
    const struct ss_bound_task *task;
    unsigned long long step;
} last;

/* The GPU is unusable, and the failed task among those in its queues is unknown. To continue
 * would trigger one of StarPU's assertions, so the process exits here. Other threads report their
 * state, as after any failure. */
_Noreturn static void end_with_fault(const char *fault)
{
    char where[256] = "before the first task";
    if (last.task && last.task->training)
        snprintf(where, sizeof where, "in %.100s of step %llu or a task before it", last.task->name,
                 last.step);
    else if (last.task)
        snprintf(where, sizeof where, "in %.100s of the evaluation or a task before it",
                 last.task->name);
    ss_log_set_patience(SS_LAST_WORDS_S);
    ss_fail(SS_ERR_LIBRARY,
            "GPU: %s, %s; set CUDA_LAUNCH_BLOCKING=1 to find the exact task, or run "
            "compute-sanitizer to find the source line",
            fault, where);
    if (last.task && last.task->lanes->comm)
        ss_comm_abort(last.task->lanes->comm, SS_ERR_LIBRARY);
    _exit(1);
}

static void report_fault(const char *fault)
{
    if (last.task)
        end_with_fault(fault);
}

#ifdef HAVE_STARPU_CUDA_SET_ERROR_HANDLER
/* Called by StarPU before it reports the error and aborts. */
static void handle_starpu_error(const char *func, const char *file, int line, cudaError_t status)
{
    char text[256];
    const char *fault = ss_cuda_kernels.missing ? NULL : ss_cuda_kernels.fault(NULL);
    (void)file;
    (void)line;
    snprintf(text, sizeof text, "CUDA error %d in StarPU's %.100s", (int)status, func);
    end_with_fault(fault ? fault : text);
}
#endif

void ss_lanes_set_error_handler(const struct ss_kernels *kernels)
{
    kernels->on_fault(report_fault);
#ifdef HAVE_STARPU_CUDA_SET_ERROR_HANDLER
    starpu_cuda_set_error_handler(handle_starpu_error);
#endif
}

enum ss_status ss_order_create(struct ss_order **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? SS_OK : ss_fail_memory("the order of a region", sizeof **out);
}

enum ss_status ss_lanes_create_events(struct ss_lanes *lanes)
{
    lanes->events = calloc(SS_LANE_COUNT, sizeof *lanes->events);
    if (!lanes->events)
        return ss_fail_memory("events of lanes", SS_LANE_COUNT * sizeof *lanes->events);
    for (int l = 0; l < SS_LANE_COUNT; l++)
        for (int i = 0; i < SS_LANE_EVENTS; i++)
            SS_TRY(lanes->kernels->event_create(lanes->gpu, 0, &lanes->events[l].event[i]));
    return SS_OK;
}

void ss_lanes_destroy_events(struct ss_lanes *lanes)
{
    for (int l = 0; lanes->events && l < SS_LANE_COUNT; l++)
        for (int i = 0; i < SS_LANE_EVENTS; i++)
            lanes->kernels->event_destroy(lanes->events[l].event[i]);
    free(lanes->events);
    lanes->events = NULL;
}

static void need(uint64_t *event_number, uint64_t other)
{
    *event_number = other > *event_number ? other : *event_number;
}

/* StarPU starts a task only after its predecessors were enqueued, and orders tasks that access
 * one region unless both read it. So no other thread writes this order now, and concurrent
 * readers on different lanes write different elements. */
static enum ss_status wait_for_lanes(const struct ss_task_data *d, enum ss_lane lane,
                                     ss_stream stream)
{
    const struct ss_lanes *lanes = d->task->lanes;
    uint64_t *seen = lanes->events[lane].seen, event_number[SS_LANE_COUNT] = {0};
    for (int i = 0; i < d->task->naccess; i++) {
        const struct ss_order *o = d->args->region[i]->order;
        if (!o)
            continue;
        need(&event_number[o->writer], o->written);
        for (int l = 0; l < SS_LANE_COUNT && (d->task->access[i].mode & SS_WRITE); l++)
            need(&event_number[l], o->read[l]);
    }
    for (int l = 0; l < SS_LANE_COUNT; l++) {
        if (l == (int)lane || event_number[l] <= seen[l])
            continue;
        SS_TRY(
            lanes->kernels->wait(stream, lanes->events[l].event[event_number[l] % SS_LANE_EVENTS]));
        seen[l] = event_number[l];
    }
    return SS_OK;
}

static enum ss_status record_event(const struct ss_task_data *d, enum ss_lane lane,
                                   ss_stream stream)
{
    const struct ss_lanes *lanes = d->task->lanes;
    struct ss_lane_events *m = &lanes->events[lane];
    int left = 0;
    for (int i = 0; i < d->task->naccess; i++) {
        struct ss_order *o = d->args->region[i]->order;
        if (!o)
            continue;
        if (!left++) {
            m->last++;
            SS_TRY(lanes->kernels->record(m->event[m->last % SS_LANE_EVENTS], stream));
        }
        if (d->task->access[i].mode & SS_WRITE)
            *o = (struct ss_order){.writer = (int)lane, .written = m->last};
        else
            o->read[lane] = m->last;
    }
    return SS_OK;
}

enum { ENDS = -1 };

/* Call the hooks at the start of a task's enqueuing, or at its end with lane == ENDS. One at a
 * time, as another thread enqueues collectives. */
static enum ss_status call_hooks(const struct ss_task_data *d, int lane, ss_stream stream)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    enum ss_status status = SS_OK;
    for (const struct ss_hooks *h = *d->task->hooks; h && status == SS_OK; h = h->next) {
        if (!ss_hooks_want_enqueue(h, d->args))
            continue;
        pthread_mutex_lock(&one);
        status = lane == ENDS ? h->enqueue_ends(h->arg, d->args, stream)
                              : h->enqueue_begins(h->arg, d->args, lane, stream);
        pthread_mutex_unlock(&one);
    }
    return status;
}

enum ss_status ss_lane_enqueue(const struct ss_task_data *d, enum ss_lane lane, ss_stream stream,
                               ss_lane_body body)
{
    SS_TRY(call_hooks(d, (int)lane, stream));
    SS_TRY(body(d, stream));
    return call_hooks(d, ENDS, stream);
}

/* Returns this worker's stream. */
static ss_stream own_stream(void)
{
#ifdef STARPU_USE_CUDA
    return starpu_cuda_get_local_stream();
#else
    return NULL; /* no lanes in this build */
#endif
}

/* stream: the worker's. */
static enum ss_status run(const struct ss_task_data *d, enum ss_lane lane, ss_stream stream,
                          ss_lane_body body)
{
    const struct ss_lanes *lanes = d->task->lanes;
    if (lanes->ordered && lane != SS_LANE_COPY)
        stream = lanes->stream[lane];
    if (lane == SS_LANE_COMPUTE || lane == SS_LANE_UPDATE)
        SS_TRY(lanes->kernels->set_stream(lanes->gpu, stream));
    lanes->kernels->clear_errors();
    if (lanes->ordered)
        SS_TRY(wait_for_lanes(d, lane, stream));
    SS_TRY(ss_lane_enqueue(d, lane, stream, body));
    return lanes->ordered ? record_event(d, lane, stream) : SS_OK;
}

/* A kernel's fault is returned by the next call of any kind, so a failure is reported only after
 * the GPU has been checked for one. Without a failure StarPU checks directly afterwards. */
static void run_on_gpu(const struct ss_task_data *d, enum ss_lane lane, ss_stream own,
                       ss_lane_body body)
{
    char why[1024];
    enum ss_status status = SS_OK;
    last.task = d->task;
    last.step = d->args->step;
    ss_log_capture(why, sizeof why);
    const uint64_t begin_ns = ss_now_ns();
    if (ss_run_ok(d->task->run))
        status = run(d, lane, own, body);
    if (lane != SS_LANE_COMM) {
        atomic_fetch_add(&d->task->lanes->busy_ns, ss_now_ns() - begin_ns);
        atomic_fetch_add(&d->task->lanes->fed, 1);
    }
    ss_log_capture(NULL, 0);
    if (status == SS_OK)
        return;
    const char *fault = d->task->lanes->kernels->fault(own);
    if (fault)
        end_with_fault(fault);
    ss_run_fail(d->task->run, ss_fail(status, "%s", why));
}

void ss_lane_run(void *buffers[], void *cl_arg, enum ss_lane lane, ss_lane_body body)
{
    struct ss_task_data d = ss_task_unpack(buffers, cl_arg);
    /* Get its stream in any case: StarPU warns if a worker never uses its own. */
    if (d.task->lanes)
        run_on_gpu(&d, lane, own_stream(), body);
    else if (ss_run_ok(d.task->run))
        ss_run_fail(d.task->run, body(&d, NULL));
}

static int is_behind_gpu_sum(const struct ss_bound_task *task)
{
    return task->lanes && task->lanes->nccl;
}

void ss_lane_run_behind_sum(void *buffers[], void *cl_arg, ss_lane_body body)
{
    const int own_lane = is_behind_gpu_sum(ss_task_unpack(buffers, cl_arg).task);
    ss_lane_run(buffers, cl_arg, own_lane ? SS_LANE_UPDATE : SS_LANE_COMPUTE, body);
}

int ss_can_follow_sum(unsigned worker, struct starpu_task *task, unsigned nimpl)
{
    const struct ss_step_args *args = task->cl_arg;
    return (is_behind_gpu_sum(args->task) ? ss_can_communicate : ss_can_compute)(worker, task,
                                                                                 nimpl);
}

#ifdef HAVE_NCCL
/* The enqueuing of a task, passed to the thread that calls NCCL. */
struct passed {
    struct ss_task_data data;
    ss_stream own;
    ss_lane_body body;
    struct starpu_task *task; /* NULL: the caller waits */
};

static void run_passed(void *arg)
{
    struct passed *p = arg;
    struct starpu_task *task = p->task;
    run_on_gpu(&p->data, SS_LANE_COMM, p->own, p->body);
    if (!task)
        return;
    free(p);
    ss_task_end(task);
}

void ss_lane_pass(void *buffers[], void *cl_arg, ss_lane_body body)
{
    struct passed p = {.data = ss_task_unpack(buffers, cl_arg), .own = own_stream(), .body = body};
    const struct ss_lanes *lanes = p.data.task->lanes;
    struct passed *later = lanes->ordered ? malloc(sizeof *later) : NULL;
    if (!later) { /* asynchronous: StarPU assigns the current work of the stream to the task */
        ss_nccl_call(lanes->nccl, run_passed, &p);
        return;
    }
    *later = p;
    later->task = starpu_task_get_current();
    starpu_task_end_dep_add(later->task, 1);
    enum ss_status status = ss_nccl_post(lanes->nccl, run_passed, later);
    if (status == SS_OK)
        return;
    ss_run_fail(p.data.task->run, status);
    ss_task_end(later->task);
    free(later);
}
#endif
