/* Input statistics: time of load tasks, and time that training steps wait for their input.
 *
 * A micro-batch can start when the previous one is computed, or when its step is submitted,
 * whichever is later. The wait lasts from then until its last slice is loaded. A GPU's work is
 * enqueued ahead, so there the wait is the gap between two steps, measured with GPU events, if
 * the input was late. */
#ifndef SS_RUNTIME_INPUT_STATS_H
#define SS_RUNTIME_INPUT_STATS_H

#include "codelets/hooks.h"

struct ss_input_stats_step;

struct ss_input_stats {
    struct ss_hooks hooks; /* to attach to the executor */
    const struct ss_plan *plan;
    const struct ss_kernels *kernels; /* of a GPU; otherwise NULL */
    struct ss_device *gpu;
    struct ss_input_stats_step *step; /* ring of recent micro-batches, by number */
    uint64_t count;                   /* size of the ring */
    _Atomic uint64_t busy_ns, images, waited_ns;
};

/* slots: steps in flight. lanes NULL: the CPU computes. plan must outlive feed, and feed must not
 * move in memory. The caller closes feed in every case. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_input_stats_open(struct ss_input_stats *feed, const struct ss_plan *plan,
                                   int slots, const struct ss_lanes *lanes);
void ss_input_stats_close(struct ss_input_stats *feed); /* feed may be zeroed */

struct ss_input_totals {
    double images; /* loaded for training */
    double busy_s; /* sum over all load tasks */
    double wait_s; /* time that steps waited for their input */
};
struct ss_input_totals ss_input_stats_totals(const struct ss_input_stats *feed);

#endif
