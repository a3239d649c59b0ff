#include "core/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 2048 };

/* Held only while copying in memory: a thread that blocks on a slow reader of the output does not
 * block other threads' messages. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_rank, log_world = 1, log_quiet;
static char last_error[MESSAGE_BYTES];
static _Thread_local char *captured; /* NULL: errors are printed */
static _Thread_local size_t captured_capacity;
static _Thread_local int patience_ms = -1; /* infinite */

static int takes_more(int fd, int ms)
{
    struct pollfd out = {.fd = fd, .events = POLLOUT};
    return poll(&out, 1, ms) != 0;
}

/* Preserves the order of stdout and stderr, unless that would block. */
static void flush_stdout(void)
{
    if (ftrylockfile(stdout))
        return;
    if (takes_more(STDOUT_FILENO, 0))
        fflush(stdout);
    funlockfile(stdout);
}

/* One write() per message, so that lines of several ranks and threads do not interleave. */
static void write_line(const char *line, size_t len)
{
    flush_stdout();
    for (size_t done = 0; done < len;) {
        if (patience_ms >= 0 && !takes_more(STDERR_FILENO, patience_ms))
            return;
        ssize_t w = write(STDERR_FILENO, line + done, len - done);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return;
        done += (size_t)w;
    }
}

static void emit(const char *kind, const char *text, int is_error)
{
    char line[MESSAGE_BYTES + 64];
    pthread_mutex_lock(&lock);
    int rank = log_rank, world = log_world, quiet = log_quiet;
    if (is_error)
        snprintf(last_error, sizeof last_error, "%s", text);
    pthread_mutex_unlock(&lock);
    int n = world > 1 ? snprintf(line, sizeof line, "starstep: %s[rank %d] %s\n", kind, rank, text)
                      : snprintf(line, sizeof line, "starstep: %s%s\n", kind, text);
    if (n > 0 && !quiet)
        write_line(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

enum ss_status ss_fail(enum ss_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (captured) {
        vsnprintf(captured, captured_capacity, fmt, ap);
    } else {
        char text[MESSAGE_BYTES];
        vsnprintf(text, sizeof text, fmt, ap);
        emit("error: ", text, 1);
    }
    va_end(ap);
    return status;
}

enum ss_status ss_fail_memory(const char *what, size_t bytes)
{
    return ss_fail(SS_ERR_MEMORY, "out of memory for %s (%zu bytes)", what, bytes);
}

static void print_message(const char *kind, const char *fmt, va_list ap)
{
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof text, fmt, ap);
    emit(kind, text, 0);
}

void ss_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_message("warning: ", fmt, ap);
    va_end(ap);
}

void ss_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_message("", fmt, ap);
    va_end(ap);
}

void ss_log_set_rank(int rank, int world_size)
{
    pthread_mutex_lock(&lock);
    log_rank = rank;
    log_world = world_size;
    pthread_mutex_unlock(&lock);
}

const char *ss_log_last_error(void)
{
    static _Thread_local char copy[MESSAGE_BYTES];
    pthread_mutex_lock(&lock);
    memcpy(copy, last_error, sizeof copy);
    pthread_mutex_unlock(&lock);
    return copy;
}

void ss_log_capture(char *text, size_t capacity)
{
    captured = text;
    captured_capacity = capacity;
    if (text && capacity)
        text[0] = '\0';
}

const char *ss_log_captured(void)
{
    return captured ? captured : "";
}

void ss_log_set_quiet(int quiet)
{
    pthread_mutex_lock(&lock);
    log_quiet = quiet;
    pthread_mutex_unlock(&lock);
}

void ss_log_set_patience(double seconds)
{
    patience_ms = seconds < 0 ? -1 : (int)(1e3 * seconds);
}
