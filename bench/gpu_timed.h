/* A table of kernels whose functions tell when they are called. */
#ifndef SS_BENCH_GPU_TIMED_H
#define SS_BENCH_GPU_TIMED_H

#include "kernels/kernels.h"

struct ss_bench_watch {
    void (*begins)(void *arg, const char *name);
    void (*ends)(void *arg, const char *name);
    void *arg;
    int on; /* else nothing is told */
};

enum { SS_BENCH_TABLES = 2 };
/* *out: as kernels, but that functions that return a status tell watch, which outlives the calls.
 * which: one of SS_BENCH_TABLES tables. */
#ifdef __cplusplus
extern "C"
#endif
    void
    ss_bench_watch(int which, const struct ss_kernels *kernels, const struct ss_bench_watch *watch,
                   struct ss_kernels *out);

#endif
