#include "core/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 2048 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_rank, log_world = 1, log_quiet;
static char last_error[MESSAGE_BYTES];
static _Thread_local char *captured; /* NULL: errors are printed */
static _Thread_local size_t captured_room;

/* One write() per message, so that lines of several ranks do not mix inside a line. */
static void emit(const char *kind, const char *text)
{
    char line[MESSAGE_BYTES + 64];
    int n;
    if (log_world > 1)
        n = snprintf(line, sizeof line, "starstep: %s[rank %d] %s\n", kind, log_rank, text);
    else
        n = snprintf(line, sizeof line, "starstep: %s%s\n", kind, text);
    if (n < 0)
        return;
    size_t len = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    fflush(stdout);
    for (size_t done = 0; done < len;) {
        ssize_t w = write(STDERR_FILENO, line + done, len - done);
        if (w <= 0)
            return;
        done += (size_t)w;
    }
}

enum ss_status ss_fail(enum ss_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (captured) {
        vsnprintf(captured, captured_room, fmt, ap);
    } else {
        pthread_mutex_lock(&lock);
        vsnprintf(last_error, sizeof last_error, fmt, ap);
        if (!log_quiet)
            emit("error: ", last_error);
        pthread_mutex_unlock(&lock);
    }
    va_end(ap);
    return status;
}

enum ss_status ss_fail_memory(const char *what, size_t bytes)
{
    return ss_fail(SS_ERR_MEMORY, "out of memory for %s (%zu bytes)", what, bytes);
}

static void say(const char *kind, const char *fmt, va_list ap)
{
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof text, fmt, ap);
    pthread_mutex_lock(&lock);
    if (!log_quiet)
        emit(kind, text);
    pthread_mutex_unlock(&lock);
}

void ss_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}

void ss_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

void ss_log_set_rank(int rank, int world_size)
{
    log_rank = rank;
    log_world = world_size;
}

const char *ss_log_last_error(void)
{
    return last_error;
}

void ss_log_capture(char *text, size_t room)
{
    captured = text;
    captured_room = room;
    if (text && room)
        text[0] = '\0';
}

void ss_log_set_quiet(int quiet)
{
    log_quiet = quiet;
}
