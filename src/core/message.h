/* Log messages and the last error: the public part of core/log.h. Errors, warnings and notes are
 * printed to stderr, one line each:
 *     starstep: error: [rank 1] train.bin: ...
 * The "[rank R]" part appears in runs of more than one rank. All functions are thread-safe. */
#ifndef SS_CORE_MESSAGE_H
#define SS_CORE_MESSAGE_H

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Have the compiler check the arguments of a function against its printf format. */
#define SS_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))

/* Report an error and return `status`, so that a check reads
 *     if (bad) return ss_fail(SS_ERR_FORMAT, "%s: %zu bytes left over; ...", path, rest);
 * The text names the file, the field and the value, and how to fix it. No newline at the end. */
enum ss_status ss_fail(enum ss_status status, const char *fmt, ...) SS_PRINTF(2, 3);

/* Print a warning. */
void ss_warn(const char *fmt, ...) SS_PRINTF(1, 2);
/* Print a note. */
void ss_note(const char *fmt, ...) SS_PRINTF(1, 2);

/* Return the last error reported by this process ("" if none), for tests and for forwarding to
 * other ranks. The string is a copy per thread, valid until the thread's next call. */
const char *ss_log_last_error(void);

/* While quiet is non-zero, print no errors, warnings or notes. ss_log_last_error() still returns
 * errors. */
void ss_log_set_quiet(int quiet);

#ifdef __cplusplus
}
#endif

#endif
