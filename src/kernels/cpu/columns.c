/* columns.c: see columns.h.
 *
 * A tile is whole images, or a part of one. Its windows are a left operand of product.h, (rows, k), in pieces of k: of
 * planes (block 1) each channel's taps lie one after the other, else each tap's channels. The weight is stored as the right
 * operands of the forward pass, one for each group and piece.
 *
 *   forward           y (rows, outputs)       = the sum over pieces of windows (rows, k) weight' (k, outputs)
 *   data gradient     windows (rows, k)       = dy (rows, outputs) weight (outputs, k), added up in dx
 *   weight gradient   weight' (k, outputs)    = windows' dy, by parts of the tiles, added up in their order
 *
 * For the data gradient the weight is turned first, but where there are few rows, as in a linear layer: with panels of one
 * vector it is a left operand, too, windows' (k, rows) = weight' (k, outputs) dy' (outputs, rows), and these are turned.
 *
 * In bf16, where the processor multiplies pairs of it, operands that are read from tensors are left as they are: a row of a
 * vector has 2 W numbers, and pairs lie beside each other. For the weight gradient those of two rows are put together.
 *
 * Where a tensor's own vectors are such an operand (its block is W, the tile in one image, a window one pixel), it is
 * read and written in place. */
#include "kernels/cpu/columns.h"

#include "core/round.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd.h"

#include <omp.h>
#include <stdint.h>
#include <string.h>

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
    STRIP = 64,
    JOBS = 16,  /* at least so many, where tiles and panels suffice */
    LINE = 512, /* numbers of a map's line that are read at once */
};

struct shape {
    const struct ss_device *cpu;
    const struct ss_conv_shape *s;
    size_t w, shift;         /* W, and its logarithm */
    size_t in, out, taps, k; /* of a group: channels; of a window; of a row */
    size_t groups, plane;    /* plane: pixels of an image of y */
    int planes;              /* x is stored as planes */
    int points;              /* a window is one pixel, and each pixel a window */
    int apart;               /* windows lie side by side, and cover x */
    size_t wide;             /* WIDE; 1: all rows are few, and one tile */
    int x_direct, y_direct;  /* read and written in place */
    int pairs;               /* operands are pairs of bf16 */
    /* Of k: what a piece has at most, and how many there are. */
    size_t piece_taps, piece_channels, piece_k, pieces;
    /* Of pixels: images of a tile or tiles of an image, pixels of a tile at most, how many there are. */
    size_t images, cuts, rows, tiles;
    size_t strip, parts; /* weight gradient: of a piece's k, of the tiles */
};

static int is_in_vectors(const struct shape *f, const struct ss_act *a, size_t channels)
{
    return f->cpu->dtype == SS_DTYPE_F32 && (size_t)a->block == f->w &&
           (f->groups == 1 || channels % f->w == 0);
}

static void choose_pieces(struct shape *f)
{
    const size_t most = f->wide == WIDE ? PIECE : SS_PRODUCT_CHUNK;
    f->piece_taps = f->planes ? f->taps : ss_min(ss_max(most / f->in, 1), f->taps);
    f->piece_channels = f->planes || f->in <= most
                            ? f->in
                            : ss_round_up(ss_divide_up(f->in, ss_divide_up(f->in, most)), 16);
    f->piece_k = f->piece_taps * f->piece_channels;
    f->pieces = ss_divide_up(f->taps, f->piece_taps) * ss_divide_up(f->in, f->piece_channels);
}

/* Of the weight gradient, for each part. */
static size_t gradient_jobs(const struct shape *f)
{
    return f->groups * f->pieces * ss_divide_up(f->piece_k, f->strip) *
           ss_divide_up(f->out, OUTPUTS);
}

static void choose_tiles(struct shape *f)
{
    const size_t n = (size_t)f->s->y.n,
                 fit = ss_min(ss_max(TILE / (f->piece_k + f->out), FEW_ROWS), MOST_ROWS);
    f->images = f->cuts = 1;
    if (f->plane > fit)
        f->cuts = ss_divide_up(f->plane, fit);
    else if (!f->x_direct || !f->y_direct || f->plane < LEAST_ROWS || f->wide == 1)
        f->images = ss_divide_up(n, ss_divide_up(n, fit / f->plane));
    f->x_direct &= f->images == 1;
    f->y_direct &= f->images == 1;
    f->rows = f->images * ss_divide_up(f->plane, f->cuts);
    f->tiles = ss_divide_up(n, f->images) * f->cuts;
    f->strip = f->x_direct ? ss_min(STRIP, f->piece_k) : f->piece_k;
    f->parts = ss_min(ss_divide_up(JOBS, gradient_jobs(f)), f->tiles);
}

static struct shape shape_of(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    struct shape f = {.cpu = cpu,
                      .s = s,
                      .w = ss_product_lanes(),
                      .in = (size_t)ss_conv_inputs(s),
                      .out = (size_t)ss_conv_outputs(s),
                      .taps = (size_t)ss_conv_taps(s),
                      .groups = (size_t)s->groups,
                      .plane = (size_t)s->y.h * (size_t)s->y.w,
                      .planes = s->x.block == 1,
                      .pairs = cpu->dtype == SS_DTYPE_BF16 && ss_simd_pairs()};
    while ((size_t)1 << f.shift < f.w)
        f.shift++;
    f.k = f.in * f.taps;
    f.y_direct = is_in_vectors(&f, &s->y, f.out);
    f.apart = 1;
    for (int a = 0; a < 2; a++)
        f.apart &= s->stride[a] == s->kernel[a] && s->padding[a] == 0 && s->dilation[a] == 1;
    f.apart &= s->x.h == s->y.h * s->stride[0] && s->x.w == s->y.w * s->stride[1];
    f.points = f.apart && f.taps == 1;
    f.wide = f.apart && (size_t)s->y.n * f.plane <= FEW_ROWS ? 1 : WIDE;
    f.x_direct = f.points && is_in_vectors(&f, &s->x, f.in);
    choose_pieces(&f);
    choose_tiles(&f);
    return f;
}

