/* End of every unit test's main(). Fails if no test ran (unknown name in CK_RUN_CASE). */
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

/* Like run_suite(), but without fork, which StarPU and GPU state do not survive. */
static inline int run_suite_here(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    return run_suite_end(runner);
}

#endif
