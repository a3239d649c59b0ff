/* Row functions: the inner loops of the CPU kernels, compiled for several instruction sets and
 * selected once at run time. They process contiguous [pixels][block] pieces in the calling
 * thread. Results depend on the arguments and the instruction set only.
 *
 * Functions are selected through a table, not by the compiler's multiversioning. That needs
 * ifuncs, which sanitizers and some C libraries do not support, and it would not follow
 * DNNL_MAX_CPU_ISA. */
#ifndef SS_KERNELS_CPU_SIMD_H
#define SS_KERNELS_CPU_SIMD_H

#include "core/dtype.h"
#include "kernels/activation.h"
#include "kernels/dropout.h"
#include "kernels/update.h"

#include <stddef.h>
#include <stdint.h>

/* Elements of a flat array that a thread processes at a time. A multiple of every vector length,
 * so that the elements in the scalar tail of a vector loop do not depend on the number of
 * threads. */
enum { SS_SIMD_PIECE = 16384 };

enum { SS_SIMD_SOURCES = 4 }; /* tensors that are summed on the fly */

/* Neighboring pixels, the same ones in several images. On small maps, a call for each image would
 * take longer than the computation. */
struct ss_rows_extent {
    size_t pixels, images;
    /* From one image to the next: elements of z and dz, and of the other tensors; dropout's
     * index. */
    size_t z_image, y_image;
    uint32_t index_image;
};

/* Per-channel coefficients; arrays of `block`. */
struct ss_rows_forward {
    const struct ss_rows_extent *extent;
    const void *z, *r; /* r: NULL without residual */
    void *y;
    int block;
    const float *a, *b; /* u = a z + b */
    struct ss_act_terms act;
    float low_out; /* 0 for ReLU, -infinity for none */
    struct ss_dropout_draw dropout;
    uint32_t index; /* dropout index of the first element, see dropout.h */
    uint32_t step;  /* from pixel to pixel: the channels of a whole pixel */
    uint32_t each;  /* all bits; 0, with step 0: one index for all elements */
};

struct ss_rows_backward {
    const struct ss_rows_extent *extent;
    const void *g; /* gradient of s */
    const void *z;
    void *dz; /* apply; may be z */
    int adds; /* add to dz instead of overwriting it */
    int block;
    const float *a, *b, *mean;
    struct ss_act_terms act;
    struct ss_dropout_draw dropout;
    uint32_t index, step, each; /* as in forward */
    const float *cg, *cz, *c1;  /* apply: dz = cg g + cz (z - mean) + c1 */
};

/* For each image, y[p y_step + j] = sum over x of x[p x_step + j], 0 <= j < len. */
struct ss_rows_gather {
    const void *x[SS_SIMD_SOURCES];
    int n, len; /* len 1, 2, 4, 8 and 16 have specialized loops */
    size_t x_step, y_step, pixels, x_image, y_image, images;
    void *y;
};

/* With g the sum of dy: da = g b, db = g a; NULL: not computed. Any of them may be the same
 * tensor. */
struct ss_rows_product {
    const void *dy[SS_SIMD_SOURCES], *a, *b;
    int n;
    void *da, *db;
    size_t count;
};

/* dx = g s (NULL: not computed), sums (block) += sum of g x. At most 1024 pixels, as in stats. */
struct ss_rows_scale {
    const void *dy[SS_SIMD_SOURCES], *x;
    const float *s;
    int n, block;
    size_t pixels;
    void *dx;
    double *sums;
};

/* Layer normalization of a few neighboring places (simd_layer.h), whose channels are in chunks:
 * channel j of chunk k of place p is at k * chunk + p * place + j. Forward sets mean and invstd. */
enum { SS_LAYER_PLACES = 64 };
struct ss_rows_layer {
    const void *x, *dy;
    void *out; /* y or dx; dx NULL: not computed */
    size_t place, chunk;
    int places;                /* at most SS_LAYER_PLACES */
    int width, chunks;         /* 16, 8 or 1 channels in a chunk */
    int last, padded;          /* channels of the last one; padded: others exist as zeros */
    const float *gamma, *beta; /* (C) */
    float eps;
    float *mean, *invstd;   /* (places) */
    double *dgamma, *dbeta; /* (C): added to */
};

/* Depthwise convolution of `width` (8 or 16) channels: rows of [columns][width], padding included.
 * Strides between rows and between taps are in floats and may be negative.
 *   depthwise           y[q] = bias + sum over i < rows, j < taps of x(i, q stride + j) w(i, j)
 *   depthwise_gradient  dw[j] += sum over i < rows, q < columns of x(i, q stride + j) dy(i, q) */
struct ss_rows_depthwise {
    const float *x, *w, *bias, *dy;
    ptrdiff_t x_row, w_row, w_tap, dy_row;
    float *y, *dw;
    int width, rows, taps, stride, columns;
};

/* On one axis: the positions in the window of a pooled output, the index in the window of the
 * first of them, and 1 / the number of positions that an average counts; or the windows that
 * cover a position. */
