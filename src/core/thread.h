/* Threads other than StarPU's workers. */
#ifndef SS_CORE_THREAD_H
#define SS_CORE_THREAD_H

#include "core/status.h"

#include <pthread.h>

/* Start a thread with all signals blocked; other threads handle them. what: its name in messages
 * ("the communication thread"). Errors: SS_ERR_LIBRARY. */
enum ss_status ss_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg,
                               const char *what);

/* Initialize a condition variable whose timed waits use CLOCK_MONOTONIC. */
void ss_cond_init(pthread_cond_t *cond);

#endif
