/* columns.c: see columns.h.
 *
 * A row has the window's taps one after the other, each with its channels, which lie together in
 * memory; weights are turned to that order at each call. Pixels are those of all images, one after the
 * other: a tile may have several images' where maps are small. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/dnnl_op.h"

#include <omp.h>
#include <stdint.h>
#include <string.h>

enum {
    TILE = 1 << 17,  /* floats of a tile's matrix: stays in a second-level cache */
    MOST_ROWS = 512, /* of a tile */
    OUTPUTS = 128,   /* of a job of the weight gradient */
    PARTS = 16,      /* of the pixels, whose weight gradients are added up in their order, */
    PARTS_FLOATS = 16 << 20, /* as long as these are not more; all in all */
};

struct shape {
    const struct ss_conv_shape *s;
    size_t in, out, taps, k;       /* of a group: channels; of a window; of a row */
    size_t plane, pixels;          /* of y: of an image, of all */
    size_t rows, parts, part_rows; /* of a tile; of the weight gradient, and pixels of one */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct shape shape_of(const struct ss_conv_shape *s)
{
    struct shape f = {.s = s,
                      .in = (size_t)ss_conv_inputs(s),
                      .out = (size_t)ss_conv_outputs(s),
                      .taps = (size_t)ss_conv_taps(s),
                      .plane = (size_t)s->y.h * (size_t)s->y.w};
    f.k = f.in * f.taps;
    f.pixels = (size_t)s->y.n * f.plane;
    const size_t fit = TILE / f.k, weights = (size_t)s->y.c * f.k;
    f.rows = smaller(smaller(fit < 16 ? 16 : fit, MOST_ROWS), f.pixels);
    f.parts = smaller(smaller(PARTS, (f.pixels + f.rows - 1) / f.rows), PARTS_FLOATS / weights + 1);
    f.part_rows = (f.pixels + f.parts - 1) / f.parts;
    return f;
}

/* Scratch: [weights in their other order, or the parts of their gradient | of biases | of each
 * thread: rows of windows, rows of outputs]. */
static size_t shared_floats(const struct shape *f)
{
    return f->parts * (size_t)f->s->y.c * f->k;
}
static size_t bias_floats(const struct shape *f)
{
    return f->parts * (size_t)f->s->y.c;
}
static size_t thread_floats(const struct shape *f)
{
    return f->rows * (f->k + f->out);
}

size_t ss_columns_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    const struct shape f = shape_of(s);
    return (shared_floats(&f) + bias_floats(&f) + (size_t)cpu->threads * thread_floats(&f)) *
           sizeof(float);
}

static float *shared_of(const struct ss_device *cpu)
{
    return ss_cpu_scratch(cpu);
}
static float *windows_of(const struct ss_device *cpu, const struct shape *f)
{
    return shared_of(cpu) + shared_floats(f) + bias_floats(f) +
           (size_t)omp_get_thread_num() * thread_floats(f);
}
static float *outputs_of(const struct shape *f, float *windows)
{
    return windows + f->rows * f->k;
}

/* ---- channels of a pixel, which lie in runs of at most a block ---- */

struct run {
    size_t at, count;
};

/* The run that begins with channel c, of the channels before `end`. */
static struct run run_of(const struct ss_act *a, size_t n, size_t pixel, size_t c, size_t end)
{
    const size_t block = (size_t)a->block, plane = (size_t)a->h * (size_t)a->w;
    const size_t first = c % block;
    return (struct run){((n * (size_t)ss_act_blocks(a) + c / block) * plane + pixel) * block +
                            first,
                        smaller(block - first, end - c)};
}

static void read_channels(const struct ss_act *a, const float *from, size_t n, size_t pixel,
                          size_t c, size_t count, float *to)
{
    for (const size_t end = c + count; c < end;) {
        const struct run r = run_of(a, n, pixel, c, end);
        if (r.count == 8) /* a constant size is a move */
            memcpy(to, from + r.at, 8 * sizeof *to);
        else
            memcpy(to, from + r.at, r.count * sizeof *to);
        to += r.count;
        c += r.count;
    }
}

static void add_channels(const struct ss_act *a, float *to, size_t n, size_t pixel, size_t c,
                         size_t count, const float *from)
{
    for (const size_t end = c + count; c < end;) {
        const struct run r = run_of(a, n, pixel, c, end);
        for (size_t i = 0; i < r.count; i++)
            to[r.at + i] += from[i];
        from += r.count;
        c += r.count;
    }
}

/* from NULL: zeros. Behind the last channel zeros up to the block's end. */
static void write_channels(const struct ss_act *a, float *to, size_t n, size_t pixel, size_t c,
                           size_t count, const float *from)
{
    for (const size_t end = c + count; c < end;) {
        const struct run r = run_of(a, n, pixel, c, end);
        if (from)
            memcpy(to + r.at, from, r.count * sizeof *to);
        else
            memset(to + r.at, 0, r.count * sizeof *to);
        from += from ? r.count : 0;
        c += r.count;
        if (c == (size_t)a->c && c % (size_t)a->block)
            memset(to + r.at + r.count, 0, ((size_t)a->block - c % (size_t)a->block) * sizeof *to);
    }
}

