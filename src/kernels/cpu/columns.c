/* columns.c: see columns.h.
 *
 * A tile is whole images, or a part of one. Its windows are a left operand of product.h, (rows, k): of planes
 * (block 1) each channel's taps lie one after the other, as in the weight, else each tap's channels.
 *
 *   forward           y (rows, outputs)       = windows (rows, k) weight' (k, outputs)
 *   data gradient     windows (rows, k)       = dy (rows, outputs) weight (outputs, k), added up in dx
 *   weight gradient   weight' (k, outputs)    = windows' dy, by parts of the tiles, added up in their order
 *
 * Where a tensor's own vectors are such an operand (its block is W, the tile in one image, a window one pixel), it is
 * read and written in place. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/product.h"

#include <omp.h>
#include <string.h>

enum {
    WIDE = 2,                /* vectors of a panel */
    TILE = 1 << 17,          /* floats of a tile's matrix: stays in a second-level cache */
    MOST_ROWS = 512,         /* of a tile */
    JOBS = 16,               /* at least so many, where there are as many panels */
    PIECE = 128,             /* outputs of a job of the weight gradient */
    PARTS = 16,              /* of the tiles, for the weight gradient, */
    PARTS_FLOATS = 16 << 20, /* as long as these are not more; all in all */
};

struct shape {
    const struct ss_conv_shape *s;
    size_t w, shift;         /* W, and its logarithm */
    size_t in, out, taps, k; /* of a group: channels; of a window; of a row */
    size_t groups, plane;    /* pixels of an image of y */
    size_t images, cuts,
        rows; /* of a tile: images; or of an image: tiles; pixels of a tile, at most */
    size_t tiles, parts;
    int planes;             /* x is stored as planes */
    int x_direct, y_direct; /* see above */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}
static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}
static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static int is_in_vectors(const struct shape *f, const struct ss_act *a, size_t channels)
{
    return (size_t)a->block == f->w && (f->groups == 1 || channels % f->w == 0);
}

static struct shape shape_of(const struct ss_conv_shape *s)
{
    struct shape f = {.s = s,
                      .w = ss_product_lanes(),
                      .in = (size_t)ss_conv_inputs(s),
                      .out = (size_t)ss_conv_outputs(s),
                      .taps = (size_t)ss_conv_taps(s),
                      .groups = (size_t)s->groups,
                      .plane = (size_t)s->y.h * (size_t)s->y.w,
                      .images = 1,
                      .cuts = 1,
                      .planes = s->x.block == 1};
    while ((size_t)1 << f.shift < f.w)
        f.shift++;
    f.k = f.in * f.taps;
    const size_t n = (size_t)s->y.n, fit = smaller(larger(TILE / f.k, 16), MOST_ROWS);
    if (f.plane <= fit)
        f.images = smaller(fit / f.plane, n);
    else
        f.cuts = divide_up(f.plane, fit);
    f.rows = f.images * divide_up(f.plane, f.cuts);
    f.tiles = divide_up(n, f.images) * f.cuts;
    f.parts = smaller(smaller(PARTS, f.tiles), PARTS_FLOATS / ((size_t)s->y.c * f.k) + 1);
    f.y_direct = f.images == 1 && is_in_vectors(&f, &s->y, f.out);
    f.x_direct = f.images == 1 && is_in_vectors(&f, &s->x, f.in) && f.taps == 1 &&
                 s->stride[0] == 1 && s->stride[1] == 1 && s->padding[0] == 0 && s->padding[1] == 0;
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
                         f->cuts > 1 ? smaller(f->rows, f->plane - part)
                                     : smaller(f->images, (size_t)f->s->y.n - image) * f->plane};
}

/* Scratch: [the packed weight, or the parts of its gradient | biases | of each thread: windows, outputs]. */
static size_t weight_floats(const struct shape *f)
{
    const size_t out = ss_product_round(f->out);
    return f->groups * larger(f->out * ss_product_round(f->k), f->parts * f->k * out);
}
static size_t bias_floats(const struct shape *f)
{
    return f->parts * f->groups * ss_product_round(f->out);
}
static size_t window_floats(const struct shape *f)
{
    return ss_product_left_floats(f->rows, f->k);
}
static size_t thread_floats(const struct shape *f)
{
    return window_floats(f) + ss_product_left_floats(f->rows, f->out);
}

size_t ss_columns_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    const struct shape f = shape_of(s);
    return (weight_floats(&f) + bias_floats(&f) + (size_t)cpu->threads * thread_floats(&f)) *
           sizeof(float);
}

