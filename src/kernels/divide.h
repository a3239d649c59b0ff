/* Division by a number known in advance: on GPUs a multiplication and a shift instead of dozens
 * of instructions. */
#ifndef SS_KERNELS_DIVIDE_H
#define SS_KERNELS_DIVIDE_H

#include "kernels/any_device.h"

#include <stdint.h>

/* n / d for n < 2^31: n * ceil(2^(31+s) / d) / 2^(31+s) with 2^s >= d has an error of less than n
 * / 2^31 * d / 2^s / d < 1/d, too small to reach the next integer. */
struct ss_divider {
    uint32_t multiplier, shift;
};

/* 1 <= d < 2^31 */
static inline struct ss_divider ss_divider_make(uint32_t d)
{
    unsigned s = 0;
    while (((uint64_t)1 << s) < (uint64_t)d)
        s++;
    const uint64_t power = (uint64_t)1 << (31 + s), divisor = (uint64_t)d;
    struct ss_divider out;
    out.multiplier = (uint32_t)((power + divisor - 1) / divisor);
    out.shift = 31 + s;
    return out;
}

SS_ANY_DEVICE static inline uint32_t ss_divide(uint32_t n, struct ss_divider d)
{
    return (uint32_t)((uint64_t)n * d.multiplier >> d.shift);
}

#endif
