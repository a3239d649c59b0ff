/* winograd.c: Winograd convolution (contract in winograd.h). Each tile of 4x4 outputs (6x6 inputs)
 * is transformed into 36 numbers, and the convolution into 36 matrix products, one for each index
 * xi:
 *
 *   V[xi] (tiles, Ci)   transformed inputs          U[xi] (Ci, Co)   transformed weights
 *   M[xi] (tiles, Co) = V[xi] U[xi]                 the inverse transform of M gives the outputs
 *
 * The data gradient is the same with the weight transposed and rotated. The weight gradient is the
 * inverse transform of P[xi] (Ci, Co) = V[xi]' D[xi], where D is the transformed output gradient.
 *
 * V, M and D are stored as (xi, vector, tile, W): W channels of a tile are contiguous. U and P are
 * stored as (xi, panel, channel, outputs): a panel has two vectors of outputs; the last one may
 * have one. All loops read and write whole vectors, and nothing is packed.
 *
 * If U fits into a cache (WHOLE_BYTES), each thread computes all three steps of its blocks of
 * tiles, and V and M stay in its cache. Otherwise (512 channels: 38 MB), and where few tiles
 * would read a large U, all threads share a block of tiles: each takes panels and transforms
 * their weights just before use, and U is never stored as a whole. P is handled likewise, by its
 * size alone.
 *
 * Sums run over at most CHUNK channels, or over a block of tiles, from zero; the partial sums are
 * then added. A single chain of 640 channels has 2 to 4 times the rounding error.
 *
 * Measured on Zen 4: products reach 95 % of their peak, transforms take a fifth of the time, and
 * maps of 14x14 and 7x7 pixels have 1.31 times as many tiles as they need. Stores that bypass the
 * caches save 5 to 8 % of a WideResNet's step.
 *
 * If two threads share no cache (a line takes 380 to 470 ns for the round trip instead of 75 to
 * 150), the weight gradient of 64 channels (16x16, batch 64) takes 1.5 ms by shares instead of
 * 2.5 ms. That of 160 channels (32x32, batch 32) takes 16.7 ms instead of 20.0 ms, because each
 * thread adds to the same section of the sums in every block. */
#include "kernels/cpu/winograd.h"

#include "core/round.h"
#include "kernels/cpu/norm_act.h"
#include "kernels/cpu/simd.h"

#include <omp.h>
#include <string.h>

enum {
    XI = 36,
    MOST_LANES = 16,
    PANEL = 2, /* vectors */
    /* Maximum channels of a sum. 128 are 4 % faster, but results of GoogLeNet are then 10 times
     * as far from fp64. */
    CHUNK = 32,
    /* Tiles of a block: of one shared by all threads; of a thread's own, minimum and maximum,
     * whose V and M fit into half of its cache if that has space for LEAST_TILES. PART_TILES: of
     * one job of transforms. */
    SHARED_TILES = 128,
    LEAST_TILES = 28,
    MOST_TILES = 112,
    /* If a product has fewer rows than this in registers, and each thread has MANY_BLOCKS blocks
     * or more, a block is a multiple of these rows. */
    FEW_ROWS = 8,
    MANY_BLOCKS = 8,
    LEAST_SUMS = 512, /* minimum of partial sums for BatchNorm, given as many tiles */
    PART_TILES = 32,
    PART_CHANNELS = 64, /* of a P that is not stored as a whole */
    /* Weight gradient of few channels, by shares of the tiles: minimum and maximum number of
     * shares, tiles of one, bytes of all their P, bytes of a thread's V and D. */
    LEAST_SHARES = 8,
    MOST_SHARES = 16,
    SHARE_TILES = 128,
    SHARES_BYTES = 8 << 20,
    BLOCK_BYTES = 1 << 20,
    TRANSFORM = 460,        /* time to transform a channel of a tile, in operations (Zen 1, AVX2) */
    WHOLE_BYTES = 16 << 20, /* maximum of a U or P stored as a whole */
    FEW_TILES = 64,
    FEW_WHOLE_BYTES = 4 << 20, /* maximum of a U that at most FEW_TILES read */
    STREAM_BYTES = 1 << 18,    /* minimum of an output that bypasses the caches */
    BAND_BYTES = 16 << 10,     /* of the rows of an input that is computed while it is read */
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}
static int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

/* Return a stride of an odd number of cache lines, so that neighbors map to different sets of a
 * cache. */
static size_t odd_lines(size_t floats)
{
    return ((floats + 15) / 16 | 1) * 16;
}

static int is_blocked(const struct ss_act *a, int lanes)
{
    return a->block % lanes == 0;
}
static int vectors_of(const struct ss_act *a, int lanes)
{
    return is_blocked(a, lanes) ? ss_act_blocks(a) * a->block / lanes : divide_up(a->c, lanes);
}

/* A tensor as vectors of W channels, and its tiles. */
struct side {
    struct ss_act act;
    int edge[2], tiles[2];
    int group;   /* channels of a group */
    int vectors; /* of a group */
};

