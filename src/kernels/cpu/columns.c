/* columns.c: convolutions as matrix products (contract in columns.h).
 *
 *   forward          y (rows, outputs)    = sum over pieces: windows (rows, k) weight' (k, outputs)
 *   data gradient    windows (rows, k)    = dy (rows, outputs) weight (outputs, k), added to dx
 *   weight gradient  weight' (k, outputs) = windows' dy, by parts of the tiles, added in order
 *
 * The data gradient transposes the weight first. With few rows, as in a linear layer, it does not:
 * in panels of one vector the weight is also a left operand,
 * windows' (k, rows) = weight' (k, outputs) dy' (outputs, rows), and dy and the windows are
 * transposed instead.
 *
 * In bf16, where the processor multiplies pairs, operands read from tensors are not converted: a
 * vector of a row has 2 W numbers, with pairs adjacent. For the weight gradient the numbers of two
 * rows are interleaved into pairs.
 *
 * Groups with few channels are merged until they fill a vector. The weights between merged groups
 * are zeros, and the weight gradient is zeroed there at the end.
 *
 * With stride 1 the data gradient is a forward pass of dy with a transposed weight
 * (ss_columns_mirror). On a matrix unit, copies would take longer than products. Windows with
 * stride 1 are then not copied one by one, but read from one copy of the tile with zeros around it,
 * in which tap t of all windows begins tap_of(t) rows later (ss_columns_pad_windows); a piece has
 * all taps of some channels. Rows between lines and images are computed, too, and discarded
 * (forward), or multiplied by zeros (weight gradient, whose pairs begin at even and at odd rows).
 * The sums of the weight gradient are transposed once at the end, instead of each tile's windows.
 *
 * A tensor whose own vectors form such an operand (block W, tile within one image, one-pixel
 * windows) is read and written in place.
 *
 * Merged groups are multiplied by zeros, so an input that is not finite makes the results of all
 * groups merged with it not finite. With stride 1 the data gradient is 1 to 15 % faster as a
 * forward pass (Zen 5, 3x3 and 5x5, fp32 and bf16). */
#include "kernels/cpu/columns.h"

#include "kernels/cpu/columns_shape.h"
#include "kernels/cpu/simd.h"

#include <omp.h>
#include <stdint.h>
#include <string.h>

size_t ss_columns_weight_bytes(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    const struct shape f = ss_columns_shape(cpu, s);
    return weight_floats(&f) * sizeof(float);
}

/* Layout of the scratch: [transposed weights, or the parts of a weight gradient | biases of the
 * parts | per thread: windows, outputs, sums of windows, pairs of rows | mirrored weight]. With
 * few rows: [dy' | windows of each group's pieces | outputs of each group | biases | per thread:
 * transposed windows, a chunk of weights, pairs of rows]. */
static size_t bias_floats(const struct shape *f)
{
    return ss_product_round(f->parts * f->groups * f->out);
}
static size_t window_floats(const struct shape *f)
{
    return ss_product_left_floats(window_rows(f, f->rows),
                                  f->padded ? f->piece_channels / 2 : f->piece_k);
}
static size_t output_floats(const struct shape *f)
{
    return ss_product_left_floats(span_of(f, f->rows), f->out);
}
static size_t shared_floats(const struct shape *f)
{
    if (f->wide == 1)
        return f->groups * (turned_floats(f) + f->pieces * window_floats(f) + output_floats(f));
    return ss_max(f->groups * f->pieces * turned_floats(f),
                  f->parts > 1 ? f->parts * weight_floats(f) : 0);
}
/* Floats of the data gradient of a job's images, where windows overlap and elements are not
 * floats: it is rounded only once. */
static size_t sum_floats(const struct shape *f)
{
    return f->cpu->dtype == SS_DTYPE_F32 || f->apart || is_mirrored(f)
               ? 0
               : f->images * ss_act_image(&f->s->x, 0);
}
static size_t turned_windows_floats(const struct shape *f)
{
    return ss_product_right_floats(f->piece_k, f->rows);
}
static size_t pair_floats(const struct shape *f, size_t rows, size_t columns)
{
    return f->pairs ? ss_product_round(ss_divide_up(rows, 2)) * ss_product_round(columns) : 0;
}
static size_t output_pairs_floats(const struct shape *f)
{
    return pair_floats(f, span_of(f, f->rows), f->outputs);
}
/* Padded: pairs of rows (0, 1), (2, 3), ... and of rows (1, 2), (3, 4), ... */
static size_t window_pairs_floats(const struct shape *f)
{
    return f->padded ? 2 * pair_floats(f, window_rows(f, f->rows), f->piece_channels)
                     : pair_floats(f, f->rows, f->piece_k);
}
/* Pairs of outputs and of windows, and on a matrix unit the sums. */
static size_t pairs_floats(const struct shape *f)
{
    return output_pairs_floats(f) + window_pairs_floats(f) +
           (f->matrix_unit ? f->outputs * ss_product_round(f->piece_k) : 0);
}
static size_t thread_floats(const struct shape *f)
{
    const size_t pairs = pairs_floats(f);
    if (f->wide == WIDE)
        return window_floats(f) + output_floats(f) + ss_round_up(sum_floats(f), 16) + pairs;
    return turned_windows_floats(f) +
           (f->cpu->dtype == SS_DTYPE_F32 ? 0 : SS_PRODUCT_CHUNK * f->piece_k) + pairs;
}

