/* What the programs have in common that are run as ranks by the tests of src/comm. */
#ifndef SS_TESTS_RANKS_COMMON_H
#define SS_TESTS_RANKS_COMMON_H

#include "core/log.h"

#include <semaphore.h>
#include <stdlib.h>

/* In a function that returns an exit code. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ss_fail(SS_ERR_COMM, "%s:%d: does not hold: %s", __FILE__, __LINE__, #condition);      \
            return EXIT_FAILURE;                                                                   \
        }                                                                                          \
    } while (0)

/* A ss_comm_done_fn: what waits may go on. */
static inline void post(void *semaphore)
{
    sem_post(semaphore);
}

#endif
