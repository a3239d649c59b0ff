/* A kernel table whose functions report their calls. */
#ifndef SS_BENCH_GPU_TIMED_H
#define SS_BENCH_GPU_TIMED_H

#include "kernels/kernels.h"

struct ss_bench_watch {
    void (*begins)(void *arg, const char *name);
    void (*ends)(void *arg, const char *name);
    void *arg;
    int on; /* calls are reported only if set */
};

enum { SS_BENCH_TABLES = 2 };
/* Fill *out with wrappers of `kernels`: functions that return a status report their calls to
 * watch, which must outlive them. which: index of the table, below SS_BENCH_TABLES. */
#ifdef __cplusplus
extern "C"
#endif
    void
    ss_bench_watch(int which, const struct ss_kernels *kernels, const struct ss_bench_watch *watch,
                   struct ss_kernels *out);

#endif
