/* Messages to people, and the last error: what programs of others may use of core/log.h. Errors, warnings
 * and notes go to stderr, one line each:
 *     starstep: error: [rank 1] train.bin: ...
 * The "[rank R]" part appears in runs of more than one rank. All functions may be called from any thread. */
#ifndef SS_CORE_MESSAGE_H
#define SS_CORE_MESSAGE_H

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SS_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))

/* Report an error and return `status`, so that a check reads
 *     if (bad) return ss_fail(SS_ERR_FORMAT, "%s: %zu bytes left over; ...", path, rest);
 * The text names file, field and value, and says what to do. No newline at the end. */
enum ss_status ss_fail(enum ss_status status, const char *fmt, ...) SS_PRINTF(2, 3);

void ss_warn(const char *fmt, ...) SS_PRINTF(1, 2);
void ss_note(const char *fmt, ...) SS_PRINTF(1, 2);

/* The text of the last error reported by this process ("" if none), for tests and for telling other
 * ranks. The calling thread's copy, valid until it asks again. */
const char *ss_log_last_error(void);

/* Errors are kept for ss_log_last_error() but not printed while quiet != 0; nor are warnings and notes. */
void ss_log_set_quiet(int quiet);

#ifdef __cplusplus
}
#endif

#endif
