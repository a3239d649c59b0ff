/* small_map.c: convolutions of small maps as matrix products (contract in small_map.h).
 *
 * Before a pass its tensors are copied to (tile, vector, pixel, image, W). The images of a tile are
 * then the rows of a left operand of product.h, one for each pixel, and neighboring pixels of a
 * line are one operand with more rows.
 *
 *   forward          y (images, Co) of output o   = sum over pairs (o, i) of
 *                                                   x (images, Ci) of input i weight'
 *   data gradient    dx (images, Ci) of input i   = sum over pairs (o, i) of
 *                                                   dy (images, Co) of output o weight
 *   weight gradient  weight' (Ci, Co) of a tap    = sum over its pairs (o, i) of x' dy */
#include "kernels/cpu/small_map.h"

#include "core/round.h"
#include "kernels/cpu/product.h"

#include <omp.h>
#include <string.h>

enum {
    WIDE = 2, /* vectors of a panel */
    MOST_LANES = 16,
    MOST_OUTPUTS = 16, /* pixels of y, at most */
    MOST_INPUTS = 64,  /* pixels of x, at most */
    LEAST_IMAGES = 8,
    TILE_IMAGES = 32, /* at most */
    STRIP = 128,      /* weight gradient, of Ci: its section of a panel stays in the L1 cache */
};

/* x or y. */
struct side {
    const struct ss_act *act;
    size_t vectors, pixels;
};

struct shape {
    const struct ss_conv_shape *s;
    struct side x, y;
    size_t w; /* W */
    size_t images, taps;
};

static struct side side_of(const struct ss_act *a, size_t w)
{
    return (struct side){a, (size_t)ss_act_blocks(a) * (size_t)a->block / w,
                         (size_t)a->h * (size_t)a->w};
}

static struct shape shape_of(const struct ss_conv_shape *s)
{
    const size_t w = ss_product_lanes();
    return (struct shape){s, side_of(&s->x, w), side_of(&s->y, w),
                          w, (size_t)s->x.n,    (size_t)ss_conv_taps(s)};
}

/* `count` neighboring outputs from `output` on, whose taps are as many inputs from `input` on. */
struct run {
    size_t output, input, count;
};

/* Find the runs of a tap; return their number. */
static size_t runs_of(const struct ss_conv_shape *s, size_t tap, struct run run[MOST_OUTPUTS])
{
    const int i = (int)tap / s->kernel[1] * s->dilation[0] - s->padding[0],
              j = (int)tap % s->kernel[1] * s->dilation[1] - s->padding[1];
    size_t n = 0;
    for (int line = 0; line < s->y.h; line++)
        for (int column = 0; column < s->y.w; column++) {
            const int h = line * s->stride[0] + i, w = column * s->stride[1] + j;
            if (h < 0 || h >= s->x.h || w < 0 || w >= s->x.w)
                continue;
            const size_t output = (size_t)(line * s->y.w + column),
                         input = (size_t)(h * s->x.w + w);
            if (n && run[n - 1].output + run[n - 1].count == output &&
                run[n - 1].input + run[n - 1].count == input)
                run[n - 1].count++;
            else
                run[n++] = (struct run){output, input, 1};
        }
    return n;
}

static size_t pairs_of(const struct ss_conv_shape *s)
{
    struct run run[MOST_OUTPUTS];
    size_t pairs = 0;
    for (size_t tap = 0; tap < (size_t)ss_conv_taps(s); tap++)
        for (size_t n = runs_of(s, tap, run); n > 0; n--)
            pairs += run[n - 1].count;
    return pairs;
}

double ss_small_map_products(const struct ss_conv_shape *s)
{
    return (double)pairs_of(s) * s->x.n * s->x.c * s->y.c;
}

/* Return whether channels are in whole vectors, the last of which may have padding. */
static int takes_side(const struct shape *f, const struct side *side)
{
    return (size_t)side->act->block % f->w == 0 &&
           side->vectors == ss_divide_up((size_t)side->act->c, f->w);
}

/* Measured with AVX-512 and AVX2 (Zen 5), 64 to 512 channels, batches of 32 and 128. Speedup of
 * all three passes over oneDNN 2.6's direct code: 3x3 windows on one pixel 4, on 2x2 2.3, with
 * stride 2 to 2x2 2.1, to 4x4 1.3, where oneDNN's gradients take longer than its forward pass. */
