/* AVX2 versions of the kernels in resize_kernels.h. Baseline x86-64 (SSE2) has no instruction for
 * multiplying vectors of 32-bit integers. */
#ifndef SS_DATA_RESIZE_AVX2_H
#define SS_DATA_RESIZE_AVX2_H

#include "data/resize_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#    define RESIZE_HAS_AVX2() (!resize_plain_kernels && __builtin_cpu_supports("avx2"))
#else
#    define RESIZE_HAS_AVX2() 0
#endif

void resize_mix_columns_avx2(const uint8_t *in, const struct resize_axis *axis, int n, uint8_t *out,
                             struct resize_places to);
void resize_mix_row_avx2(const uint8_t *in, size_t stride, const int32_t *weight, int count,
                         size_t bytes, uint8_t *out);
void resize_transpose_pair_avx2(const uint8_t *in, struct resize_tiles in_as, uint8_t *out,
                                struct resize_tiles out_as); /* 2 tiles */

#endif
