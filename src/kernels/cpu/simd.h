/* Row functions: the inner loops of own kernels, compiled for several instruction sets and chosen
 * once at run time. They work on contiguous [pixels][block] pieces, know no threads, and their
 * results depend on their arguments and the instruction set only.
 *
 * Functions are chosen through a table rather than by the compiler's own multiversioning: that
 * needs ifuncs, which sanitizers and some C libraries do not run, and it would not follow
 * DNNL_MAX_CPU_ISA. */
#ifndef SS_KERNELS_CPU_SIMD_H
#define SS_KERNELS_CPU_SIMD_H

#include "core/dtype.h"
#include "kernels/activation.h"
#include "kernels/dropout.h"
#include "kernels/update.h"

#include <stddef.h>
#include <stdint.h>

/* What a thread does of a flat array at a time: a multiple of every vector length, so that which
 * elements a vector loop leaves to its scalar end does not depend on the number of threads. */
enum { SS_SIMD_PIECE = 16384 };

enum { SS_SIMD_SOURCES = 4 }; /* tensors that are added up on the fly */

/* Neighbouring pixels, the same ones of several images. A call for every image of a small map would take longer than what
 * it does. */
struct ss_rows_extent {
    size_t pixels, images;
    /* From one image to the next: elements of z and dz, and of the others; dropout's index. */
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
    uint32_t index; /* dropout's, of the first element, see dropout.h */
    uint32_t step;  /* from a pixel's to the next one's: the channels of a whole pixel */
    uint32_t each;  /* all bits; 0, and so is step: one index for all elements */
};

struct ss_rows_backward {
    const struct ss_rows_extent *extent;
    const void *g; /* gradient of s */
    const void *z;
    void *dz;  /* apply; may be z */
    int adds;  /* to what is there, instead of overwriting it */
    int block;
    const float *a, *b, *mean;
    struct ss_act_terms act;
    struct ss_dropout_draw dropout;
    uint32_t index, step, each; /* as forward */
    const float *cg, *cz, *c1; /* apply: dz = cg g + cz (z - mean) + c1 */
};

/* Of each image y[p y_step + j] = the sum over x of x[p x_step + j], 0 <= j < len. */
struct ss_rows_gather {
    const void *x[SS_SIMD_SOURCES];
    int n, len; /* lens of 1, 2, 4, 8 and 16 have loops of their own */
    size_t x_step, y_step, pixels, x_image, y_image, images;
    void *y;
};

/* With g the sum of dy: da = g b, db = g a; NULL: not wanted. Any may lie where another does. */
struct ss_rows_product {
    const void *dy[SS_SIMD_SOURCES], *a, *b;
    int n;
    void *da, *db;
    size_t count;
};

/* dx = g s (NULL: not wanted), sums (block) += the sum of g x. As stats: at most 1024 pixels. */
struct ss_rows_scale {
    const void *dy[SS_SIMD_SOURCES], *x;
    const float *s;
    int n, block;
    size_t pixels;
    void *dx;
    double *sums;
};

/* Layer normalisation of a few neighbouring places (simd_places.h), whose channels lie in chunks:
 * channel j of chunk k of place p at k * chunk + p * place + j. Forward fills mean and invstd. */
enum { SS_LAYER_PLACES = 64 };
struct ss_rows_layer {
    const void *x, *dy;
    void *out; /* y or dx; dx NULL: not wanted */
    size_t place, chunk;
    int places;                /* at most SS_LAYER_PLACES */
    int width, chunks;         /* 16, 8 or 1 channels in a chunk */
    int last, padded;          /* channels of the last one; the others are there, and zero */
    const float *gamma, *beta; /* (C) */
    float eps;
    float *mean, *invstd;   /* (places) */
    double *dgamma, *dbeta; /* (C): added to */
};

/* Depthwise convolution of `width` (8 or 16) channels: rows of [columns][width], padding included.
 * Strides between rows and between taps count floats and may be negative.
 *   depthwise           y[q] = bias + sum over i < rows, j < taps of x(i, q stride + j) w(i, j)
 *   depthwise_gradient  dw[j] += sum over i < rows, q < columns of x(i, q stride + j) dy(i, q) */
struct ss_rows_depthwise {
    const float *x, *w, *bias, *dy;
    ptrdiff_t x_row, w_row, w_tap, dy_row;
    float *y, *dw;
    int width, rows, taps, stride, columns;
};

/* Of one axis: the places of a pooled output's window, the index in it of the first of them, and one over the number that an
 * average counts; or the windows in which a place is. */
struct ss_pool_span {
    int begin, end, first;
    float share;
};

/* A row of pooled outputs, (places, block), of a map of rows (width, block); of averages also a row of the map's gradient,
 * of outputs'. */
