/* faults.c: fault injection for C library calls, loaded with LD_PRELOAD.
 *
 * Counts and logs the calls of starstep's own code by kind, and makes one of them fail. Calls of
 * other libraries are not counted.
 *
 *   FAULT_CALL=KIND   one of `kinds`. print: output to a stream's buffer. short: writes half of the
 *                     bytes, and the next write fails. signal: interrupts a read or a wait (EINTR),
 *                     which the caller must retry. system: other system calls. Unset: calls of all
 *                     kinds are logged and none fails
 *   FAULT_AT=N        number of the call that fails, from 1; unset: none. The C-th forked child
 *                     counts from 1000 C until it calls exec
 *   FAULT_ERRNO=E     errno of the failure; unset: the default of the kind
 *   FAULT_BELOW=DIR   counts only files below this folder
 *   FAULT_LOG=FILE    log with a line per counted call: "N kind function PATH[ -> PATH] caller"
 *
 * Children inherit these variables and count separately. A program that links this file calls
 * faults_begin() (faults.h) instead. */
#include "faults.h"

#include "tests/meta/faults/ours.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum kind {
    OPEN,
    WRITE,
    SHORT,
    PRINT,
    SYNC,
    RENAME,
    MMAP,
    MALLOC,
    THREAD,
    CLOCK,
    SIGNAL,
    SYSTEM,
    KINDS
};
static const struct {
    const char *name;
    int error;
} kinds[] = {
    [OPEN] = {"open", EACCES},   [WRITE] = {"write", ENOSPC},   [SHORT] = {"short", ENOSPC},
    [PRINT] = {"print", ENOSPC}, [SYNC] = {"sync", EIO},        [RENAME] = {"rename", EIO},
    [MMAP] = {"mmap", ENOMEM},   [MALLOC] = {"malloc", ENOMEM}, [THREAD] = {"thread", EAGAIN},
    [CLOCK] = {"clock", EINVAL}, [SIGNAL] = {"signal", EINTR},  [SYSTEM] = {"system", EPERM}};

static enum kind kind = KINDS;
static long at;
static int error_number, log_fd = -1;
static const char *below;
static atomic_long counts[KINDS];

void faults_begin(const char *which, long which_at, const char *log)
{
    const char *e = getenv("FAULT_ERRNO");
    at = which_at;
    if (log)
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                              0666);
    ours_find();
    for (int k = 0; k < KINDS; k++)
        if (which && !strcmp(which, kinds[k].name)) {
            error_number = e ? atoi(e) : kinds[k].error;
            kind = (enum kind)k;
        }
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *n = getenv("FAULT_AT");
    below = getenv("FAULT_BELOW");
    faults_begin(getenv("FAULT_CALL"), n ? atol(n) : 0, getenv("FAULT_LOG"));
}

static void write_line(long n, enum kind k, const char *function, const char *path, const char *to,
                       const void *caller)
{
    char line[9000];
    int capacity = snprintf(line, sizeof line, "%ld %s %s %s%s%s %#lx\n", n, kinds[k].name,
                            function, path ? path : "-", to ? " -> " : "", to ? to : "",
                            (unsigned long)((uintptr_t)caller - ours[nours - 1].begin));
    if (log_fd >= 0)
        syscall(SYS_write, log_fd, line, capacity);
}

/* Returns 1 and sets errno if this call shall fail. path: of the file; NULL without a file. */
static int fails(enum kind k, const char *function, const char *path, const char *to,
                 const void *caller)
{
    if (kind == KINDS ? log_fd < 0 : k != kind)
        return 0;
    if (!is_ours(caller))
        return 0;
    if (below && (!path || strncmp(path, below, strlen(below))))
        return 0;
    const long n = atomic_fetch_add(&counts[k], 1) + 1;
    write_line(n, k, function, path, to, caller);
    const int is = n == at || (k == SHORT && at && n == at + 1); /* 0: none */
    if (is)
        errno = error_number;
    return is;
}

#define FAILS(kind, path) fails(kind, __func__, path, NULL, CALLER)
/* The function that this one overrides. */
#define NEXT(function)                                                                             \
    ({                                                                                             \
        static __typeof__(&function) next;                                                         \
        void *found = next ? NULL : dlsym(RTLD_NEXT, #function);                                   \
        if (found)                                                                                 \
            memcpy(&next, &found, sizeof next);                                                    \
        next;                                                                                      \
    })

enum { PATH_CAPACITY = 4096 };

static const char *path_of(int fd, char path[PATH_CAPACITY])
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_CAPACITY - 1);
    path[n > 0 ? n : 0] = '\0';
    return path;
}

