/* columns_shape.h: how columns.c cuts a convolution, and copies between its tensors and operands.
 * Private to columns*.c.
 *
 * A tile is whole images, or a section of one. Its windows are a left operand (rows, k) of
 * product.h, in pieces of k. With planes (block 1) k counts the taps of each channel, otherwise
 * the channels of each tap. The weight is stored as the right operands of the forward pass, one
 * for each group and piece. */
#ifndef SS_KERNELS_CPU_COLUMNS_SHAPE_H
#define SS_KERNELS_CPU_COLUMNS_SHAPE_H

#include "core/round.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/product.h"

enum {
    WIDE = 2,        /* vectors of a panel, unless rows are few */
    TILE = 160000,   /* floats of a tile's windows and outputs, to stay in the L2 cache */
    MOST_ROWS = 512, /* maximum of a tile */
    FEW_ROWS = 144,  /* minimum of a tile, overrides TILE: each tile reads all weights */
    LEAST_ROWS = 28, /* minimum of a tile that is read in place */
    PIECE = 512,     /* of k: channels of a tap, or several taps */
    /* Size of a job of the weight gradient: outputs, and k where windows are read in place. Its
     * section of the gradient then stays in the L1 cache. */
    OUTPUTS = 128,
    TURNED_OUTPUTS = 640, /* on a matrix unit, where each job copies windows again */
    STRIP = 64,
    JOBS = 16,      /* minimum, if tiles and panels suffice */
    MOST_TAPS = 49, /* maximum for windows read from a padded copy */
    LEAST_LINE = 7, /* minimum for the same, in pixels */
};

struct shape {
    const struct ss_device *cpu;
    const struct ss_conv_shape *s;
    size_t w, shift;         /* W, the floats of a vector, and log2(W) */
    size_t merged;           /* groups of the convolution in one of these, with zeros between */
    size_t in, out, taps, k; /* per group here: channels; taps of a window; k of a row */
    size_t groups, plane;    /* groups after merging; plane: pixels of an image of y */
    int planes;              /* x is stored as planes */
    int points;              /* 1x1 windows, one per pixel of x */
    int apart;               /* windows do not overlap, and cover x */
    size_t wide;             /* WIDE; 1: few rows, all in one tile */
    int x_direct, y_direct;  /* read and written in place */
    int alike;               /* stride 1, x and y of equal size; neither points nor planes */
    int by_images;           /* windows are copied one pixel of each image at a time */
    int pairs;               /* operands are pairs of bf16 */
    int matrix_unit;         /* a matrix unit multiplies the pairs */
    int padded;              /* windows are views of a copy of x, see ss_columns_pad_windows */
    size_t line, image;      /* of that copy: pixels; images share their border lines */
    /* Of k: maximum of a piece, and the number of pieces. */
    size_t piece_taps, piece_channels, piece_k, pieces;
    /* Of pixels: images of a tile or tiles of an image, maximum pixels of a tile, number of
     * tiles. */
    size_t images, cuts, rows, tiles;
    size_t outputs, strip, parts; /* weight gradient: outputs of a job, k of a strip, parts */
};

struct shape ss_columns_shape(const struct ss_device *cpu, const struct ss_conv_shape *s);

/* Return the number of jobs of the weight gradient per part. */
static inline size_t gradient_jobs(const struct shape *f)
{
    return f->groups * f->pieces * ss_divide_up(f->piece_k, f->strip) *
           ss_divide_up(f->out, f->outputs);
}

/* Return whether windows overlap with stride 1, and each covers pixels of the map. */
static inline int is_sliding(const struct shape *f)
{
    const struct ss_conv_shape *s = f->s;
    int sliding = !f->apart && !f->planes && s->y.block > 1;
    for (int a = 0; a < 2; a++)
        sliding &= s->stride[a] == 1 && s->padding[a] <= s->dilation[a] * (s->kernel[a] - 1);
    return sliding;
}

/* Return whether the data gradient is computed as a forward pass. With stride 1 it is one of dy,
 * with taps in reverse order and inputs as outputs. With few inputs most of their vectors would
 * be padding. */
static inline int is_mirrored(const struct shape *f)
{
    return is_sliding(f) && 8 * f->in >= 7 * ss_product_round(f->in);
}
/* Return the shape of that forward pass. Valid if is_mirrored. */
struct ss_conv_shape ss_columns_mirror(const struct ss_conv_shape *s);

/* Pixels first .. first + rows - 1, counted over all images. */
struct tile {
    size_t first, rows;
};

static inline struct tile tile_of(const struct shape *f, size_t i)
{
    const size_t part = i % f->cuts * f->rows, image = i / f->cuts * f->images;
    return (struct tile){image * f->plane + part,
                         f->cuts > 1 ? ss_min(f->rows, f->plane - part)
                                     : ss_min(f->images, (size_t)f->s->y.n - image) * f->plane};
}

/* Return the rows of operands that a tile's pixels span; padded: with the rows between lines and
 * images. */
