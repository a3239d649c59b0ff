/* alloc_failure.h: fails each allocation of a call in turn. For tests that link leak_counter.c. */
#ifndef SS_TESTS_ALLOC_FAILURE_H
#define SS_TESTS_ALLOC_FAILURE_H

#include "core/log.h"
#include "tests/meta/faults/leak_counter.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { ALLOC_FAILURE_MOST = 400 };

/* Calls call(arg) repeatedly; each call fails one of its allocations, up to ALLOC_FAILURE_MOST.
 * Asserts that the call reports the failure with approximately the requested bytes (of several
 * arrays, the bytes of one) and leaks no block. Without a fault the call must succeed without a
 * leak. does_without: 1 if some allocations are optional, so that the call may succeed without
 * them. */
static inline void fails_each_allocation(enum ss_status (*call)(void *arg), void *arg,
                                         int does_without)
{
    for (long at = 1; at <= ALLOC_FAILURE_MOST; at++) {
        const long before = leak_counter_blocks();
        leak_counter_fail(at);
        const enum ss_status status = call(arg);
        const size_t wanted = leak_counter_fail(0);
        const char *said = ss_log_last_error(), *size = strstr(said, "out of memory for ");
        unsigned long long bytes = 0;
        const int right_size = !size || (sscanf(strrchr(size, '('), "(%llu bytes)", &bytes) == 1 &&
                                         64 + 32 * bytes >= wanted),
                  well = !wanted || (status == SS_OK && does_without)
                             ? status == SS_OK
                             : (status == SS_ERR_MEMORY ||
                                (status == SS_ERR_LIBRARY && strstr(said, "out of memory"))) &&
                                   right_size;
        if (!well || leak_counter_blocks() != before)
            leak_counter_tell_failed();
        ck_assert_msg(well, "allocation %ld, %zu bytes: %d, %s", at, wanted, (int)status, said);
        ck_assert_msg(leak_counter_blocks() == before, "allocation %ld: %ld blocks leaked", at,
                      leak_counter_blocks() - before);
        if (!wanted) {
#ifndef LEAK_COUNTER_NOTHING
            ck_assert_int_gt(at, 1);
#endif
            return;
        }
    }
}

#endif