static float *weight_of(const struct ss_device *cpu)
{
    return ss_cpu_scratch(cpu);
}
static float *biases_of(const struct ss_device *cpu, const struct shape *f)
{
    return weight_of(cpu) + weight_floats(f);
}
static float *windows_of(const struct ss_device *cpu, const struct shape *f)
{
    return biases_of(cpu, f) + bias_floats(f) + (size_t)omp_get_thread_num() * thread_floats(f);
}
static float *outputs_of(const struct ss_device *cpu, const struct shape *f)
{
    return windows_of(cpu, f) + window_floats(f);
}

/* ---- between tensors and rows of operands ---- */

enum way { READ, ADD, WRITE }; /* a tensor's numbers into a row; a row's to, and over, a tensor's */

/* A row of a left operand. */
struct row {
    float *at;
    size_t block;
};

static inline void move_few(enum way way, float *act, float *row, size_t count)
{
    if (way == ADD)
        for (size_t i = 0; i < count; i++)
            act[i] += row[i];
    else if (count == 16) /* a constant size is a move */
        memcpy(way == READ ? row : act, way == READ ? act : row, 16 * sizeof *row);
    else if (count == 8)
        memcpy(way == READ ? row : act, way == READ ? act : row, 8 * sizeof *row);
    else
        for (size_t i = 0; i < count; i++)
            *(way == READ ? row + i : act + i) = *(way == READ ? act + i : row + i);
}

/* `count` numbers from act on, which are those from i on of the row. */
static inline void move_run(const struct shape *f, enum way way, float *act, const struct row *row,
                            size_t i, size_t count)
{
    while (count > 0) {
        const size_t lane = i & (f->w - 1), n = smaller(f->w - lane, count);
        move_few(way, act, row->at + (i >> f->shift) * row->block + lane, n);
        act += n;
        i += n;
        count -= n;
    }
}

/* Channels first .. first + count - 1 of a pixel, which lie in runs of at most a block. */
static inline void move_channels(const struct shape *f, enum way way, const struct ss_act *a,
                                 float *act, size_t n, size_t pixel, size_t first, size_t count,
                                 const struct row *row, size_t i)
{
    const size_t block = (size_t)a->block, plane = (size_t)a->h * (size_t)a->w;
    const size_t blocks = (size_t)ss_act_blocks(a);
    for (size_t c = first, end = first + count; c < end;) {
        const size_t lane = c % block, run = smaller(block - lane, end - c);
        move_run(f, way, act + ((n * blocks + c / block) * plane + pixel) * block + lane, row, i,
                 run);
        c += run;
        i += run;
    }
}

/* A pixel's window: where its first tap is, and which taps are in the map. */
struct window {
    size_t image;
    int top, left, rows[2], columns[2];
};

static struct window window_of(const struct shape *f, size_t q)
{
    const struct ss_conv_shape *s = f->s;
    const int p = (int)(q % f->plane);
    struct window w = {.image = q / f->plane,
                       .top = p / s->y.w * s->stride[0] - s->padding[0],
                       .left = p % s->y.w * s->stride[1] - s->padding[1]};
    for (int axis = 0; axis < 2; axis++) {
        const int begin = axis ? w.left : w.top, size = axis ? s->x.w : s->x.h,
                  step = s->dilation[axis];
        int *in = axis ? w.columns : w.rows;
        in[0] = begin < 0 ? (-begin + step - 1) / step : 0;
        in[1] = begin < size ? (size - begin + step - 1) / step : 0;
        in[1] = in[1] < s->kernel[axis] ? in[1] : s->kernel[axis];
    }
    return w;
}

static int is_cut(const struct shape *f, const struct window *w)
{
    return w->rows[0] > 0 || w->columns[0] > 0 || w->rows[1] < f->s->kernel[0] ||
           w->columns[1] < f->s->kernel[1];
}

static inline void move_window(const struct shape *f, enum way way, float *x, size_t group,
                               const struct window *w, const struct row *row)
{
    const struct ss_conv_shape *s = f->s;
    const int together = f->planes && s->dilation[1] == 1; /* the taps of a row */
    for (int i = w->rows[0]; i < w->rows[1]; i++)
        for (int j = w->columns[0]; j < w->columns[1]; j = together ? w->columns[1] : j + 1) {
            const size_t tap = (size_t)(i * s->kernel[1] + j),
                         pixel = (size_t)((w->top + i * s->dilation[0]) * s->x.w + w->left +
                                          j * s->dilation[1]);
            if (!f->planes) {
                move_channels(f, way, &s->x, x, w->image, pixel, group * f->in, f->in, row,
                              tap * f->in);
                continue;
            }
            const size_t plane = (size_t)s->x.h * (size_t)s->x.w,
                         run = together ? (size_t)(w->columns[1] - j) : 1;
            for (size_t c = 0; c < f->in; c++)
                move_run(f, way,
                         x + (w->image * (size_t)s->x.c + group * f->in + c) * plane + pixel, row,
                         c * f->taps + tap, run);
        }
}

