/* y of norm_act_forward piece by piece, with the same bits: for its own passes, and for convolutions that make
 * their input so while they read it (struct ss_norm_source). */
#ifndef SS_KERNELS_CPU_NORM_ACT_H
#define SS_KERNELS_CPU_NORM_ACT_H

#include "kernels/cpu/internal.h"
#include "kernels/dropout.h"

struct ss_norm_pieces {
    const struct ss_norm_act *op;
    const struct ss_simd_rows *rows;
    float *a, *b; /* u = a z + b, (CB*B) each; zero in padding channels, so that these stay zero */
    struct ss_dropout_draw dropout;
};

/* Floats that the coefficients take. */
size_t ss_norm_pieces_room(const struct ss_act *shape);
/* source and room outlive the pieces. */
struct ss_norm_pieces ss_norm_pieces_begin(const struct ss_norm_source *source, float *room);
/* `pixels` pixels of slice i, the (H,W,B) piece of one image and channel block, from one of them on, at which z, r
 * (NULL without residual) and y point. */
void ss_norm_piece(const struct ss_norm_pieces *p, size_t i, size_t pixel, size_t pixels,
                   const float *z, const float *r, float *y);

#endif