/* A pass reads `in` and writes `out`; the weight gradient reads both. */
struct pass {
    const struct ss_device *cpu;
    const struct ss_simd_rows *rows;
    int lanes, groups, tiles; /* tiles of all images */
    struct side in, out;
    int backward;                                /* data gradient: transpose, rotate weight */
    int chunk;                                   /* channels summed from zero */
    int whole;                                   /* U or P is stored as a whole */
    int stream;                                  /* outputs bypass the caches */
    int block;                                   /* tiles at a time */
    size_t in_vector, in_xi, out_vector, out_xi; /* strides of V, of M and D */
    size_t u_xi;                                 /* of U and P, whole or not */
    int band;                     /* rows of x computed at a time by a thread; 0: x is stored */
    struct ss_norm_pieces pieces; /* computes these rows */
    const void *residual;         /* added to `out`, or NULL */
    int sum_tiles;                /* tiles of a partial sum; divides block; 0: no sums */
    int shares;         /* of the weight gradient's tiles, each with its P; 1: one P of all tiles */
    size_t shared, own; /* floats: of all threads together, of each */
};

static struct side side_of(const struct ss_act *a, const struct ss_act *tiled, int pad_rows,
                           int pad_columns, int groups, int lanes)
{
    return (struct side){.act = *a,
                         .edge = {pad_rows, pad_columns},
                         .tiles = {divide_up(tiled->h, 4), divide_up(tiled->w, 4)},
                         .group = a->c / groups,
                         .vectors = vectors_of(a, lanes) / groups};
}

/* Describe vector i in *map; return the offset of its first channel. */
static size_t vector_of(const struct side *s, int i, int lanes, struct ss_winograd_map *map)
{
    const struct ss_act *a = &s->act;
    *map = (struct ss_winograd_map){
        .image = ss_act_image(a, 0),
        .pixel = (size_t)a->block,
        .lane = a->block == 1 ? (size_t)(a->h * a->w) : 1,
        .lanes = is_blocked(a, lanes) ? lanes : smaller(lanes, a->c - i * lanes),
        .h = a->h,
        .w = a->w,
        .edge = {s->edge[0], s->edge[1]},
        .tiles = {s->tiles[0], s->tiles[1]},
    };
    return ss_act_channel(a, i * lanes);
}

/* Return the offset in U[xi] or P[xi] of the panel that begins with output vector k of group g. */
static size_t panel_of(const struct pass *p, int g, int k)
{
    return (size_t)((g * p->out.vectors + k) * p->lanes) * (size_t)p->in.group;
}
static int panels_of(const struct pass *p)
{
    return divide_up(p->out.vectors, PANEL);
}

static void choose_strides(struct pass *p)
{
    const size_t block = (size_t)(p->block * p->lanes), groups = (size_t)p->groups;
    p->in_vector = p->out_vector = odd_lines(block);
    p->in_xi = odd_lines(groups * (size_t)p->in.vectors * p->in_vector);
    p->out_xi = odd_lines(groups * (size_t)p->out.vectors * p->out_vector);
}

static struct pass begin_pass(const struct ss_device *cpu, const struct ss_conv_shape *s,
                              int backward)
{
    struct pass p = {
        .cpu = cpu, .rows = ss_simd_table(), .groups = s->groups, .backward = backward};
    p.lanes = p.rows->lanes;
    const struct ss_act *to = backward ? &s->x : &s->y, *from = backward ? &s->y : &s->x;
    int edge[2];
    for (int i = 0; i < 2; i++)
        edge[i] = backward ? 2 - s->padding[i] : s->padding[i];
    p.in = side_of(from, to, edge[0], edge[1], s->groups, p.lanes);
    p.out = side_of(to, to, 0, 0, s->groups, p.lanes);
    p.tiles = to->n * p.in.tiles[0] * p.in.tiles[1];
    p.chunk = divide_up(divide_up(p.in.group, divide_up(p.in.group, CHUNK)), p.lanes) * p.lanes;
    p.u_xi = odd_lines(panel_of(&p, p.groups, 0));
    p.whole = XI * p.u_xi * sizeof(float) <= WHOLE_BYTES;
    if (s->makes_x && !backward) {
        const int fit = BAND_BYTES / ((int)cpu->element * p.lanes * s->x.w);
        p.band = smaller(fit < 6 ? 6 : fit, s->x.h);
    }
    return p;
}

struct ss_cpu_conv_work ss_winograd_work(const struct ss_conv_shape *s)
{
    const struct pass p =
        begin_pass(&(struct ss_device){.threads = 1, .element = sizeof(float)}, s, 0);
    const double in = p.lanes * p.in.vectors, out = p.lanes * p.out.vectors;
    const double flop = 2.0 * XI * p.tiles * p.groups * in * out;
    return (struct ss_cpu_conv_work){.flop = flop,
                                     .cost = flop + TRANSFORM * p.tiles * p.groups * (in + out),
                                     .sums = ss_winograd_has_sums(s)};
}

/* Return the tiles of a partial sum for BatchNorm, which depend on the shape alone: at most the
 * rows that a product has in registers, or half of them; fewer if there are few tiles, so that
 * each thread has a share. */
static int sum_tiles_of(const struct pass *p)
{
    const int rows = p->rows->product_rows, few = rows < FEW_ROWS, most = few ? rows : rows / 2;
    int n = smaller(divide_up(p->tiles, LEAST_SUMS), most);
    while (few && rows % n)
        n++;
    return n;
}

/* Return the size of a thread's block, about `most` tiles, such that each thread has as many
 * blocks. */
static int block_of(const struct pass *p, int most)
{
    const int threads = p->cpu->threads, rows = p->rows->product_rows;
    const int blocks = divide_up(p->tiles, threads * most),
              tiles = divide_up(p->tiles, threads * blocks);
    return rows < FEW_ROWS && blocks >= MANY_BLOCKS ? divide_up(tiles, rows) * rows : tiles;
}