/* Pixels first .. first + rows - 1 of all images'. */
struct tile {
    size_t first, rows;
};

static struct tile tile_of(const struct shape *f, size_t i)
{
    const size_t part = i % f->cuts * f->rows, image = i / f->cuts * f->images;
    return (struct tile){image * f->plane + part,
                         f->cuts > 1 ? ss_min(f->rows, f->plane - part)
                                     : ss_min(f->images, (size_t)f->s->y.n - image) * f->plane};
}

/* These taps of these channels, each up to its end; k of them. The index-th piece. */
struct piece {
    size_t index, tap, last_tap, channel, last_channel, k;
};

static struct piece piece_of(const struct shape *f, size_t i)
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
static size_t weight_floats(const struct shape *f)
{
    return f->groups * f->k * ss_product_round(f->out);
}
static size_t weight_at(const struct shape *f, size_t group, const struct piece *p)
{
    return (group * f->k + p->tap * f->in + p->channel) * ss_product_round(f->out);
}
size_t ss_columns_weight_bytes(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    const struct shape f = shape_of(cpu, s);
    return weight_floats(&f) * sizeof(float);
}

/* Scratch: [turned weights, or the parts of a gradient | of biases | of each thread: windows, outputs, sums of windows, pairs
 * of rows]; of few rows [dy' | windows, of each group's pieces | outputs, of each group | of biases | of each thread: turned
 * windows, a chunk of weights, pairs of rows]. */
static size_t turned_floats(const struct shape *f)
{
    return f->wide == WIDE ? f->out * ss_product_round(f->piece_k)
                           : ss_product_right_floats(f->out, f->rows);
}
static size_t bias_floats(const struct shape *f)
{
    return ss_product_round(f->parts * f->groups * f->out);
}
static size_t window_floats(const struct shape *f)
{
    return ss_product_left_floats(f->rows, f->piece_k);
}
static size_t output_floats(const struct shape *f)
{
    return ss_product_left_floats(f->rows, f->out);
}
static size_t shared_floats(const struct shape *f)
{
    if (f->wide == 1)
        return f->groups * (turned_floats(f) + f->pieces * window_floats(f) + output_floats(f));
    return ss_max(f->groups * f->pieces * turned_floats(f),
                  f->parts > 1 ? f->parts * weight_floats(f) : 0);
}
/* The data gradient of a job's images, where windows overlap and elements are not floats: it is rounded once. */
static size_t sum_floats(const struct shape *f)
{
    return f->cpu->dtype == SS_DTYPE_F32 || f->apart ? 0 : f->images * ss_act_image(&f->s->x, 0);
}
static size_t turned_windows_floats(const struct shape *f)
{
    return ss_product_right_floats(f->piece_k, f->rows);
}
static size_t pair_floats(const struct shape *f, size_t columns)
{
    return f->pairs ? ss_product_left_floats(ss_divide_up(f->rows, 2), columns) : 0;
}
static size_t thread_floats(const struct shape *f)
{
    const size_t pairs = pair_floats(f, f->piece_k) + pair_floats(f, OUTPUTS);
    if (f->wide == WIDE)
        return window_floats(f) + output_floats(f) + ss_round_up(sum_floats(f), 16) + pairs;
    return turned_windows_floats(f) +
           (f->cpu->dtype == SS_DTYPE_F32 ? 0 : SS_PRODUCT_CHUNK * f->piece_k) + pairs;
}
/* Numbers of an operand that n of a tensor's are. */
static size_t terms_of(const struct shape *f, size_t n)
{
    return f->pairs ? ss_divide_up(n, 2) : n;
}

size_t ss_columns_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    const struct shape f = shape_of(cpu, s);
    return (shared_floats(&f) + bias_floats(&f) + (size_t)cpu->threads * thread_floats(&f)) *
           sizeof(float);
}

/* oneDNN 2.6 and 3 cut a map into pieces for their sums, of which small maps have few. Measured with AVX-512 (Xeon, family
 * 6, model 207), 64 to 2048 channels, maps of 2x2 and 4x4: all three passes together take 1.1 to 2 times as long with
 * theirs. With AVX2 they take as long. */
int ss_columns_pays(const struct ss_conv_shape *s)
{
    const int64_t pixels = (int64_t)s->y.n * s->y.h * s->y.w,
                  weights = (int64_t)ss_conv_inputs(s) * ss_conv_taps(s) * ss_conv_outputs(s);
    return ss_product_lanes() == 16 && s->groups == 1 && pixels <= 256 && weights >= 150000;
}

static float *weights_of(const struct ss_device *cpu)
{
    return ss_cpu_scratch(cpu);
}
static float *biases_of(const struct ss_device *cpu, const struct shape *f)
{
    return weights_of(cpu) + shared_floats(f);
}
static float *of_thread(const struct ss_device *cpu, const struct shape *f)
{
    return biases_of(cpu, f) + bias_floats(f) + (size_t)omp_get_thread_num() * thread_floats(f);
}
static float *windows_of(const struct ss_device *cpu, const struct shape *f, size_t group,
                         size_t piece)
{
    return f->wide == WIDE ? of_thread(cpu, f)
                           : weights_of(cpu) + f->groups * turned_floats(f) +
                                 (group * f->pieces + piece) * window_floats(f);
}
/* Of a group's outputs from the first-th on, a multiple of what a vector has of dy. */
static float *gradients_of(const struct ss_device *cpu, const struct shape *f, size_t group,
                           size_t first)
{
    return f->wide == WIDE ? of_thread(cpu, f) + window_floats(f)
                           : windows_of(cpu, f, f->groups, 0) + group * output_floats(f) +
                                 terms_of(f, first) * f->rows;
}
static float *outputs_of(const struct ss_device *cpu, const struct shape *f, size_t group,
                         size_t first)
{
    return f->wide == WIDE
               ? of_thread(cpu, f) + window_floats(f)
               : windows_of(cpu, f, f->groups, 0) + group * output_floats(f) + first * f->rows;
}

