/* Preloaded into a run: blocks OpenMP parallel regions while the file $HANG_TASK exists. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

/* GCC compiles `#pragma omp parallel` to a call of this function. */
void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags);

void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags)
{
    static void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    const char *file = getenv("HANG_TASK");
    while (file && access(file, F_OK) == 0)
        sleep(1);
    if (!parallel)
        *(void **)&parallel = dlsym(RTLD_NEXT, "GOMP_parallel");
    parallel(function, data, threads, flags);
}