/* Round a number of tiles up to whole partial sums. */
static int whole_sums(const struct pass *p, int tiles)
{
    return p->sum_tiles ? divide_up(tiles, p->sum_tiles) * p->sum_tiles : tiles;
}

/* Return the forward pass or the data gradient. Scratch: [U | each thread's V, M], or [V | each
 * thread's U, M]. */
static struct pass pass_of(const struct ss_device *cpu, const struct ss_conv_shape *s, int backward)
{
    struct pass p = begin_pass(cpu, s, backward);
    const int vectors = p.groups * (p.in.vectors + p.out.vectors);
    if (p.tiles <= FEW_TILES && XI * p.u_xi * sizeof(float) > FEW_WHOLE_BYTES)
        p.whole = 0;
    if (ss_winograd_has_sums(s) && !backward)
        p.sum_tiles = sum_tiles_of(&p);
    p.stream =
        p.out.act.block == p.lanes && ss_act_elements(&p.out.act) * cpu->element >= STREAM_BYTES;
    if (p.whole) {
        int most = (int)(cpu->cache_bytes / 2 / (XI * sizeof(float) * (size_t)(vectors * p.lanes)));
        most = most < LEAST_TILES ? LEAST_TILES : smaller(most, MOST_TILES);
        p.block = whole_sums(&p, block_of(&p, most));
        choose_strides(&p);
        p.shared = XI * p.u_xi;
        p.own = XI * (p.in_xi + p.out_xi);
    } else {
        p.block = whole_sums(&p, divide_up(p.tiles, divide_up(p.tiles, SHARED_TILES)));
        choose_strides(&p);
        p.u_xi = odd_lines((size_t)(p.chunk * PANEL * p.lanes));
        p.out_xi = odd_lines(PANEL * p.out_vector);
        p.shared = XI * p.in_xi;
        p.own = XI * (p.u_xi + p.out_xi);
    }
    return p;
}

/* Return the weight gradient's pass. Scratch: [each share's P | each thread's V, D], [V, D, P],
 * or [V, D | each thread's section of P]. */
static struct pass gradient_pass(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    struct pass p = begin_pass(cpu, s, 0);
    const size_t fit = SHARES_BYTES / (XI * p.u_xi * sizeof(float)),
                 tile = XI * sizeof(float) *
                        (size_t)(p.groups * (p.in.vectors + p.out.vectors) * p.lanes);
    p.shares = smaller(smaller(p.tiles / SHARE_TILES, MOST_SHARES), (int)fit);
    if (p.shares >= LEAST_SHARES) {
        const int share = divide_up(p.tiles, p.shares);
        p.block = divide_up(
            share,
            divide_up(share, smaller((int)ss_max(BLOCK_BYTES / tile, PART_TILES), SHARED_TILES)));
        choose_strides(&p);
        p.shared = (size_t)p.shares * XI * p.u_xi;
        p.own = XI * (p.in_xi + p.out_xi);
        return p;
    }
    p.shares = 1;
    p.block = divide_up(p.tiles, divide_up(p.tiles, SHARED_TILES));
    choose_strides(&p);
    p.shared = XI * (p.in_xi + p.out_xi);
    if (p.whole) {
        p.shared += XI * p.u_xi;
    } else {
        p.u_xi = odd_lines((size_t)(PART_CHANNELS * PANEL * p.lanes));
        p.own = XI * p.u_xi;
    }
    return p;
}

/* Scratch: [shared | each thread's own, preceded by its band | coefficients of pieces | partial
 * sums | number of outputs in each]. */
static size_t band_floats(const struct pass *p)
{
    return ss_round_up((size_t)(p->band * p->in.act.w * p->lanes), 16);
}
static size_t coefficients_at(const struct pass *p)
{
    return p->shared + (size_t)p->cpu->threads * (p->own + band_floats(p));
}
static size_t partials_at(const struct pass *p)
{
    return coefficients_at(p) + (p->band ? ss_norm_pieces_floats(&p->in.act) : 0);
}
static int count_sums(const struct pass *p)
{
    return p->sum_tiles ? divide_up(p->tiles, p->sum_tiles) : 0;
}
/* Return the offset of partial sum number `at` of vector i. */
static size_t partial_at(const struct pass *p, int at, int i)
{
    return partials_at(p) + (size_t)(at * p->groups * p->out.vectors + i) * 3 * (size_t)p->lanes;
}
static size_t counts_at(const struct pass *p)
{
    return partial_at(p, count_sums(p), 0);
}
static size_t bytes_of(const struct pass *p)
{
    return (counts_at(p) + (size_t)count_sums(p)) * sizeof(float);
}

static float *shared_of(const struct pass *p)
{
    return ss_cpu_scratch(p->cpu);
}
static float *band_of(const struct pass *p)
{
    return shared_of(p) + p->shared + (size_t)omp_get_thread_num() * (p->own + band_floats(p));
}
static float *own_of(const struct pass *p)
{
    return band_of(p) + band_floats(p);
}

/* Prepare to compute x if it is not stored. */
static void begin_source(struct pass *p, const struct ss_norm_source *source)
{
    if (source)
        p->pieces = ss_norm_pieces_begin(p->cpu, source, shared_of(p) + coefficients_at(p));
}

