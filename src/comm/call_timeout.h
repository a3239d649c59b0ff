/* A timeout for library calls that may never return (MPI_Init waiting for a missing rank, MPI_Abort,
 * a transport that hangs): unless it is set again or cleared in time, the process reports what it was
 * waiting for and exits with code 1, even if its output is blocked: the message gets SS_LAST_WORDS_S.
 * One per process. */
#ifndef SS_COMM_CALL_TIMEOUT_H
#define SS_COMM_CALL_TIMEOUT_H

#include "core/status.h"

#include <stddef.h>

/* Start its thread; once per process is enough, more calls do nothing. Errors: SS_ERR_LIBRARY. */
enum ss_status ss_call_timeout_start(void);

/* End the process in `seconds` unless set again or cleared. `message` (a constant string) is
 * reported. Time in which the whole process is stopped (a debugger, SIGSTOP) does not count. */
void ss_call_timeout_set(double seconds, const char *message);
void ss_call_timeout_clear(void);

/* What to add to the message; called when the timeout expires. NULL: nothing. */
void ss_call_timeout_explain(void (*describe)(char *text, size_t room));

/* The same, for the end of the process: it cannot be set again or cleared, so that a thread which
 * is still at work does not put the end off. */
void ss_call_timeout_set_final(double seconds, const char *message);

#endif