struct ss_rows_pool {
    const void *x;
    void *y;
    void *at;     /* (places, block): the maximum's index in its window; NULL: not wanted */
    int at_bytes; /* 1: uint8_t, 4: int32_t */
    struct ss_pool_span rows;
    const struct ss_pool_span *columns;  /* (places) */
    const struct ss_pool_span *shares[2]; /* gradient: each output's row and column */
    int block, width, places, taps; /* taps: in a row of a window */
};

/* W channels of a map (W: the table's `lanes`) and its tiles for Winograd convolution: tile (i, j) begins at row
 * 4 i - edge[0] and column 4 j - edge[1]. Channel l of a pixel lies at l * lane. Of the W channels `lanes` exist; the
 * others read as zero and are not written. */
struct ss_winograd_map {
    size_t image, pixel, lane; /* elements from one image, pixel, channel to the next */
    int lanes, h, w;
    int stream;            /* output stores bypass the caches; whole, aligned vectors only */
    int edge[2], tiles[2]; /* of rows and columns; tiles of one image */
    const void *residual;  /* output: what is added to it, or NULL */
    /* Output, whole vectors: NULL, or where to put, for every sum_tiles tiles (3, W), these sums_step apart: the first
     * value stored, and the sums of what all differ from it and of its square. */
    float *sums;
    size_t sums_step;
    int sum_tiles;
};

/* m (+)= v u: m(t, k) = the sum over c of v(t, c) u(c, k). Rows t are a convolution's pixels or tiles, or images; c
 * its input channels, k its output channels. W: the table's `lanes`. */
struct ss_panel_product {
    const float *v; /* (blocks of W channels, v_step apart, each (tiles, W)) */
    const float *u; /* (channels, vectors W) */
    float *m;       /* vector k of row t at k * m_step + t * m_row */
    size_t v_step, m_step, m_row;
    int tiles, channels, vectors; /* one or two vectors */
    int adds;                     /* to what is there, instead of overwriting it */
    const float *next;            /* the next call's u, to be prefetched */
    const size_t *v_at;           /* NULL, or where each block begins, instead of v_step apart */
};

static inline const float *ss_panel_block(const struct ss_panel_product *f, int block)
{
    return f->v + (f->v_at ? f->v_at[block] : (size_t)block * f->v_step);
}

/* p (+)= v'd: p(c, k) = the sum over rows t of v(t, c) d(t, k). */
struct ss_outer_product {
    const float *v; /* (tiles, W) */
    const float *d; /* (vectors, d_step apart, each (tiles, W)) */
    float *p;       /* (channels, vectors W) */
    size_t d_step;
    int tiles, channels, vectors, adds; /* at most W channels */
};

/* Of the numbers of activations, and weights that compute, which are floats or bf16 (elements). What is computed are
 * floats; steps and counts are of elements. */
struct ss_act_rows {
    /* `count` rows of n elements, `step` apart, to floats, and back. */
    void (*read)(const void *act, size_t act_step, float *to, size_t to_step, size_t count,
                 size_t n);
    void (*write)(const float *from, size_t from_step, void *act, size_t act_step, size_t count,
                  size_t n);
    /* sums (2*block) += sum of z - shift, sum of (z - shift)^2. At most 1024 pixels a call: sums
     * are fp32 inside an image, and double across images and calls. */
    void (*stats)(const struct ss_rows_extent *e, const void *z, int block, const float *shift,
                  double *sums);
    void (*forward)(const struct ss_rows_forward *f);
    /* sums (2*block) += sum of g, sum of g (z - mean), g being the gradient of u. As stats. */
    void (*backward_sums)(const struct ss_rows_backward *f, double *sums);
    void (*backward_apply)(const struct ss_rows_backward *f);
    /* dst = sum of src[0..n-1], and zero where y <= 0 (y NULL: nowhere). dst may be src[0]. */
    void (*combine)(const void *const *src, int n, const void *y, void *dst, size_t count);
    void (*layer_forward)(const struct ss_rows_layer *f);
    void (*layer_backward)(const struct ss_rows_layer *f);
    void (*gather)(const struct ss_rows_gather *f);
    void (*product)(const void *a, const void *b, void *y, size_t count);
    void (*product_gradients)(const struct ss_rows_product *f);
    /* y = x s, s (block) */
    void (*scale)(const void *x, const float *s, void *y, size_t pixels, int block);
    void (*scale_gradients)(const struct ss_rows_scale *f);
    /* Winograd convolution F(4x4,3x3), see winograd.c, for `count` tiles from tile `first` of the batch on. The 36
     * numbers of a tile (W channels each) lie `xi` apart, tiles W apart. */
    void (*winograd_input)(const struct ss_winograd_map *m, const void *x, int first, int count,
                           float *v, size_t xi);
    void (*winograd_gradient)(const struct ss_winograd_map *m, const void *dy, int first, int count,
                              float *d, size_t xi); /* a tile has 4x4 outputs */
    void (*winograd_output)(const struct ss_winograd_map *m, const float *from, size_t xi,
                            const float *bias, int first, int count, void *y); /* bias (W) */
    /* w (count channels, 3x3, W outputs) to u, channels `step` apart. */
    void (*winograd_weights)(const void *w, int count, float *u, size_t step, size_t xi);
    void (*pool_max)(const struct ss_rows_pool *f);
    void (*pool_average)(const struct ss_rows_pool *f);
    void (*pool_average_gradient)(const struct ss_rows_pool *f);
};

