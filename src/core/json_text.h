/* JSON is written here. Formats are printf's, so that the compiler checks them, with two
 * differences: ' stands for a quote, and %s is a whole JSON string, with its quotes.
 *
 *     ss_json_print(f, "{'name':%s,'step':%d,'ms':%g}\n", name, step, ms);
 *
 * Numbers: %d and %u with l, ll or z, without width; %g writes a number exactly and as short as
 * ss_number_text, and with a precision %g and %f are printf's; what is not finite becomes null. %s
 * with a precision, whatever it is, is text as it is and whole ("true", ","), and %c a character. In
 * strings, what is not UTF-8 becomes "?", and "<" is escaped, so that the text may stand in a page's
 * script. For streams, and where numbers are to be short; files of nested values are Jansson's. */
#ifndef SS_CORE_JSON_TEXT_H
#define SS_CORE_JSON_TEXT_H

#include "core/atomic_file.h"
#include "core/log.h"

#include <stdio.h>

/* Errors stay in the file until it is closed or committed. */
void ss_json_print(FILE *f, const char *format, ...) SS_PRINTF(2, 3);
void ss_json_put(struct ss_atomic_file *f, const char *format, ...) SS_PRINTF(2, 3);

#endif