/* ---- windows ---- */

/* A pixel's window: its image, and where its first tap is. */
struct taps {
    const struct ss_conv_shape *s;
    size_t n;
    int top, left;
};

static struct taps taps_of(const struct shape *f, size_t q)
{
    const struct ss_conv_shape *s = f->s;
    const int p = (int)(q % f->plane);
    return (struct taps){s, q / f->plane, p / s->y.w * s->stride[0] - s->padding[0],
                         p % s->y.w * s->stride[1] - s->padding[1]};
}

/* The place of tap t in x's plane, or -1: padding. */
static int64_t place_of(const struct taps *w, size_t t)
{
    const struct ss_conv_shape *s = w->s;
    const int h = w->top + (int)t / s->kernel[1] * s->dilation[0],
              c = w->left + (int)t % s->kernel[1] * s->dilation[1];
    return h < 0 || h >= s->x.h || c < 0 || c >= s->x.w ? -1 : (int64_t)h * s->x.w + c;
}

static void gather_windows(const struct shape *f, const float *x, size_t group, size_t first,
                           size_t rows, float *to)
{
    for (size_t q = first; q < first + rows; q++) {
        const struct taps w = taps_of(f, q);
        for (size_t t = 0; t < f->taps; t++, to += f->in) {
            const int64_t place = place_of(&w, t);
            if (place < 0)
                memset(to, 0, f->in * sizeof *to);
            else
                read_channels(&f->s->x, x, w.n, (size_t)place, group * f->in, f->in, to);
        }
    }
}

static void scatter_windows(const struct shape *f, const float *from, size_t group, size_t first,
                            size_t rows, float *dx)
{
    for (size_t q = first; q < first + rows; q++) {
        const struct taps w = taps_of(f, q);
        for (size_t t = 0; t < f->taps; t++, from += f->in) {
            const int64_t place = place_of(&w, t);
            if (place >= 0)
                add_channels(&f->s->x, dx, w.n, (size_t)place, group * f->in, f->in, from);
        }
    }
}

static void gather_outputs(const struct shape *f, const float *dy, size_t channel, size_t count,
                           size_t first, size_t rows, float *to)
{
    for (size_t q = first; q < first + rows; q++, to += count)
        read_channels(&f->s->y, dy, q / f->plane, q % f->plane, channel, count, to);
}

/* ---- weights ---- */

/* (Co,Ci/G,taps) as (Co,taps,Ci/G). */
static void turn_weights(const struct ss_device *cpu, const struct shape *f, const float *w,
                         float *turned)
{
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int o = 0; o < f->s->y.c; o++)
        for (size_t t = 0; t < f->taps; t++)
            for (size_t c = 0; c < f->in; c++)
                turned[((size_t)o * f->taps + t) * f->in + c] =
                    w[((size_t)o * f->in + c) * f->taps + t];
}

/* The parts' sum, in the plain order. */
static void sum_parts(const struct ss_device *cpu, const struct shape *f, const float *parts,
                      float *dw)
{
    const size_t weights = (size_t)f->s->y.c * f->k;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int o = 0; o < f->s->y.c; o++)
        for (size_t c = 0; c < f->in; c++)
            for (size_t t = 0; t < f->taps; t++) {
                const float *from = parts + ((size_t)o * f->taps + t) * f->in + c;
                float sum = from[0];
                for (size_t p = 1; p < f->parts; p++)
                    sum += from[p * weights];
                dw[((size_t)o * f->in + c) * f->taps + t] = sum;
            }
}

/* ---- passes: a job's status is the whole's ---- */

static void keep(enum ss_status *all, enum ss_status status)
{
    if (status != SS_OK)
#pragma omp atomic write
        *all = status;
}

static enum ss_status forward_tile(const struct ss_device *cpu, const struct shape *f,
                                   const float *x, const float *bias, size_t group, size_t first,
                                   float *y)
{
    const size_t rows = smaller(f->rows, f->pixels - first), channel = group * f->out;
    float *windows = windows_of(cpu, f), *out = outputs_of(f, windows);
    gather_windows(f, x, group, first, rows, windows);
    for (size_t i = 0; bias && i < rows; i++)
        memcpy(out + i * f->out, bias + channel, f->out * sizeof *out);
    SS_TRY(ss_cpu_product('N', 'T', rows, f->out, f->k, windows, f->k,
                          shared_of(cpu) + channel * f->k, f->k, bias ? 1 : 0, out, f->out));
    for (size_t i = 0; i < rows; i++)
        write_channels(&f->s->y, y, (first + i) / f->plane, (first + i) % f->plane, channel, f->out,
                       out + i * f->out);
    return SS_OK;
}

