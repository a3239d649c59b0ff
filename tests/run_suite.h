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

#endif
