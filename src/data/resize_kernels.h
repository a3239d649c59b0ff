/* Inner loops of resizing. They process blocks of SS_RESIZE_MIX bytes with equal weights. */
#ifndef SS_DATA_RESIZE_KERNELS_H
#define SS_DATA_RESIZE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum {
    SS_RESIZE_BITS =
        22, /* fractional bits of a weight: 32 - 8 for the pixel - 2 against overflow */
    SS_RESIZE_LANES = 16,
    SS_RESIZE_MIX = 3 * SS_RESIZE_LANES,
};

/* For tests: 1 selects the portable kernels. */
extern int resize_plain_kernels;

/* Filter of one pass: output i is the sum of weight[i * taps + t] * source[first[i] + t] over t <
 * count[i], rounded and clipped to a byte. Weights are not negative. */
struct resize_axis {
    int *first, *count;
    int32_t *weight;
    int taps;
};

/* Layout of the outputs of resize_mix_columns, in bytes. */
struct resize_places {
    ptrdiff_t step; /* from one output to the next */
    size_t channel; /* from a channel to the next */
};

/* Compute outputs 0 .. n-1 of the axis. `in` begins at source position first[0]. Each position has
 * three channels of SS_RESIZE_LANES bytes, one after the other. */
void resize_mix_columns(const uint8_t *in, const struct resize_axis *axis, int n, uint8_t *out,
                        struct resize_places to);

/* Compute output i of the axis, a row of `bytes` bytes, a multiple of SS_RESIZE_MIX. `in` is its
 * first source row; rows are `stride` bytes apart. */
void resize_mix_row(const uint8_t *in, size_t stride, const struct resize_axis *axis, int i,
                    size_t bytes, uint8_t *out);

/* Memory layout of tiles of SS_RESIZE_LANES x SS_RESIZE_LANES bytes, in bytes. */
struct resize_tiles {
    size_t stride; /* from one row to the next */
    size_t step;   /* from one tile to the next */
};

/* Transpose tiles: out[i][k] = in[k][i]. */
void resize_transpose(const uint8_t *in, struct resize_tiles in_as, uint8_t *out,
                      struct resize_tiles out_as, size_t tiles);

#endif