/* ---- between tensors and rows of operands ---- */

/* A tensor's numbers into rows; rows' added to floats in a tensor's layout, or over a tensor's; zeros into rows. */
enum way { READ, ADD, WRITE, CLEAR };

/* Neighbouring rows of an operand, and the pixels whose numbers they have: floats from one to the next. Those of an
 * image, or where its windows or outputs are one, that of each image. */
struct line {
    float *rows;
    void *image;
    size_t vector; /* from one vector of a row to the next */
    size_t pixel, step, count;
};

/* Of rows from pixel `at` of an image on, `left` of them and `width` in a line of the map. */
static size_t line_count(const struct shape *f, size_t at, size_t left, size_t width)
{
    return f->plane == 1 ? left : ss_min(width - at % width, left);
}
static size_t line_step(const struct shape *f, const struct ss_act *a, size_t pixels)
{
    return f->plane == 1 ? ss_act_image(a, 0) : pixels * (size_t)a->block;
}

static inline void add_rows(float *to, size_t step, const float *row, size_t row_step, size_t count,
                            size_t n)
{
    for (size_t q = 0; q < count; q++, to += step, row += row_step)
#pragma omp simd
        for (size_t l = 0; l < n; l++)
            to[l] += row[l];
}

/* `bytes` of each, in two parts of a constant size that may overlap: a call of memcpy would take longer. */
static inline void copy_parts(const char *from, size_t step, char *to, size_t row_step,
                              size_t count, size_t bytes, const size_t part)
{
    for (size_t q = 0; q < count; q++, from += step, to += row_step) {
        memcpy(to, from, part);
        memcpy(to + bytes - part, from + bytes - part, part);
    }
}

/* n numbers of `element` bytes to each row. */
static inline void copy_run(const void *from, size_t step, void *to, size_t row_step, size_t count,
                            size_t n, size_t element)
{
    size_t bytes = n * element;
    step *= element;
    for (; bytes > 64; bytes -= 32, from = (const char *)from + 32, to = (char *)to + 32)
        copy_parts(from, step, to, row_step, count, 32, 32);
    if (bytes >= 32)
        copy_parts(from, step, to, row_step, count, bytes, 32);
    else if (bytes >= 16)
        copy_parts(from, step, to, row_step, count, bytes, 16);
    else if (bytes >= 8)
        copy_parts(from, step, to, row_step, count, bytes, 8);
    else if (bytes >= 4)
        copy_parts(from, step, to, row_step, count, bytes, 4);
    else if (bytes > 0)
        copy_parts(from, step, to, row_step, count, bytes, 2);
}

/* Does a vector of a row have 2 W numbers, as they are in a tensor? */
static int has_halves(const struct shape *f, enum way way)
{
    return f->pairs && (way == READ || way == CLEAR);
}

static inline void move_run(const struct shape *f, enum way way, void *act, size_t act_step,
                            float *row, size_t count, size_t n)
{
    const struct ss_act_rows *rows = f->cpu->rows;
    switch (way) {
    case READ:
        if (f->pairs)
            copy_run(act, act_step, row, f->w * sizeof *row, count, n, sizeof(uint16_t));
        else
            rows->read(act, act_step, row, f->w, count, n);
        break;
    case WRITE:
        rows->write(row, f->w, act, act_step, count, n);
        break;
    case CLEAR:
        for (size_t q = 0; q < count; q++)
            memset(row + q * f->w, 0, n * (f->pairs ? sizeof(uint16_t) : sizeof *row));
        break;
    case ADD:
        if (n == 16)
            add_rows(act, act_step, row, f->w, count, 16);
        else
            add_rows(act, act_step, row, f->w, count, n);
        break;
    }
}

/* Where number i of a line's tensor lies. */
static inline void *place_of(const struct shape *f, enum way way, const void *act, size_t i)
{
    return way == ADD ? (float *)(uintptr_t)act + i : ss_at(f->cpu, act, i);
}

/* Numbers of a vector of a row. */
static inline size_t lanes_of(const struct shape *f, enum way way)
{
    return f->w << has_halves(f, way);
}

/* Where number i of a line's first row lies. */
static inline void *number_at(const struct shape *f, enum way way, const struct line *l, size_t i)
{
    const size_t lane = i & (lanes_of(f, way) - 1);
    float *vector = l->rows + (i >> (f->shift + (size_t)has_halves(f, way))) * l->vector;
    return has_halves(f, way) ? (void *)((uint16_t *)(void *)vector + lane)
                              : (void *)(vector + lane);
}

/* `channels` from `first` on. They are the numbers from i on of each row, i_step apart. */
static inline void move_line(const struct shape *f, enum way way, const struct ss_act *a,
                             const struct line *l, size_t first, size_t channels, size_t i,
                             size_t i_step)
{
    const size_t block = (size_t)a->block, plane = (size_t)a->h * (size_t)a->w;
    void *act = place_of(f, way, l->image, (first / block * plane + l->pixel) * block);
    const size_t lanes = lanes_of(f, way);
    size_t at = first % block; /* in its block */
    for (size_t left = l->count ? channels : 0, n; left > 0; left -= n, i += n * i_step) {
        n = ss_min(ss_min(block - at, lanes - (i & (lanes - 1))), left);
        move_run(f, way, place_of(f, way, act, at), l->step, number_at(f, way, l, i), l->count, n);
        at += n;
        if (at == block)
            at = 0, act = place_of(f, way, act, plane * block);
    }
}