/* Compute rows [top, bottom) of an image from z in this thread's band, which already has rows
 * [*from, *to). */
static void make_rows(const struct pass *p, const void *image, size_t slice, int *from, int *to,
                      int top, int bottom)
{
    const size_t row = (size_t)(p->in.act.w * p->lanes);
    void *band = band_of(p);
    const int kept = top >= *from && top < *to ? *to - top : 0, made = top + kept;
    if (kept)
        memmove(band, ss_at(p->cpu, band, (size_t)(top - *from) * row),
                (size_t)kept * row * p->cpu->element);
    const struct ss_rows_extent e = {.pixels = (size_t)((bottom - made) * p->in.act.w),
                                     .images = 1};
    if (bottom > made)
        ss_norm_piece(&p->pieces, slice, (size_t)(made * p->in.act.w), &e,
                      ss_at(p->cpu, image, (size_t)made * row), NULL,
                      ss_at(p->cpu, band, (size_t)kept * row));
    *from = top;
    *to = bottom > made ? bottom : made;
}

/* The same as transform_input for an x computed from z: by bands of rows, with as many lines of
 * tiles as fit. */
static void transform_made(const struct pass *p, const void *z, int i, int first, int count,
                           float *v)
{
    struct ss_winograd_map map;
    const size_t at = vector_of(&p->in, i, p->lanes, &map);
    const int columns = map.tiles[1], lines = map.tiles[0];
    const int fit = p->band < map.h ? (p->band - 2) / 4 : lines;
    for (int image = -1, from = 0, to = 0, part; count > 0; first += part, count -= part) {
        const int line = first / columns % lines, column = first % columns,
                  most = smaller(fit, lines - line) * columns - column;
        if (image != first / columns / lines)
            from = to = 0;
        image = first / columns / lines;
        part = smaller(count, most);
        const int last = line + (column + part - 1) / columns, begin = line * 4 - map.edge[0],
                  top = begin < 0 ? 0 : begin, bottom = smaller(last * 4 - map.edge[0] + 6, map.h);
        make_rows(p, ss_at(p->cpu, z, at + (size_t)image * map.image),
                  (size_t)image * (size_t)ss_act_blocks(&p->in.act) + (size_t)i, &from, &to, top,
                  bottom);
        struct ss_winograd_map band = map;
        band.h = bottom - top;
        band.edge[0] = top - begin;
        band.tiles[0] = last - line + 1;
        p->cpu->rows->winograd_input(&band, band_of(p), column, part, v, p->in_xi);
        v += part * p->lanes;
    }
}

/* Compute V of vector i of the input. */
static void transform_input(const struct pass *p, const void *x, int i, int first, int count,
                            float *v)
{
    struct ss_winograd_map map;
    if (p->band) {
        transform_made(p, x, i, first, count, v);
        return;
    }
    const size_t at = vector_of(&p->in, i, p->lanes, &map);
    p->cpu->rows->winograd_input(&map, ss_at(p->cpu, x, at), first, count, v, p->in_xi);
}

static void transform_output(const struct pass *p, const float *m, int i, const float *bias,
                             int first, int count, void *y)
{
    struct ss_winograd_map map;
    const size_t at = vector_of(&p->out, i, p->lanes, &map);
    map.residual = ss_at(p->cpu, p->residual, at);
    map.stream = p->stream && (uintptr_t)y % ((size_t)p->lanes * p->cpu->element) == 0;
    float padded[MOST_LANES] = {0};
    for (int l = 0; bias && l < p->lanes && i * p->lanes + l < p->out.act.c; l++)
        padded[l] = bias[i * p->lanes + l];
    if (p->sum_tiles) { /* first is a multiple of sum_tiles */
        map.sum_tiles = p->sum_tiles;
        map.sums = shared_of(p) + partial_at(p, first / p->sum_tiles, i);
        map.sums_step = partial_at(p, 1, 0) - partial_at(p, 0, 0);
    }
    p->cpu->rows->winograd_output(&map, m, p->out_xi, padded, first, count, ss_at(p->cpu, y, at));
}

/* Transpose and rotate W x W channels of a weight, from input channel c and output vector k on,
 * to (W outputs, 3x3, W inputs). */
static void turn(const struct pass *p, const void *w, int g, int k, int c, float *to)
{
    const int lanes = p->lanes, inputs = p->out.group, there = smaller(lanes, inputs - c);
    float floats[MOST_LANES * 9 * MOST_LANES];
    const float *from = ss_floats(
        p->cpu->dtype, w, (size_t)((g * p->in.vectors + k) * inputs + c) * 9 * (size_t)lanes,
        (size_t)(there * 9 * lanes), floats);
    if (there < lanes)
        memset(to, 0, (size_t)(lanes * 9 * lanes) * sizeof *to);
    for (int l = 0; l < there; l++)
        for (int tap = 8; tap >= 0; tap--, from += lanes)
            for (int o = 0; o < lanes; o++)
                to[(o * 9 + tap) * lanes + l] = from[o];
}

