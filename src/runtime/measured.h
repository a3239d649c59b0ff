/* Task times of a training step as measured by StarPU on this kind of node. Source: StarPU's
 * performance models (codelets/model.h), which runs with STARPU_CALIBRATE=1 fill. */
#ifndef SS_RUNTIME_MEASURED_H
#define SS_RUNTIME_MEASURED_H

#include "graph/plan.h"

#include <stdint.h>
#include <stdio.h>

/* Get the mean seconds of each task of the training step, in plan order; 0: a collective, or not
 * measured. key: as in ss_exec_options. Requires that StarPU is running or
 * ss_environment_prepare() has been called. The caller frees *out. Errors: SS_ERR_INVALID (no
 * task has been measured), SS_ERR_MEMORY, SS_ERR_IO. */
enum ss_status ss_measured_seconds(const struct ss_plan *plan, uint64_t key, double **out);

/* Print a table, or one JSON object. Errors: SS_ERR_MEMORY; for stream errors check ferror(out). */
void ss_measured_print(const struct ss_plan *plan, const double *seconds, FILE *out);
enum ss_status ss_measured_print_json(const struct ss_plan *plan, const double *seconds, FILE *out);

#endif
