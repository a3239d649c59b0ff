/* wire.c: conversions of gradients (contract in wire.h); the loops are in simd_wire.h. */
#include "kernels/cpu/wire.h"
#include "kernels/cpu/simd.h"

void ss_wire_pack(enum ss_dtype dtype, const float *src, float scale, uint16_t *dst, size_t count)
{
    ss_simd_table()->pack(src, scale, dtype == SS_DTYPE_BF16, dst, count);
}

void ss_wire_unpack(enum ss_dtype dtype, const uint16_t *src, float scale, float *dst, size_t count)
{
    ss_simd_table()->unpack(src, scale, dtype == SS_DTYPE_BF16, dst, count);
}

void ss_wire_sum(enum ss_dtype dtype, const uint16_t *const *src, int n, uint16_t *dst,
                 size_t count)
{
    ss_simd_table()->sum_16(src, n, dtype == SS_DTYPE_BF16, dst, count);
}
