/* CHECK: a failed check is printed and counted, and the test continues. Compiled as C++ only. */
#ifndef SS_TESTS_HOSTGPU_CHECK_H
#define SS_TESTS_HOSTGPU_CHECK_H

#include <cstdio>

inline int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)

#endif
