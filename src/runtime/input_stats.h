/* Statistics of the input: the time of load tasks, and how long training steps waited for their input.
 *
 * A micro-step can begin when the one before it has been computed, or when its step was submitted if
 * that was later. What passes from then until its last slice is loaded is waited for. On a GPU, whose work
 * is enqueued ahead, the clock is the GPU's own, from events: what passed between two steps, if the
 * input was late. */
#ifndef SS_RUNTIME_INPUT_STATS_H
#define SS_RUNTIME_INPUT_STATS_H

#include "codelets/hooks.h"

struct ss_input_stats_step;

struct ss_input_stats {
    struct ss_hooks hooks; /* to be hung on the executor */
    const struct ss_plan *plan;
    const struct ss_kernels *kernels; /* of a GPU, else NULL */
    struct ss_device *gpu;
    struct ss_input_stats_step *step; /* of the last micro-steps, by number */
    uint64_t count;            /* those that are kept */
    _Atomic uint64_t busy_ns, images, waited_ns;
};

/* slots: steps in flight; lanes NULL: the CPU computes. plan outlives the feed, which does not move.
 * Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. Closed in every case. */
enum ss_status ss_input_stats_open(struct ss_input_stats *feed, const struct ss_plan *plan,
                                   int slots, const struct ss_lanes *lanes);
void ss_input_stats_close(struct ss_input_stats *feed); /* zeroed is fine */

struct ss_input_totals {
    double images; /* loaded for training */
    double busy_s; /* of all load tasks, one after the other */
    double wait_s; /* in which steps waited for their input */
};
struct ss_input_totals ss_input_stats_totals(const struct ss_input_stats *feed);

#endif
