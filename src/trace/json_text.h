/* A trace and its exports are written here, as JSON that is never held whole: marks come while
 * training runs, and an export may be larger than memory. Everything else is core/json_value.h's.
 *
 * Formats are printf's, so that the compiler checks them, with two differences: ' stands for a
 * quote, and %s is a whole JSON string, with its quotes.
 *
 *     ss_json_print(f, "{'name':%s,'step':%d,'ms':%.3f}\n", name, step, ms);
 *
 * Numbers: %d and %u with l, ll or z, without width; %g and %f with a precision, and what is not
 * finite becomes null. %s with a precision, whatever it is, is text as it is and whole ("true",
 * ","), and %c a character. In strings, what is not UTF-8 becomes "?", and "<" is escaped, so that
 * the text may stand in a page's script. */
#ifndef SS_TRACE_JSON_TEXT_H
#define SS_TRACE_JSON_TEXT_H

#include "core/atomic_file.h"
#include "core/log.h"

#include <stdio.h>

/* Errors stay in the file until it is closed or committed. */
void ss_json_print(FILE *f, const char *format, ...) SS_PRINTF(2, 3);
void ss_json_put(struct ss_atomic_file *f, const char *format, ...) SS_PRINTF(2, 3);

#endif
