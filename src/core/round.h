/* Integer size arithmetic: minimum, maximum, rounding up. */
#ifndef SS_CORE_ROUND_H
#define SS_CORE_ROUND_H

#include <stddef.h>

static inline size_t ss_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t ss_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* a / b rounded up; b must not be 0. */
static inline size_t ss_divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* n rounded up to a multiple of unit; unit must not be 0. */
static inline size_t ss_round_up(size_t n, size_t unit)
{
    return ss_divide_up(n, unit) * unit;
}

#endif
