/* Common to the programs that the tests of src/comm run as ranks. */
#ifndef SS_TESTS_RANKS_COMMON_H
#define SS_TESTS_RANKS_COMMON_H

#include "core/log.h"

#include <semaphore.h>
#include <stdlib.h>

/* For functions that return an exit code. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ss_fail(SS_ERR_COMM, "%s:%d: does not hold: %s", __FILE__, __LINE__, #condition);      \
            return EXIT_FAILURE;                                                                   \
        }                                                                                          \
    } while (0)

/* An ss_comm_done_fn that posts a semaphore. */
static inline void post(void *semaphore)
{
    sem_post(semaphore);
}

#endif
