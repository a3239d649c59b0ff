/* Conversion of gradients to 2-byte formats for communication (--grad-dtype), on the host. One
 * thread, no OpenMP: the communication thread calls these functions during a step.
 *
 * dtype is SS_DTYPE_F16 or SS_DTYPE_BF16. Rounding is to nearest, ties to even. Numbers beyond
 * the format's range become infinite, infinities are preserved, every NaN becomes the bits
 * 0x7fff. Bit-identical on every processor, and to cuda/wire.h. */
#ifndef SS_KERNELS_CPU_WIRE_H
#define SS_KERNELS_CPU_WIRE_H

#include "core/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* pack: dst[i] = round(src[i] * scale); unpack: dst[i] = src[i] * scale. The product is in fp32. */
void ss_wire_pack(enum ss_dtype dtype, const float *src, float scale, uint16_t *dst, size_t count);
void ss_wire_unpack(enum ss_dtype dtype, const uint16_t *src, float scale, float *dst,
                    size_t count);

/* dst[i] = round(src[0][i] + ... + src[n-1][i]), added in fp32 in this order; n >= 1. dst may be
 * one of the sources. */
void ss_wire_sum(enum ss_dtype dtype, const uint16_t *const *src, int n, uint16_t *dst,
                 size_t count);

#endif
