#include "trace/json_text.h"
#include "core/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

struct sink {
    FILE *stream;
    struct ss_atomic_file *file;
    va_list arguments;
};

static void put(const struct sink *to, const char *bytes, size_t n)
{
    if (to->stream)
        fwrite(bytes, 1, n, to->stream);
    else
        ss_atomic_write(to->file, bytes, n);
}

static void put_string(const struct sink *to, const char *s)
{
    char text[8];
    put(to, "\"", 1);
    while (*s) {
        size_t n = ss_utf8_bytes(s);
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            put(to, text, (size_t)snprintf(text, sizeof text, "\\%c", c));
        else if (c < 0x20 || c == '<')
            put(to, text, (size_t)snprintf(text, sizeof text, "\\u%04x", c));
        else
            put(to, n ? s : "?", n ? n : 1);
        s += n ? n : 1;
    }
    put(to, "\"", 1);
}

static long long integer(struct sink *to, const char *spec)
{
    if (strchr(spec, 'z'))
        return (long long)va_arg(to->arguments, size_t);
    if (strstr(spec, "ll"))
        return va_arg(to->arguments, long long);
    if (strchr(spec, 'l'))
        return va_arg(to->arguments, long);
    if (strchr(spec, 'u'))
        return va_arg(to->arguments, unsigned);
    return va_arg(to->arguments, int);
}

/* Format one number. spec: "%ld" and the like. */
static void put_argument(struct sink *to, const char *spec)
{
    char text[400] = ""; /* the largest double has 309 digits before its point */
    const char conversion = spec[strlen(spec) - 1];
    if (!strcmp(spec, "%s")) {
        put_string(to, va_arg(to->arguments, const char *));
        return;
    }
    if (conversion == 's') {
        const char *plain = va_arg(to->arguments, const char *);
        put(to, plain, strlen(plain));
    } else if (conversion == 'd') {
        snprintf(text, sizeof text, "%lld", integer(to, spec));
    } else if (conversion == 'u') {
        snprintf(text, sizeof text, "%llu", (unsigned long long)integer(to, spec));
    } else if (conversion == 'c') {
        *text = (char)va_arg(to->arguments, int);
    } else {
        const double v = va_arg(to->arguments, double);
        if (!isfinite(v))
            strcpy(text, "null");
        else
            snprintf(text, sizeof text, spec, v);
    }
    put(to, text, strlen(text));
}

static void write_format(struct sink *to, const char *format)
{
    for (;;) {
        char spec[16];
        size_t n = strcspn(format, "'%");
        put(to, format, n);
        format += n;
        if (!*format)
            return;
        n = 1;
        if (*format == '\'') {
            put(to, "\"", 1);
        } else if (format[1] == '%') {
            n = 2;
            put(to, "%", 1);
        } else {
            n = strcspn(format, "sducgf") + 1;
            snprintf(spec, sizeof spec, "%.*s", (int)n, format);
            put_argument(to, spec);
        }
        format += n;
    }
}

void ss_json_print(FILE *f, const char *format, ...)
{
    struct sink to = {.stream = f};
    va_start(to.arguments, format);
    write_format(&to, format);
    va_end(to.arguments);
}

void ss_json_put(struct ss_atomic_file *f, const char *format, ...)
{
    struct sink to = {.file = f};
    va_start(to.arguments, format);
    write_format(&to, format);
    va_end(to.arguments);
}
