/* Sizes rounded up. */
#ifndef SS_CORE_ROUND_H
#define SS_CORE_ROUND_H

#include <stddef.h>

/* The least multiple of unit, which is not 0, that is not below n. */
static inline size_t ss_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
