/* columns_shape.h: how columns.c cuts a convolution, and what moves between its tensors and operands. Inside columns*.c.
 *
 * A tile is whole images, or a part of one. Its windows are a left operand of product.h, (rows, k), in pieces of k: of
 * planes (block 1) each channel's taps lie one after the other, else each tap's channels. The weight is stored as the right
 * operands of the forward pass, one for each group and piece. */
#ifndef SS_KERNELS_CPU_COLUMNS_SHAPE_H
#define SS_KERNELS_CPU_COLUMNS_SHAPE_H

#include "core/round.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/product.h"

enum {
    WIDE = 2,        /* vectors of a panel, where rows are not few */
    TILE = 160000,   /* floats of a tile's windows and outputs: they stay in a second-level cache */
    MOST_ROWS = 512, /* of a tile */
    FEW_ROWS = 144,  /* of a tile, whatever TILE says: each reads all weights once */
    LEAST_ROWS = 28, /* of one that is read in place */
    PIECE = 512,     /* of k; by channels, or of several taps */
    /* Of a job of the weight gradient: outputs, and k where windows are read in place. Its part of the gradient then
     * stays in a first-level cache. */
    OUTPUTS = 128,
    TURNED_OUTPUTS = 640, /* on a matrix unit: each job copies windows anew */
    STRIP = 64,
    JOBS = 16,      /* at least so many, where tiles and panels suffice */
    MOST_TAPS = 49, /* where windows are read of a copy with zeros around it */
    LEAST_LINE = 7, /* there, too: in pixels */
};

struct shape {
    const struct ss_device *cpu;
    const struct ss_conv_shape *s;
    size_t w, shift;         /* W, and its logarithm */
    size_t merged;           /* groups of the convolution in one of these, with zeros between */
    size_t in, out, taps, k; /* of a group here: channels; of a window; of a row */
    size_t groups, plane;    /* plane: pixels of an image of y */
    int planes;              /* x is stored as planes */
    int points;              /* a window is one pixel, and each pixel a window */
    int apart;               /* windows lie side by side, and cover x */
    size_t wide;             /* WIDE; 1: all rows are few, and one tile */
    int x_direct, y_direct;  /* read and written in place */
    int alike;               /* windows with stride 1, as many as pixels, which are no planes */
    int by_images;           /* windows are moved a pixel of each image at a time */
    int pairs;               /* operands are pairs of bf16 */
    int matrix_unit;         /* which multiplies the pairs */
    int padded;              /* windows are parts of a copy of x, see ss_columns_pad_windows */
    size_t line, image;      /* of that copy: pixels; an image's last lines are the next one's first */
    /* Of k: what a piece has at most, and how many there are. */
    size_t piece_taps, piece_channels, piece_k, pieces;
    /* Of pixels: images of a tile or tiles of an image, pixels of a tile at most, how many there are. */
    size_t images, cuts, rows, tiles;
    size_t outputs, strip, parts; /* weight gradient: of a job, of a piece's k, of the tiles */
};

struct shape ss_columns_shape(const struct ss_device *cpu, const struct ss_conv_shape *s);

/* Of the weight gradient, for each part. */
static inline size_t gradient_jobs(const struct shape *f)
{
    return f->groups * f->pieces * ss_divide_up(f->piece_k, f->strip) *
           ss_divide_up(f->out, f->outputs);
}

/* Do windows overlap, side by side, each with a part of the map? */
static inline int is_sliding(const struct shape *f)
{
    const struct ss_conv_shape *s = f->s;
    int sliding = !f->apart && !f->planes && s->y.block > 1;
    for (int a = 0; a < 2; a++)
        sliding &= s->stride[a] == 1 && s->padding[a] <= s->dilation[a] * (s->kernel[a] - 1);
    return sliding;
}

/* With stride 1 the data gradient is a forward pass itself: dy's, whose windows have the taps in the other order, and whose
 * outputs are the inputs. Where these are few, most of their vectors would be padding. */
