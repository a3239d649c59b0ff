#include "tests/faults/kept.h"

#include "tests/faults/ours.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifdef KEPT_NOTHING
long kept_blocks(void)
{
    return 0;
}

size_t kept_fail(long at)
{
    (void)at;
    return 0;
}

void kept_tell_failed(void)
{
}
#else
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

/* Open addressing; a place whose block was freed is GONE, and is used again. */
enum { PLACES = 1 << 18 };
static void *blocks[PLACES];
static char gone;
#    define GONE ((void *)&gone)
static long kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_long left; /* to the one that fails; 0: none */
static atomic_size_t failed;
static void *calls[16]; /* of the one that failed */
static int ncalls;

static int lacks(size_t bytes, const void *caller)
{
    if (left == 0 || !is_ours(caller) || atomic_fetch_sub(&left, 1) != 1)
        return 0;
    failed = bytes;
    ncalls = backtrace(calls, sizeof calls / sizeof *calls);
    errno = ENOMEM;
    return 1;
}

static size_t place_of(const void *p)
{
    return (size_t)(((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15u >> 46) % PLACES;
}

static void *note(void *p, const void *caller)
{
    if (p && is_ours(caller)) {
        pthread_mutex_lock(&lock);
        size_t at = place_of(p);
        while (blocks[at] && blocks[at] != GONE)
            at = (at + 1) % PLACES;
        blocks[at] = p;
        if (++kept == PLACES / 2)
            abort(); /* more than any test has */
        pthread_mutex_unlock(&lock);
    }
    return p;
}

static int forget_block(const void *p)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (size_t at = place_of(p), n = 0; p && !found && blocks[at] && n < PLACES; n++) {
        if (blocks[at] == p) {
            blocks[at] = GONE;
            kept--;
            found = 1;
        }
        at = (at + 1) % PLACES;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

#    define CALLER __builtin_return_address(0)

void *malloc(size_t n)
{
    return note(lacks(n, CALLER) ? NULL : __libc_malloc(n), CALLER);
}

void *calloc(size_t n, size_t size)
{
    return note(lacks(n * size, CALLER) ? NULL : __libc_calloc(n, size), CALLER);
}

void *realloc(void *p, size_t n)
{
    /* A block that is known stays so, whoever makes it larger. */
    const void *owner = forget_block(p) ? (const void *)ours[0].begin : CALLER;
    void *grown = lacks(n, CALLER) ? NULL : __libc_realloc(p, n);
    if (!grown && n)
        note(p, owner);
    return note(grown, owner);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return note(lacks(n, CALLER) ? NULL : __libc_memalign(alignment, n), CALLER);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    void *made = note(lacks(n, CALLER) ? NULL : __libc_memalign(alignment, n), CALLER);
    if (made)
        *p = made;
    return made ? 0 : ENOMEM;
}

char *strdup(const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = note(lacks(n, CALLER) ? NULL : __libc_malloc(n), CALLER);
    return copy ? memcpy(copy, text, n) : NULL;
}

void free(void *p)
{
    forget_block(p);
    __libc_free(p);
}

__attribute__((constructor)) static void begin(void)
{
    ours_find();
}

void kept_tell_failed(void)
{
    backtrace_symbols_fd(calls, ncalls, STDERR_FILENO);
}

size_t kept_fail(long at)
{
    const size_t bytes = atomic_exchange(&failed, 0);
    left = at;
    return bytes;
}

long kept_blocks(void)
{
    pthread_mutex_lock(&lock);
    const long n = kept;
    pthread_mutex_unlock(&lock);
    return n;
}
#endif

static int entries(const char *folder)
{
    int n = -3; /* ".", ".." and the folder itself */
    DIR *dir = opendir(folder);
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

int kept_files(void)
{
    return entries("/proc/self/fd");
}

int kept_threads(void)
{
    return entries("/proc/self/task") + 1;
}
