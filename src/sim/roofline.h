/* How long a step will take on a GPU or on this CPU, predicted task by task from what its kernels read,
 * write and compute. The tasks run on a device that only notes that (kernels/cost_model), so the prediction follows
 * the operations; machine.h has what is assumed of the GPU.
 *
 *   a launch: max(bytes / bandwidth, operations / rate) + launch
 *
 * bytes: read and written, without those that L2 still holds; bandwidth: what the machine gives, or
 * less where a kernel has too few loads under way (Little's law: latency x bandwidth bytes);
 * operations: of whole tiles. Sums over ranks, copies from and to the host and loading run beside
 * the compute lane and are not predicted.
 *
 * All of it is a prediction and no measurement. */
#ifndef SS_SIM_ROOFLINE_H
#define SS_SIM_ROOFLINE_H

#include "graph/plan.h"
#include "kernels/cost_model/cost_model.h"
#include "sim/machine.h"

#include <stdio.h>

enum ss_roofline_bound { SS_BOUND_MEMORY, SS_BOUND_COMPUTE, SS_BOUND_LAUNCH, SS_BOUNDS };

/* Of a task, of a line of the table, or of the step. */
struct ss_roofline_work {
    int launches;
    double read, written; /* bytes that kernels touch, each tensor whole */
    double flop;
    double seconds;
    double by[SS_BOUNDS]; /* of them, by what they wait for */
};

struct ss_roofline {
    const struct ss_plan *plan;
    const struct ss_machine *machine;
    int tf32;
    struct ss_roofline_work *task;                   /* of the training step, in the plan's order */
    struct ss_roofline_work (*part)[SS_COST_LINES];  /* of each task by line */
    struct ss_roofline_work line[SS_COST_LINES];
    struct ss_roofline_work step;
    double floor; /* seconds of the convolutions alone, at the best rates measured */
};

/* The plan and the machine outlive *out, which the caller closes. Errors: SS_ERR_INVALID: a CPU's plan and a
 * GPU, or the other way; SS_ERR_MISMATCH: an operation touches what its task has not said. */
enum ss_status ss_roofline_predict(const struct ss_plan *plan, const struct ss_machine *machine,
                                   int tf32, struct ss_roofline *out);
void ss_roofline_close(struct ss_roofline *r);
/* Only how long each task of the training step takes, in the plan's order; the caller frees *out. Errors:
 * as above, SS_ERR_MEMORY. */
enum ss_status ss_roofline_seconds(const struct ss_plan *plan, const struct ss_machine *machine,
                                   int tf32, double **out);

/* For people, and as one JSON object. Errors: SS_ERR_MEMORY; those of the stream stay in it. */
void ss_roofline_print(const struct ss_roofline *r, FILE *out);
enum ss_status ss_roofline_print_json(const struct ss_roofline *r, FILE *out);
const char *ss_roofline_bound_name(const struct ss_roofline_work *w);

#endif
