/* Check, with assertions that cost what they compare. Check's own write the line of each one that holds into a
 * file, so that a test that crashes can be told from its last one: in loops over a plan or over the elements of a
 * tensor that is nearly all of a test's time. */
#ifndef TESTS_ASSERT_H
#define TESTS_ASSERT_H

#include <check.h>

#undef ck_assert_msg
#define ck_assert_msg(expr, ...)                                                                   \
    ((expr) ? (void)0                                                                              \
            : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed", __VA_ARGS__))

#endif