static int clamp(int x, int most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

/* Tap t of the windows of `all`, outputs from column `column` of line `line` on. */
static void move_tap(const struct shape *f, enum way way, size_t group, const struct piece *p,
                     size_t t, int line, int column, const struct line *all)
{
    const struct ss_conv_shape *s = f->s;
    const int i = (int)t / s->kernel[1], j = (int)t % s->kernel[1], step = s->stride[1];
    const int h = line * s->stride[0] - s->padding[0] + i * s->dilation[0],
              w = column * step - s->padding[1] + j * s->dilation[1], count = (int)all->count;
    const int width = f->points ? (int)f->plane : s->x.w, one = f->plane == 1,
              inside = h >= 0 && h < s->x.h && !(one && (w < 0 || w >= width));
    /* Of these windows, those from `begin` to before `end` have the tap in the map. */
    int begin = inside ? 0 : count, end = count;
    if (inside && !one) {
        begin = clamp((step - 1 - w) / step, count);
        end = clamp(width > w ? (width - w + step - 1) / step : 0, count);
    }
    const size_t channels = p->last_channel - p->channel, first = group * f->in + p->channel,
                 at = f->planes ? t : (t - p->tap) * channels, each = f->planes ? f->taps : 1;
    struct line part = *all;
    if (way == READ) {
        part.count = (size_t)(begin < end ? begin : end);
        move_line(f, CLEAR, &s->x, &part, first, channels, at, each);
        part.rows = all->rows + (size_t)end * f->w;
        part.count = (size_t)(count - end);
        move_line(f, CLEAR, &s->x, &part, first, channels, at, each);
    }
    if (begin >= end)
        return;
    part.rows = all->rows + (size_t)begin * f->w;
    part.pixel = (size_t)(h * s->x.w + w + begin * step);
    part.step = line_step(f, &s->x, (size_t)step);
    part.count = (size_t)(end - begin);
    move_line(f, way, &s->x, &part, first, channels, at, each);
}

/* To each of rows q .. q + count - 1 the numbers from i on: n that lie side by side from `at` on, `step` further for each
 * row. */
static void read_taps(const struct shape *f, const struct line *l, const void *at, size_t step,
                      size_t q, size_t count, size_t i, size_t n)
{
    const size_t lanes = lanes_of(f, READ);
    for (size_t run; n > 0; n -= run, i += run, at = ss_at(f->cpu, at, run)) {
        float *to = (float *)number_at(f, READ, l, i) + q * f->w;
        run = ss_min(n, lanes - (i & (lanes - 1)));
        if (f->cpu->dtype == SS_DTYPE_F32 || f->pairs)
            copy_run(at, step, to, f->w * sizeof(float), count, run, f->cpu->element);
        else
            f->cpu->rows->read(at, step, to, f->w, count, run);
    }
}

/* The same as move_tap for all taps of a piece of planes, a line of a window at a time. */
static void read_plane_windows(const struct shape *f, size_t group, const struct piece *p, int line,
                               int column, const struct line *all)
{
    char padded[LINE * sizeof(float)]; /* a line of the map, with zeros around it */
    const struct ss_conv_shape *s = f->s;
    const int width = s->x.w, taps = s->kernel[1], step = s->stride[1],
              most = 1 + (LINE - taps) / step, all_count = (int)all->count;
    const size_t element = f->cpu->element, plane = (size_t)s->x.h * (size_t)width;
    size_t i = 0;
    for (size_t c = group * f->in + p->channel; c < group * f->in + p->last_channel; c++)
        for (int k = 0; k < s->kernel[0]; k++, i += (size_t)taps)
            for (int q = 0; q < all_count; q += most) {
                const int h = line * s->stride[0] - s->padding[0] + k * s->dilation[0],
                          w = (column + q) * step - s->padding[1],
                          count = all_count - q < most ? all_count - q : most,
                          all_taps = (count - 1) * step + taps, begin = clamp(-w, all_taps),
                          end = h < 0 || h >= s->x.h ? begin : clamp(width - w, all_taps);
                memset(padded, 0, (size_t)all_taps * element);
                if (begin < end)
                    memcpy(padded + (size_t)begin * element,
                           ss_at(f->cpu, all->image, c * plane + (size_t)(h * width + w + begin)),
                           (size_t)(end - begin) * element);
                read_taps(f, all, padded, (size_t)step, (size_t)q, (size_t)count, i, (size_t)taps);
            }
}

/* A piece of the windows of a tile. */
static void move_windows(const struct shape *f, enum way way, const void *x, size_t group,
                         const struct piece *p, struct tile t, float *rows)
{
    const size_t width = f->points ? f->plane : (size_t)f->s->y.w;
    for (size_t r = 0; r < t.rows;) {
        const size_t place = (t.first + r) % f->plane;
        const struct line line = {
            .rows = rows + r * f->w,
            .image = place_of(f, way, x, (t.first + r) / f->plane * ss_act_image(&f->s->x, 0)),
            .vector = t.rows * f->w,
            .count = line_count(f, place, t.rows - r, width)};
        const int by_lines = way == READ && f->planes && f->plane > 1 && !f->points &&
                             f->s->dilation[1] == 1 && f->s->kernel[1] <= LINE;
        if (by_lines)
            read_plane_windows(f, group, p, (int)(place / width), (int)(place % width), &line);
        for (size_t tap = p->tap; tap < p->last_tap && !by_lines; tap++)
            move_tap(f, way, group, p, tap, (int)(place / width), (int)(place % width), &line);
        if (has_halves(f, way) && p->k % 2)
            move_line(f, CLEAR, &f->s->x, &line, 0, 1, p->k, 1);
        r += line.count;
    }
}

/* Channels of the tile's outputs, as rows, with zeros up to whole vectors, or from them; with the last channel
 * the padding behind it. */
static void move_outputs(const struct shape *f, enum way way, const void *y, size_t first,
                         size_t count, struct tile t, float *rows)
{
    const struct ss_act *a = &f->s->y;
    const size_t block = (size_t)a->block, end = first + count, lanes = lanes_of(f, way);
    const size_t padded =
        way == WRITE && end == (size_t)a->c ? (size_t)ss_act_blocks(a) * block - end : 0;
    for (size_t r = 0; r < t.rows;) {
        const size_t pixel = (t.first + r) % f->plane;
        const struct line line = {
            .rows = rows + r * f->w,
            .image = ss_at(f->cpu, y, (t.first + r) / f->plane * ss_act_image(a, 0)),
            .vector = t.rows * f->w,
            .pixel = pixel,
            .step = line_step(f, a, 1),
            .count = line_count(f, pixel, t.rows - r, f->plane)};
        move_line(f, way, a, &line, first, count, 0, 1);
        for (size_t q = 0; q < line.count && padded; q++)
            memset(ss_at(f->cpu, line.image,
                         (end / block * f->plane + pixel) * block + end % block + q * line.step),
                   0, padded * f->cpu->element);
        if (way == READ && count % lanes)
            move_line(f, CLEAR, a, &line, 0, lanes - count % lanes, count, 1);
        r += line.count;
    }
}

/* A left operand, or a product's vectors. */
struct operand {
    float *at;
    size_t block;
};

/* A tile of vectors that lie in the tensor a, from channel `first` on. */
static struct operand in_place(const struct shape *f, const struct ss_act *a, const void *act,
                               size_t first, struct tile t)
{
    const size_t n = t.first / f->plane, pixel = t.first % f->plane;
    const size_t block = n * (size_t)ss_act_blocks(a) + first / f->w;
    return (struct operand){(float *)(uintptr_t)act + (block * f->plane + pixel) * f->w,
                            f->plane * f->w};
}

static struct operand read_windows(const struct ss_device *cpu, const struct shape *f,
                                   const void *x, size_t group, const struct piece *p,
                                   struct tile t)
{
    if (f->x_direct)
        return in_place(f, &f->s->x, x, group * f->in + p->channel, t);
    float *windows = windows_of(cpu, f, group, p->index);
    if (f->wide == WIDE)
        move_windows(f, READ, x, group, p, t, windows);
    return (struct operand){windows, t.rows * f->w};
}

/* Of a group, from the first-th on. */
static struct operand read_outputs(const struct ss_device *cpu, const struct shape *f,
                                   const void *dy, size_t group, size_t first, size_t count,
                                   struct tile t)
{
    const size_t channel = group * f->out + first;
    if (f->y_direct)
        return in_place(f, &f->s->y, dy, channel, t);
    float *outputs = gradients_of(cpu, f, group, first);
    if (f->wide == WIDE)
        move_outputs(f, READ, dy, channel, count, t, outputs);
    return (struct operand){outputs, t.rows * f->w};
}

/* Few rows are moved once: each thread reads what all have moved. */
static void move_few_windows(const struct ss_device *cpu, const struct shape *f, const void *x)
{
    if (f->wide == WIDE || f->x_direct)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f->groups * f->pieces; i++) {
        const size_t group = i / f->pieces;
        const struct piece p = piece_of(f, i % f->pieces);
        move_windows(f, READ, x, group, &p, tile_of(f, 0), windows_of(cpu, f, group, p.index));
    }
}
static void move_few_outputs(const struct ss_device *cpu, const struct shape *f, const void *dy)
{
    const size_t lanes = lanes_of(f, READ), vectors = ss_divide_up(f->out, lanes);
    if (f->wide == WIDE || f->y_direct)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f->groups * vectors; i++) {
        const size_t group = i / vectors, first = i % vectors * lanes;
        move_outputs(f, READ, dy, group * f->out + first, ss_min(lanes, f->out - first),
                     tile_of(f, 0), gradients_of(cpu, f, group, first));
    }
}

