/* nccl_watchdog.c: the deadline of collectives of a single rank (contract in nccl_internal.h).
 *
 * With one rank there is no communication thread, and waits for a collective block inside StarPU or
 * CUDA, where they cannot be interrupted: a dedicated thread polls the oldest collective. */
#include "comm/comm_watch.h"
#include "comm/nccl_internal.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/thread.h"

#include <cuda_runtime.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_EVERY_NS = 20000000 };

/* 1: it has completed or failed. A CUDA error is reported by its waiters. */
static int has_ended(struct ss_nccl_all_reduce *s)
{
    if (ss_nccl_use_device(s->nccl) != SS_OK || !atomic_load(&s->enqueued))
        return 0;
    return cudaEventQuery(s->done) != cudaErrorNotReady;
}

static void end_process(const struct ss_nccl_all_reduce *s, double waited_s)
{
    ss_fail(SS_ERR_TIMEOUT, "%s: NCCL: waited %.1f s, with no other rank to wait for; ending",
            s->name, waited_s);
    _exit(1);
}

static void pause_for_next(struct ss_nccl *n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_EVERY_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (n->watchdog.stop)
        return;
    if (n->watchdog.first)
        pthread_cond_timedwait(&n->watchdog.changed, &n->lock, &until);
    else
        pthread_cond_wait(&n->watchdog.changed, &n->lock);
}

static void *watchdog_main(void *arg)
{
    struct ss_nccl *n = arg;
    struct ss_watch_clock clock = {.ns = ss_now_ns()};
    const struct ss_nccl_all_reduce *oldest = NULL;
    double since_s = 0; /* start time of `oldest` as the oldest one */
    pthread_mutex_lock(&n->lock);
    while (!n->watchdog.stop) {
        struct ss_nccl_all_reduce *s = n->watchdog.first;
        int ended = 0;
        pthread_mutex_unlock(&n->lock);
        ss_watch_clock_advance(&clock);
        if (s)
            ended = has_ended(s);
        if (s != oldest)
            since_s = clock.now_s;
        oldest = ended ? NULL : s;
        if (oldest && clock.now_s - since_s > n->control->timeout_s)
            end_process(oldest, clock.now_s - since_s);
        pthread_mutex_lock(&n->lock);
        if (!ended) {
            pause_for_next(n);
            continue;
        }
        n->watchdog.first = s->next;
        if (!s->next)
            n->watchdog.end = &n->watchdog.first;
        s->next = n->free_all_reduces;
        n->free_all_reduces = s;
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

static enum ss_status start(struct ss_nccl *n)
{
    pthread_cond_init(&n->watchdog.changed, NULL);
    n->watchdog.end = &n->watchdog.first;
    enum ss_status status =
        ss_thread_start(&n->watchdog.thread, watchdog_main, n, "the NCCL watchdog thread");
    if (status != SS_OK)
        pthread_cond_destroy(&n->watchdog.changed);
    else
        n->watchdog.running = 1;
    return status;
}

enum ss_status ss_nccl_watchdog_watch(struct ss_nccl *n, struct ss_nccl_all_reduce *s)
{
    s->next = NULL;
    pthread_mutex_lock(&n->lock);
    enum ss_status status = n->watchdog.running ? SS_OK : start(n);
    if (status == SS_OK) {
        *n->watchdog.end = s;
        n->watchdog.end = &s->next;
        pthread_cond_signal(&n->watchdog.changed);
    }
    pthread_mutex_unlock(&n->lock);
    return status;
}

void ss_nccl_watchdog_stop(struct ss_nccl *n)
{
    if (!n->watchdog.running)
        return;
    pthread_mutex_lock(&n->lock);
    n->watchdog.stop = 1;
    pthread_cond_signal(&n->watchdog.changed);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->watchdog.thread, NULL);
    pthread_cond_destroy(&n->watchdog.changed);
    *n->watchdog.end = n->free_all_reduces; /* unfinished ones are freed with the rest */
    n->free_all_reduces = n->watchdog.first;
    n->watchdog.running = 0;
}
