/* Preload library that emulates a slow file system: each open and read of a file below SLOW_FILES
 * is delayed by SLOW_MS milliseconds (default 20). */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void wait_a_bit(void)
{
    const char *text = getenv("SLOW_MS");
    long ms = text ? atol(text) : 20;
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int is_slow(const char *path)
{
    const char *folder = getenv("SLOW_FILES");
    return folder && !strncmp(path, folder, strlen(folder));
}

static int is_slow_fd(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return is_slow(path);
}

static int open_with(const char *name, const char *path, int flags, mode_t mode)
{
    int (*next)(const char *, int, ...);
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(&next, &found, sizeof found);
    if (is_slow(path))
        wait_a_bit();
    return next(path, flags, mode);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(args, int) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_with("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_with("open64", path, flags, mode);
}

ssize_t read(int fd, void *bytes, size_t n)
{
    ssize_t (*next)(int, void *, size_t);
    void *found = dlsym(RTLD_NEXT, "read");
    memcpy(&next, &found, sizeof found);
    if (is_slow_fd(fd))
        wait_a_bit();
    return next(fd, bytes, n);
}
