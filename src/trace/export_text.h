/* Text into a file that appears whole or not at all. Errors are those of the file's commit: calls
 * in between need no check. */
#ifndef SS_TRACE_EXPORT_TEXT_H
#define SS_TRACE_EXPORT_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include "core/atomic_file.h"
#include "core/log.h"

/* At most 1023 bytes at a time. */
void ss_text_put(struct ss_atomic_file *f, const char *fmt, ...) SS_PRINTF(2, 3);
/* A JSON string with its quotes. Bytes that are not ASCII become "?"; "<" is written so that the
 * text may stand in a page's script. */
void ss_text_string(struct ss_atomic_file *f, const char *s);
/* Nanoseconds as microseconds, exactly. */
void ss_text_us(struct ss_atomic_file *f, int64_t ns);

#endif
