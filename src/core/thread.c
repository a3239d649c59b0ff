#include "core/thread.h"
#include "core/log.h"

#include <signal.h>
#include <string.h>
#include <time.h>

enum ss_status ss_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg,
                               const char *what)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? ss_fail(SS_ERR_LIBRARY, "cannot start %s: %s", what, strerror(rc)) : SS_OK;
}

void ss_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
