/* Messages to people. Errors, warnings and notes go to stderr, one line each:
 *     starstep: error: [rank 1] train.bin: ...
 * The "[rank R]" part appears once ss_log_set_rank() was given a world of more than one rank.
 * All functions may be called from any thread. */
#ifndef SS_CORE_LOG_H
#define SS_CORE_LOG_H

#include "core/status.h"

#include <stddef.h>

#define SS_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))

/* Report an error and return `status`, so that a check reads
 *     if (bad) return ss_fail(SS_ERR_FORMAT, "%s: %zu bytes left over; ...", path, rest);
 * The text names file, field and value, and says what to do. No newline at the end. */
enum ss_status ss_fail(enum ss_status status, const char *fmt, ...) SS_PRINTF(2, 3);

/* The usual out-of-memory report: what was being allocated and its size in bytes. */
enum ss_status ss_fail_memory(const char *what, size_t bytes);

void ss_warn(const char *fmt, ...) SS_PRINTF(1, 2);
void ss_note(const char *fmt, ...) SS_PRINTF(1, 2);

/* Prefix messages with this rank. */
void ss_log_set_rank(int rank, int world_size);

/* The text of the last error reported by this process ("" if none), for tests and for telling other
 * ranks. The calling thread's copy, valid until it asks again. */
const char *ss_log_last_error(void);

/* From now on the calling thread's errors go to text (room bytes, "" at first) and nowhere else,
 * for a caller that gets over them; NULL ends that. */
void ss_log_capture(char *text, size_t room);
/* The last error that went there so far; "" without any. Valid until the next one. */
const char *ss_log_captured(void);

/* Errors are kept for ss_log_last_error() but not printed while quiet != 0 (fuzzers, tests). */
void ss_log_set_quiet(int quiet);

/* How long each of the calling thread's messages waits for a reader of stderr that takes nothing
 * (stopped, or paused by hand) before it is lost; below 0, as at first: for ever. For threads that
 * end the run. */
void ss_log_set_patience(double seconds);
#define SS_LAST_WORDS_S 1.0 /* what they give it */

#endif
