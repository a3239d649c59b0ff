/* Check with cheap assertions. Check's own write the line of every assertion that holds to a file,
 * to locate crashes. In loops over a plan or the elements of a tensor this takes nearly all of a
 * test's time. */
#ifndef TESTS_ASSERT_H
#define TESTS_ASSERT_H

#include <check.h>

#undef ck_assert_msg
#define ck_assert_msg(expr, ...)                                                                   \
    ((expr) ? (void)0                                                                              \
            : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed", __VA_ARGS__))

#endif
