/* The inner loops of resizing. Everything goes in blocks of SS_RESIZE_MIX bytes that have the same
 * weights. */
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

/* For tests: 1 for the kernels that every processor can run. */
extern int resize_plain_kernels;

/* One direction: output i is the sum of weight[i * taps + t] * source[first[i] + t], t < count[i],
 * rounded and clipped to a byte. Weights are not negative. */
struct resize_axis {
    int *first, *count;
    int32_t *weight;
    int taps;
};

/* Where the outputs of resize_mix_columns go, in bytes. */
struct resize_places {
    ptrdiff_t step; /* from one output to the next */
    size_t channel; /* from a channel to the next */
};

/* Outputs 0 .. n-1 of the axis; `in` begins at source place first[0]. A place of the source has
 * three channels of SS_RESIZE_LANES bytes, one after the other. */
void resize_mix_columns(const uint8_t *in, const struct resize_axis *axis, int n, uint8_t *out,
                        struct resize_places to);

/* Output i of the axis, of `bytes` bytes, whole blocks; `in` is its first place, places are rows
 * `stride` bytes apart. */
void resize_mix_row(const uint8_t *in, size_t stride, const struct resize_axis *axis, int i,
                    size_t bytes, uint8_t *out);

/* How squares of SS_RESIZE_LANES bytes a side lie in memory, in bytes. */
struct resize_tiles {
    size_t stride; /* from one row to the next */
    size_t step;   /* from one square to the next */
};

/* out[i][k] = in[k][i] for so many squares. */
void resize_transpose(const uint8_t *in, struct resize_tiles in_as, uint8_t *out,
                      struct resize_tiles out_as, size_t tiles);

#endif