/* Compute U of vector k of the outputs in group g, from input channel c on. */
static void transform_weights(const struct pass *p, const void *w, int g, int k, int c, int count,
                              float *u, size_t step)
{
    const int lanes = p->lanes;
    if (!p->backward) {
        const size_t at = (size_t)((g * p->out.vectors + k) * p->in.group + c) * 9 * (size_t)lanes;
        p->cpu->rows->winograd_weights(ss_at(p->cpu, w, at), count, u, step, p->u_xi);
        return;
    }
    float turned[MOST_LANES * 9 * MOST_LANES];
    for (int i = 0; i < count; i += lanes) {
        turn(p, w, g, (c + i) / lanes, k * lanes, turned);
        ss_act_table(SS_DTYPE_F32)
            ->winograd_weights(turned, smaller(lanes, count - i), u + (size_t)i * step, step,
                               p->u_xi);
    }
}

/* Compute all of U in a panel, from channel c on. */
static void transform_panel(const struct pass *p, const void *w, int g, int k, int c, int count,
                            float *u)
{
    const int vectors = smaller(PANEL, p->out.vectors - k);
    for (int i = 0; i < vectors; i++)
        transform_weights(p, w, g, k + i, c, count, u + i * p->lanes, (size_t)(vectors * p->lanes));
}

/* Count the outputs of each partial sum. */
static void count_outputs(const struct pass *p, float *count)
{
    const struct side *s = &p->out;
    int line = 0, column = 0;
    memset(count, 0, (size_t)count_sums(p) * sizeof *count);
    for (int t = 0; t < p->tiles; t++) {
        count[t / p->sum_tiles] +=
            (float)(smaller(4, s->act.h - line * 4) * smaller(4, s->act.w - column * 4));
        if (++column == s->tiles[1]) {
            column = 0;
            line = line + 1 < s->tiles[0] ? line + 1 : 0;
        }
    }
}

/* Compute mean and variance of vector i's channels from its partial sums, in order. Of n numbers:
 *   sum (y - mean)^2 = sum over parts of squares + (shift - mean) (2 sum + n (shift - mean)) */
static void add_sums(const struct pass *p, int i, const float *count, float *mean, float *var)
{
    const int lanes = p->lanes, parts = count_sums(p);
    const double n = (double)p->out.act.n * p->out.act.h * p->out.act.w;
    double total[MOST_LANES] = {0}, squares[MOST_LANES] = {0};
    for (int k = 0; k < parts; k++) {
        const float *shift = shared_of(p) + partial_at(p, k, i), *sum = shift + lanes;
#pragma omp simd
        for (int l = 0; l < lanes; l++)
            total[l] += (double)count[k] * (double)shift[l] + (double)sum[l];
    }
    for (int l = 0; l < lanes; l++)
        total[l] /= n;
    for (int k = 0; k < parts; k++) {
        const float *shift = shared_of(p) + partial_at(p, k, i), *sum = shift + lanes;
#pragma omp simd
        for (int l = 0; l < lanes; l++) {
            const double d = (double)shift[l] - total[l];
            squares[l] += (double)sum[lanes + l] + d * (2 * (double)sum[l] + (double)count[k] * d);
        }
    }
    for (int l = 0; l < lanes && i * lanes + l < p->out.act.c; l++) {
        mean[i * lanes + l] = (float)total[l];
        var[i * lanes + l] = (float)(squares[l] / n);
    }
}

/* Compute a thread's block of tiles with all of U. */
static void run_block(const struct pass *p, const void *x, const float *bias, int first, int count,
                      void *y)
{
    const float *u = shared_of(p);
    float *v = own_of(p), *m = v + XI * p->in_xi;
    for (int i = 0; i < p->groups * p->in.vectors; i++)
        transform_input(p, x, i, first, count, v + (size_t)i * p->in_vector);
    for (int xi = 0; xi < XI; xi++, u += p->u_xi)
        for (int g = 0; g < p->groups; g++)
            for (int k = 0; k < p->out.vectors; k += PANEL) {
                const int vectors = smaller(PANEL, p->out.vectors - k);
                const float *panel = u + panel_of(p, g, k);
                for (int c = 0; c < p->in.group;
                     c += p->chunk, panel += p->chunk * vectors * p->lanes)
                    p->rows->panel_product(&(struct ss_panel_product){
                        .v = v + (size_t)xi * p->in_xi +
                             (size_t)(g * p->in.vectors + c / p->lanes) * p->in_vector,
                        .v_step = p->in_vector,
                        .u = panel,
                        .m = m + (size_t)xi * p->out_xi +
                             (size_t)(g * p->out.vectors + k) * p->out_vector,
                        .m_step = p->out_vector,
                        .m_row = (size_t)p->lanes,
                        .tiles = count,
                        .channels = smaller(p->chunk, p->in.group - c),
                        .vectors = vectors,
                        .adds = c > 0,
                        .next = panel + p->chunk * vectors * p->lanes});
            }
    for (int i = 0; i < p->groups * p->out.vectors; i++)
        transform_output(p, m + (size_t)i * p->out_vector, i, bias, first, count, y);
}

static void run_whole(const struct pass *p, const void *x, const void *w, const float *bias,
                      void *y)
{
    const int panels = panels_of(p), chunks = divide_up(p->in.group, p->chunk);
    const int blocks = divide_up(p->tiles, p->block);
#pragma omp parallel num_threads(p->cpu->threads)
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < p->groups * panels * chunks; i++) {
            const int g = i / chunks / panels, k = i / chunks % panels * PANEL,
                      c = i % chunks * p->chunk;
            const int width = smaller(PANEL, p->out.vectors - k) * p->lanes;
            transform_panel(p, w, g, k, c, smaller(p->chunk, p->in.group - c),
                            shared_of(p) + panel_of(p, g, k) + c * width);
        }
