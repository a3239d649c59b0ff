/* The end of every unit test's main(). That no test ran (CK_RUN_CASE has a name that is unknown) is a failure. */
#ifndef TESTS_RUN_SUITE_H
#define TESTS_RUN_SUITE_H

#include "tests/assert.h"
#include "tests/left_open.h"

#include <stdlib.h>

static inline int run_suite_end(SRunner *runner)
{
    const int failed = srunner_ntests_failed(runner) > 0 || srunner_ntests_run(runner) == 0;
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    left_open_watch();
    srunner_run_all(runner, CK_NORMAL);
    return run_suite_end(runner);
}

/* The same in this process, for what does not survive a fork: StarPU, a GPU's state. */
static inline int run_suite_here(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    return run_suite_end(runner);
}

#endif
