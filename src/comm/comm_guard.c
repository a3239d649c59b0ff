/* comm_guard.c: the dead-man's switch (contract in comm_guard.h). */
#include "comm/comm_guard.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"

#define TICK_NS 250000000L

/* Ticks, not a date: after SIGSTOP and SIGCONT a date has passed, a count of ticks has not. */
static atomic_long ticks_left; /* 0: not set */
static _Atomic(const char *) message_now;
typedef void explain_fn(char *text, size_t room);
static _Atomic(explain_fn *) explain_now;

static void *count_down(void *unused)
{
    (void)unused;
    for (;;) {
        struct timespec tick = {0, TICK_NS};
        nanosleep(&tick, NULL);
        long left = atomic_load(&ticks_left);
        /* A set or clear in between wins: the exchange then fails and this tick is not counted. */
        if (left > 0 && atomic_compare_exchange_strong(&ticks_left, &left, left - 1) && left == 1) {
            const char *message = atomic_load(&message_now);
            if (!message)
                continue; /* cleared at this very moment */
            char more[512] = "";
            explain_fn *describe = atomic_load(&explain_now);
            if (describe)
                describe(more, sizeof(more));
            ss_fail(SS_ERR_TIMEOUT, "%s%s", message, more);
            _exit(1);
        }
    }
    return NULL;
}

enum ss_status ss_guard_start(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int running;
    pthread_t thread;
    sigset_t all, before;
    int rc = 0;
    pthread_mutex_lock(&lock);
    if (!running) {
        sigfillset(&all); /* signals belong to the program's own threads */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        rc = pthread_create(&thread, NULL, count_down, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (rc == 0) {
            pthread_detach(thread);
            running = 1;
        }
    }
    pthread_mutex_unlock(&lock);
    if (rc != 0)
        return ss_fail(SS_ERR_LIBRARY, "cannot start a watchdog thread: %s", strerror(rc));
    return SS_OK;
}

static void set(double seconds, const char *message, int last)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int is_last;
    /* One more: the first tick comes early. */
    long ticks = lround(ceil(fmin(seconds, 1e8) * 1e9 / (double)TICK_NS)) + 1;
    pthread_mutex_lock(&lock);
    if (!is_last) {
        is_last = last;
        atomic_store(&message_now, message);
        atomic_store(&ticks_left, message ? ticks : 0);
    }
    pthread_mutex_unlock(&lock);
}

void ss_guard_explain(void (*describe)(char *text, size_t room))
{
    atomic_store(&explain_now, describe);
}

void ss_guard_set(double seconds, const char *message)
{
    set(seconds, message, 0);
}

void ss_guard_set_last(double seconds, const char *message)
{
    set(seconds, message, 1);
}

void ss_guard_clear(void)
{
    set(0, NULL, 0);
}
