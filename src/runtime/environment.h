/* What StarPU reads from the environment, put right before it starts. It stops with an assertion
 * and a backtrace over what it does not like, and some of its variables would take workers or cores
 * from the placement.
 *
 * The environment is changed here and in fxt.h, before the process has a second thread: another one
 * may be reading it at any time. */
#ifndef SS_RUNTIME_ENVIRONMENT_H
#define SS_RUNTIME_ENVIRONMENT_H

#include "core/status.h"

/* Whether StarPU and starstep can do as its variables say; nothing is made. Errors: SS_ERR_INVALID. */
enum ss_status ss_environment_check(void);

/* Check and change the environment. Before anything that makes threads (MPI, a GPU, StarPU); more
 * calls do nothing. ss_runtime_start calls it for a program that has not. Errors: SS_ERR_INVALID,
 * SS_ERR_IO (a value that cannot be followed). */
enum ss_status ss_environment_prepare(void);

/* Remember that a setting ("NAME=VALUE") is not followed; advice: why, or what to use instead.
 * ss_environment_report warns of all of them, once: for rank 0 to call. */
void ss_environment_ignore(const char *setting, const char *advice);
void ss_environment_report(void);
/* The i-th of them that was not told yet, as text; NULL: there are not so many. */
const char *ss_environment_note(int i);

#endif
