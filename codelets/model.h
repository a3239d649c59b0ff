/* StarPU's performance models, one for each codelet: "starstep_" and its name, "starstep_linear_forward".
 * STARPU_CALIBRATE=1 fills them, starpu_perfmodel_display shows them (runtime/model_files.h says where they
 * are). A model's history has an entry for each footprint: everything that a task's time depends on, of its
 * layers, shapes, formats and settings, and of what computes. Its size is the bytes that the task touches.
 *
 * A collective's model has what it takes a worker to begin it, not how long it is under way. */
#ifndef SS_CODELETS_MODEL_H
#define SS_CODELETS_MODEL_H

#include "codelets/task.h"

/* Set the footprint and the size of a task whose plan task is set. key: of all that its time depends on and
 * that is not in the plan: library, instructions, threads, settings of kernels. */
void ss_model_describe(struct ss_bound_task *task, const struct ss_plan *plan, uint64_t key);
/* Whose model a plan's task has, without "starstep_"; NULL: a collective. */
const char *ss_model_name(const struct ss_plan *plan, const struct ss_plan_task *task);

#endif
