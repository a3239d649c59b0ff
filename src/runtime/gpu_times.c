#include "runtime/gpu_times.h"
#include "codelets/lane.h"
#include "core/clock.h"
#include "core/log.h"

#include <stdlib.h>

/* Clock comparisons at the start: LOOKS, and more until the last one is the closest. */
enum { LOOKS = 5, MAX_LOOKS = 50 };

struct mark {
    ss_event begin, end;
    int lane;
    int used;
};

/* Events of a step, by task index. */
struct step_marks {
    uint64_t step; /* 0: unused */
    ss_event reference;
    uint64_t reference_ns; /* on the host's clock */
    double since_last_ms;  /* from the previous step's reference, on the GPU's clock */
    struct mark *mark;
};

struct ss_gpu_times {
    struct ss_hooks hooks;
    struct ss_gpu_times_listener listener;
    const struct ss_kernels *kernels;
    struct ss_device *gpu;
    size_t tasks;
    uint64_t count; /* number of steps stored; earlier ones are reported */
    ss_stream idle;
    struct step_marks *step, *last; /* last: most recently begun */
    struct mark *mark;              /* of all steps */
};

static enum ss_status create_events(struct ss_device *gpu, struct ss_gpu_times *t)
{
    SS_TRY(t->kernels->stream_create(gpu, 0, &t->idle));
    for (uint64_t i = 0; i < t->count; i++) {
        t->step[i].mark = t->mark + i * t->tasks;
        SS_TRY(t->kernels->event_create(gpu, 1, &t->step[i].reference));
    }
    for (size_t i = 0; i < t->count * t->tasks; i++) {
        SS_TRY(t->kernels->event_create(gpu, 1, &t->mark[i].begin));
        SS_TRY(t->kernels->event_create(gpu, 1, &t->mark[i].end));
    }
    return SS_OK;
}

static struct step_marks *marks_of(const struct ss_gpu_times *t, uint64_t step)
{
    return &t->step[step % t->count];
}

static const struct step_marks *next_of(const struct ss_gpu_times *t, const struct step_marks *s)
{
    const struct step_marks *next = marks_of(t, s->step + 1);
    return next->step == s->step + 1 ? next : NULL;
}

/* Converts a time `ms` after a step's reference to host time. Interpolates between the references
 * of two steps, so that time is monotonic even if a later reference corrects an earlier one:
 * tasks of one stream do not overlap, also across steps. */
static uint64_t at(const struct ss_gpu_times *t, const struct step_marks *s, double ms)
{
    const struct step_marks *next;
    while ((next = next_of(t, s)) && ms >= next->since_last_ms) {
        ms -= next->since_last_ms;
        s = next;
    }
    const double ns_per_ms =
        next ? (double)(next->reference_ns - s->reference_ns) / next->since_last_ms : 1e6;
    return s->reference_ns + (uint64_t)(int64_t)(ns_per_ms * ms);
}

static enum ss_status hand_over(struct ss_gpu_times *t, struct step_marks *s)
{
    for (size_t i = 0; i < t->tasks; i++) {
        struct mark *m = &s->mark[i];
        float begin, length;
        if (!m->used)
            continue;
        m->used = 0;
        SS_TRY(t->kernels->elapsed(t->gpu, s->reference, m->begin, &begin));
        SS_TRY(t->kernels->elapsed(t->gpu, m->begin, m->end, &length));
        t->listener.ran(t->listener.arg, s->step, i, m->lane, at(t, s, (double)begin),
                        at(t, s, (double)begin + (double)length));
    }
    s->step = 0;
    return SS_OK;
}

/* Records the reference event between two reads of the host's clock. */
static enum ss_status poll_events(struct ss_gpu_times *t, struct step_marks *s, uint64_t *before,
                                  uint64_t *after)
{
    *before = ss_now_ns();
    SS_TRY(t->kernels->record(s->reference, t->idle));
    SS_TRY(t->kernels->finish(s->reference));
    *after = ss_now_ns();
    return SS_OK;
}

/* Sets the first reference: the closest of several comparisons. */
static enum ss_status first_reference(struct ss_gpu_times *t, struct step_marks *s)
{
    uint64_t before, after, best = UINT64_MAX;
    for (int i = 0; i < LOOKS || after - before > best; i++) {
        SS_TRY(poll_events(t, s, &before, &after));
        if (after - before < best)
            best = after - before;
        if (i >= MAX_LOOKS)
            break;
    }
    s->reference_ns = before + (after - before) / 2;
    return SS_OK;
}