struct ss_pool_span {
    int begin, end, first;
    float share;
};

/* A row of pooled outputs, (places, block), of a map of rows (width, block); for averages also a
 * row of the map's gradient, from that of the outputs. */
struct ss_rows_pool {
    const void *x;
    void *y;
    void *at;     /* (places, block): the maximum's index in its window; NULL: not stored */
    int at_bytes; /* 1: uint8_t, 4: int32_t */
    struct ss_pool_span rows;
    const struct ss_pool_span *columns;   /* (places) */
    const struct ss_pool_span *shares[2]; /* gradient: row and column of each output */
    int block, width, places, taps;       /* taps: in a row of a window */
};

/* W channels of a map (W: the table's `lanes`) and its tiles for Winograd convolution. Tile (i,
 * j) begins at row 4 i - edge[0] and column 4 j - edge[1]. Channel l of a pixel is at l * lane.
 * Of the W channels `lanes` exist; the others are read as zero and not written. */
struct ss_winograd_map {
    size_t image, pixel, lane; /* elements from one image, pixel, channel to the next */
    int lanes, h, w;
    int stream;            /* output stores bypass the caches; whole, aligned vectors only */
    int edge[2], tiles[2]; /* of rows and columns; tiles of one image */
    const void *residual;  /* output: added to it, or NULL */
    /* Output, whole vectors: NULL, or destination of (3, W) for every sum_tiles tiles, sums_step
     * apart: the first value stored, and the sums of all values' differences from it and of their
     * squares. */
    float *sums;
    size_t sums_step;
    int sum_tiles;
};

/* m (+)= v u: m(t, k) = sum over c of v(t, c) u(c, k). Rows t are a convolution's pixels or
 * tiles, or images; c its input channels, k its output channels. W: the table's `lanes`. */
struct ss_panel_product {
    const float *v; /* (blocks of W channels, v_step apart, each (tiles, W)) */
    const float *u; /* (channels, vectors W) */
    float *m;       /* vector k of row t at k * m_step + t * m_row */
    size_t v_step, m_step, m_row;
    int tiles, channels, vectors; /* one or two vectors */
    int adds;                     /* add to m instead of overwriting it */
    const float *next;            /* u of the next call, to be prefetched */
    const size_t *v_at;           /* NULL, or the offset of each block, instead of v_step */
};

static inline const float *ss_panel_block(const struct ss_panel_product *f, int block)
{
    return f->v + (f->v_at ? f->v_at[block] : (size_t)block * f->v_step);
}

/* p (+)= v'd: p(c, k) = sum over rows t of v(t, c) d(t, k). */
struct ss_outer_product {
    const float *v; /* (tiles, W) */
    const float *d; /* (vectors, d_step apart, each (tiles, W)) */
    float *p;       /* (channels, vectors W) */
    size_t d_step;
    int tiles, channels, vectors, adds; /* at most W channels */
};

/* Functions of activations and compute weights, which are fp32 or bf16 (elements). Computations
 * are in fp32; steps and counts are in elements. */
struct ss_act_rows {
    /* Convert `count` rows of n elements, `step` apart, to floats, and back. */
    void (*read)(const void *act, size_t act_step, float *to, size_t to_step, size_t count,
                 size_t n);
    void (*write)(const float *from, size_t from_step, void *act, size_t act_step, size_t count,
                  size_t n);
    /* sums (2*block) += sum of z - shift, sum of (z - shift)^2. At most 1024 pixels per call:
     * sums are fp32 within an image, and double across images and calls. */
    void (*stats)(const struct ss_rows_extent *e, const void *z, int block, const float *shift,
                  double *sums);
    void (*forward)(const struct ss_rows_forward *f);
    /* sums (2*block) += sum of g, sum of g (z - mean), with g the gradient of u. Limits as in
     * stats. */
    void (*backward_sums)(const struct ss_rows_backward *f, double *sums);
    void (*backward_apply)(const struct ss_rows_backward *f);
    /* dst = sum of src[0..n-1], and zero where y <= 0 (unless y is NULL). dst may be src[0]. */
    void (*combine)(const void *const *src, int n, const void *y, void *dst, size_t count);
    void (*layer_forward)(const struct ss_rows_layer *f);
    void (*layer_backward)(const struct ss_rows_layer *f);
    void (*gather)(const struct ss_rows_gather *f);
    void (*product)(const void *a, const void *b, void *y, size_t count);
    void (*product_gradients)(const struct ss_rows_product *f);
    /* y = x s, s (block) */
    void (*scale)(const void *x, const float *s, void *y, size_t pixels, int block);
    void (*scale_gradients)(const struct ss_rows_scale *f);
    /* Winograd convolution F(4x4,3x3), see winograd.c, for `count` tiles from tile `first` of the
     * batch on. The 36 numbers of a tile (W channels each) are `xi` apart, tiles W apart. */
    void (*winograd_input)(const struct ss_winograd_map *m, const void *x, int first, int count,
                           float *v, size_t xi);
    void (*winograd_gradient)(const struct ss_winograd_map *m, const void *dy, int first, int count,
                              float *d, size_t xi); /* a tile has 4x4 outputs */
    void (*winograd_output)(const struct ss_winograd_map *m, const float *from, size_t xi,
                            const float *bias, int first, int count, void *y); /* bias (W) */
    /* Transform w (count channels, 3x3, W outputs) to u, channels `step` apart. */
    void (*winograd_weights)(const void *w, int count, float *u, size_t step, size_t xi);
    void (*pool_max)(const struct ss_rows_pool *f);
    void (*pool_average)(const struct ss_rows_pool *f);
    void (*pool_average_gradient)(const struct ss_rows_pool *f);
};