/* Floats preceding a mirrored weight. */
static size_t scratch_floats(const struct ss_device *cpu, const struct shape *f)
{
    return shared_floats(f) + bias_floats(f) + (size_t)cpu->threads * thread_floats(f);
}

size_t ss_columns_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    const struct ss_conv_shape mirror = ss_columns_mirror(s);
    const struct shape f = ss_columns_shape(cpu, s), m = ss_columns_shape(cpu, &mirror);
    return ss_max(scratch_floats(cpu, &f),
                  is_mirrored(&f) ? scratch_floats(cpu, &m) + weight_floats(&m) : 0) *
           sizeof(float);
}

/* oneDNN 2.6 and 3 cut a map into pieces for their sums; small maps have few of them. Measured
 * with AVX-512 (Xeon, family 6, model 207), 64 to 2048 channels, 2x2 and 4x4 maps: oneDNN takes
 * 1.1 to 2 times as long for all three passes together. With AVX2 it takes equally long. */
int ss_columns_pays(const struct ss_conv_shape *s)
{
    const int64_t pixels = (int64_t)s->y.n * s->y.h * s->y.w,
                  weights = (int64_t)ss_conv_inputs(s) * ss_conv_taps(s) * ss_conv_outputs(s);
    return ss_product_lanes() == 16 && s->groups == 1 && pixels <= 256 && weights >= 150000;
}

int ss_columns_fit_matrix_unit(const struct ss_conv_shape *s, enum ss_dtype dtype)
{
    const struct ss_device cpu = {.dtype = dtype};
    const struct ss_conv_shape mirror = ss_columns_mirror(s);
    return ss_columns_shape(&cpu, s).padded && ss_columns_shape(&cpu, &mirror).padded;
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
/* Return the group's dy from output `first` on; first is a multiple of lanes_of(f, READ). */
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
/* A left operand, or the vectors of a result. */
struct operand {
    float *at;
    size_t block;
};

/* Return a tile's vectors within the tensor a, from channel `first` on. */
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
    if (f->padded)
        ss_columns_pad_windows(f, x, group, p, t, windows);
    else if (f->wide == WIDE)
        ss_columns_move_windows(f, READ, x, group, p, t, windows);
    return (struct operand){windows, window_rows(f, t.rows) * f->w};
}

/* Return dy of a group's outputs first .. first + count - 1. */
static struct operand read_outputs(const struct ss_device *cpu, const struct shape *f,
                                   const void *dy, size_t group, size_t first, size_t count,
                                   struct tile t)
{
    const size_t channel = group * f->out + first;
    if (f->y_direct)
        return in_place(f, &f->s->y, dy, channel, t);
    float *outputs = gradients_of(cpu, f, group, first);
    if (f->wide == WIDE)
        ss_columns_move_outputs(f, READ, dy, channel, count, t, outputs);
    return (struct operand){outputs, span_of(f, t.rows) * f->w};
}

/* With few rows, operands are copied once, and all threads read the copies. */
static void move_few_windows(const struct ss_device *cpu, const struct shape *f, const void *x)
{
    if (f->wide == WIDE || f->x_direct)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f->groups * f->pieces; i++) {
        const size_t group = i / f->pieces;
        const struct piece p = piece_of(f, i % f->pieces);
        ss_columns_move_windows(f, READ, x, group, &p, tile_of(f, 0),
                                windows_of(cpu, f, group, p.index));
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
        ss_columns_move_outputs(f, READ, dy, group * f->out + first, ss_min(lanes, f->out - first),
                                tile_of(f, 0), gradients_of(cpu, f, group, first));
    }
}

/* Add up the parts of the gradient, in a fixed order. */
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

