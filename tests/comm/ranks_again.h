/* ranks_again.h: allocation failures on one rank, and repeated opening and closing of
 * communicators, as by a program that trains several times, without leaks of memory, files or
 * threads. */
#ifndef TESTS_COMM_RANKS_AGAIN_H
#define TESTS_COMM_RANKS_AGAIN_H

#include "comm/comm.h"
#include "tests/comm/ranks_common.h"
#include "tests/meta/faults/leak_counter.h"

#include <stdio.h>

/* If this rank, number `me`, is rank `bad`, let the allocation fail whose number from here on is
 * LACKS_MEMORY (environment). */
static inline void limit_memory(const char *me, int bad)
{
    const char *at = getenv("LACKS_MEMORY");
    if (at && me && atoi(me) == bad)
        leak_counter_fail(atol(at));
}

/* Open one communicator and run all-reduces on it: of buckets if the backend supports them
 * (`gradients`), and of metrics. */
static inline int again_once(const struct ss_comm_config *config, int gradients)
{
    static float gradient[5000];
    struct ss_comm *comm;
    sem_t ended;
    double sum = 1;
    REQUIRE(sem_init(&ended, 0, 0) == 0);
    REQUIRE(ss_comm_open(config, &comm) == SS_OK);
    for (int b = 0; gradients && b < 2; b++) {
        const struct ss_comm_tag tag = {1, b};
        REQUIRE(ss_comm_allreduce_start_f32(comm, gradient, 5000, SS_DTYPE_F32, tag, post,
                                            &ended) == SS_OK);
        sem_wait(&ended);
    }
    REQUIRE(ss_comm_allreduce_f64(comm, &sum, 1, "sum") == SS_OK);
    REQUIRE(sum == ss_comm_size(comm));
    REQUIRE(ss_comm_barrier(comm, "the end") == SS_OK);
    ss_comm_close(comm);
    sem_destroy(&ended);
    return EXIT_SUCCESS;
}

static inline int again(const struct ss_comm_config *config, int gradients)
{
    enum {
        FIRST = 2, /* after this one, libraries have opened all files that they retain */
        LAST = 5
    };
    const long blocks = leak_counter_blocks();
    int files = 0, threads = 0;
    ss_comm_stay();
    for (int k = 1; k <= LAST; k++) {
        REQUIRE(again_once(config, gradients) == EXIT_SUCCESS);
        if (k == FIRST) {
            files = leak_counter_files();
            threads = leak_counter_threads();
        }
    }
    REQUIRE(leak_counter_blocks() == blocks);
    REQUIRE(leak_counter_files() == files);
    REQUIRE(leak_counter_threads() == threads);
    return EXIT_SUCCESS;
}

#endif