/* ---- weights ---- */

/* The row of channel c's tap t in a piece. */
static size_t row_of(const struct shape *f, const struct piece *p, size_t c, size_t t)
{
    return f->planes ? c * f->taps + t
                     : (t - p->tap) * (p->last_channel - p->channel) + c - p->channel;
}

/* Outputs first .. first + width - 1, a panel, of a piece: from the plain weight (Co,Ci/G,taps), or to it. */
static void move_panel(const struct shape *f, const struct piece *p, size_t group, size_t first,
                       float *panel, float *plain, int back)
{
    const size_t width = ss_min(f->wide * f->w, ss_product_round(f->out) - first);
    for (size_t o = first; o < first + width; o++, panel++)
        for (size_t c = p->channel; c < p->last_channel; c++)
            for (size_t t = p->tap; t < p->last_tap; t++) {
                float *at = panel + row_of(f, p, c, t) * width;
                const size_t place = ((group * f->out + o) * f->in + c) * f->taps + t;
                if (!back)
                    *at = o < f->out ? plain[place] : 0;
                else if (o < f->out)
                    plain[place] = *at;
            }
}

static void move_weight(const struct ss_device *cpu, const struct ss_conv_shape *s, float *plain,
                        float *native, int back)
{
    const struct shape f = shape_of(cpu, s);
    const size_t width = f.wide * f.w;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f.groups * f.pieces; i++) {
        const struct piece p = piece_of(&f, i % f.pieces);
        float *weight = native + weight_at(&f, i / f.pieces, &p);
        for (size_t first = 0; first < f.out; first += width)
            move_panel(&f, &p, i / f.pieces, first, weight + first * p.k, plain, back);
    }
}

void ss_columns_import(const struct ss_device *cpu, const struct ss_conv_shape *s,
                       const float *plain, float *native)
{
    move_weight(cpu, s, (float *)(uintptr_t)plain, native, 0);
}

void ss_columns_export(const struct ss_device *cpu, const struct ss_conv_shape *s,
                       const float *native, float *plain)
{
    move_weight(cpu, s, plain, (float *)(uintptr_t)native, 1);
}

