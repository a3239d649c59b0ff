#include "core/clock.h"

#include <time.h>

uint64_t ss_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double ss_seconds(void)
{
    return 1e-9 * (double)ss_now_ns();
}
