#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "codelets/feed.h"
#include "core/clock.h"
#include "core/log.h"

#include <stdlib.h>

struct ss_feed_step {
    _Atomic uint64_t submitted, loaded, computed; /* CLOCK_MONOTONIC in ns */
    ss_event begin, end;                          /* GPU, else NULL */
};

static struct ss_feed_step *entry(const struct ss_feed *f, uint64_t step)
{
    return &f->step[step % f->count];
}

enum ss_status ss_feed_open(struct ss_feed *f, int slots, struct ss_gpu *gpu)
{
    /* A step is reported while the one behind it may be computed and `slots` more are loaded. */
    f->count = 2 * (uint64_t)slots + 2;
    f->step = calloc(f->count, sizeof *f->step);
    if (!f->step)
        return ss_fail_memory("times of steps", f->count * sizeof *f->step);
    (void)gpu;
#ifdef HAVE_CUDA
    for (uint64_t i = 0; gpu && i < f->count; i++) {
        SS_TRY(ss_gpu_event_create(gpu, 1, &f->step[i].begin));
        SS_TRY(ss_gpu_event_create(gpu, 1, &f->step[i].end));
    }
#endif
    return SS_OK;
}

void ss_feed_close(struct ss_feed *f)
{
#ifdef HAVE_CUDA
    for (uint64_t i = 0; f->step && i < f->count; i++) {
        ss_gpu_event_destroy(f->step[i].begin);
        ss_gpu_event_destroy(f->step[i].end);
    }
#endif
    free(f->step);
    f->step = NULL;
}

static void raise_to(_Atomic uint64_t *at, uint64_t ns)
{
    uint64_t was = atomic_load(at);
    while (was < ns && !atomic_compare_exchange_weak(at, &was, ns))
        ;
}

void ss_feed_submitted(struct ss_feed *f, uint64_t step)
{
    struct ss_feed_step *s = entry(f, step);
    atomic_store(&s->loaded, 0);
    atomic_store(&s->computed, 0);
    atomic_store(&s->submitted, ss_now_ns());
}

void ss_feed_loaded(struct ss_feed *f, uint64_t step, uint64_t begin_ns, int images)
{
    uint64_t now = ss_now_ns();
    atomic_fetch_add(&f->busy_ns, now - begin_ns);
    atomic_fetch_add(&f->images, (uint64_t)images);
    raise_to(&entry(f, step)->loaded, now);
}

enum ss_status ss_feed_computed(struct ss_feed *f, uint64_t step, ss_stream stream)
{
    struct ss_feed_step *s = entry(f, step);
    raise_to(&s->computed, ss_now_ns());
    (void)stream;
#ifdef HAVE_CUDA
    if (s->end)
        return ss_gpu_record(s->end, stream);
#endif
    return SS_OK;
}

enum ss_status ss_feed_begun(struct ss_feed *f, uint64_t step, ss_stream stream)
{
    (void)f;
    (void)step;
    (void)stream;
#ifdef HAVE_CUDA
    return ss_gpu_record(entry(f, step)->begin, stream);
#else
    return SS_OK;
#endif
}

#ifdef HAVE_CUDA
/* At most *waited: how long the GPU had nothing to do between the step before and this one. The
 * former was only enqueued when its `computed` was set, and may have run long after that. */
static enum ss_status shorten_to_gap(const struct ss_feed_step *before,
                                     const struct ss_feed_step *s, uint64_t *waited)
{
    float ms;
    SS_TRY(ss_gpu_elapsed(before->end, s->begin, &ms));
    uint64_t gap = ms > 0 ? (uint64_t)(1e6 * (double)ms) : 0;
    if (gap < *waited)
        *waited = gap;
    return SS_OK;
}
#endif

enum ss_status ss_feed_reported(struct ss_feed *f, uint64_t step)
{
    const struct ss_feed_step *s = entry(f, step), *before = entry(f, step - 1);
    uint64_t loaded = atomic_load(&s->loaded), ready = atomic_load(&s->submitted);
    uint64_t computed = step > 1 ? atomic_load(&before->computed) : 0; /* 0: no step before it */
    if (loaded <= ready || loaded <= computed)
        return SS_OK;
    if (computed > ready && !s->begin)
        ready = computed;
    uint64_t waited = loaded - ready;
#ifdef HAVE_CUDA
    if (s->begin && computed)
        SS_TRY(shorten_to_gap(before, s, &waited));
#endif
    atomic_fetch_add(&f->waited_ns, waited);
    return SS_OK;
}

struct ss_feed_totals ss_feed_totals(const struct ss_feed *f)
{
    return (struct ss_feed_totals){.images = (double)atomic_load(&f->images),
                                   .busy_s = 1e-9 * (double)atomic_load(&f->busy_ns),
                                   .wait_s = 1e-9 * (double)atomic_load(&f->waited_ns)};
}

uint64_t ss_feed_submitted_at(const struct ss_feed *f, uint64_t step)
{
    return atomic_load(&entry(f, step)->submitted);
}