static void gather_windows(const struct shape *f, const float *x, size_t group, struct tile t,
                           float *to)
{
    for (size_t r = 0; r < t.rows; r++) {
        const struct row row = {to + r * f->w, t.rows * f->w};
        const struct window w = window_of(f, t.first + r);
        for (size_t b = 0; b * f->w < f->k && is_cut(f, &w); b++)
            memset(row.at + b * row.block, 0, f->w * sizeof *to);
        move_window(f, READ, (float *)(uintptr_t)x, group, &w, &row);
    }
}

static void scatter_windows(const struct shape *f, float *from, size_t group, struct tile t,
                            float *dx)
{
    for (size_t r = 0; r < t.rows; r++) {
        const struct row row = {from + r * f->w, t.rows * f->w};
        const struct window w = window_of(f, t.first + r);
        move_window(f, ADD, dx, group, &w, &row);
    }
}

/* Channels of the tile's outputs, as rows or from them; with the last channel the padding behind it. */
static void move_outputs(const struct shape *f, enum way way, float *y, size_t first, size_t count,
                         struct tile t, float *rows)
{
    const struct ss_act *a = &f->s->y;
    const size_t rest = (size_t)(a->c % a->block), end = first + count;
    for (size_t r = 0; r < t.rows; r++) {
        const struct row row = {rows + r * f->w, t.rows * f->w};
        const size_t n = (t.first + r) / f->plane, pixel = (t.first + r) % f->plane;
        move_channels(f, way, a, y, n, pixel, first, count, &row, 0);
        if (way == WRITE && rest && end == (size_t)a->c) {
            const size_t place =
                (n * (size_t)ss_act_blocks(a) + end / (size_t)a->block) * f->plane + pixel;
            memset(y + place * (size_t)a->block + rest, 0, ((size_t)a->block - rest) * sizeof *y);
        }
    }
}

/* A left operand, or a product's vectors. */
struct operand {
    float *at;
    size_t block;
};

/* A tile of vectors that lie in the tensor a, from channel `first` on. */
static struct operand in_place(const struct shape *f, const struct ss_act *a, const float *act,
                               size_t first, struct tile t)
{
    const size_t n = t.first / f->plane, pixel = t.first % f->plane;
    const size_t block = n * (size_t)ss_act_blocks(a) + first / f->w;
    return (struct operand){(float *)(uintptr_t)act + (block * f->plane + pixel) * f->w,
                            f->plane * f->w};
}

static struct operand read_windows(const struct ss_device *cpu, const struct shape *f,
                                   const float *x, size_t group, struct tile t)
{
    if (f->x_direct)
        return in_place(f, &f->s->x, x, group * f->in, t);
    float *windows = windows_of(cpu, f);
    gather_windows(f, x, group, t, windows);
    return (struct operand){windows, t.rows * f->w};
}

static struct operand read_outputs(const struct ss_device *cpu, const struct shape *f,
                                   const float *dy, size_t first, size_t count, struct tile t)
{
    if (f->y_direct)
        return in_place(f, &f->s->y, dy, first, t);
    float *outputs = outputs_of(cpu, f);
    move_outputs(f, READ, (float *)(uintptr_t)dy, first, count, t, outputs);
    return (struct operand){outputs, t.rows * f->w};
}

/* ---- weights ---- */

/* The place of channel c's tap t in a row of windows. */
static inline size_t place_of(const struct shape *f, size_t c, size_t t)
{
    return f->planes ? c * f->taps + t : t * f->in + c;
}

/* Panels of weight' (k, outputs) of each group. */
static void pack_forward(const struct ss_device *cpu, const struct shape *f, const float *w)
{
    const size_t width = WIDE * f->w, panels = divide_up(f->out, width),
                 all = ss_product_round(f->out);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < panels * f->groups; i++) {
        const size_t group = i / panels, first = i % panels * width,
                     row = smaller(width, all - first);
        float *to = weight_of(cpu) + (group * all + first) * f->k;
        for (size_t o = first; o < first + row; o++, to++) {
            const float *from = w + (group * f->out + o) * f->k;
            for (size_t c = 0; c < f->in; c++)
                for (size_t t = 0; t < f->taps; t++)
                    to[place_of(f, c, t) * row] = o < f->out ? *from++ : 0;
        }
    }
}