static inline int is_mirrored(const struct shape *f)
{
    return is_sliding(f) && 8 * f->in >= 7 * ss_product_round(f->in);
}
/* Where is_mirrored. */
struct ss_conv_shape ss_columns_mirror(const struct ss_conv_shape *s);

/* Pixels first .. first + rows - 1 of all images'. */
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

/* Rows of operands that a tile's pixels are; padded: lines and images have others between them. */
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
/* From a window's first tap to its t-th, in rows of the copy. */
static inline size_t tap_of(const struct shape *f, size_t t)
{
    const size_t width = (size_t)f->s->kernel[1];
    return t / width * (size_t)f->s->dilation[0] * f->line + t % width * (size_t)f->s->dilation[1];
}
/* Of windows, or the copy. */
static inline size_t window_rows(const struct shape *f, size_t pixels)
{
    return span_of(f, pixels) + (f->padded ? tap_of(f, f->taps - 1) : 0);
}

/* These taps of these channels, each up to its end; k of them. The index-th piece. */
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

/* Floats of a weight, of which a group has k rows and a piece those behind its first one. */
static inline size_t weight_floats(const struct shape *f)
{
    return f->groups * f->k * ss_product_round(f->out);
}
static inline size_t weight_at(const struct shape *f, size_t group, const struct piece *p)
{
    return (group * f->k + p->tap * f->in + p->channel * (p->last_tap - p->tap)) *
           ss_product_round(f->out);
}
/* The same of a turned weight: the right operands of the data gradient, or of few rows dy'. */
static inline size_t turned_floats(const struct shape *f)
{
    return f->wide == WIDE ? f->out * ss_product_round(f->piece_k)
                           : ss_product_right_floats(f->out, f->rows);
}

/* Numbers of an operand that n of a tensor's are. */
static inline size_t terms_of(const struct shape *f, size_t n)
{
    return f->pairs ? ss_divide_up(n, 2) : n;
}
/* The row of channel c's tap t in a piece. */
static inline size_t row_of(const struct shape *f, const struct piece *p, size_t c, size_t t)
{
    return f->planes ? c * f->taps + t
                     : (t - p->tap) * (p->last_channel - p->channel) + c - p->channel;
}

/* ---- columns_move.c: between tensors and rows of operands ---- */

/* A tensor's numbers into rows; rows' added to floats in a tensor's layout, or over a tensor's; zeros into rows. */
enum way { READ, ADD, WRITE, CLEAR };

/* Does a vector of a row have 2 W numbers, as they are in a tensor? */
static inline int has_halves(const struct shape *f, enum way way)
{
    return f->pairs && (way == READ || way == CLEAR);
}

/* Numbers of a vector of a row. */
static inline size_t lanes_of(const struct shape *f, enum way way)
{
    return f->w << has_halves(f, way);
}

/* A piece of the windows of a tile. */
void ss_columns_move_windows(const struct shape *f, enum way way, const void *x, size_t group,
                             const struct piece *p, struct tile t, float *rows);
/* A copy of a tile's x, channels of a piece, with zeros around each image: the window of row r has its tap t in row
 * r + tap_of(t). Zeros right of a line are those left of the next one, and an image's last lines the next one's first. */
void ss_columns_pad_windows(const struct shape *f, const void *x, size_t group,
                            const struct piece *p, struct tile t, float *rows);
/* Channels of the tile's outputs, as rows, with zeros up to whole vectors, or from them; with the last channel
 * the padding behind it. */
void ss_columns_move_outputs(const struct shape *f, enum way way, const void *y, size_t first,
                             size_t count, struct tile t, float *rows);

/* ---- columns_weight.c ---- */

/* The gradient of what lies between merged groups. */
void ss_columns_clear_between(const struct shape *f, float *dw);
/* The right operands of the data gradient. */
void ss_columns_turn_weight(const struct shape *f, const void *w, float *turned);
/* The weight of f's mirror m. */
void ss_columns_mirror_weight(const struct shape *f, const void *w, const struct shape *m,
                              void *to);

#endif
