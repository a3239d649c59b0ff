/* call_timeout.c: timeout for calls that may never return (contract in call_timeout.h). */
#include "comm/call_timeout.h"
#include "core/log.h"
#include "core/thread.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 250000000L
#define LOOK_NS 10000000L /* between checks whether the message is written */

/* A count of ticks, not a date: time stopped by SIGSTOP does not count. */
static atomic_long ticks_left; /* 0: not set */
static _Atomic(const char *) message_now;
typedef void explain_fn(char *text, size_t capacity);
static _Atomic(explain_fn *) explain_now;

static _Atomic(const char *) last_words;
static sem_t has_fired;
static atomic_int said;

/* Runs in its own thread: output may block, and the hung call may hold locks forever. */
static void *report_and_exit(void *unused)
{
    char more[512] = "";
    (void)unused;
    while (sem_wait(&has_fired))
        ;
    explain_fn *describe = atomic_load(&explain_now);
    if (describe)
        describe(more, sizeof more);
    ss_fail(SS_ERR_TIMEOUT, "%s%s", atomic_load(&last_words), more);
    atomic_store(&said, 1);
    return NULL;
}

/* Takes no lock and writes to no stream before _exit(). */
static void end_process(const char *message)
{
    const struct timespec look = {0, LOOK_NS};
    atomic_store(&last_words, message);
    sem_post(&has_fired);
    for (double s = 0; s < SS_LAST_WORDS_S && !atomic_load(&said); s += 1e-9 * (double)LOOK_NS)
        nanosleep(&look, NULL);
    _exit(1);
}

static void *count_down(void *unused)
{
    (void)unused;
    for (;;) {
        struct timespec tick = {0, TICK_NS};
        nanosleep(&tick, NULL);
        long left = atomic_load(&ticks_left);
        /* A concurrent set or clear wins: the exchange then fails and this tick is not counted. */
        if (left > 0 && atomic_compare_exchange_strong(&ticks_left, &left, left - 1) && left == 1) {
            const char *message = atomic_load(&message_now);
            if (message) /* NULL: cleared concurrently */
                end_process(message);
        }
    }
    return NULL;
}

static enum ss_status start_threads(void)
{
    void *(*const runs[])(void *) = {report_and_exit, count_down};
    sem_init(&has_fired, 0, 0);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        SS_TRY(ss_thread_start(&thread, runs[i], NULL, "a watchdog thread"));
        pthread_detach(thread);
    }
    return SS_OK;
}

enum ss_status ss_call_timeout_start(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int running;
    enum ss_status status = SS_OK;
    pthread_mutex_lock(&lock);
    if (!running)
        status = start_threads();
    running |= status == SS_OK;
    pthread_mutex_unlock(&lock);
    return status;
}

static void set(double seconds, const char *message, int last)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int is_last;
    /* Plus one: the first tick comes early. */
    long ticks = lround(ceil(fmin(seconds, 1e8) * 1e9 / (double)TICK_NS)) + 1;
    pthread_mutex_lock(&lock);
    if (!is_last) {
        is_last = last;
        atomic_store(&message_now, message);
        atomic_store(&ticks_left, message ? ticks : 0);
    }
    pthread_mutex_unlock(&lock);
}

void ss_call_timeout_explain(void (*describe)(char *text, size_t capacity))
{
    atomic_store(&explain_now, describe);
}

void ss_call_timeout_set(double seconds, const char *message)
{
    set(seconds, message, 0);
}

void ss_call_timeout_set_final(double seconds, const char *message)
{
    set(seconds, message, 1);
}

void ss_call_timeout_clear(void)
{
    set(0, NULL, 0);
}