static inline size_t span_of(const struct shape *f, size_t pixels)
{
    const size_t h = (size_t)f->s->y.h, w = (size_t)f->s->y.w;
    return !f->padded           ? pixels
           : pixels >= f->plane ? (pixels / f->plane - 1) * f->image + h * f->line
                                : pixels / w * f->line;
}
static inline size_t row_of_pixel(const struct shape *f, size_t pixel)
{
    const size_t w = (size_t)f->s->y.w, at = pixel % f->plane;
    return f->padded ? pixel / f->plane * f->image + at / w * f->line + at % w : pixel;
}
/* Return the distance from a window's first tap to tap t, in rows of the copy. */
static inline size_t tap_of(const struct shape *f, size_t t)
{
    const size_t width = (size_t)f->s->kernel[1];
    return t / width * (size_t)f->s->dilation[0] * f->line + t % width * (size_t)f->s->dilation[1];
}
/* Return the rows of the windows, or of the copy. */
static inline size_t window_rows(const struct shape *f, size_t pixels)
{
    return span_of(f, pixels) + (f->padded ? tap_of(f, f->taps - 1) : 0);
}

/* Piece number `index`: taps tap .. last_tap - 1 of channels channel .. last_channel - 1; k
 * rows. */
struct piece {
    size_t index, tap, last_tap, channel, last_channel, k;
};

static inline struct piece piece_of(const struct shape *f, size_t i)
{
    const size_t each = ss_divide_up(f->in, f->piece_channels);
    struct piece p = {
        .index = i, .tap = i / each * f->piece_taps, .channel = i % each * f->piece_channels};
    p.last_tap = ss_min(p.tap + f->piece_taps, f->taps);
    p.last_channel = ss_min(p.channel + f->piece_channels, f->in);
    p.k = (p.last_tap - p.tap) * (p.last_channel - p.channel);
    return p;
}

/* Floats of a weight, and the offset of a piece: a group has k rows, those of its pieces in
 * sequence. */
static inline size_t weight_floats(const struct shape *f)
{
    return f->groups * f->k * ss_product_round(f->out);
}
static inline size_t weight_at(const struct shape *f, size_t group, const struct piece *p)
{
    return (group * f->k + p->tap * f->in + p->channel * (p->last_tap - p->tap)) *
           ss_product_round(f->out);
}
/* Floats of a transposed weight: the right operands of the data gradient, or dy' with few rows. */
static inline size_t turned_floats(const struct shape *f)
{
    return f->wide == WIDE ? f->out * ss_product_round(f->piece_k)
                           : ss_product_right_floats(f->out, f->rows);
}

/* Return the numbers of an operand that hold n numbers of a tensor. */
static inline size_t terms_of(const struct shape *f, size_t n)
{
    return f->pairs ? ss_divide_up(n, 2) : n;
}
/* Return the row of channel c's tap t in a piece. */
static inline size_t row_of(const struct shape *f, const struct piece *p, size_t c, size_t t)
{
    return f->planes ? c * f->taps + t
                     : (t - p->tap) * (p->last_channel - p->channel) + c - p->channel;
}

/* ---- columns_move.c: copies between tensors and rows of operands ---- */

/* READ: tensor to rows. ADD: add rows to floats in a tensor's layout. WRITE: rows to tensor.
 * CLEAR: zero rows. */
enum way { READ, ADD, WRITE, CLEAR };

/* Return whether a vector of a row has 2 W numbers, in the format of the tensor. */
static inline int has_halves(const struct shape *f, enum way way)
{
    return f->pairs && (way == READ || way == CLEAR);
}

/* Return the numbers of a vector of a row. */
static inline size_t lanes_of(const struct shape *f, enum way way)
{
    return f->w << has_halves(f, way);
}

/* Move a piece of the windows of a tile. */
void ss_columns_move_windows(const struct shape *f, enum way way, const void *x, size_t group,
                             const struct piece *p, struct tile t, float *rows);
/* Copy a piece's channels of a tile's x, with zeros around each image: tap t of row r's window is
 * in row r + tap_of(t). Zeros right of a line serve as those left of the next one, and an image's
 * last lines as the next one's first. */
void ss_columns_pad_windows(const struct shape *f, const void *x, size_t group,
                            const struct piece *p, struct tile t, float *rows);
/* Move channels of the tile's outputs. READ pads the rows with zeros to whole vectors; WRITE with
 * the last channel also zeros the padding channels. */
void ss_columns_move_outputs(const struct shape *f, enum way way, const void *y, size_t first,
                             size_t count, struct tile t, float *rows);

/* ---- columns_weight.c ---- */

/* Zero the gradient between merged groups. */
void ss_columns_clear_between(const struct shape *f, float *dw);
/* Make the right operands of the data gradient. */
void ss_columns_turn_weight(const struct shape *f, const void *w, float *turned);
/* Make the weight of f's mirror m. */
void ss_columns_mirror_weight(const struct shape *f, const void *w, const struct shape *m,
                              void *to);

#endif
