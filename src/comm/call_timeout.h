/* A timeout for library calls that may never return (MPI_Init with a missing rank, MPI_Abort, a
 * transport that hangs). Unless the timeout is set again or cleared in time, the process prints
 * what it was waiting for and exits with code 1. If its output is blocked, it exits after
 * SS_LAST_WORDS_S without the message. One timeout per process. */
#ifndef SS_COMM_CALL_TIMEOUT_H
#define SS_COMM_CALL_TIMEOUT_H

#include "core/status.h"

#include <stddef.h>

/* Start the timeout's threads. Idempotent. Errors: SS_ERR_LIBRARY. */
enum ss_status ss_call_timeout_start(void);

/* End the process in `seconds` unless set again or cleared, and print `message` (a constant
 * string). Time during which the whole process is stopped (a debugger, SIGSTOP) does not count. */
void ss_call_timeout_set(double seconds, const char *message);
void ss_call_timeout_clear(void);

/* Set a function that appends details to the message when the timeout expires. NULL: none. */
void ss_call_timeout_explain(void (*describe)(char *text, size_t capacity));

/* Like ss_call_timeout_set, for the end of the process: later calls to set or clear have no effect,
 * so that a thread that is still running cannot defer the end. */
void ss_call_timeout_set_final(double seconds, const char *message);

#endif
