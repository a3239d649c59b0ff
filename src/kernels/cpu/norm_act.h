/* Computes y of norm_act_forward piece by piece, bit-identical to it: for its own passes, and for
 * convolutions that compute their input while reading it (struct ss_norm_source). */
#ifndef SS_KERNELS_CPU_NORM_ACT_H
#define SS_KERNELS_CPU_NORM_ACT_H

#include "kernels/cpu/internal.h"

struct ss_norm_pieces {
    const struct ss_device *cpu;
    const struct ss_norm_act *op;
    float *a, *b; /* u = a z + b, (CB*B) each; zero in padding channels, which stay zero */
    struct ss_dropout_draw dropout;
};

/* Return the floats that the coefficients need. */
size_t ss_norm_pieces_floats(const struct ss_act *shape);
/* Prepare pieces. source and buffer (ss_norm_pieces_floats floats) must outlive them. */
struct ss_norm_pieces ss_norm_pieces_begin(const struct ss_device *cpu,
                                           const struct ss_norm_source *source, float *buffer);
/* Compute slice i, the (H,W,B) piece of one image and channel block, and with e->images > 1 those
 * of the following images, from a pixel on. z, r (NULL without residual) and y point to that
 * pixel. */
void ss_norm_piece(const struct ss_norm_pieces *p, size_t i, size_t pixel,
                   const struct ss_rows_extent *e, const void *z, const void *r, void *y);
/* Zero the padding channels of such a piece if the activation does not map zero to zero. */
void ss_clear_padding(const struct ss_device *cpu, const struct ss_act *a, enum ss_activation act,
                      size_t i, const struct ss_rows_extent *e, void *y);

#endif
