/* nccl_thread.c: the thread that calls NCCL (contract in nccl.h).
 *
 * NCCL's own threads, which busy-wait between nodes, inherit the affinity of the thread that
 * starts it, and some versions (2.29.2 to 2.29.7, NCCL issue 2033) leave the caller with a
 * narrower one. From 2.23 on a call on a non-blocking communicator starts a thread and has to be
 * waited for. With a dedicated thread none of this affects the threads that feed the GPU and
 * submit tasks. */
#include "comm/nccl_internal.h"
#include "core/log.h"
#include "core/thread.h"

#include <stdlib.h>
#include <sys/prctl.h>

struct ss_nccl_call {
    void (*work)(void *arg);
    void *arg;
    int waited, done;
    struct ss_nccl_call *next;
};

/* Set the thread's affinity, also after calls in which NCCL may have changed it. */
static void bind(const struct ss_nccl *n)
{
    if (CPU_COUNT(&n->options.cores) > 0)
        (void)sched_setaffinity(0, sizeof n->options.cores, &n->options.cores);
}

static void *serve(void *arg)
{
    struct ss_nccl *n = arg;
    struct ss_nccl_thread *c = &n->thread;
    (void)prctl(PR_SET_TIMERSLACK, 1); /* waits for NCCL take microseconds */
    bind(n);
    (void)ss_nccl_use_device(n);
    pthread_mutex_lock(&c->lock);
    while (c->first || !c->stop) {
        struct ss_nccl_call *call = c->first;
        if (!call) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        c->first = call->next;
        if (!c->first)
            c->end = &c->first;
        pthread_mutex_unlock(&c->lock);
        const int waited = call->waited;
        call->work(call->arg);
        if (!waited)
            free(call);
        else
            bind(n);
        pthread_mutex_lock(&c->lock);
        if (waited) {
            call->done = 1;
            pthread_cond_broadcast(&c->changed);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

enum ss_status ss_nccl_thread_start(struct ss_nccl *n)
{
    struct ss_nccl_thread *c = &n->thread;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->end = &c->first;
    enum ss_status status = ss_thread_start(&c->id, serve, n, "the thread that calls NCCL");
    c->running = status == SS_OK;
    return status;
}

void ss_nccl_thread_stop(struct ss_nccl *n)
{
    struct ss_nccl_thread *c = &n->thread;
    if (!c->running)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = 1;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->id, NULL);
    c->running = 0;
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
}

static void append(struct ss_nccl_thread *c, struct ss_nccl_call *call)
{
    *c->end = call;
    c->end = &call->next;
    pthread_cond_broadcast(&c->changed);
}

enum ss_status ss_nccl_post(struct ss_nccl *n, void (*work)(void *arg), void *arg)
{
    struct ss_nccl_call *call = calloc(1, sizeof *call);
    if (!call)
        return ss_fail_memory("a call of NCCL", sizeof *call);
    call->work = work;
    call->arg = arg;
    pthread_mutex_lock(&n->thread.lock);
    append(&n->thread, call);
    pthread_mutex_unlock(&n->thread.lock);
    return SS_OK;
}

void ss_nccl_call(struct ss_nccl *n, void (*work)(void *arg), void *arg)
{
    struct ss_nccl_thread *c = &n->thread;
    struct ss_nccl_call call = {.work = work, .arg = arg, .waited = 1};
    if (pthread_equal(pthread_self(), c->id)) {
        work(arg);
        return;
    }
    pthread_mutex_lock(&c->lock);
    append(c, &call);
    while (!call.done)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

struct tried {
    enum ss_status (*work)(void *arg);
    void *arg;
    enum ss_status status;
    char why[1024];
};

static void try(void *arg)
{
    struct tried *t = arg;
    ss_log_capture(t->why, sizeof t->why);
    t->status = t->work(t->arg);
    ss_log_capture(NULL, 0);
}

enum ss_status ss_nccl_try(struct ss_nccl *n, enum ss_status (*work)(void *arg), void *arg)
{
    struct tried t = {.work = work, .arg = arg};
    if (pthread_equal(pthread_self(), n->thread.id))
        return work(arg);
    ss_nccl_call(n, try, &t);
    /* The text is empty if another call has already reported the failure. */
    return t.status == SS_OK || !*t.why ? t.status : ss_fail(t.status, "%s", t.why);
}