/* Panels of weight (outputs, k) of each group. */
static void pack_backward(const struct ss_device *cpu, const struct shape *f, const float *w)
{
    const size_t width = WIDE * f->w, all = ss_product_round(f->k);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f->out * f->groups; i++) {
        const size_t group = i / f->out, o = i % f->out;
        float *to = weight_of(cpu) + group * f->out * all;
        const float *from = w + i * f->k;
        for (size_t first = 0; first < all; first += width, to += f->out * width) {
            const size_t row = smaller(width, all - first);
            if (f->k < first + row)
                memset(to + o * row, 0, row * sizeof *to);
        }
        to = weight_of(cpu) + group * f->out * all;
        for (size_t c = 0; c < f->in; c++)
            for (size_t t = 0; t < f->taps; t++) {
                const size_t place = place_of(f, c, t), first = place / width * width;
                to[first * f->out + o * smaller(width, all - first) + place - first] = *from++;
            }
    }
}

/* The parts' sum, as the plain gradient. */
static void sum_parts(const struct ss_device *cpu, const struct shape *f, float *dw)
{
    const size_t width = WIDE * f->w, out = ss_product_round(f->out);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f->out * f->groups; i++) {
        const size_t o = i % f->out, first = o / width * width, row = smaller(width, out - first);
        const float *from = weight_of(cpu) + (i / f->out * out + first) * f->k + o - first;
        float *to = dw + i * f->k;
        for (size_t c = 0; c < f->in; c++)
            for (size_t t = 0; t < f->taps; t++) {
                const float *part = from + place_of(f, c, t) * row;
                float sum = part[0];
                for (size_t p = 1; p < f->parts; p++)
                    sum += part[p * f->groups * f->k * out];
                *to++ = sum;
            }
    }
}

/* ---- passes ---- */

/* Outputs first .. first + count - 1 of a group, whole panels. */
static void forward_tile(const struct ss_device *cpu, const struct shape *f, const float *x,
                         const float *bias, size_t group, size_t first, size_t count, struct tile t,
                         float *y)
{
    const size_t channel = group * f->out + first;
    const struct operand windows = read_windows(cpu, f, x, group, t);
    const struct operand to = f->y_direct ? in_place(f, &f->s->y, y, channel, t)
                                          : (struct operand){outputs_of(cpu, f), t.rows * f->w};
    for (size_t o = 0; bias && o < count; o += f->w) {
        float vector[16] = {0};
        memcpy(vector, bias + channel + o, smaller(f->w, count - o) * sizeof *bias);
        for (size_t r = 0; r < t.rows; r++)
            memcpy(to.at + o / f->w * to.block + r * f->w, vector, f->w * sizeof *bias);
    }
    ss_product_run(&(struct ss_product){.rows = t.rows,
                                        .k = f->k,
                                        .columns = count,
                                        .wide = WIDE,
                                        .left = windows.at,
                                        .right = weight_of(cpu) +
                                                 (group * ss_product_round(f->out) + first) * f->k,
                                        .left_block = windows.block,
                                        .to = to.at,
                                        .vector = to.block,
                                        .row = f->w,
                                        .adds = bias != NULL});
    if (!f->y_direct)
        move_outputs(f, WRITE, y, channel, count, t, to.at);
}

void ss_columns_forward(const struct ss_device *cpu, const struct ss_conv_shape *s, const float *x,
                        const float *w, const float *bias, float *y)
{
    const struct shape f = shape_of(s);
    const size_t width = WIDE * f.w, all = f.tiles * f.groups, panels = divide_up(f.out, width);
    const size_t each = divide_up(panels, smaller(panels, divide_up(JOBS, all))) * width,
                 pieces = divide_up(f.out, each);
    pack_forward(cpu, &f, w);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < all * pieces; i++) {
        const size_t first = i % pieces * each;
        forward_tile(cpu, &f, x, bias, i / pieces / f.tiles, first, smaller(each, f.out - first),
                     tile_of(&f, i / pieces % f.tiles), y);
    }
}

