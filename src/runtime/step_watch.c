#include "runtime/step_watch.h"
#include "comm/call_timeout.h"
#include "core/log.h"
#include "core/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRAIN, EVAL, KINDS };
static const double tick_s = 0.25;

struct ss_step_watch {
    struct ss_step_tasks tasks[KINDS];
    const struct ss_run *run;
    double timeout_s;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ending;
    int end;
};

struct counts {
    uint64_t waiting, ended;
};

static struct counts count(const struct ss_step_watch *w)
{
    struct counts c = {0, 0};
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; w->tasks[k].progress && i < w->tasks[k].list->count; i++) {
            /* Read `ended` first: a task cannot end before it is submitted. */
            uint64_t ended = atomic_load(&w->tasks[k].progress[i].ended);
            c.ended += ended;
            c.waiting += atomic_load(&w->tasks[k].progress[i].submitted) - ended;
        }
    return c;
}

/* First pending task of the oldest step; -1: none is pending. */
static int find_first(const struct ss_step_tasks *tasks)
{
    int first = -1;
    uint64_t least = UINT64_MAX;
    for (int i = 0; tasks->progress && i < tasks->list->count; i++) {
        uint64_t ended = atomic_load(&tasks->progress[i].ended);
        if (ended < least && ended < atomic_load(&tasks->progress[i].submitted)) {
            least = ended;
            first = i;
        }
    }
    return first;
}

/* Ends the process through the call timeout, which never blocks. */
static void end_process(const struct ss_step_watch *w, double silent_s, int signalled)
{
    static char text[512]; /* read by the call timeout */
    char where[64] = "evaluation";
    int first = find_first(&w->tasks[TRAIN]), kind = first >= 0 ? TRAIN : EVAL;
    if (kind == EVAL)
        first = find_first(&w->tasks[EVAL]);
    if (first < 0)
        return; /* all tasks have ended meanwhile */
    const struct ss_task_progress *p = &w->tasks[kind].progress[first];
    if (kind == TRAIN)
        snprintf(where, sizeof where, "step %llu",
                 (unsigned long long)(atomic_load(&p->step) + 1 + atomic_load(&p->ended) -
                                      atomic_load(&p->submitted)));
    snprintf(text, sizeof text,
             "%s: no task has ended for %.1f s; %s is the first of %llu pending tasks; ending "
             "the run (%s)",
             where, silent_s, w->tasks[kind].list->task[first].name,
             (unsigned long long)count(w).waiting,
             signalled ? "--timeout after a signal" : "10 times --timeout");
    ss_call_timeout_set_final(0, text);
}

/* Waits one tick. Returns 1 if the watchdog was stopped meanwhile. Ticks are counted instead of
 * time, so that time in which the process is stopped does not count. */
static int wait_tick(struct ss_step_watch *w)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(tick_s * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->lock);
    while (!w->end && pthread_cond_timedwait(&w->ending, &w->lock, &until) == 0)
        ;
    int end = w->end;
    pthread_mutex_unlock(&w->lock);
    return end;
}

static void *watch(void *arg)
{
    struct ss_step_watch *w = arg;
    uint64_t last = 0;
    double silent_s = 0;
    while (!wait_tick(w)) {
        struct counts now = count(w);
        int signalled = ss_run_asked_to_stop(w->run);
        silent_s = now.waiting == 0 || now.ended != last ? 0 : silent_s + tick_s;
        last = now.ended;
        if (silent_s > w->timeout_s * (signalled ? 1 : SS_STEP_WATCH_FACTOR)) {
            end_process(w, silent_s, signalled);
            silent_s = 0;
        }
    }
    return NULL;
}

enum ss_status ss_step_watch_start(const struct ss_step_tasks *train,
                                   const struct ss_step_tasks *eval, const struct ss_run *run,
                                   double timeout_s, struct ss_step_watch **out)
{
    SS_TRY(ss_call_timeout_start());
    struct ss_step_watch *w = calloc(1, sizeof *w);
    if (!w)
        return ss_fail_memory("a watchdog", sizeof *w);
    w->tasks[TRAIN] = *train;
    w->tasks[EVAL] = *eval;
    w->run = run;
    w->timeout_s = timeout_s;
    pthread_mutex_init(&w->lock, NULL);
    ss_cond_init(&w->ending);
    enum ss_status status = ss_thread_start(&w->thread, watch, w, "a watchdog thread");
    if (status == SS_OK)
        *out = w;
    else
        free(w);
    return status;
}

void ss_step_watch_stop(struct ss_step_watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->end = 1;
    pthread_cond_signal(&w->ending);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->ending);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