/* Memory streams have no descriptor; standard streams are excluded. */
static int is_file(FILE *f)
{
    return fileno(f) > STDERR_FILENO;
}

/* ---- open */

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return FAILS(OPEN, path) ? -1 : NEXT(open)(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return FAILS(OPEN, path) ? -1 : NEXT(openat)(dir, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return FAILS(OPEN, path) ? NULL : NEXT(fopen)(path, mode);
}

FILE *fdopen(int fd, const char *mode)
{
    char path[PATH_CAPACITY];
    return FAILS(OPEN, path_of(fd, path)) ? NULL : NEXT(fdopen)(fd, mode);
}

DIR *opendir(const char *path)
{
    return FAILS(OPEN, path) ? NULL : NEXT(opendir)(path);
}

int mkdir(const char *path, mode_t mode)
{
    return FAILS(OPEN, path) ? -1 : NEXT(mkdir)(path, mode);
}

/* ---- write */

/* Returns the number of bytes to write; -1 if the write fails. */
static ssize_t writes(const char *function, const char *path, size_t n, const void *caller)
{
    if (fails(WRITE, function, path, NULL, caller))
        return -1;
    if (!fails(SHORT, function, path, NULL, caller))
        return (ssize_t)n;
    return atomic_load(&counts[SHORT]) == at ? (ssize_t)(n / 2) : -1;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    char path[PATH_CAPACITY];
    const ssize_t made =
        fd > STDERR_FILENO ? writes(__func__, path_of(fd, path), n, CALLER) : (ssize_t)n;
    return made < 0 ? -1 : NEXT(write)(fd, bytes, (size_t)made);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
    char path[PATH_CAPACITY];
    const ssize_t made = writes(__func__, path_of(fd, path), n, CALLER);
    return made < 0 ? -1 : NEXT(pwrite)(fd, bytes, (size_t)made, offset);
}

int ftruncate(int fd, off_t size)
{
    char path[PATH_CAPACITY];
    return FAILS(WRITE, path_of(fd, path)) ? -1 : NEXT(ftruncate)(fd, size);
}

/* Sets the stream's error flag if the call fails, as a failed buffer flush does. */
static int stream_fails(enum kind k, FILE *f, const char *function, const void *caller)
{
    char path[PATH_CAPACITY];
    if (!f || !is_file(f) || !fails(k, function, path_of(fileno(f), path), NULL, caller))
        return 0;
    f->_flags |= 0x20; /* glibc's _IO_ERR_SEEN, read by ferror() */
    return 1;
}
#define STREAM_FAILS(k, f) stream_fails(k, f, __func__, CALLER)

size_t fwrite(const void *bytes, size_t size, size_t n, FILE *f)
{
    return STREAM_FAILS(PRINT, f) ? NEXT(fwrite)(bytes, size, n / 2, f)
                                  : NEXT(fwrite)(bytes, size, n, f);
}

int fputs(const char *text, FILE *f)
{
    return STREAM_FAILS(PRINT, f) ? EOF : NEXT(fputs)(text, f);
}

int fputc(int c, FILE *f)
{
    return STREAM_FAILS(PRINT, f) ? EOF : NEXT(fputc)(c, f);
}

int fprintf(FILE *f, const char *format, ...)
{
    va_list args;
    if (STREAM_FAILS(PRINT, f))
        return -1;
    va_start(args, format);
    const int n = vfprintf(f, format, args);
    va_end(args);
    return n;
}

int fflush(FILE *f)
{
    return STREAM_FAILS(WRITE, f) ? EOF : NEXT(fflush)(f);
}

int fclose(FILE *f)
{
    const int failed = STREAM_FAILS(WRITE, f), error = errno;
    const int result = NEXT(fclose)(f);
    if (failed)
        errno = error;
    return failed ? EOF : result;
}

/* ---- sync and rename */

int fsync(int fd)
{
    char path[PATH_CAPACITY];
    return FAILS(SYNC, path_of(fd, path)) ? -1 : NEXT(fsync)(fd);
}

int fdatasync(int fd)
{
    char path[PATH_CAPACITY];
    return FAILS(SYNC, path_of(fd, path)) ? -1 : NEXT(fdatasync)(fd);
}

int rename(const char *from, const char *to)
{
    return fails(RENAME, __func__, from, to, CALLER) ? -1 : NEXT(rename)(from, to);
}

int symlink(const char *target, const char *path)
{
    return fails(RENAME, __func__, path, target, CALLER) ? -1 : NEXT(symlink)(target, path);
}

/* ---- memory */

static int memory_fails(const char *function, size_t bytes, const void *caller)
{
    (void)bytes;
    return fails(MALLOC, function, NULL, NULL, caller);
}

static void *memory_taken(void *p, const void *caller)
{
    (void)caller;
    return p;
}

static const void *memory_given(void *p, const void *caller)
{
    (void)p;
    return caller;
}

#include "tests/meta/faults/memory.h"

void *mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    char path[PATH_CAPACITY];
    return FAILS(MMAP, fd < 0 ? NULL : path_of(fd, path))
               ? MAP_FAILED
               : NEXT(mmap)(address, n, protection, flags, fd, offset);
}

