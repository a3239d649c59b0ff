/* Gradients on their way between ranks in 2 bytes (--grad-dtype), on the host. One thread; no
 * OpenMP: the communication thread calls these beside a running step.
 *
 * dtype is SS_DTYPE_F16 or SS_DTYPE_BF16. Roundings are to nearest, ties to even; what is beyond
 * the format's range becomes infinite, infinities stay, every NaN becomes the bits 0x7fff. The same
 * bits on every processor, and as cuda/wire.h makes. */
#ifndef SS_KERNELS_CPU_WIRE_H
#define SS_KERNELS_CPU_WIRE_H

#include "core/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* dst[i] = round(src[i] * scale) and dst[i] = src[i] * scale, the product in fp32. */
void ss_wire_pack(enum ss_dtype dtype, const float *src, float scale, uint16_t *dst, size_t count);
void ss_wire_unpack(enum ss_dtype dtype, const uint16_t *src, float scale, float *dst,
                    size_t count);

/* dst[i] = round(src[0][i] + ... + src[n-1][i]), added in fp32 in this order; n >= 1. dst may be
 * one of the sources. */
void ss_wire_sum(enum ss_dtype dtype, const uint16_t *const *src, int n, uint16_t *dst,
                 size_t count);

#endif