/* The right operands of the data gradient. */
static void turn_weight(const struct ss_device *cpu, const struct shape *f, const void *w)
{
    const size_t width = WIDE * f->w, panels = ss_divide_up(f->piece_k, width);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f->groups * f->pieces * panels; i++) {
        const size_t place = i / panels, row = i % panels * width;
        const struct piece p = piece_of(f, place % f->pieces);
        const void *from = ss_at(cpu, w, weight_at(f, place / f->pieces, &p));
        float *to = weights_of(cpu) + place * turned_floats(f) + row * terms_of(f, f->out);
        if (row < p.k)
            ss_product_turn_panel(p.k, f->out, from, cpu->dtype, f->pairs, row, to);
    }
}

/* The sum of the gradient's parts, in their order. */
static void sum_parts(const struct ss_device *cpu, const struct shape *f, float *dw)
{
    const size_t count = weight_floats(f), parts = f->parts;
    const float *from = weights_of(cpu);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t first = 0; first < count; first += SS_SIMD_PIECE) {
        const size_t n = ss_min(SS_SIMD_PIECE, count - first);
        memcpy(dw + first, from + first, n * sizeof *dw);
        for (size_t p = 1; p < parts; p++)
#pragma omp simd
            for (size_t i = first; i < first + n; i++)
                dw[i] += from[p * count + i];
    }
}

/* ---- passes ---- */

/* In how many parts to cut each of so many jobs: threads have about as much to do, but what they read they move each for
 * itself. */
static size_t cuts_of(const struct ss_device *cpu, size_t jobs)
{
    const size_t threads = (size_t)cpu->threads;
    return threads > 1 && jobs % threads && jobs < 4 * threads ? ss_divide_up(2 * threads, jobs)
                                                               : 1;
}

/* Outputs first .. first + count - 1 of a group, whole panels. */
static void forward_tile(const struct ss_device *cpu, const struct shape *f, const void *x,
                         const void *weight, const float *bias, size_t group, size_t first,
                         size_t count, struct tile t, void *y)
{
    const size_t channel = group * f->out + first;
    const struct operand to =
        f->y_direct ? in_place(f, &f->s->y, y, channel, t)
                    : (struct operand){outputs_of(cpu, f, group, first), t.rows * f->w};
    for (size_t o = 0; bias && o < count; o += f->w) {
        float vector[16] = {0};
        memcpy(vector, bias + channel + o, ss_min(f->w, count - o) * sizeof *bias);
        for (size_t r = 0; r < t.rows; r++)
            memcpy(to.at + o / f->w * to.block + r * f->w, vector, f->w * sizeof *bias);
    }
    for (size_t i = 0; i < f->pieces; i++) {
        const struct piece p = piece_of(f, i);
        const struct operand windows = read_windows(cpu, f, x, group, &p, t);
        ss_product_run(
            &(struct ss_product){.rows = t.rows,
                                 .k = terms_of(f, p.k),
                                 .columns = count,
                                 .wide = f->wide,
                                 .left = windows.at,
                                 .right = ss_at(cpu, weight, weight_at(f, group, &p) + first * p.k),
                                 .right_dtype = cpu->dtype,
                                 .left_block = windows.block,
                                 .to = to.at,
                                 .vector = to.block,
                                 .row = f->w,
                                 .adds = bias || i > 0,
                                 .pairs = f->pairs,
                                 .right_k = p.k});
    }
    if (!f->y_direct)
        move_outputs(f, WRITE, y, channel, count, t, to.at);
}

void ss_columns_forward(const struct ss_device *cpu, const struct ss_conv_shape *s, const void *x,
                        const void *w, const float *bias, void *y)
{
    const struct shape f = shape_of(cpu, s);
    const size_t width = f.wide * f.w, all = f.tiles * f.groups,
                 panels = ss_divide_up(f.out, width);
    const size_t each = ss_divide_up(panels, ss_min(panels, cuts_of(cpu, all))) * width,
                 pieces = ss_divide_up(f.out, each);
    move_few_windows(cpu, &f, x);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < all * pieces; i++) {
        const size_t first = i % pieces * each;
        forward_tile(cpu, &f, x, w, bias, i / pieces / f.tiles, first, ss_min(each, f.out - first),
                     tile_of(&f, i / pieces % f.tiles), y);
    }
}

/* Of an image: what its channels from c on, up to *c, have in a block, and where that begins. */
static size_t run_of(const struct ss_act *a, size_t *c, size_t end, size_t *run)
{
    const size_t block = (size_t)a->block, lane = *c % block,
                 at = *c / block * (size_t)a->h * (size_t)a->w * block + lane;
    *run = ss_min(block - lane, end - *c);
    *c += *run;
    return at;
}

/* Channels of an image, whose numbers have so many bytes. */
static void clear_channels(const struct ss_act *a, size_t first, size_t end, size_t element,
                           void *image)
{
    const size_t block = (size_t)a->block, plane = (size_t)a->h * (size_t)a->w;
    for (size_t c = first, run; c < end;) {
        char *to = (char *)image + run_of(a, &c, end, &run) * element;
        for (size_t p = 0; p < plane && run < block; p++)
            memset(to + p * block * element, 0, run * element);
        if (run == block)
            memset(to, 0, plane * block * element);
    }
}

/* The same from floats. */
static void store_channels(const struct ss_device *cpu, const struct ss_act *a, size_t first,
                           size_t end, const float *from, void *image)
{
    const size_t block = (size_t)a->block;
    for (size_t c = first, run; c < end;) {
        const size_t at = run_of(a, &c, end, &run);
        cpu->rows->write(from + at, block, ss_at(cpu, image, at), block,
                         (size_t)a->h * (size_t)a->w, run);
    }
}