#pragma omp for schedule(dynamic)
        for (int i = 0; i < blocks; i++) {
            const int first = i * p->block;
            run_block(p, x, bias, first, smaller(p->block, p->tiles - first), y);
        }
    }
}

/* Compute one panel of a block of tiles, for `count` tiles from `skip` on, with its own U. */
static void run_panel(const struct pass *p, const void *w, const float *bias, int g, int k,
                      int first, int skip, int count, void *y)
{
    const float *v = shared_of(p);
    float *u = own_of(p), *m = u + XI * p->u_xi;
    const int vectors = smaller(PANEL, p->out.vectors - k);
    for (int c = 0; c < p->in.group; c += p->chunk) {
        const int channels = smaller(p->chunk, p->in.group - c);
        transform_panel(p, w, g, k, c, channels, u);
        for (int xi = 0; xi < XI; xi++)
            p->rows->panel_product(&(struct ss_panel_product){
                .v = v + (size_t)xi * p->in_xi +
                     (size_t)(g * p->in.vectors + c / p->lanes) * p->in_vector + skip * p->lanes,
                .v_step = p->in_vector,
                .u = u + (size_t)xi * p->u_xi,
                .m = m + (size_t)xi * p->out_xi,
                .m_step = p->out_vector,
                .m_row = (size_t)p->lanes,
                .tiles = count,
                .channels = channels,
                .vectors = vectors,
                .adds = c > 0,
                .next = u + (size_t)(xi + 1 < XI ? xi + 1 : 0) * p->u_xi});
    }
    for (int i = 0; i < vectors; i++)
        transform_output(p, m + (size_t)i * p->out_vector, g * p->out.vectors + k + i, bias,
                         first + skip, count, y);
}

static void run_shared(const struct pass *p, const void *x, const void *w, const float *bias,
                       void *y)
{
    const int in = p->groups * p->in.vectors, panels = p->groups * panels_of(p);
    /* At least one job per thread; results do not depend on the split. */
    const int split = divide_up(p->cpu->threads, panels);
#pragma omp parallel num_threads(p->cpu->threads)
    for (int first = 0; first < p->tiles; first += p->block) {
        const int count = smaller(p->block, p->tiles - first), parts = divide_up(count, PART_TILES);
#pragma omp for schedule(dynamic)
        for (int i = 0; i < in * parts; i++) {
            const int skip = i / in * PART_TILES;
            transform_input(p, x, i % in, first + skip, smaller(PART_TILES, count - skip),
                            shared_of(p) + (size_t)(i % in) * p->in_vector + skip * p->lanes);
        }
#pragma omp for schedule(dynamic)
        for (int i = 0; i < panels * split; i++) {
            const int part = whole_sums(p, divide_up(count, split)), skip = i % split * part,
                      end = smaller(skip + part, count);
            const int g = i / split / panels_of(p), k = i / split % panels_of(p) * PANEL;
            if (end > skip)
                run_panel(p, w, bias, g, k, first, skip, end - skip, y);
        }
    }
}

static void run(struct pass *p, const struct ss_winograd_ends *ends, const void *x, const void *w,
                const float *bias, void *y)
{
    ss_cpu_enter(p->cpu);
    begin_source(p, ends->source);
    p->residual = ends->residual;
    if (p->whole)
        run_whole(p, x, w, bias, y);
    else
        run_shared(p, x, w, bias, y);
    if (!ends->sums)
        return;
    float *count = shared_of(p) + counts_at(p);
    count_outputs(p, count);
#pragma omp parallel for schedule(static) num_threads(p->cpu->threads)
    for (int i = 0; i < p->groups * p->out.vectors; i++)
        add_sums(p, i, count, ends->sums, ends->sums + p->out.act.c);
}

void ss_winograd_forward(const struct ss_device *cpu, const struct ss_conv_shape *s,
                         const struct ss_winograd_ends *ends, const void *x, const void *w,
                         const float *bias, void *y)
{
    struct pass p = pass_of(cpu, s, 0);
    run(&p, ends, x, w, bias, y);
}

void ss_winograd_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                               const void *dy, const void *w, void *dx)
{
    struct pass p = pass_of(cpu, s, 1);
    run(&p, &(struct ss_winograd_ends){0}, dy, w, NULL, dx);
}

/* Compute P of a panel and one xi for channels from c on. */
static void multiply_gradient(const struct pass *p, const float *v, const float *d, int xi, int g,
                              int k, int c, int channels, int tiles, int adds, float *to)
{
    const int vectors = smaller(PANEL, p->out.vectors - k), width = vectors * p->lanes;
    for (int i = 0; i < channels; i += p->lanes)
        p->rows->outer_product(&(struct ss_outer_product){
            .v = v + (size_t)xi * p->in_xi +
                 (size_t)(g * p->in.vectors + (c + i) / p->lanes) * p->in_vector,
            .d = d + (size_t)xi * p->out_xi + (size_t)(g * p->out.vectors + k) * p->out_vector,
            .p = to + i * width,
            .d_step = p->out_vector,
            .tiles = tiles,
            .channels = smaller(p->lanes, channels - i),
            .vectors = vectors,
            .adds = adds});
}

