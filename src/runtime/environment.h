/* Check and set StarPU's environment variables before it starts. StarPU aborts with an assertion
 * and a backtrace on invalid values, and some of its variables would take workers or cores from
 * the placement.
 *
 * The environment is changed only here and in fxt.h, before the process has a second thread,
 * because another thread may read it at any time. */
#ifndef SS_RUNTIME_ENVIRONMENT_H
#define SS_RUNTIME_ENVIRONMENT_H

#include "core/status.h"

/* Check that StarPU and starstep support the values of StarPU's variables. Changes nothing.
 * Errors: SS_ERR_INVALID. */
enum ss_status ss_environment_check(void);

/* Check and change the environment. Call it before anything that starts threads (MPI, a GPU,
 * StarPU); further calls do nothing. ss_runtime_start calls it if the program has not. Errors:
 * SS_ERR_INVALID, SS_ERR_IO (a value that cannot be applied). */
enum ss_status ss_environment_prepare(void);

/* Record that a setting ("NAME=VALUE") is ignored. advice: the reason, or an alternative.
 * ss_environment_report, called by rank 0, prints a warning for each recorded setting, once. */
void ss_environment_ignore(const char *setting, const char *advice);
void ss_environment_report(void);
/* Return the text of the i-th setting that is not yet reported, or NULL. */
const char *ss_environment_note(int i);

#endif
