/* The two inner loops of resizing. */
#ifndef SS_DATA_RESIZE_KERNELS_H
#define SS_DATA_RESIZE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum {
    SS_RESIZE_BITS =
        22, /* after the point of a weight: 32 - 8 for the pixel - 2 against overflow */
    SS_RESIZE_LANES = 16,
    SS_RESIZE_MIX = 3 * SS_RESIZE_LANES,
};

/* out[i] = sum over t < count of weight[t] * in[t * stride + i], rounded and clipped to a byte, for
 * i < SS_RESIZE_MIX. Weights are not negative. */
void resize_mix(const uint8_t *restrict in, size_t stride, const int32_t *restrict weight,
                int count, uint8_t *restrict out);

/* out[i][k] = in[k][i] for i, k < SS_RESIZE_LANES; rows of `in` are in_stride bytes apart. */
void resize_transpose(const uint8_t *in, size_t in_stride, uint8_t *out, size_t out_stride);

#endif