/* ---- threads and clocks */

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*begin)(void *), void *arg)
{
    return FAILS(THREAD, NULL) ? error_number : NEXT(pthread_create)(thread, how, begin, arg);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    return FAILS(CLOCK, NULL) ? -1 : NEXT(clock_gettime)(clock, now);
}

/* ---- calls that a signal interrupts */

ssize_t read(int fd, void *bytes, size_t n)
{
    char path[PATH_CAPACITY];
    return FAILS(SIGNAL, path_of(fd, path)) ? -1 : NEXT(read)(fd, bytes, n);
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    return FAILS(SIGNAL, NULL) ? -1 : NEXT(poll)(fds, n, timeout_ms);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    return FAILS(SIGNAL, NULL) ? -1 : NEXT(ppoll)(fds, n, timeout, mask);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
    return FAILS(SIGNAL, NULL) ? -1 : NEXT(epoll_wait)(fd, events, n, timeout_ms);
}

int sem_wait(sem_t *semaphore)
{
    return FAILS(SIGNAL, NULL) ? -1 : NEXT(sem_wait)(semaphore);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    return !(options & WNOHANG) && FAILS(SIGNAL, NULL) ? -1 : NEXT(waitpid)(pid, status, options);
}

/* ---- processes, sockets and descriptors */

pid_t fork(void)
{
    static long children;
    if (FAILS(SYSTEM, NULL))
        return -1;
    children += is_ours(CALLER);
    const pid_t pid = NEXT(fork)();
    for (int k = 0; pid == 0 && is_ours(CALLER) && k < KINDS; k++)
        counts[k] = 1000 * children;
    return pid;
}

/* The last argument of every command fits into a pointer. */
int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(fcntl)(fd, command, arg);
}

int prctl(int option, ...)
{
    va_list args;
    va_start(args, option);
    const unsigned long arg = va_arg(args, unsigned long);
    va_end(args);
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(prctl)(option, arg, 0ul, 0ul, 0ul);
}

int dup2(int from, int to)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(dup2)(from, to);
}

int pipe2(int ends[2], int flags)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(pipe2)(ends, flags);
}

int setpgid(pid_t process, pid_t group)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(setpgid)(process, group);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(sigprocmask)(how, set, old);
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(sigaction)(number, action, old);
}

sighandler_t signal(int number, sighandler_t handler)
{
    return FAILS(SYSTEM, NULL) ? SIG_ERR : NEXT(signal)(number, handler);
}

int signalfd(int fd, const sigset_t *set, int flags)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(signalfd)(fd, set, flags);
}

int socket(int domain, int type, int protocol)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(socket)(domain, type, protocol);
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t n)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(bind)(fd, address, n);
}

int listen(int fd, int most)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(listen)(fd, most);
}

int getsockname(int fd, __SOCKADDR_ARG address, socklen_t *n)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(getsockname)(fd, address, n);
}

int eventfd(unsigned first, int flags)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(eventfd)(first, flags);
}

int epoll_create1(int flags)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(epoll_create1)(flags);
}

int epoll_ctl(int fd, int operation, int of, struct epoll_event *event)
{
    return FAILS(SYSTEM, NULL) ? -1 : NEXT(epoll_ctl)(fd, operation, of, event);
}