int ss_small_map_pays(const struct ss_conv_shape *s)
{
    const struct shape f = shape_of(s);
    if (s->groups > 1 || !takes_side(&f, &f.x) || !takes_side(&f, &f.y) || s->x.n < LEAST_IMAGES ||
        f.y.pixels > MOST_OUTPUTS || f.x.pixels > MOST_INPUTS)
        return 0;
    const size_t pairs = pairs_of(s), all = f.taps * f.y.pixels;
    return 4 * pairs <= 3 * all || (s->stride[0] > 1 && s->stride[1] > 1 && pairs < all);
}

/* ---- weights ---- */

/* Return the offset of a tap's weight, from output `first` on (a panel). */
static size_t weight_at(const struct shape *f, size_t tap, size_t first)
{
    return ((tap * f->y.vectors * f->w) + first) * (size_t)f->s->x.c;
}
static size_t panel_width(const struct shape *f, const struct side *side, size_t first)
{
    return ss_min(WIDE * f->w, side->vectors * f->w - first);
}

size_t ss_small_map_weight_bytes(const struct ss_conv_shape *s)
{
    const struct shape f = shape_of(s);
    return weight_at(&f, f.taps, 0) * sizeof(float);
}

static void move_weight(const struct ss_conv_shape *s, float *plain, float *native, int back)
{
    const struct shape f = shape_of(s);
    const size_t inputs = (size_t)s->x.c;
    for (size_t o = 0; o < (size_t)s->y.c; o++)
        for (size_t c = 0; c < inputs; c++)
            for (size_t tap = 0; tap < f.taps; tap++, plain++) {
                const size_t lane = o % (WIDE * f.w), first = o - lane;
                float *at =
                    native + weight_at(&f, tap, first) + c * panel_width(&f, &f.y, first) + lane;
                if (back)
                    *plain = *at;
                else
                    *at = *plain;
            }
}

void ss_small_map_import(const struct ss_conv_shape *s, const float *plain, float *native)
{
    memset(native, 0, ss_small_map_weight_bytes(s));
    move_weight(s, (float *)(uintptr_t)plain, native, 0);
}

void ss_small_map_export(const struct ss_conv_shape *s, const float *native, float *plain)
{
    move_weight(s, plain, (float *)(uintptr_t)native, 1);
}

/* ---- tiles ---- */

/* Scratch: [rows of x and of y | per thread: a panel of outputs and of a transposed weight]. */
static size_t rows_floats(const struct shape *f, const struct side *side)
{
    return f->images * side->vectors * side->pixels * f->w;
}
static size_t outputs_floats(const struct shape *f)
{
    const size_t pixels = f->x.pixels > f->y.pixels ? f->x.pixels : f->y.pixels;
    return pixels * TILE_IMAGES * WIDE * f->w;
}
static size_t thread_floats(const struct shape *f)
{
    return outputs_floats(f) + ss_max((size_t)f->s->x.c, (size_t)f->s->y.c) * WIDE * f->w;
}

size_t ss_small_map_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    const struct shape f = shape_of(s);
    return (rows_floats(&f, &f.x) + rows_floats(&f, &f.y) +
            (size_t)cpu->threads * thread_floats(&f)) *
           sizeof(float);
}

static float *x_rows(const struct ss_device *cpu)
{
    return ss_cpu_scratch(cpu);
}
static float *y_rows(const struct ss_device *cpu, const struct shape *f)
{
    return x_rows(cpu) + rows_floats(f, &f->x);
}
static float *of_thread(const struct ss_device *cpu, const struct shape *f)
{
    return y_rows(cpu, f) + rows_floats(f, &f->y) + (size_t)omp_get_thread_num() * thread_floats(f);
}

/* The images of a tile. Their rows of a pixel of a vector are at vector * block + pixel * images
 * * W. */
struct tile {
    size_t first, images;
};

static struct tile tile_of(const struct shape *f, size_t images, size_t i)
{
    return (struct tile){i * images, ss_min(images, f->images - i * images)};
}
static size_t tile_at(const struct shape *f, const struct side *side, struct tile t)
{
    return t.first * side->vectors * side->pixels * f->w;
}
static size_t block_of(const struct shape *f, const struct side *side, struct tile t)
{
    return side->pixels * t.images * f->w;
}

/* Return the offset of a vector of an image. */
static size_t image_at(const struct shape *f, const struct side *side, size_t image, size_t vector)
{
    return image * ss_act_image(side->act, 0) + ss_act_channel(side->act, (int)(vector * f->w));
}

