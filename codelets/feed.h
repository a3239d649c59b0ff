/* codelets/feed.c: how the loader keeps up: what load tasks cost, and how long training steps
 * waited for their input.
 *
 * A step can begin when the step before it has been computed, or when it was submitted if that was
 * later. What passes from then until its last slice is loaded is waited for. On a GPU, whose work
 * is enqueued ahead, the clock is the GPU's own, from events: what passed between two steps, if the
 * input was late. */
#ifndef SS_CODELETS_FEED_H
#define SS_CODELETS_FEED_H

#include <stdatomic.h>
#include <stdint.h>
#include "kernels/cuda/gpu.h"
#include "core/status.h"

struct ss_feed_step;

struct ss_feed {
    struct ss_feed_step *step; /* of the last steps, by number */
    uint64_t count;            /* steps that are kept */
    _Atomic uint64_t busy_ns, images, waited_ns;
};

/* slots: steps in flight; gpu NULL: the CPU computes. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. Closed
 * in every case. */
enum ss_status ss_feed_open(struct ss_feed *feed, int slots, struct ss_gpu *gpu);
void ss_feed_close(struct ss_feed *feed); /* zeroed is fine */

/* Of training steps, counted from 1. */
void ss_feed_submitted(struct ss_feed *feed, uint64_t step);
/* A load task that began at begin_ns has ended. */
void ss_feed_loaded(struct ss_feed *feed, uint64_t step, uint64_t begin_ns, int images);
/* An update has ended; on a GPU: was enqueued on the stream. */
enum ss_status ss_feed_computed(struct ss_feed *feed, uint64_t step, ss_stream stream);
/* GPU: the step's first work is about to be enqueued. */
enum ss_status ss_feed_begun(struct ss_feed *feed, uint64_t step, ss_stream stream);
/* The step's metrics are there: add what it has waited for. */
enum ss_status ss_feed_reported(struct ss_feed *feed, uint64_t step);

/* When a step that is under way was submitted, on CLOCK_MONOTONIC. */
uint64_t ss_feed_submitted_at(const struct ss_feed *feed, uint64_t step);

struct ss_feed_totals {
    double images; /* loaded for training */
    double busy_s; /* of all load tasks, one after the other */
    double wait_s; /* in which steps waited for their input */
};
struct ss_feed_totals ss_feed_totals(const struct ss_feed *feed);

#endif
