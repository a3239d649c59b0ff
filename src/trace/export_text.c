/* export_text.c: text into a file. */
#include "trace/export_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ss_text_put(struct ss_atomic_file *f, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ss_atomic_write(f, text, strlen(text));
}

void ss_text_string(struct ss_atomic_file *f, const char *s)
{
    ss_atomic_write(f, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            ss_text_put(f, "\\%c", c);
        else if (c < 0x20 || c == '<')
            ss_text_put(f, "\\u%04x", c);
        else
            ss_text_put(f, "%c", c < 0x7f ? c : '?');
    }
    ss_atomic_write(f, "\"", 1);
}

void ss_text_us(struct ss_atomic_file *f, int64_t ns)
{
    int64_t magnitude = ns < 0 ? -ns : ns;
    ss_text_put(f, "%s%" PRId64 ".%03d", ns < 0 ? "-" : "", magnitude / 1000,
                (int)(magnitude % 1000));
}