/* Sets a later reference by the GPU's clock, within the bounds of the host's clock. */
static enum ss_status next_reference(struct ss_gpu_times *t, struct step_marks *s)
{
    uint64_t before, after;
    float ms;
    SS_TRY(poll_events(t, s, &before, &after));
    SS_TRY(t->kernels->elapsed(t->gpu, t->last->reference, s->reference, &ms));
    s->since_last_ms = (double)ms;
    s->reference_ns = t->last->reference_ns + (uint64_t)(1e6 * s->since_last_ms);
    if (s->reference_ns < before)
        s->reference_ns = before;
    if (s->reference_ns > after)
        s->reference_ns = after;
    return SS_OK;
}

/* First task of a step: reports the previous step of this entry, and compares both clocks. */
static enum ss_status begin_step(struct ss_gpu_times *t, struct step_marks *s, uint64_t step)
{
    if (s->step)
        SS_TRY(hand_over(t, s));
    s->step = step;
    SS_TRY(t->last ? next_reference(t, s) : first_reference(t, s));
    t->last = s;
    return SS_OK;
}

static enum ss_status enqueue_begins(void *arg, const struct ss_step_args *args, int lane,
                                     ss_stream stream)
{
    struct ss_gpu_times *t = arg;
    struct step_marks *s = marks_of(t, args->step);
    if (s->step != args->step)
        SS_TRY(begin_step(t, s, args->step));
    struct mark *m = &s->mark[args->task->index];
    m->lane = lane;
    return t->kernels->record(m->begin, stream);
}

static enum ss_status enqueue_ends(void *arg, const struct ss_step_args *args, ss_stream stream)
{
    struct ss_gpu_times *t = arg;
    struct mark *m = &marks_of(t, args->step)->mark[args->task->index];
    m->used = 1;
    return t->kernels->record(m->end, stream);
}

enum ss_status ss_gpu_times_open(const struct ss_lanes *lanes, size_t tasks, int slots,
                                 uint64_t first, uint64_t last,
                                 struct ss_gpu_times_listener listener, struct ss_gpu_times **out)
{
    struct ss_gpu_times *t = calloc(1, sizeof *t);
    if (!t)
        return ss_fail_memory("times of tasks", sizeof *t);
    t->hooks = (struct ss_hooks){.arg = t,
                                 .first = first,
                                 .last = last,
                                 .enqueued = SS_HOOKS_ALL,
                                 .enqueue_begins = enqueue_begins,
                                 .enqueue_ends = enqueue_ends};
    t->listener = listener;
    t->kernels = lanes->kernels;
    t->gpu = lanes->gpu;
    t->tasks = tasks;
    t->count = 2 * (uint64_t)slots + 2;
    t->step = calloc(t->count, sizeof *t->step);
    t->mark = calloc(t->count * tasks, sizeof *t->mark);
    enum ss_status status =
        t->step && t->mark ? create_events(lanes->gpu, t)
                           : ss_fail_memory("times of tasks", t->count * tasks * sizeof *t->mark);
    if (status != SS_OK) {
        (void)ss_gpu_times_close(t, 0);
        return status;
    }
    *out = t;
    return SS_OK;
}

struct ss_hooks *ss_gpu_times_hooks(struct ss_gpu_times *t)
{
    return &t->hooks;
}

enum ss_status ss_gpu_times_close(struct ss_gpu_times *t, int whole)
{
    enum ss_status status = SS_OK;
    if (!t)
        return SS_OK;
    for (uint64_t i = 1; t->last && i <= t->count; i++) { /* oldest step first */
        struct step_marks *s = marks_of(t, t->last->step + i);
        if (whole && status == SS_OK && s->step)
            status = hand_over(t, s);
    }
    for (uint64_t i = 0; t->step && i < t->count; i++)
        t->kernels->event_destroy(t->step[i].reference);
    for (size_t i = 0; t->mark && i < t->count * t->tasks; i++) {
        t->kernels->event_destroy(t->mark[i].begin);
        t->kernels->event_destroy(t->mark[i].end);
    }
    t->kernels->stream_destroy(t->idle);
    free(t->step);
    free(t->mark);
    free(t);
    return status;
}
