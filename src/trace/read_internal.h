/* Internals of the reader, for src/trace/read*.c only. */
#ifndef SS_TRACE_READ_INTERNAL_H
#define SS_TRACE_READ_INTERNAL_H

#include "core/log.h"
#include "trace/read.h"

#include <jansson.h>

struct reader {
    const char *path;
    size_t line;
    struct ss_trace_rank *r;
};

/* Report an error in the current line: "PATH: line N: ...". */
enum ss_status reader_fail(const struct reader *in, const char *fmt, ...) SS_PRINTF(2, 3);

/* `value` as shortened JSON text for messages. The buffer is valid until the next call in this
 * thread; the caller does not free it. */
const char *reader_show(const json_t *value);

/* Read a whole number in [min, max]. */
enum ss_status reader_number(const struct reader *in, const char *field, const json_t *value,
                             int64_t min, int64_t max, int64_t *out);

/* Bound on times and sizes, so that sums of them do not overflow. */
#define READER_MAX ((int64_t)1 << 58)

/* read_object.c, read_event.c: process one line. */
enum ss_status reader_object(struct reader *in, const json_t *o);
enum ss_status reader_mark(struct reader *in, const json_t *a);

#endif
