/* read_base.c: checks of a line's fields (contract in read_internal.h). */
#include "trace/read_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const ss_trace_lanes[] = {"compute", "comm", "copy", "update"};

enum { SHOWN = 80 };

enum ss_status reader_fail(const struct reader *in, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ss_fail(SS_ERR_FORMAT, "%s: line %zu: %s", in->path, in->line, text);
}

const char *reader_show(const json_t *value)
{
    static _Thread_local char text[SHOWN];
    if (!value)
        return "nothing";
    memset(text, 0, sizeof text);
    size_t capacity = sizeof text - sizeof "...";
    if (json_dumpb(value, text, capacity, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) > capacity)
        strcpy(text + strlen(text), "...");
    return text;
}

enum ss_status reader_number(const struct reader *in, const char *field, const json_t *value,
                             int64_t min, int64_t max, int64_t *out)
{
    if (!json_is_integer(value))
        return reader_fail(in, "%s: %s is not a whole number", field, reader_show(value));
    int64_t number = json_integer_value(value);
    if (number < min || number > max) {
        if (max < min)
            return reader_fail(in, "%s: %lld, but none were described before", field,
                               (long long)number);
        if (number < min)
            return reader_fail(in, "%s: %lld is below %lld", field, (long long)number,
                               (long long)min);
        return reader_fail(in, "%s: %lld is above %lld", field, (long long)number, (long long)max);
    }
    *out = number;
    return SS_OK;
}