enum ss_status ss_columns_forward(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                  const float *x, const float *w, const float *bias, float *y)
{
    const struct shape f = shape_of(s);
    const size_t groups = (size_t)s->groups, tiles = (f.pixels + f.rows - 1) / f.rows;
    enum ss_status status = SS_OK;
    turn_weights(cpu, &f, w, shared_of(cpu));
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < tiles * groups; i++)
        keep(&status, forward_tile(cpu, &f, x, bias, i / tiles, i % tiles * f.rows, y));
    return status;
}

/* A job has whole images, whose windows overlap. */
static enum ss_status backward_images(const struct ss_device *cpu, const struct shape *f,
                                      const float *dy, size_t group, size_t first, size_t end,
                                      float *dx)
{
    const struct ss_act *x = &f->s->x;
    const size_t plane = (size_t)x->h * (size_t)x->w, channel = group * f->out;
    float *windows = windows_of(cpu, f), *out = outputs_of(f, windows);
    for (size_t i = first * plane; i < end * plane; i++)
        write_channels(x, dx, i / plane, i % plane, group * f->in, f->in, NULL);
    for (size_t q = first * f->plane; q < end * f->plane; q += f->rows) {
        const size_t rows = smaller(f->rows, end * f->plane - q);
        gather_outputs(f, dy, channel, f->out, q, rows, out);
        SS_TRY(ss_cpu_product('N', 'N', rows, f->k, f->out, out, f->out,
                              shared_of(cpu) + channel * f->k, f->k, 0, windows, f->k));
        scatter_windows(f, windows, group, q, rows, dx);
    }
    return SS_OK;
}

enum ss_status ss_columns_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                        const float *dy, const float *w, float *dx)
{
    const struct shape f = shape_of(s);
    const size_t images = (size_t)s->x.n, each = f.rows / f.plane > 1 ? f.rows / f.plane : 1;
    const size_t jobs = (images + each - 1) / each;
    enum ss_status status = SS_OK;
    turn_weights(cpu, &f, w, shared_of(cpu));
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < jobs * (size_t)s->groups; i++) {
        const size_t first = i % jobs * each;
        keep(&status,
             backward_images(cpu, &f, dy, i / jobs, first, smaller(first + each, images), dx));
    }
    return status;
}

/* `count` outputs from `channel` on, of one part of the pixels. */
static enum ss_status gradient_part(const struct ss_device *cpu, const struct shape *f,
                                    const float *x, const float *dy, size_t part, size_t channel,
                                    size_t count, float *dbias)
{
    const size_t begin = part * f->part_rows, end = smaller(begin + f->part_rows, f->pixels);
    float *windows = windows_of(cpu, f), *out = outputs_of(f, windows);
    float *dw = shared_of(cpu) + (part * (size_t)f->s->y.c + channel) * f->k;
    double sums[OUTPUTS] = {0};
    if (begin >= end)
        memset(dw, 0, count * f->k * sizeof *dw);
    for (size_t q = begin; q < end; q += f->rows) {
        const size_t rows = smaller(f->rows, end - q);
        gather_windows(f, x, channel / f->out, q, rows, windows);
        gather_outputs(f, dy, channel, count, q, rows, out);
        SS_TRY(ss_cpu_product('T', 'N', count, f->k, rows, out, count, windows, f->k, q > begin, dw,
                              f->k));
        for (size_t i = 0; dbias && i < rows; i++)
            for (size_t o = 0; o < count; o++)
                sums[o] += (double)out[i * count + o];
    }
    for (size_t o = 0; dbias && o < count; o++)
        dbias[part * (size_t)f->s->y.c + channel + o] = (float)sums[o];
    return SS_OK;
}

enum ss_status ss_columns_backward_weights(const struct ss_device *cpu,
                                           const struct ss_conv_shape *s, const float *x,
                                           const float *dy, float *dw, float *dbias)
{
    const struct shape f = shape_of(s);
    const size_t pieces = (f.out + OUTPUTS - 1) / OUTPUTS, all = pieces * (size_t)s->groups;
    float *biases = dbias ? shared_of(cpu) + shared_floats(&f) : NULL;
    enum ss_status status = SS_OK;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < all * f.parts; i++) {
        const size_t piece = i % all, first = piece % pieces * OUTPUTS;
        keep(&status, gradient_part(cpu, &f, x, dy, i / all, piece / pieces * f.out + first,
                                    smaller(OUTPUTS, f.out - first), biases));
    }
    SS_TRY(status);
    sum_parts(cpu, &f, shared_of(cpu), dw);
    for (int o = 0; dbias && o < s->y.c; o++) {
        double sum = 0;
        for (size_t p = 0; p < f.parts; p++)
            sum += (double)biases[p * (size_t)s->y.c + (size_t)o];
        dbias[o] = (float)sum;
    }
    return SS_OK;
}