/* Compute the weight gradient of a panel from P of its channels from c on. */
static void transform_gradient(const struct pass *p, const float *from, int g, int k, int c,
                               int channels, int adds, float *dw)
{
    const int vectors = smaller(PANEL, p->out.vectors - k);
    for (int i = 0; i < vectors; i++)
        p->rows->winograd_weight_gradient(
            from + i * p->lanes, channels, (size_t)(vectors * p->lanes), p->u_xi, adds,
            dw + (size_t)((g * p->out.vectors + k + i) * p->in.group + c) * 9 * (size_t)p->lanes);
}

/* Compute V or D of vector i, counted over inputs and then outputs, for tiles of a block. */
static void transform_both(const struct pass *p, const void *x, const void *dy, int i, int first,
                           int skip, int count, float *v, float *d)
{
    const int in = p->groups * p->in.vectors;
    if (i < in) {
        transform_input(p, x, i, first + skip, count,
                        v + (size_t)i * p->in_vector + skip * p->lanes);
        return;
    }
    struct ss_winograd_map map;
    const size_t at = vector_of(&p->out, i - in, p->lanes, &map);
    p->cpu->rows->winograd_gradient(&map, ss_at(p->cpu, dy, at), first + skip, count,
                                    d + (size_t)(i - in) * p->out_vector + skip * p->lanes,
                                    p->out_xi);
}

static void sum_bias(const struct pass *p, const struct ss_act *a, const void *dy, float *dbias)
{
    const int blocks = ss_act_blocks(a), jobs = a->n * blocks;
    const size_t block = (size_t)a->block, pixels = (size_t)(a->h * a->w);
    double *sums = (double *)shared_of(p);
    const float *zero = (const float *)(sums + (size_t)jobs * 2 * block);
    memset(sums, 0, (size_t)jobs * 2 * block * sizeof *sums + block * sizeof *zero);
#pragma omp parallel for schedule(static) num_threads(p->cpu->threads)
    for (int i = 0; i < jobs; i++)
        for (size_t at = 0; at < pixels; at += 1024) {
            const struct ss_rows_extent e = {.pixels = pixels - at < 1024 ? pixels - at : 1024,
                                             .images = 1};
            p->cpu->rows->stats(&e, ss_at(p->cpu, dy, ((size_t)i * pixels + at) * block), a->block,
                                zero, sums + (size_t)i * 2 * block);
        }
    for (int c = 0; c < a->c; c++) {
        double sum = 0;
        for (int n = 0; n < a->n; n++)
            sum += sums[(size_t)(n * blocks + c / a->block) * 2 * block + (size_t)(c % a->block)];
        dbias[c] = (float)sum;
    }
}

/* Compute P of a share of the tiles in one thread. With few channels, data transformed by another
 * thread would take longer to arrive from its cache than to be multiplied. */
static void run_share(const struct pass *p, const void *x, const void *dy, int share, float *to)
{
    const int each = divide_up(p->tiles, p->shares), begin = share * each,
              end = smaller(begin + each, p->tiles);
    float *v = own_of(p), *d = v + XI * p->in_xi;
    for (int first = begin; first < end; first += p->block) {
        const int count = smaller(p->block, end - first);
        for (int i = 0; i < p->groups * (p->in.vectors + p->out.vectors); i++)
            transform_both(p, x, dy, i, first, 0, count, v, d);
        for (int xi = 0; xi < XI; xi++)
            for (int g = 0; g < p->groups; g++)
                for (int k = 0; k < p->out.vectors; k += PANEL)
                    multiply_gradient(p, v, d, xi, g, k, 0, p->in.group, count, first > begin,
                                      to + (size_t)xi * p->u_xi + panel_of(p, g, k));
    }
}

void ss_winograd_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                  const struct ss_norm_source *source, const void *x,
                                  const void *dy, float *dw, float *dbias)
{
    struct pass all = gradient_pass(cpu, s);
    const struct pass *p = &all;
    float *v = shared_of(p), *d = v + XI * p->in_xi,
          *whole = p->shares > 1 ? v : d + XI * p->out_xi;
    const int vectors = p->groups * (p->in.vectors + p->out.vectors), panels = panels_of(p),
              pieces = divide_up(p->in.group, PART_CHANNELS),
              shares = p->shares > 1 ? p->shares : 0;
    ss_cpu_enter(cpu);
    if (dbias)
        sum_bias(p, &s->y, dy, dbias);
    begin_source(&all, source);
#pragma omp parallel num_threads(cpu->threads)
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < shares; i++)
            run_share(p, x, dy, i, whole + (size_t)i * XI * p->u_xi);
        for (int first = 0; first < (shares ? 0 : p->tiles); first += p->block) {
            const int count = smaller(p->block, p->tiles - first),
                      parts = divide_up(count, PART_TILES);
#pragma omp for schedule(dynamic)
            for (int i = 0; i < vectors * parts; i++) {
                const int skip = i / vectors * PART_TILES;
                transform_both(p, x, dy, i % vectors, first, skip,
                               smaller(PART_TILES, count - skip), v, d);
            }
            if (p->whole) {
                /* Each thread adds to the same section of P in every block, which stays in its
                 * caches. */
#pragma omp for schedule(static)
                for (int i = 0; i < XI * p->groups * panels; i++) {
                    const int xi = i / panels / p->groups, g = i / panels % p->groups,
                              k = i % panels * PANEL;
                    multiply_gradient(p, v, d, xi, g, k, 0, p->in.group, count, first > 0,
                                      whole + (size_t)xi * p->u_xi + panel_of(p, g, k));
                }
                continue;
            }
#pragma omp for schedule(dynamic)
            for (int i = 0; i < p->groups * panels * pieces; i++) {
                const int g = i / pieces / panels, k = i / pieces % panels * PANEL,
                          c = i % pieces * PART_CHANNELS,
                          channels = smaller(PART_CHANNELS, p->in.group - c);
                float *own = own_of(p);
                for (int xi = 0; xi < XI; xi++)
                    multiply_gradient(p, v, d, xi, g, k, c, channels, count, 0,
                                      own + (size_t)xi * p->u_xi);
                transform_gradient(p, own, g, k, c, channels, first > 0, dw);
            }
        }
        if (p->whole) {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < p->groups * panels * pieces; i++) {
                const int g = i / pieces / panels, k = i / pieces % panels * PANEL,
                          c = i % pieces * PART_CHANNELS,
                          width = smaller(PANEL, p->out.vectors - k) * p->lanes;
                for (int share = 0; share < p->shares; share++)
                    transform_gradient(
                        p, whole + (size_t)share * XI * p->u_xi + panel_of(p, g, k) + c * width, g,
                        k, c, smaller(PART_CHANNELS, p->in.group - c), share > 0, dw);
            }
        }
    }
}

