/* What is checked goes on, and is counted. Compiled as C++ only. */
#ifndef SS_TESTS_HOSTGPU_CHECK_H
#define SS_TESTS_HOSTGPU_CHECK_H

#include <cstdio>

inline int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)

#endif
