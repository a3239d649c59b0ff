/* How long a step's tasks take on this kind of node, as StarPU has measured it: its performance models
 * (codelets/model.h), which runs with STARPU_CALIBRATE=1 fill. */
#ifndef SS_RUNTIME_MEASURED_H
#define SS_RUNTIME_MEASURED_H

#include "graph/plan.h"

#include <stdint.h>
#include <stdio.h>

/* Mean seconds of each task of the training step, in the plan's order; 0: of a collective, or not measured.
 * key: that of ss_exec_options. StarPU runs, or ss_environment_prepare() has been called. The caller frees
 * *out. Errors: SS_ERR_INVALID: none of them has been measured; SS_ERR_MEMORY, SS_ERR_IO. */
enum ss_status ss_measured_seconds(const struct ss_plan *plan, uint64_t key, double **out);

/* For people, and as one JSON object. Errors: SS_ERR_MEMORY; those of the stream stay in it. */
void ss_measured_print(const struct ss_plan *plan, const double *seconds, FILE *out);
enum ss_status ss_measured_print_json(const struct ss_plan *plan, const double *seconds, FILE *out);

#endif