/* Return the number of parts into which to cut each of `jobs` jobs. Parts balance the load of the
 * threads, but each of them copies its operands again. */
static size_t cuts_of(const struct ss_device *cpu, size_t jobs)
{
    const size_t threads = (size_t)cpu->threads;
    return threads > 1 && jobs % threads && jobs < 4 * threads ? ss_divide_up(2 * threads, jobs)
                                                               : 1;
}

/* Return the offset in the copy of block b of a piece of windows; a block has 2 W channels of a
 * tap. */
static size_t block_of(const struct shape *f, const struct piece *p, size_t b, size_t vector)
{
    const size_t each = (p->last_channel - p->channel) / (2 * f->w);
    return b % each * vector + tap_of(f, b / each) * f->w;
}

static inline void repeat(const float *vector, size_t rows, const size_t w, float *to)
{
    for (size_t r = 0; r < rows; r++, to += w)
#pragma omp simd
        for (size_t l = 0; l < w; l++)
            to[l] = vector[l];
}

/* Compute outputs first .. first + count - 1 of a group (whole panels) for a tile. */
static void forward_tile(const struct ss_device *cpu, const struct shape *f, const void *x,
                         const void *weight, const float *bias, size_t group, size_t first,
                         size_t count, struct tile t, void *y)
{
    const size_t channel = group * f->out + first;
    const struct operand to =
        f->y_direct ? in_place(f, &f->s->y, y, channel, t)
                    : (struct operand){outputs_of(cpu, f, group, first), span_of(f, t.rows) * f->w};
    const size_t images = f->padded ? ss_max(t.rows / f->plane, 1) : 1;
    for (size_t o = 0; bias && o < count; o += f->w) {
        float vector[16] = {0};
        memcpy(vector, bias + channel + o, ss_min(f->w, count - o) * sizeof *bias);
        if (f->w == 16)
            repeat(vector, span_of(f, t.rows), 16, to.at + o / f->w * to.block);
        else
            repeat(vector, span_of(f, t.rows), f->w, to.at + o / f->w * to.block);
    }
    for (size_t i = 0; i < f->pieces; i++) {
        const struct piece p = piece_of(f, i);
        const struct operand windows = read_windows(cpu, f, x, group, &p, t);
        size_t blocks[MOST_TAPS]; /* one per 2 W channels of a tap */
        for (size_t b = 0; f->padded && b < p.k / (2 * f->w); b++)
            blocks[b] = block_of(f, &p, b, windows.block);
        ss_product_run(
            &(struct ss_product){.rows = row_of_pixel(f, t.rows / images - 1) + 1,
                                 .groups = images,
                                 .group = f->image,
                                 .left_at = f->padded ? blocks : NULL,
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
        ss_columns_move_outputs(f, WRITE, y, channel, count, t, to.at);
}

void ss_columns_forward(const struct ss_device *cpu, const struct ss_conv_shape *s, const void *x,
                        const void *w, const float *bias, void *y)
{
    const struct shape f = ss_columns_shape(cpu, s);
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

/* Return the offset of channel *c in an image. *run: the number of channels from *c on, before
 * `end`, in the same block. Advances *c by *run. */
static size_t run_of(const struct ss_act *a, size_t *c, size_t end, size_t *run)
{
    const size_t block = (size_t)a->block, lane = *c % block,
                 at = *c / block * (size_t)a->h * (size_t)a->w * block + lane;
    *run = ss_min(block - lane, end - *c);
    *c += *run;
    return at;
}

/* Zero channels first .. end - 1 of an image. element: bytes of a number. */
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

/* Store channels first .. end - 1 of an image, converted from floats. */
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

/* Compute pieces first .. end - 1 of the windows. If windows overlap, dx is fp32 and begins with
 * image `image`. */
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
            ss_columns_move_windows(f, f->apart ? WRITE : ADD, dx, group, &p,
                                    (struct tile){t.first - image * f->plane, t.rows}, to.at);
    }
}

/* Transpose a vector of outputs into rows of the right operand dy' (few rows). */
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
                                        .left_buffer = turned + turned_windows_floats(f),
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
    ss_columns_move_windows(f, WRITE, dx, group, p, tile_of(f, 0), windows);
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

/* If windows overlap, a job has whole images and all pieces. */
static void backward_tiles(const struct ss_device *cpu, const struct shape *f, const void *dy,
                           const void *w, void *dx)
{
    const struct ss_act *x = &f->s->x;
    const size_t whole = ss_act_image(x, 0);
    const int rounds = sum_floats(f) > 0;
    const size_t each = f->apart ? 1 : f->cuts, jobs = f->tiles / each,
                 cuts = f->apart ? ss_min(cuts_of(cpu, jobs * f->groups), f->pieces) : 1;
    ss_columns_turn_weight(f, w, weights_of(cpu));
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

/* Divide a tile's images among the threads if there are fewer tiles than threads. */
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
    struct shape f = ss_columns_shape(cpu, s);
    if (is_mirrored(&f)) {
        const struct ss_conv_shape mirror = ss_columns_mirror(s);
        const struct shape m = ss_columns_shape(cpu, &mirror);
        void *weight = weights_of(cpu) + scratch_floats(cpu, &m);
        ss_columns_mirror_weight(&f, w, &m, weight);
        ss_columns_forward(cpu, &mirror, dy, weight, NULL, dx);
        return;
    }
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

/* A job of the weight gradient: `count` outputs of a group (whole panels), and a strip of a
 * piece's k. */
struct job {
    size_t part, group, piece, strip, first, count;
};

static struct job job_of(const struct shape *f, size_t i)
{
    const size_t outputs = ss_divide_up(f->out, f->outputs),
                 strips = ss_divide_up(f->piece_k, f->strip);
    struct job job = {.first = i % outputs * f->outputs,
                      .strip = i / outputs % strips * f->strip,
                      .piece = i / outputs / strips % f->pieces,
                      .group = i / outputs / strips / f->pieces % f->groups,
                      .part = i / gradient_jobs(f)};
    job.count = ss_min(f->outputs, f->out - job.first);
    return job;
}

enum { BIAS_ROWS = 16 /* per call of add_to_sums */ };

static inline void add_to_sums(const float *row, size_t rows, const size_t w, double *sums)
{
    for (size_t r = 0; r < rows; r++, row += w)
#pragma omp simd
        for (size_t l = 0; l < w; l++)
            sums[l] += (double)row[l];
}

static void add_bias(const struct shape *f, const struct operand *outputs, size_t rows,
                     size_t count, double *sums)
{
    const size_t lanes = lanes_of(f, READ);
    for (size_t o = 0; o < count; o += f->w)
        for (size_t r = 0; r < rows; r += BIAS_ROWS) {
            float buffer[BIAS_ROWS * 16];
            const size_t n = ss_min(BIAS_ROWS, rows - r);
            const float *at = outputs->at + o / lanes * outputs->block + r * f->w;
            if (f->pairs) {
                f->cpu->rows->read((const uint16_t *)(const void *)at + o % lanes, lanes, buffer,
                                   f->w, n, f->w);
                at = buffer;
            }
            if (f->w == 16)
                add_to_sums(at, n, 16, sums + o);
            else
                add_to_sums(at, n, f->w, sums + o);
        }
}

/* Interleave two rows each: an operand whose numbers are pairs. */
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

/* Interleave and transpose rows of outputs: a left operand (outputs, pairs). */
static void turn_pairs(const struct shape *f, const struct operand *from, size_t rows,
                       size_t outputs, float *to)
{
    float buffer[16 * 16];
    const size_t width = 2 * f->w, block = outputs * f->w;
    for (size_t o = 0; o < outputs; o += f->w)
        for (size_t r = 0; r < rows; r += width) {
            const float *at = from->at + o / width * from->block + r * f->w;
            const size_t count = ss_min(width, rows - r);
            ss_simd_table()->pairs((const uint16_t *)(const void *)at + o % width, width, count,
                                   f->w, buffer);
            ss_product_turn(terms_of(f, count), ss_min(f->w, outputs - o), buffer, f->w,
                            to + r / width * block + o * f->w, f->w);
        }
}

/* Interleave rows of windows, from row `first` on: a right operand (pairs, columns). */
static void join_pairs(const struct shape *f, const struct operand *from, size_t first,
                       size_t columns, float *to)
{
    const size_t width = WIDE * f->w, whole = ss_product_round(columns),
                 rows = from->block / f->w - first;
    for (size_t c = 0; c < columns; c += width)
        ss_simd_table()->pairs(
            (const uint16_t *)(const void *)(from->at + c / width * from->block + first * f->w),
            width, rows, ss_min(width, whole - c), to + c * terms_of(f, rows));
}

/* Compute sums (outputs, k) (+)= outputs' windows over the pairs of a tile's rows. left: scratch
 * [pairs of outputs | pairs of windows | sums]. */
static void sum_pairs(const struct shape *f, const struct operand *outputs, size_t count,
                      const struct operand *windows, const struct piece *p, int adds, float *left)
{
    const size_t rows = outputs->block / f->w, window_pairs = terms_of(f, windows->block / f->w),
                 width = WIDE * f->w;
    float *right = left + output_pairs_floats(f), *sums = right + window_pairs_floats(f),
          *odd = right + window_pairs_floats(f) / 2;
    turn_pairs(f, outputs, rows, count, left);
    struct ss_product product = {.rows = count,
                                 .k = terms_of(f, rows),
                                 .columns = p->k,
                                 .wide = WIDE,
                                 .left = left,
                                 .right = right,
                                 .left_block = count * f->w,
                                 .to = sums,
                                 .vector = count * f->w,
                                 .row = f->w,
                                 .adds = adds,
                                 .pairs = 1};
    if (!f->padded) {
        join_pairs(f, windows, 0, p->k, right);
        ss_product_run(&product);
        return;
    }
    const size_t channels = p->last_channel - p->channel,
                 odd_pairs = terms_of(f, windows->block / f->w - 1);
    join_pairs(f, windows, 0, channels, right);
    join_pairs(f, windows, 1, channels, odd);
    for (size_t c = 0; c < p->k; c += width) {
        const size_t tap = tap_of(f, c / channels), block = c % channels;
        product.right = tap % 2 ? odd + block * odd_pairs + tap / 2 * width
                                : right + block * window_pairs + tap / 2 * width;
        product.columns = width;
        product.to = sums + c * count;
        ss_product_run(&product);
    }
}

/* Transpose these sums into the gradient's panels. */
static void turn_sums(const struct shape *f, const float *buffer, size_t count, size_t k, float *to)
{
    const float *sums = buffer + output_pairs_floats(f) + window_pairs_floats(f);
    const size_t width = f->wide * f->w;
    for (size_t o = 0; o < count; o += f->w) {
        float *panel = to + o / width * width * k + o % width;
        const size_t ld = ss_min(width, ss_product_round(count) - o / width * width),
                     n = ss_min(f->w, count - o);
        for (size_t c = 0; c < k; c += f->w)
            ss_product_turn(n, ss_min(f->w, k - c), sums + c * count + o * f->w, f->w,
                            panel + c * ld, ld);
        for (size_t c = 0; c < k && n < f->w; c++)
            memset(panel + c * ld + n, 0, (f->w - n) * sizeof *to);
    }
}

/* dbias: the group's outputs. */
static void run_job(const struct ss_device *cpu, const struct shape *f, const struct job *job,
                    const void *x, const void *dy, float *dw, float *dbias)
{
    const size_t begin = job->part * f->tiles / f->parts,
                 end = (job->part + 1) * f->tiles / f->parts;
    const struct piece p = piece_of(f, job->piece);
    const int has_bias = dbias && job->piece == 0 && job->strip == 0;
    double sums[TURNED_OUTPUTS] = {0};
    float *to = dw + weight_at(f, job->group, &p) + job->first * p.k,
          *buffer = of_thread(cpu, f) + thread_floats(f) - pairs_floats(f);
    for (size_t i = begin; i < end && job->strip < p.k; i++) {
        const struct tile t = tile_of(f, i);
        struct operand windows = read_windows(cpu, f, x, job->group, &p, t),
                       outputs = read_outputs(cpu, f, dy, job->group, job->first, job->count, t);
        if (has_bias)
            add_bias(f, &outputs, span_of(f, t.rows), job->count, sums);
        if (f->matrix_unit) {
            sum_pairs(f, &outputs, job->count, &windows, &p, i > begin, buffer);
            continue;
        }
        if (f->pairs) {
            outputs = pair_rows(f, &outputs, t.rows, job->count, buffer);
            windows = pair_rows(f, &windows, t.rows, p.k, buffer + output_pairs_floats(f));
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
                                       .to = to,
                                       .adds = i > begin,
                                       .pairs = f->pairs});
    }
    if (f->matrix_unit)
        turn_sums(f, buffer, job->count, p.k, to);
    for (size_t o = 0; has_bias && o < job->count; o++)
        dbias[job->first + o] = (float)sums[o];
}

void ss_columns_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                 const void *x, const void *dy, float *dw, float *dbias)
{
    const struct shape f = ss_columns_shape(cpu, s);
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
    ss_columns_clear_between(&f, dw);
    for (size_t o = 0; dbias && o < outputs; o++) {
        double sum = 0;
        for (size_t p = 0; p < f.parts; p++)
            sum += (double)biases[p * outputs + o];
        dbias[o] = (float)sum;
    }
}
