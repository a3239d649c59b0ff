/* StarPU performance models, one per codelet, named "starstep_" plus the codelet's name, as
 * "starstep_linear_forward". STARPU_CALIBRATE=1 fills them, starpu_perfmodel_display prints them
 * (runtime/model_files.h documents their location). A model's history has an entry per footprint:
 * everything that a task's time depends on, of its layers, shapes, formats, settings and the
 * compute device. Its size is the number of bytes that the task accesses.
 *
 * The model of a collective covers the time that a worker takes to start it, not its duration. */
#ifndef SS_CODELETS_MODEL_H
#define SS_CODELETS_MODEL_H

#include "codelets/task.h"

/* Set the footprint and the size of a task whose plan task is set. key: everything that its time
 * depends on and that is not in the plan: library, instruction set, threads, kernel settings. */
void ss_model_describe(struct ss_bound_task *task, const struct ss_plan *plan, uint64_t key);
/* Returns the name of the model of a plan's task, without "starstep_"; NULL: a collective. */
const char *ss_model_name(const struct ss_plan *plan, const struct ss_plan_task *task);

#endif