/* Pieces first .. end - 1 of the windows. Where these overlap, dx is floats, of images from `image` on. */
static void backward_tile(const struct ss_device *cpu, const struct shape *f, const void *dy,
                          size_t group, size_t first, size_t end, struct tile t, size_t image,
                          void *dx)
{
    const struct operand outputs = read_outputs(cpu, f, dy, group, 0, f->out, t);
    for (size_t i = first; i < end; i++) {
        const struct piece p = piece_of(f, i);
        const struct operand to =
            f->x_direct ? in_place(f, &f->s->x, dx, group * f->in + p.channel, t)
                        : (struct operand){windows_of(cpu, f, group, i), t.rows * f->w};
        ss_product_run(&(struct ss_product){.rows = t.rows,
                                            .k = terms_of(f, f->out),
                                            .columns = p.k,
                                            .wide = WIDE,
                                            .pairs = f->pairs,
                                            .left = outputs.at,
                                            .right = weights_of(cpu) +
                                                     (group * f->pieces + i) * turned_floats(f),
                                            .left_block = outputs.block,
                                            .to = to.at,
                                            .vector = to.block,
                                            .row = f->w});
        if (!f->x_direct)
            move_windows(f, f->apart ? WRITE : ADD, dx, group, &p,
                         (struct tile){t.first - image * f->plane, t.rows}, to.at);
    }
}

/* A vector of outputs of few rows, as rows of the right operand dy'. */
static void turn_outputs(const struct ss_device *cpu, const struct shape *f, const void *dy,
                         size_t group, size_t first)
{
    const size_t outs = ss_min(lanes_of(f, READ), f->out - first), width = WIDE * f->w,
                 count = terms_of(f, outs);
    const struct operand outputs = read_outputs(cpu, f, dy, group, first, outs, tile_of(f, 0));
    for (size_t r = 0; r < f->rows; r += width) {
        const size_t rows = ss_min(width, f->rows - r), whole = ss_product_round(rows);
        float *to = weights_of(cpu) + group * turned_floats(f) + r * terms_of(f, f->out) +
                    terms_of(f, first) * whole;
        if (rows < whole)
            memset(to, 0, count * whole * sizeof *to);
        ss_product_turn(rows, count, outputs.at + r * f->w, f->w, to, whole);
    }
}

static void few_piece(const struct ss_device *cpu, const struct shape *f, const void *w,
                      size_t group, const struct piece *p, void *dx)
{
    const size_t vector = p->k * f->w, rows = f->rows;
    float *turned = of_thread(cpu, f), *windows = windows_of(cpu, f, group, p->index);
    ss_product_run(&(struct ss_product){.rows = p->k,
                                        .k = terms_of(f, f->out),
                                        .columns = rows,
                                        .wide = WIDE,
                                        .left = ss_at(cpu, w, weight_at(f, group, p)),
                                        .left_dtype = cpu->dtype,
                                        .left_room = turned + turned_windows_floats(f),
                                        .right = weights_of(cpu) + group * turned_floats(f),
                                        .left_block = vector,
                                        .pairs = f->pairs,
                                        .left_vectors = ss_divide_up(f->out, f->w),
                                        .to = turned,
                                        .vector = vector,
                                        .row = f->w});
    for (size_t k = 0; k < p->k; k += f->w)
        for (size_t r = 0; r < rows; r += f->w)
            ss_product_turn(ss_min(f->w, p->k - k), ss_min(f->w, rows - r),
                            turned + r / f->w * vector + k * f->w, f->w,
                            windows + k * rows + r * f->w, f->w);
    move_windows(f, WRITE, dx, group, p, tile_of(f, 0), windows);
}

static void backward_few(const struct ss_device *cpu, const struct shape *f, const void *dy,
                         const void *w, void *dx)
{
    const size_t lanes = lanes_of(f, READ), vectors = ss_divide_up(f->out, lanes);
    move_few_outputs(cpu, f, dy);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f->groups * vectors; i++)
        turn_outputs(cpu, f, dy, i / vectors, i % vectors * lanes);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f->groups * f->pieces; i++) {
        const struct piece p = piece_of(f, i % f->pieces);
        few_piece(cpu, f, w, i / f->pieces, &p, dx);
    }
}

/* Where windows overlap, a job has whole images and all pieces. */
static void backward_tiles(const struct ss_device *cpu, const struct shape *f, const void *dy,
                           const void *w, void *dx)
{
    const struct ss_act *x = &f->s->x;
    const size_t whole = ss_act_image(x, 0);
    const int rounds = sum_floats(f) > 0;
    const size_t each = f->apart ? 1 : f->cuts, jobs = f->tiles / each,
                 cuts = f->apart ? ss_min(cuts_of(cpu, jobs * f->groups), f->pieces) : 1;
    turn_weight(cpu, f, w);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < jobs * f->groups * cuts; i++) {
        const size_t cut = i % cuts, group = i / cuts / jobs, first = i / cuts % jobs * each;
        const size_t image = first / f->cuts * f->images,
                     end = f->apart ? image : ss_min(image + f->images, (size_t)x->n);
        const size_t from = group * f->in, to = from + f->in, begin = rounds ? image : 0;
        float *sums = of_thread(cpu, f) + window_floats(f) + output_floats(f);
        void *sum = rounds ? sums : dx;
        for (size_t n = image; n < end; n++)
            clear_channels(x, from, to, sizeof(float), (float *)sum + (n - begin) * whole);
        for (size_t tile = first; tile < first + each; tile++)
            backward_tile(cpu, f, dy, group, cut * f->pieces / cuts, (cut + 1) * f->pieces / cuts,
                          tile_of(f, tile), begin, sum);
        for (size_t n = image; n < end && rounds; n++)
            store_channels(cpu, x, from, to, sums + (n - image) * whole, ss_at(cpu, dx, n * whole));
    }
}

/* A tile with images for each thread, where one has too many. */
static void share_images(const struct ss_device *cpu, struct shape *f)
{
    const size_t n = (size_t)f->s->x.n;
    if (f->images == 1 || f->wide != WIDE || f->tiles * f->groups >= (size_t)cpu->threads)
        return;
    f->images = ss_divide_up(n, ss_divide_up((size_t)cpu->threads, f->groups));
    f->rows = f->images * f->plane;
    f->tiles = ss_divide_up(n, f->images);
}