static void clear_channels(const struct shape *f, size_t group, size_t n, float *dx)
{
    const struct ss_act *a = &f->s->x;
    const size_t block = (size_t)a->block, plane = (size_t)a->h * (size_t)a->w,
                 first = group * f->in;
    const size_t end =
        first + f->in == (size_t)a->c ? (size_t)ss_act_blocks(a) * block : first + f->in;
    for (size_t c = first; c < end;) {
        const size_t lane = c % block, run = smaller(block - lane, end - c);
        float *to = dx + (n * (size_t)ss_act_blocks(a) + c / block) * plane * block + lane;
        for (size_t p = 0; p < plane && run < block; p++, to += block)
            memset(to, 0, run * sizeof *to);
        if (run == block)
            memset(to, 0, plane * block * sizeof *to);
        c += run;
    }
}

static void backward_tile(const struct ss_device *cpu, const struct shape *f, const float *dy,
                          size_t group, struct tile t, float *dx)
{
    const struct operand outputs = read_outputs(cpu, f, dy, group * f->out, f->out, t);
    const struct operand to = f->x_direct ? in_place(f, &f->s->x, dx, group * f->in, t)
                                          : (struct operand){windows_of(cpu, f), t.rows * f->w};
    ss_product_run(
        &(struct ss_product){.rows = t.rows,
                             .k = f->out,
                             .columns = f->k,
                             .wide = WIDE,
                             .left = outputs.at,
                             .right = weight_of(cpu) + group * f->out * ss_product_round(f->k),
                             .left_block = outputs.block,
                             .to = to.at,
                             .vector = to.block,
                             .row = f->w});
    if (!f->x_direct)
        scatter_windows(f, to.at, group, t, dx);
}

/* A job has whole images, whose windows overlap; where they do not, a tile. */
void ss_columns_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                              const float *dy, const float *w, float *dx)
{
    const struct shape f = shape_of(s);
    const size_t each = f.x_direct ? 1 : f.cuts, jobs = f.tiles / each;
    pack_backward(cpu, &f, w);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < jobs * f.groups; i++) {
        const size_t group = i / jobs, first = i % jobs * each;
        const struct tile t = tile_of(&f, first);
        for (size_t n = 0; n < f.images && !f.x_direct; n++)
            if (t.first / f.plane + n < (size_t)s->x.n)
                clear_channels(&f, group, t.first / f.plane + n, dx);
        for (size_t tile = first; tile < first + each; tile++)
            backward_tile(cpu, &f, dy, group, tile_of(&f, tile), dx);
    }
}

/* Outputs first .. first + count - 1 of a group, whole panels, of one part of the tiles. */
static void gradient_part(const struct ss_device *cpu, const struct shape *f, const float *x,
                          const float *dy, size_t part, size_t group, size_t first, size_t count,
                          float *dbias)
{
    const size_t out = ss_product_round(f->out);
    const size_t begin = part * f->tiles / f->parts, end = (part + 1) * f->tiles / f->parts;
    float *to = weight_of(cpu) + ((part * f->groups + group) * out + first) * f->k;
    double sums[PIECE] = {0};
    for (size_t i = begin; i < end; i++) {
        const struct tile t = tile_of(f, i);
        const struct operand windows = read_windows(cpu, f, x, group, t),
                             outputs = read_outputs(cpu, f, dy, group * f->out + first, count, t);
        ss_product_outer(&(struct ss_product_outer){.rows = t.rows,
                                                    .k = f->k,
                                                    .columns = count,
                                                    .wide = WIDE,
                                                    .left = windows.at,
                                                    .d = outputs.at,
                                                    .left_block = windows.block,
                                                    .d_vector = outputs.block,
                                                    .to = to,
                                                    .adds = i > begin});
        for (size_t o = 0; dbias && o < count; o++)
            for (size_t r = 0; r < t.rows; r++)
                sums[o] += (double)outputs.at[o / f->w * outputs.block + r * f->w + o % f->w];
    }
    for (size_t o = 0; dbias && o < count; o++)
        dbias[(part * f->groups + group) * f->out + first + o] = (float)sums[o];
}

void ss_columns_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                 const float *x, const float *dy, float *dw, float *dbias)
{
    const struct shape f = shape_of(s);
    const size_t pieces = divide_up(f.out, PIECE), all = pieces * f.groups;
    float *biases = dbias ? biases_of(cpu, &f) : NULL;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < all * f.parts; i++) {
        const size_t first = i % pieces * PIECE;
        gradient_part(cpu, &f, x, dy, i / all, i % all / pieces, first,
                      smaller(PIECE, f.out - first), biases);
    }
    sum_parts(cpu, &f, dw);
    for (size_t o = 0; dbias && o < (size_t)s->y.c; o++) {
        double sum = 0;
        for (size_t p = 0; p < f.parts; p++)
            sum += (double)biases[p * (size_t)s->y.c + o];
        dbias[o] = (float)sum;
    }
}
