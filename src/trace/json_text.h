/* Streaming JSON output for traces and their exports: events arrive during training, and an
 * export may be larger than memory. All other JSON uses core/json_value.h.
 *
 * Formats are printf's, so that the compiler checks them, with two differences: ' stands for a
 * quote, and %s is a complete JSON string with its quotes.
 *
 *     ss_json_print(f, "{'name':%s,'step':%d,'ms':%.3f}\n", name, step, ms);
 *
 * Numbers: %d and %u with l, ll or z, without width; %g and %f with a precision; non-finite
 * values become null. %s with any precision is raw text, never truncated ("true", ","), and %c a
 * character. In strings, invalid UTF-8 becomes "?", and "<" is escaped, so that the text may
 * stand in a page's script. */
#ifndef SS_TRACE_JSON_TEXT_H
#define SS_TRACE_JSON_TEXT_H

#include "core/atomic_file.h"
#include "core/log.h"

#include <stdio.h>

/* Errors stay recorded in the file until it is closed or committed. */
void ss_json_print(FILE *f, const char *format, ...) SS_PRINTF(2, 3);
void ss_json_put(struct ss_atomic_file *f, const char *format, ...) SS_PRINTF(2, 3);

#endif