/* Functions of floats. */
struct ss_simd_rows {
    /* Update count elements from `at` on. */
    void (*update)(const struct ss_update *u, const struct ss_rule_terms *terms, size_t at,
                   size_t count);
    /* direction: the update's directions for at most SS_UPDATE_CHUNK elements from `at` on.
     * squares: the sum of squares of at most as many numbers, in the same order with every
     * instruction set. */
    void (*direction)(const struct ss_update *u, const struct ss_rule_terms *terms, size_t at,
                      size_t count, float *out);
    double (*squares)(const float *x, size_t count);
    void (*average)(const float *w, float weight, float *ema, size_t count);
    /* Rows of cols numbers, ld apart, a multiple of 16. softmax: s becomes softmax(scale s), lse
     * the log of the sum of exponentials. softmax_gradient: recomputes the probabilities from s
     * and lse, in place, and replaces their gradient dp by that of the original s. */
    void (*softmax)(float *s, int rows, int cols, size_t ld, float scale, float *lse);
    void (*softmax_gradient)(float *s, float *dp, int rows, int cols, size_t ld, float scale,
                             const float *lse);
    /* See wire.h; bf16 = 0: fp16. */
    void (*pack)(const float *src, float scale, int bf16, uint16_t *dst, size_t count);
    void (*unpack)(const uint16_t *src, float scale, int bf16, float *dst, size_t count);
    void (*sum_16)(const uint16_t *const *src, int n, int bf16, uint16_t *dst, size_t count);
    void (*depthwise)(const struct ss_rows_depthwise *f);
    void (*depthwise_gradient)(const struct ss_rows_depthwise *f);
    /* sum (width) += sum of `count` pixels */
    void (*depthwise_sum)(const float *x, size_t count, int width, float *sum);
    int lanes; /* W */
    /* The transpose of winograd_weights, for the weight gradient. */
    void (*winograd_weight_gradient)(const float *p, int count, size_t step, size_t xi, int adds,
                                     float *dw);
    int product_rows; /* that a panel_product of two vectors has in registers */
    void (*panel_product)(const struct ss_panel_product *f);
    void (*outer_product)(const struct ss_outer_product *f);
    /* Interleave rows of bf16, `step` apart, into half as many contiguous rows of pairs: the
     * numbers of two rows, the first row's in the lower half. An odd last row is paired with 0.
     * width: whole vectors. */
    void (*pairs)(const uint16_t *from, size_t step, size_t rows, size_t width, void *to);
};

/* Products of vectors of 16 numbers that are pairs of bf16, along c or t, with sums in fp32.
 * outer_product NULL: the panel product of transposed operands is faster. */
struct ss_pair_products {
    void (*panel_product)(const struct ss_panel_product *f);
    void (*outer_product)(const struct ss_outer_product *f);
};

/* Defined in simd_plain.c and, on x86, simd_avx2.c and simd_avx512.c. */
extern const struct ss_simd_rows ss_simd_plain, ss_simd_avx2, ss_simd_avx512;
extern const struct ss_act_rows ss_act_rows_f32_plain, ss_act_rows_f32_avx2, ss_act_rows_f32_avx512,
    ss_act_rows_bf16_plain, ss_act_rows_bf16_avx2, ss_act_rows_bf16_avx512;
/* ss_pairs_amx requires that ss_amx_permit returns 1: the processor has AMX for bf16, and Linux,
 * from which ss_amx_permit requests it, lets this process use it. */
extern const struct ss_pair_products ss_pairs_avx512, ss_pairs_amx;
int ss_amx_permit(void);

/* Return the table of this processor. */
const struct ss_simd_rows *ss_simd_table(void);
/* Return the pair products of this processor; NULL: it multiplies no pairs. */
const struct ss_pair_products *ss_simd_pairs(void);
/* For tests: replace the pair products; NULL restores the processor's own. */
void ss_simd_use_pairs(const struct ss_pair_products *products);

const struct ss_act_rows *ss_act_table(enum ss_dtype dtype);

/* Return `count` elements from `at` on as floats: in place, or converted in buffer. */
const float *ss_floats(enum ss_dtype dtype, const void *elements, size_t at, size_t count,
                       float *buffer);

#endif
