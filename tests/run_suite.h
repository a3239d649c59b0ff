/* The end of every unit test's main(). */
#ifndef TESTS_RUN_SUITE_H
#define TESTS_RUN_SUITE_H

#include "tests/assert.h"
#include "tests/left_open.h"

#include <stdlib.h>

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    left_open_watch();
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The same in this process, for what does not survive a fork: StarPU, a GPU's state. */
static inline int run_suite_here(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
