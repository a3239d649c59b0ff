/* Threads of the program's own beside StarPU's. */
#ifndef SS_CORE_THREAD_H
#define SS_CORE_THREAD_H

#include "core/status.h"

#include <pthread.h>

/* Start one. It takes no signals: these belong to the program's other threads. what names it in the
 * message ("the communication thread"). Errors: SS_ERR_LIBRARY. */
enum ss_status ss_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg,
                               const char *what);

/* A condition whose timed waits are on CLOCK_MONOTONIC. */
void ss_cond_init(pthread_cond_t *cond);

#endif