size_t ss_winograd_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s, int training)
{
    const struct pass forward = pass_of(cpu, s, 0), data = pass_of(cpu, s, 1),
                      weights = gradient_pass(cpu, s);
    const size_t bias =
        ((size_t)(s->y.n * ss_act_blocks(&s->y)) * 4 + 1) * (size_t)s->y.block * sizeof(float);
    if (!training)
        return bytes_of(&forward);
    return ss_max(ss_max(bytes_of(&forward), bytes_of(&data)),
                  ss_max(bytes_of(&weights), s->bias ? bias : 0));
}

static int takes_side(const struct ss_act *a, int lanes)
{
    return is_blocked(a, lanes) || a->block == a->c || a->block == 1;
}

int ss_winograd_makes_x(const struct ss_conv_shape *s)
{
    return s->x.block == ss_simd_table()->lanes;
}

int ss_winograd_has_sums(const struct ss_conv_shape *s)
{
    return s->sums && is_blocked(&s->y, ss_simd_table()->lanes);
}

int ss_winograd_takes(const struct ss_conv_shape *s)
{
    const int lanes = ss_simd_table()->lanes;
    for (int i = 0; i < 2; i++)
        if (s->kernel[i] != 3 || s->stride[i] != 1 || s->dilation[i] != 1 || s->padding[i] > 2)
            return 0;
    if (s->groups > 1 && (ss_conv_inputs(s) % lanes || ss_conv_outputs(s) % lanes))
        return 0;
    return takes_side(&s->x, lanes) && takes_side(&s->y, lanes);
}

/* Return the pairs of an output and a tap that lies in the map, along one axis. */
static int64_t taps_of(int outputs, int padding)
{
    return 3 * outputs - padding * (padding + 1);
}

/* Compares multiplications for each pair of channels. Winograd has 36 for a tile of outputs, even
 * if that is not full, and a fourth more for the transforms; transforming a weight takes as long
 * as 400. Direct code omits the taps in the padding. Measured with AVX-512 and AVX2 (Zen 4), 8 to
 * 640 channels, maps of 2x2 to 56x56, batches of 1 to 256. With fewer than 16 channels on a side
 * the gain is small, and sums are so short that rounding errors of the transforms are visible. */
int ss_winograd_pays(const struct ss_conv_shape *s)
{
    const int64_t n = s->y.n, tiles = n * divide_up(s->y.h, 4) * divide_up(s->y.w, 4);
    return smaller(ss_conv_inputs(s), ss_conv_outputs(s)) >= 16 &&
           n * taps_of(s->y.h, s->padding[0]) * taps_of(s->y.w, s->padding[1]) > 45 * tiles + 400;
}

static size_t weights_of(const struct ss_conv_shape *s, int lanes)
{
    return (size_t)(vectors_of(&s->y, lanes) * lanes) * (size_t)(ss_conv_inputs(s) * 9);
}

size_t ss_winograd_weight_bytes(const struct ss_conv_shape *s)
{
    return weights_of(s, ss_simd_table()->lanes) * sizeof(float);
}

/* Return the offset of the weights of output k, which are `lanes` apart. */
static size_t native_row(const struct ss_conv_shape *s, int k, int lanes)
{
    return (size_t)(k / lanes * lanes) * (size_t)(ss_conv_inputs(s) * 9) + (size_t)(k % lanes);
}

void ss_winograd_import(const struct ss_conv_shape *s, const float *plain, float *w)
{
    const int lanes = ss_simd_table()->lanes;
    memset(w, 0, ss_winograd_weight_bytes(s));
    for (int k = 0; k < s->y.c; k++) {
        float *to = w + native_row(s, k, lanes);
        for (int i = 0; i < ss_conv_inputs(s) * 9; i++, to += lanes)
            *to = *plain++;
    }
}

void ss_winograd_export(const struct ss_conv_shape *s, const float *w, float *plain)
{
    const int lanes = ss_simd_table()->lanes;
    for (int k = 0; k < s->y.c; k++) {
        const float *from = w + native_row(s, k, lanes);
        for (int i = 0; i < ss_conv_inputs(s) * 9; i++, from += lanes)
            *plain++ = *from;
    }
}
