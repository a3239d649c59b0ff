/* Monotonic time (CLOCK_MONOTONIC). */
#ifndef SS_CORE_CLOCK_H
#define SS_CORE_CLOCK_H

#include <stdint.h>

uint64_t ss_now_ns(void);
double ss_seconds(void);

#endif