/* Of floats */
struct ss_simd_rows {
    /* count elements from `at` on. */
    void (*update)(const struct ss_update *u, const struct ss_rule_terms *terms, size_t at,
                   size_t count);
    /* The directions of at most SS_UPDATE_CHUNK elements from `at` on; and the sum of squares of so
     * many numbers, in one order whatever the instruction set. */
    void (*direction)(const struct ss_update *u, const struct ss_rule_terms *terms, size_t at,
                      size_t count, float *out);
    double (*squares)(const float *x, size_t count);
    void (*average)(const float *w, float weight, float *ema, size_t count);
    /* Rows of cols numbers, ld apart, which is a multiple of 16: s becomes softmax(scale s), lse the
     * log of the sum of exponentials. gradient: of s and lse the probabilities again, in place, and
     * of their gradient dp that of the s before, in place. */
    void (*softmax)(float *s, int rows, int cols, size_t ld, float scale, float *lse);
    void (*softmax_gradient)(float *s, float *dp, int rows, int cols, size_t ld, float scale,
                             const float *lse);
    /* See wire.h; bf16 0: fp16. */
    void (*pack)(const float *src, float scale, int bf16, uint16_t *dst, size_t count);
    void (*unpack)(const uint16_t *src, float scale, int bf16, float *dst, size_t count);
    void (*sum_16)(const uint16_t *const *src, int n, int bf16, uint16_t *dst, size_t count);
    void (*depthwise)(const struct ss_rows_depthwise *f);
    void (*depthwise_gradient)(const struct ss_rows_depthwise *f);
    /* sum (width) += that of so many pixels */
    void (*depthwise_sum)(const float *x, size_t count, int width, float *sum);
    int lanes; /* W */
    /* As winograd_weights the other way: the gradient. */
    void (*winograd_weight_gradient)(const float *p, int count, size_t step, size_t xi, int adds,
                                     float *dw);
    int product_rows; /* that a panel_product of two vectors keeps in registers */
    void (*panel_product)(const struct ss_panel_product *f);
    void (*outer_product)(const struct ss_outer_product *f);
    /* Rows of bf16, `step` apart, as half as many rows of pairs, which lie behind each other: two rows' numbers, the first
     * one's in the lower half; of an odd row and 0. width: whole vectors. */
    void (*pairs)(const uint16_t *from, size_t step, size_t rows, size_t width, void *to);
};

/* Products of vectors of 16 whose numbers are pairs of bf16, along c or t, but for fp32 sums. outer_product NULL: the
 * panel product of turned operands is faster. */
struct ss_pair_products {
    void (*panel_product)(const struct ss_panel_product *f);
    void (*outer_product)(const struct ss_outer_product *f);
};

/* simd_plain.c and, on x86, the files of the others */
extern const struct ss_simd_rows ss_simd_plain, ss_simd_avx2, ss_simd_avx512;
extern const struct ss_act_rows ss_act_rows_f32_plain, ss_act_rows_f32_avx2, ss_act_rows_f32_avx512,
    ss_act_rows_bf16_plain, ss_act_rows_bf16_avx2, ss_act_rows_bf16_avx512;
/* ss_pairs_amx: where ss_amx_permit gives 1, that is where the processor has AMX for bf16, and Linux, which it asks, lets
 * this process use it. */
extern const struct ss_pair_products ss_pairs_avx512, ss_pairs_amx;
int ss_amx_permit(void);

/* Of this processor */
const struct ss_simd_rows *ss_simd_table(void);
/* NULL: it multiplies no pairs. */
const struct ss_pair_products *ss_simd_pairs(void);
/* For tests: what these are from now on; NULL: the processor's own again. */
void ss_simd_use_pairs(const struct ss_pair_products *products);

const struct ss_act_rows *ss_act_table(enum ss_dtype dtype);

/* `count` elements from `at` on as floats: where they lie, or converted in room. */
const float *ss_floats(enum ss_dtype dtype, const void *elements, size_t at, size_t count,
                       float *room);

#endif