/* Copy one vector of the tensor to its rows, or back. */
static void move_vector(const struct ss_device *cpu, const struct shape *f, const struct side *side,
                        struct tile t, size_t vector, const void *tensor, float *rows, int back)
{
    const size_t block = (size_t)side->act->block, step = t.images * f->w;
    for (size_t image = 0; image < t.images; image++, rows += f->w) {
        void *at = ss_at(cpu, tensor, image_at(f, side, t.first + image, vector));
        if (back)
            cpu->rows->write(rows, step, at, block, side->pixels, f->w);
        else
            cpu->rows->read(at, block, rows, step, side->pixels, f->w);
    }
}

static void make_rows(const struct ss_device *cpu, const struct shape *f, const struct side *side,
                      size_t images, const void *tensor, float *rows)
{
    const size_t tiles = ss_divide_up(f->images, images);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < tiles * side->vectors; i++) {
        const struct tile t = tile_of(f, images, i / side->vectors);
        const size_t vector = i % side->vectors;
        move_vector(cpu, f, side, t, vector, tensor,
                    rows + tile_at(f, side, t) + vector * block_of(f, side, t), 0);
    }
}

/* ---- passes ---- */

/* Forward, or the data gradient: `from` and `to` are x and y, or y and x. */
struct pass {
    const struct shape *f;
    const struct side *from, *to;
    const float *rows;
    const void *w;
    const float *bias; /* or NULL */
    void *out;
    int backward;
};

/* Return the right operand of a tap, for the panel of outputs from `first` on. */
static const float *panel_of(const struct ss_device *cpu, const struct pass *p, size_t tap,
                             size_t first, float *buffer)
{
    const struct shape *f = p->f;
    const size_t inputs = (size_t)f->s->x.c;
    if (!p->backward)
        return ss_floats(cpu->dtype, p->w, weight_at(f, tap, first),
                         inputs * panel_width(f, &f->y, first), buffer);
    ss_product_turn_panel(inputs, (size_t)f->s->y.c, ss_at(cpu, p->w, weight_at(f, tap, 0)),
                          cpu->dtype, 0, first, buffer);
    return buffer;
}

static void run_panel(const struct ss_device *cpu, const struct pass *p, struct tile t,
                      size_t first)
{
    const struct shape *f = p->f;
    const size_t width = panel_width(f, p->to, first), k = (size_t)p->from->act->c,
                 from_block = block_of(f, p->from, t), to_block = block_of(f, p->to, t);
    const float *rows = p->rows + tile_at(f, p->from, t);
    float *out = of_thread(cpu, f), *buffer = out + outputs_floats(f);
    for (size_t v = 0; v < width / f->w; v++) {
        const size_t channel = first + v * f->w;
        float bias[MOST_LANES] = {0};
        if (p->bias)
            memcpy(bias, p->bias + channel,
                   ss_min(f->w, (size_t)p->to->act->c - channel) * sizeof *bias);
        for (size_t i = 0; i < to_block; i += f->w)
            memcpy(out + v * to_block + i, bias, f->w * sizeof *bias);
    }
    for (size_t tap = 0; tap < f->taps; tap++) {
        struct run run[MOST_OUTPUTS];
        const size_t runs = runs_of(f->s, tap, run);
        const float *panel = runs ? panel_of(cpu, p, tap, first, buffer) : NULL;
        for (size_t c = 0; runs && c < k; c += SS_PRODUCT_CHUNK)
            for (size_t i = 0; i < runs; i++) {
                const size_t read = p->backward ? run[i].output : run[i].input,
                             written = p->backward ? run[i].input : run[i].output;
                ss_product_run(&(struct ss_product){.rows = run[i].count * t.images,
                                                    .k = ss_min(SS_PRODUCT_CHUNK, k - c),
                                                    .columns = width,
                                                    .wide = WIDE,
                                                    .left = rows + c / f->w * from_block +
                                                            read * t.images * f->w,
                                                    .right = panel + c * width,
                                                    .left_block = from_block,
                                                    .to = out + written * t.images * f->w,
                                                    .vector = to_block,
                                                    .row = f->w,
                                                    .adds = 1});
            }
    }
    for (size_t v = 0; v < width / f->w; v++)
        move_vector(cpu, f, p->to, t, first / f->w + v, p->out, out + v * to_block, 1);
}

static void run(const struct ss_device *cpu, const struct pass *p, const void *from)
{
    const struct shape *f = p->f;
    const size_t panels = ss_divide_up(p->to->vectors, WIDE), threads = (size_t)cpu->threads;
    /* One job per thread, as sums do not depend on the number of rows in a product. */
    const size_t most = ss_min(TILE_IMAGES, ss_divide_up(f->images, ss_divide_up(threads, panels))),
                 images = ss_divide_up(f->images, ss_divide_up(f->images, most));
    make_rows(cpu, f, p->from, images, from, (float *)(uintptr_t)p->rows);
#pragma omp parallel for schedule(dynamic) num_threads(cpu->threads)
    for (size_t i = 0; i < ss_divide_up(f->images, images) * panels; i++)
        run_panel(cpu, p, tile_of(f, images, i / panels), i % panels * WIDE * f->w);
}