void ss_columns_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                              const void *dy, const void *w, void *dx)
{
    struct shape f = shape_of(cpu, s);
    share_images(cpu, &f);
    const size_t padded = (size_t)ss_act_blocks(&s->x) * (size_t)s->x.block;
    for (int n = 0; n < s->x.n && (!f.x_direct || f.wide != WIDE); n++)
        clear_channels(&s->x, (size_t)s->x.c, padded, cpu->element,
                       ss_at(cpu, dx, (size_t)n * ss_act_image(&s->x, 0)));
    if (f.wide == WIDE)
        backward_tiles(cpu, &f, dy, w, dx);
    else
        backward_few(cpu, &f, dy, w, dx);
}

/* What a job of the weight gradient has: `count` outputs of a group, whole panels, and a strip of a piece's k. */
struct job {
    size_t part, group, piece, strip, first, count;
};

static struct job job_of(const struct shape *f, size_t i)
{
    const size_t outputs = ss_divide_up(f->out, OUTPUTS),
                 strips = ss_divide_up(f->piece_k, f->strip);
    struct job job = {.first = i % outputs * OUTPUTS,
                      .strip = i / outputs % strips * f->strip,
                      .piece = i / outputs / strips % f->pieces,
                      .group = i / outputs / strips / f->pieces % f->groups,
                      .part = i / gradient_jobs(f)};
    job.count = ss_min(OUTPUTS, f->out - job.first);
    return job;
}

/* dy's rows as floats: of W outputs from the o-th on. */
static void read_row(const struct shape *f, const struct operand *outputs, size_t o, size_t r,
                     float row[16])
{
    const size_t lanes = lanes_of(f, READ);
    const float *at = outputs->at + o / lanes * outputs->block + r * f->w;
    if (f->pairs)
        f->cpu->rows->read((const uint16_t *)(const void *)at + o % lanes, 0, row, 0, 1, f->w);
    else
        memcpy(row, at, f->w * sizeof *row);
}

static void add_bias(const struct shape *f, const struct operand *outputs, size_t rows,
                     size_t count, double *sums)
{
    for (size_t o = 0; o < count; o += f->w)
        for (size_t r = 0; r < rows; r++) {
            float row[16];
            read_row(f, outputs, o, r, row);
#pragma omp simd
            for (size_t l = 0; l < f->w; l++)
                sums[o + l] += (double)row[l];
        }
}

/* An operand whose numbers are pairs of two rows'. */
static struct operand pair_rows(const struct shape *f, const struct operand *from, size_t rows,
                                size_t columns, float *to)
{
    const size_t block = ss_divide_up(rows, 2) * f->w, width = 2 * f->w;
    for (size_t c = 0; c < columns; c += f->w) {
        const float *at = from->at + c / width * from->block;
        ss_simd_table()->pairs((const uint16_t *)(const void *)at + c % width, width, rows, f->w,
                               to + c / f->w * block);
    }
    return (struct operand){to, block};
}

/* dbias: of the group's outputs. */
static void run_job(const struct ss_device *cpu, const struct shape *f, const struct job *job,
                    const void *x, const void *dy, float *dw, float *dbias)
{
    const size_t begin = job->part * f->tiles / f->parts,
                 end = (job->part + 1) * f->tiles / f->parts;
    const struct piece p = piece_of(f, job->piece);
    const int has_bias = dbias && job->piece == 0 && job->strip == 0;
    double sums[OUTPUTS] = {0};
    for (size_t i = begin; i < end && job->strip < p.k; i++) {
        const struct tile t = tile_of(f, i);
        struct operand windows = read_windows(cpu, f, x, job->group, &p, t),
                       outputs = read_outputs(cpu, f, dy, job->group, job->first, job->count, t);
        if (has_bias)
            add_bias(f, &outputs, t.rows, job->count, sums);
        if (f->pairs) {
            float *room = of_thread(cpu, f) + thread_floats(f) - pair_floats(f, OUTPUTS);
            outputs = pair_rows(f, &outputs, t.rows, job->count, room);
            windows = pair_rows(f, &windows, t.rows, p.k, room - pair_floats(f, f->piece_k));
        }
        ss_product_outer(
            &(struct ss_product_outer){.rows = terms_of(f, t.rows),
                                       .k = ss_min(f->strip, p.k - job->strip),
                                       .columns = job->count,
                                       .wide = f->wide,
                                       .first = job->strip,
                                       .all = p.k,
                                       .left = windows.at + job->strip / f->w * windows.block,
                                       .d = outputs.at,
                                       .left_block = windows.block,
                                       .d_vector = outputs.block,
                                       .to = dw + weight_at(f, job->group, &p) + job->first * p.k,
                                       .adds = i > begin,
                                       .pairs = f->pairs});
    }
    for (size_t o = 0; has_bias && o < job->count; o++)
        dbias[job->first + o] = (float)sums[o];
}

void ss_columns_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                 const void *x, const void *dy, float *dw, float *dbias)
{
    const struct shape f = shape_of(cpu, s);
    const size_t outputs = (size_t)s->y.c;
    float *biases = biases_of(cpu, &f), *parts = f.parts > 1 ? weights_of(cpu) : dw;
    move_few_windows(cpu, &f, x);
    move_few_outputs(cpu, &f, dy);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f.parts * gradient_jobs(&f); i++) {
        const struct job job = job_of(&f, i);
        run_job(cpu, &f, &job, x, dy, parts + job.part * weight_floats(&f),
                dbias ? biases + job.part * outputs + job.group * f.out : NULL);
    }
    if (f.parts > 1)
        sum_parts(cpu, &f, dw);
    for (size_t o = 0; dbias && o < outputs; o++) {
        double sum = 0;
        for (size_t p = 0; p < f.parts; p++)
            sum += (double)biases[p * outputs + o];
        dbias[o] = (float)sum;
    }
}
