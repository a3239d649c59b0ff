/* y of norm_act_forward piece by piece, with the same bits: for its own passes, and for convolutions that make
 * their input so while they read it (struct ss_norm_source). */
#ifndef SS_KERNELS_CPU_NORM_ACT_H
#define SS_KERNELS_CPU_NORM_ACT_H

#include "kernels/cpu/internal.h"

struct ss_norm_pieces {
    const struct ss_device *cpu;
    const struct ss_norm_act *op;
    float *a, *b; /* u = a z + b, (CB*B) each; zero in padding channels, so that these stay zero */
    struct ss_dropout_draw dropout;
};

/* Floats that the coefficients take. */
size_t ss_norm_pieces_room(const struct ss_act *shape);
/* source and room outlive the pieces. */
struct ss_norm_pieces ss_norm_pieces_begin(const struct ss_device *cpu,
                                           const struct ss_norm_source *source, float *room);
/* Of slice i, the (H,W,B) piece of one image and channel block, and perhaps of further images' too, from a pixel on, at
 * which z, r (NULL without residual) and y point. */
void ss_norm_piece(const struct ss_norm_pieces *p, size_t i, size_t pixel,
                   const struct ss_rows_extent *e, const void *z, const void *r, void *y);
/* The padding channels of such a piece, behind an activation that makes something else of zero. */
void ss_clear_padding(const struct ss_device *cpu, const struct ss_act *a, enum ss_activation act,
                      size_t i, const struct ss_rows_extent *e, void *y);

#endif
