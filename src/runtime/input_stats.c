#include "runtime/input_stats.h"
#include "codelets/lane.h"
#include "core/clock.h"
#include "core/log.h"

#include <stdlib.h>

enum {
    LOAD = SS_HOOKS_KIND(SS_TASK_LOAD),
    CONVERT = SS_HOOKS_KIND(SS_TASK_CONVERT),
    /* The last tasks of a micro-batch. */
    UPDATE = SS_HOOKS_KIND(SS_TASK_ADD) | SS_HOOKS_KIND(SS_TASK_UPDATE),
};

/* State of one micro-batch. */
struct ss_input_stats_step {
    _Atomic uint64_t loaded, computed; /* CLOCK_MONOTONIC in ns */
    ss_event begin, end;               /* GPU; otherwise NULL */
};

/* Entry of a micro-batch of a step; micro = -1: the last one of the previous step. */
static struct ss_input_stats_step *entry(const struct ss_input_stats *f, uint64_t step, int micro)
{
    const uint64_t number =
        step * (uint64_t)f->plan->options.accumulate + (uint64_t)(micro + 1) - 1;
    return &f->step[number % f->count];
}

static struct ss_input_stats_step *entry_of(const struct ss_input_stats *f,
                                            const struct ss_step_args *args)
{
    return entry(f, args->step, args->task->plan->micro);
}

static void step_begins(void *arg, uint64_t step)
{
    const struct ss_input_stats *f = arg;
    for (int micro = 0; micro < f->plan->options.accumulate; micro++) {
        struct ss_input_stats_step *s = entry(f, step, micro);
        atomic_store(&s->loaded, 0);
        atomic_store(&s->computed, 0);
    }
}

static void raise_to(_Atomic uint64_t *at, uint64_t ns)
{
    uint64_t was = atomic_load(at);
    while (was < ns && !atomic_compare_exchange_weak(at, &was, ns))
        ;
}

static void loaded(struct ss_input_stats *f, const struct ss_step_args *args)
{
    const int *slice = f->plan->slice_begin + args->task->plan->slice,
              present = f->plan->options.batch - args->absent,
              end = slice[1] < present ? slice[1] : present;
    atomic_fetch_add(&f->busy_ns, args->times.end - args->times.begin);
    atomic_fetch_add(&f->images, (uint64_t)(end > slice[0] ? end - slice[0] : 0));
    raise_to(&entry_of(f, args)->loaded, args->times.end);
}

static void task_ends(void *arg, const struct ss_step_args *args)
{
    if (args->task->plan->kind == SS_TASK_LOAD)
        loaded(arg, args);
    else
        raise_to(&entry_of(arg, args)->computed, args->times.end);
}

/* The conversion of its input is the first task of a micro-batch. */
static enum ss_status enqueue_begins(void *arg, const struct ss_step_args *args, int lane,
                                     ss_stream stream)
{
    (void)lane;
    if (args->task->plan->kind != SS_TASK_CONVERT)
        return SS_OK;
    return ((struct ss_input_stats *)arg)->kernels->record(entry_of(arg, args)->begin, stream);
}

static enum ss_status enqueue_ends(void *arg, const struct ss_step_args *args, ss_stream stream)
{
    struct ss_input_stats *f = arg;
    struct ss_input_stats_step *s = entry_of(f, args);
    if (args->task->plan->kind == SS_TASK_CONVERT)
        return SS_OK;
    raise_to(&s->computed, ss_now_ns());
    return f->kernels->record(s->end, stream);
}

/* Limits *waited to the GPU's idle time between the previous micro-batch and this one. `computed`
 * of the previous one is set when it is enqueued; it may have run long after that. */
static enum ss_status shorten_to_gap(const struct ss_input_stats *f,
                                     const struct ss_input_stats_step *before,
                                     const struct ss_input_stats_step *s, uint64_t *waited)
{
    float ms;
    SS_TRY(f->kernels->elapsed(f->gpu, before->end, s->begin, &ms));
    uint64_t gap = ms > 0 ? (uint64_t)(1e6 * (double)ms) : 0;
    if (gap < *waited)
        *waited = gap;
    return SS_OK;
}

/* Adds the wait of a micro-batch. */
static enum ss_status add_wait(struct ss_input_stats *f, const struct ss_step_args *args, int micro)
{
    const struct ss_input_stats_step *s = entry(f, args->step, micro),
                                     *before = entry(f, args->step, micro - 1);
    uint64_t loaded_ns = atomic_load(&s->loaded), ready = args->submitted_ns;
    uint64_t computed = args->step > 1 || micro ? atomic_load(&before->computed) : 0; /* 0: none */
    if (loaded_ns <= ready || loaded_ns <= computed || !ss_run_ok(args->task->run))
        return SS_OK;
    if (computed > ready && !s->begin)
        ready = computed;
    uint64_t waited = loaded_ns - ready;
    if (s->begin && computed)
        SS_TRY(shorten_to_gap(f, before, s, &waited));
    atomic_fetch_add(&f->waited_ns, waited);
    return SS_OK;
}

static enum ss_status step_ends(void *arg, const struct ss_step_args *args)
{
    struct ss_input_stats *f = arg;
    for (int micro = 0; micro < f->plan->options.accumulate; micro++)
        SS_TRY(add_wait(f, args, micro));
    return SS_OK;
}

enum ss_status ss_input_stats_open(struct ss_input_stats *f, const struct ss_plan *plan, int slots,
                                   const struct ss_lanes *lanes)
{
    f->plan = plan;
    f->hooks = (struct ss_hooks){.arg = f,
                                 .last = UINT64_MAX,
                                 .step_begins = step_begins,
                                 .step_ends = step_ends,
                                 .ended = LOAD | UPDATE,
                                 .task_ends = task_ends};
    /* When a step is reported, the next one may be computing and `slots` more may be loading. */
    f->count = (2 * (uint64_t)slots + 2) * (uint64_t)plan->options.accumulate;
    f->step = calloc(f->count, sizeof *f->step);
    if (!f->step)
        return ss_fail_memory("times of steps", f->count * sizeof *f->step);
    f->kernels = lanes ? lanes->kernels : NULL;
    f->gpu = lanes ? lanes->gpu : NULL;
    if (lanes) { /* updates count when they are enqueued */
        f->hooks.ended = LOAD;
        f->hooks.enqueued = CONVERT | UPDATE;
        f->hooks.enqueue_begins = enqueue_begins;
        f->hooks.enqueue_ends = enqueue_ends;
    }
    for (uint64_t i = 0; lanes && i < f->count; i++) {
        SS_TRY(f->kernels->event_create(lanes->gpu, 1, &f->step[i].begin));
        SS_TRY(f->kernels->event_create(lanes->gpu, 1, &f->step[i].end));
    }
    return SS_OK;
}

void ss_input_stats_close(struct ss_input_stats *f)
{
    for (uint64_t i = 0; f->step && f->kernels && i < f->count; i++) {
        f->kernels->event_destroy(f->step[i].begin);
        f->kernels->event_destroy(f->step[i].end);
    }
    free(f->step);
    f->step = NULL;
}

struct ss_input_totals ss_input_stats_totals(const struct ss_input_stats *f)
{
    return (struct ss_input_totals){.images = (double)atomic_load(&f->images),
                                    .busy_s = 1e-9 * (double)atomic_load(&f->busy_ns),
                                    .wait_s = 1e-9 * (double)atomic_load(&f->waited_ns)};
}
