/* Predicts the time of a step on a GPU or on this CPU, task by task, from the bytes that its
 * kernels read and write and the operations that they compute. The tasks run on a device that
 * only records these (kernels/cost_model), so the prediction follows the operations. machine.h
 * has the assumptions about the machine.
 *
 *   a launch: max(bytes / bandwidth, operations / rate) + launch
 *
 * bytes: read and written, except those still in L2. bandwidth: the machine's, or less if a
 * kernel has too few loads in flight (Little's law: latency x bandwidth bytes). operations: of
 * whole tiles. Collectives, copies from and to the host and loading run beside the compute lane
 * and are not predicted.
 *
 * All values are predictions, not measurements. */
#ifndef SS_SIM_ROOFLINE_H
#define SS_SIM_ROOFLINE_H

#include "graph/plan.h"
#include "kernels/cost_model/cost_model.h"
#include "sim/machine.h"

#include <stdio.h>

enum ss_roofline_bound { SS_BOUND_MEMORY, SS_BOUND_COMPUTE, SS_BOUND_LAUNCH, SS_BOUNDS };

/* For a task, for a line of the table, or for the step. */
struct ss_roofline_work {
    int launches;
    double read, written; /* bytes that kernels access, each tensor in full */
    double flop;
    double seconds;
    double by[SS_BOUNDS]; /* seconds by limiting resource */
};

struct ss_roofline {
    const struct ss_plan *plan;
    const struct ss_machine *machine;
    int tf32;
    struct ss_roofline_work *task;                  /* of the training step, in plan order */
    struct ss_roofline_work (*part)[SS_COST_LINES]; /* per task and line */
    struct ss_roofline_work line[SS_COST_LINES];
    struct ss_roofline_work step;
    double floor; /* seconds of the convolutions alone, at the best rates measured */
};

/* Predict the step. The plan and the machine must outlive *out, which the caller closes. Errors:
 * SS_ERR_INVALID: a CPU's plan with a GPU, or vice versa; SS_ERR_MISMATCH: an operation accesses
 * data that its task does not declare. */
enum ss_status ss_roofline_predict(const struct ss_plan *plan, const struct ss_machine *machine,
                                   int tf32, struct ss_roofline *out);
void ss_roofline_close(struct ss_roofline *r);
/* Get only the time of each task of the training step, in plan order. The caller frees *out.
 * Errors: as above, SS_ERR_MEMORY. */
enum ss_status ss_roofline_seconds(const struct ss_plan *plan, const struct ss_machine *machine,
                                   int tf32, double **out);

/* Print as text, and as one JSON object. Errors: SS_ERR_MEMORY; write errors remain in the
 * stream. */
void ss_roofline_print(const struct ss_roofline *r, FILE *out);
enum ss_status ss_roofline_print_json(const struct ss_roofline *r, FILE *out);
const char *ss_roofline_bound_name(const struct ss_roofline_work *w);

#endif
