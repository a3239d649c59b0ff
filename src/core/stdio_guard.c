#include "core/stdio_guard.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int first_error;

enum ss_status ss_stdio_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        /* open() returns the lowest free number, which is the closed one. */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return ss_fail(SS_ERR_IO,
                           "file descriptor %d is closed, and /dev/null cannot take its place: %s",
                           fd, strerror(errno));
    return SS_OK;
}

void ss_stdio_flush(void)
{
    if (fflush(stdout) != 0 && !first_error)
        first_error = errno;
}

int ss_stdio_close(int code)
{
    ss_stdio_flush();
    int failed = ferror(stdout);
    /* Some file systems report a full disk only on close. Close a duplicate: the stream itself
     * stays open for output of libraries at exit. */
    int copy = failed ? -1 : dup(STDOUT_FILENO);
    if (copy >= 0 && close(copy) != 0) {
        first_error = errno;
        failed = 1;
    }
    if (!failed || code != 0)
        return code;
    ss_fail(SS_ERR_IO, "standard output: %s; the output is incomplete",
            first_error ? strerror(first_error) : "a write failed");
    return 1;
}
