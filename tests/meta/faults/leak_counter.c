#include "tests/meta/faults/leak_counter.h"

#include "tests/meta/faults/ours.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifdef LEAK_COUNTER_NOTHING
long leak_counter_blocks(void)
{
    return 0;
}

size_t leak_counter_fail(long at)
{
    (void)at;
    return 0;
}

void leak_counter_tell_failed(void)
{
}
#else
/* Hash table with open addressing. The entry of a freed block is GONE and is reused. */
enum { PLACES = 1 << 18 };
static void *blocks[PLACES];
static char gone;
#    define GONE ((void *)&gone)
static long kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_long left; /* allocations until the one that fails; 0: none fails */
static atomic_size_t failed;
static void *calls[16]; /* backtrace of the failed allocation */
static int ncalls;

static int memory_fails(const char *function, size_t bytes, const void *caller)
{
    (void)function;
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

static void *memory_taken(void *p, const void *caller)
{
    if (p && is_ours(caller)) {
        pthread_mutex_lock(&lock);
        size_t at = place_of(p);
        while (blocks[at] && blocks[at] != GONE)
            at = (at + 1) % PLACES;
        blocks[at] = p;
        if (++kept == PLACES / 2)
            abort(); /* table full: no test has that many blocks */
        pthread_mutex_unlock(&lock);
    }
    return p;
}

/* A counted block remains counted when another library reallocates it. */
static const void *memory_given(void *p, const void *caller)
{
    pthread_mutex_lock(&lock);
    for (size_t at = place_of(p), n = 0; p && blocks[at] && n < PLACES; n++) {
        if (blocks[at] == p) {
            blocks[at] = GONE;
            kept--;
            caller = (const void *)ours[0].begin;
            break;
        }
        at = (at + 1) % PLACES;
    }
    pthread_mutex_unlock(&lock);
    return caller;
}

#    include "tests/meta/faults/memory.h"

__attribute__((constructor)) static void begin(void)
{
    ours_find();
}

void leak_counter_tell_failed(void)
{
    backtrace_symbols_fd(calls, ncalls, STDERR_FILENO);
}

size_t leak_counter_fail(long at)
{
    const size_t bytes = atomic_exchange(&failed, 0);
    left = at;
    return bytes;
}

long leak_counter_blocks(void)
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

int leak_counter_files(void)
{
    return entries("/proc/self/fd");
}

int leak_counter_threads(void)
{
    return entries("/proc/self/task") + 1;
}
