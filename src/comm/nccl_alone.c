/* nccl_alone.c: the deadline of sums of a single rank (contract in nccl_internal.h).
 *
 * There is no communication thread with one rank, and who waits for the sum waits inside StarPU or
 * CUDA, where nothing ends it: a thread of its own looks at the oldest sum now and then. */
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

/* 1: nobody need wait for it any more. An error of CUDA is reported by those who do. */
static int has_ended(struct ss_nccl_sum *s)
{
    if (ss_nccl_use_device(s->nccl) != SS_OK || !atomic_load(&s->enqueued))
        return 0;
    return cudaEventQuery(s->done) != cudaErrorNotReady;
}

static void end_process(const struct ss_nccl_sum *s, double waited_s)
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
    if (n->alone.stop)
        return;
    if (n->alone.first)
        pthread_cond_timedwait(&n->alone.changed, &n->lock, &until);
    else
        pthread_cond_wait(&n->alone.changed, &n->lock);
}

static void *look(void *arg)
{
    struct ss_nccl *n = arg;
    struct ss_watch_clock clock = {.ns = ss_now_ns()};
    const struct ss_nccl_sum *oldest = NULL;
    double since_s = 0; /* that is the oldest one */
    pthread_mutex_lock(&n->lock);
    while (!n->alone.stop) {
        struct ss_nccl_sum *s = n->alone.first;
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
        n->alone.first = s->next;
        if (!s->next)
            n->alone.end = &n->alone.first;
        s->next = n->free_sums;
        n->free_sums = s;
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

static enum ss_status start(struct ss_nccl *n)
{
    pthread_cond_init(&n->alone.changed, NULL);
    n->alone.end = &n->alone.first;
    enum ss_status status =
        ss_thread_start(&n->alone.thread, look, n, "the thread that watches sums");
    if (status != SS_OK)
        pthread_cond_destroy(&n->alone.changed);
    else
        n->alone.running = 1;
    return status;
}

enum ss_status ss_nccl_watch_alone(struct ss_nccl *n, struct ss_nccl_sum *s)
{
    s->next = NULL;
    pthread_mutex_lock(&n->lock);
    enum ss_status status = n->alone.running ? SS_OK : start(n);
    if (status == SS_OK) {
        *n->alone.end = s;
        n->alone.end = &s->next;
        pthread_cond_signal(&n->alone.changed);
    }
    pthread_mutex_unlock(&n->lock);
    return status;
}

void ss_nccl_stop_alone(struct ss_nccl *n)
{
    if (!n->alone.running)
        return;
    pthread_mutex_lock(&n->lock);
    n->alone.stop = 1;
    pthread_cond_signal(&n->alone.changed);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->alone.thread, NULL);
    pthread_cond_destroy(&n->alone.changed);
    *n->alone.end = n->free_sums; /* what had not ended is freed with the rest */
    n->free_sums = n->alone.first;
    n->alone.running = 0;
}