void ss_small_map_forward(const struct ss_device *cpu, const struct ss_conv_shape *s, const void *x,
                          const void *w, const float *bias, void *y)
{
    const struct shape f = shape_of(s);
    run(cpu, &(struct pass){&f, &f.x, &f.y, x_rows(cpu), w, bias, y, 0}, x);
}

void ss_small_map_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                const void *dy, const void *w, void *dx)
{
    const struct shape f = shape_of(s);
    run(cpu, &(struct pass){&f, &f.y, &f.x, y_rows(cpu, &f), w, NULL, dx, 1}, dy);
}

/* Sum the bias gradient of W outputs. */
static void sum_bias(const struct ss_device *cpu, const struct shape *f, size_t vector,
                     const void *dy, float *dbias)
{
    double sums[MOST_LANES] = {0};
    float rows[MOST_OUTPUTS * MOST_LANES];
    for (size_t image = 0; image < f->images; image++) {
        cpu->rows->read(ss_at(cpu, dy, image_at(f, &f->y, image, vector)), (size_t)f->y.act->block,
                        rows, f->w, f->y.pixels, f->w);
        for (size_t pixel = 0; pixel < f->y.pixels; pixel++)
            for (size_t l = 0; l < f->w; l++)
                sums[l] += (double)rows[pixel * f->w + l];
    }
    for (size_t l = 0; l < f->w && vector * f->w + l < (size_t)f->s->y.c; l++)
        dbias[vector * f->w + l] = (float)sums[l];
}

/* Compute a tap's gradient for the panel of outputs from `first` on and the strip of inputs from
 * `c` on. */
static void run_strip(const struct shape *f, const struct run *run, size_t runs, size_t first,
                      size_t c, const float *x, const float *dy, float *panel)
{
    const size_t width = panel_width(f, &f->y, first), k = ss_min(STRIP, (size_t)f->s->x.c - c);
    if (!runs)
        memset(panel + c * width, 0, k * width * sizeof *panel);
    for (size_t tile = 0; tile < ss_divide_up(f->images, TILE_IMAGES); tile++) {
        const struct tile t = tile_of(f, TILE_IMAGES, tile);
        const size_t x_block = block_of(f, &f->x, t), y_block = block_of(f, &f->y, t);
        for (size_t i = 0; i < runs; i++)
            ss_product_outer(
                &(struct ss_product_outer){.rows = run[i].count * t.images,
                                           .k = k,
                                           .columns = width,
                                           .wide = WIDE,
                                           .first = c,
                                           .all = (size_t)f->s->x.c,
                                           .left = x + tile_at(f, &f->x, t) + c / f->w * x_block +
                                                   run[i].input * t.images * f->w,
                                           .d = dy + tile_at(f, &f->y, t) + first / f->w * y_block +
                                                run[i].output * t.images * f->w,
                                           .left_block = x_block,
                                           .d_vector = y_block,
                                           .to = panel,
                                           .adds = tile > 0 || i > 0});
    }
}

void ss_small_map_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                   const void *x, const void *dy, float *dw, float *dbias)
{
    const struct shape f = shape_of(s);
    const size_t panels = ss_divide_up(f.y.vectors, WIDE),
                 strips = ss_divide_up((size_t)s->x.c, STRIP);
    float *left = x_rows(cpu), *d = y_rows(cpu, &f);
    make_rows(cpu, &f, &f.x, TILE_IMAGES, x, left);
    make_rows(cpu, &f, &f.y, TILE_IMAGES, dy, d);
#pragma omp parallel num_threads(cpu->threads)
    {
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < f.taps * panels * strips; i++) {
            const size_t tap = i / strips / panels, first = i / strips % panels * WIDE * f.w;
            struct run run[MOST_OUTPUTS];
            const size_t runs = runs_of(s, tap, run);
            run_strip(&f, run, runs, first, i % strips * STRIP, left, d,
                      dw + weight_at(&f, tap, first));
        }
#pragma omp for schedule(static)
        for (size_t v = 0; v < (dbias ? f.y.vectors : 0); v++)
            sum_bias(cpu, &f, v, dy, dbias);
    }
}
