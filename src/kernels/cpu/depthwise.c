/* depthwise.c: depthwise convolutions (contract in depthwise.h).
 *
 * A job is a plane: a chunk of `width` channels of one image. Its thread copies the input of the
 * pass, with padding columns, into scratch, so that the loops only handle the upper and lower
 * edges. A job of the weight gradient is a chunk of channels of IMAGES images; the sums of the
 * jobs are added in a fixed order, so results do not depend on the number of threads. */
#include "kernels/cpu/depthwise.h"

#include <omp.h>
#include <string.h>

enum { IMAGES = 8 };

int ss_depthwise_takes(const struct ss_conv_shape *s)
{
    return s->groups > 1 && s->groups == s->x.c && s->x.c == s->y.c && s->x.block > 1 &&
           s->x.block == s->y.block && s->dilation[0] == 1 && s->dilation[1] == 1;
}

int ss_depthwise_width(const struct ss_conv_shape *s)
{
    return s->x.block == 16 || (s->x.block != 8 && ss_cpu_simd() >= SS_SIMD_AVX512) ? 16 : 8;
}

static int chunks_of(const struct ss_conv_shape *s)
{
    const int width = ss_depthwise_width(s);
    return (s->x.c + width - 1) / width;
}

static size_t weights_of(const struct ss_conv_shape *s)
{
    return (size_t)(ss_conv_taps(s) * ss_depthwise_width(s));
}

size_t ss_depthwise_weight_bytes(const struct ss_conv_shape *s)
{
    return (size_t)chunks_of(s) * weights_of(s) * sizeof(float);
}

/* Return the offset of a tap of channel c. */
static size_t place_of(const struct ss_conv_shape *s, int c, int tap)
{
    const int width = ss_depthwise_width(s);
    return (size_t)(c / width) * weights_of(s) + (size_t)(tap * width + c % width);
}

void ss_depthwise_import(const struct ss_conv_shape *s, const float *plain, float *native)
{
    const int taps = ss_conv_taps(s);
    memset(native, 0, ss_depthwise_weight_bytes(s));
    for (int c = 0; c < s->x.c; c++)
        for (int tap = 0; tap < taps; tap++)
            native[place_of(s, c, tap)] = plain[c * taps + tap];
}

void ss_depthwise_export(const struct ss_conv_shape *s, const float *native, float *plain)
{
    const int taps = ss_conv_taps(s);
    for (int c = 0; c < s->x.c; c++)
        for (int tap = 0; tap < taps; tap++)
            plain[c * taps + tap] = native[place_of(s, c, tap)];
}

/* Columns of a plane in scratch: of x, and of dy spread over the positions of x. */
static int x_columns(const struct ss_conv_shape *s)
{
    return s->x.w + 2 * s->padding[1];
}
static int dy_columns(const struct ss_conv_shape *s)
{
    return s->x.w + s->kernel[1] - 1;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Floats of a thread: [input | output, or dy of the weight gradient | weights of a chunk]. */
static size_t first_of(const struct ss_conv_shape *s)
{
    return (size_t)(larger(s->x.h * x_columns(s), s->y.h * dy_columns(s)) * ss_depthwise_width(s));
}
static size_t thread_floats(const struct ss_conv_shape *s)
{
    const int second = larger(s->x.h * s->x.w, s->y.h * s->y.w) * ss_depthwise_width(s);
    return ss_align_up((first_of(s) + (size_t)second + weights_of(s)) * sizeof(float)) /
           sizeof(float);
}

/* Return the weights of chunk k as floats, converted into the thread's scratch if necessary. */
static const float *weight_of(const struct ss_device *cpu, const struct ss_conv_shape *s,
                              const void *weight, int k, float *scratch)
{
    const size_t count = weights_of(s);
    return ss_floats(cpu->dtype, weight, (size_t)k * count, count,
                     scratch + thread_floats(s) - count);
}

static int parts_of(const struct ss_conv_shape *s)
{
    return (s->x.n + IMAGES - 1) / IMAGES;
}
/* Floats of a chunk and part: gradients of the weight and of the bias. */
static size_t part_of(const struct ss_conv_shape *s)
{
    return weights_of(s) + (size_t)ss_depthwise_width(s);
}

size_t ss_depthwise_scratch(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    return ((size_t)cpu->threads * thread_floats(s) +
            (size_t)(parts_of(s) * chunks_of(s)) * part_of(s)) *
           sizeof(float);
}

static float *of_thread(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    return (float *)ss_cpu_scratch(cpu) + (size_t)omp_get_thread_num() * thread_floats(s);
}

/* Chunk k of image n: pixels are `pixel` elements apart, and have `channels` channels. */
struct plane {
    size_t at, pixel;
    int channels;
};
static struct plane plane_of(const struct ss_act *a, int width, int n, int k)
{
    const size_t pixels = (size_t)a->h * (size_t)a->w;
    if (a->block == width)
        return (struct plane){(size_t)(n * ss_act_blocks(a) + k) * pixels * (size_t)width,
                              (size_t)width, width};
    const int left = a->c - k * width;
    return (struct plane){(size_t)n * pixels * (size_t)a->c + (size_t)(k * width), (size_t)a->c,
                          left < width ? left : width};
}

/* Write rows of `columns` pixels: column c has pixel (c - first) / step of `from`, or zeros. */
static void spread(const struct ss_device *cpu, const struct ss_act *a, const void *from,
                   const struct plane *p, int width, int columns, int first, int step, float *to)
{
    /* skip: the first pixel that has a column, at column `begin`; count: the number of such
     * pixels. */
    const int skip = first < 0 ? (-first + step - 1) / step : 0, begin = first + skip * step;
    int count = begin < columns ? (columns - begin + step - 1) / step : 0;
    if (count > a->w - skip)
        count = a->w - skip;
    memset(to, 0, (size_t)(a->h * columns * width) * sizeof *to);
    for (int h = 0; h < a->h && count > 0; h++, to += columns * width)
        cpu->rows->read(ss_at(cpu, from, p->at + (size_t)(h * a->w + skip) * p->pixel), p->pixel,
                        to + begin * width, (size_t)(step * width), (size_t)count,
                        (size_t)p->channels);
}

/* Return where to compute a plane: in place, or in scratch, from which put copies it. */
static float *place_to_make(const struct ss_device *cpu, const struct ss_conv_shape *s,
                            const struct plane *p, void *to, float *scratch)
{
    return cpu->dtype == SS_DTYPE_F32 && p->pixel == (size_t)ss_depthwise_width(s)
               ? (float *)to + p->at
               : scratch + first_of(s);
}
static void put(const struct ss_device *cpu, const struct ss_act *a, const struct plane *p,
                int width, const float *from, void *to)
{
    if (cpu->dtype != SS_DTYPE_F32 || p->pixel != (size_t)width)
        cpu->rows->write(from, (size_t)width, ss_at(cpu, to, p->at), p->pixel,
                         (size_t)(a->h * a->w), (size_t)p->channels);
}

/* Find the kernel rows begin .. end - 1 that meet rows of x for row p of y. */
static void kernel_rows(const struct ss_conv_shape *s, int p, int *begin, int *end)
{
    const int top = p * s->stride[0] - s->padding[0];
    *begin = larger(0, -top);
    *end = s->x.h - top < s->kernel[0] ? s->x.h - top : s->kernel[0];
    if (*end < *begin)
        *end = *begin;
}

static void forward_plane(const struct ss_device *cpu, const struct ss_conv_shape *s, const void *x,
                          const void *weight, const float *bias, void *y, float *scratch, int n,
                          int k)
{
    const int width = ss_depthwise_width(s), columns = x_columns(s);
    const struct plane from = plane_of(&s->x, width, n, k), to = plane_of(&s->y, width, n, k);
    float *made = place_to_make(cpu, s, &to, y, scratch), add[16] = {0};
    const float *w = weight_of(cpu, s, weight, k, scratch);
    const int left = s->x.c - k * width;
    if (bias)
        memcpy(add, bias + k * width, (size_t)(left < width ? left : width) * sizeof *add);
    spread(cpu, &s->x, x, &from, width, columns, s->padding[1], 1, scratch);
    struct ss_rows_depthwise f = {.bias = add,
                                  .x_row = (ptrdiff_t)columns * width,
                                  .w_row = (ptrdiff_t)s->kernel[1] * width,
                                  .w_tap = width,
                                  .width = width,
                                  .taps = s->kernel[1],
                                  .stride = s->stride[1],
                                  .columns = s->y.w};
    for (int p = 0; p < s->y.h; p++) {
        int begin, end;
        kernel_rows(s, p, &begin, &end);
        f.rows = end - begin;
        if (f.rows > 0) {
            f.x = scratch + (p * s->stride[0] - s->padding[0] + begin) * f.x_row;
            f.w = w + begin * f.w_row;
        }
        f.y = made + p * s->y.w * width;
        ss_simd_table()->depthwise(&f);
    }
    put(cpu, &s->y, &to, width, made, y);
}

void ss_depthwise_forward(const struct ss_device *cpu, const struct ss_conv_shape *s, const void *x,
                          const void *w, const float *bias, void *y)
{
    const int chunks = chunks_of(s), jobs = s->x.n * chunks;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int i = 0; i < jobs; i++)
        forward_plane(cpu, s, x, w, bias, y, of_thread(cpu, s), i / chunks, i % chunks);
}

/* Compute a convolution of stride 1 with the flipped window over dy, with zeros between its
 * columns. Only the window's rows that meet a row of dy are used. */
static void backward_plane(const struct ss_device *cpu, const struct ss_conv_shape *s,
                           const void *dy, const void *weight, void *dx, float *scratch, int n,
                           int k)
{
    const int width = ss_depthwise_width(s), columns = dy_columns(s), stride = s->stride[0];
    const struct plane from = plane_of(&s->y, width, n, k), to = plane_of(&s->x, width, n, k);
    float *made = place_to_make(cpu, s, &to, dx, scratch);
    const float *w = weight_of(cpu, s, weight, k, scratch);
    const float none[16] = {0};
    spread(cpu, &s->y, dy, &from, width, columns, s->kernel[1] - 1 - s->padding[1], s->stride[1],
           scratch);
    const ptrdiff_t row = (ptrdiff_t)s->kernel[1] * width;
    struct ss_rows_depthwise f = {.bias = none,
                                  .x_row = -(ptrdiff_t)columns * width,
                                  .w_row = stride * row,
                                  .w_tap = -width,
                                  .width = width,
                                  .taps = s->kernel[1],
                                  .stride = 1,
                                  .columns = s->x.w};
    w += (size_t)(s->kernel[1] - 1) * (size_t)width;
    for (int h = 0; h < s->x.h; h++) {
        const int at = h + s->padding[0];
        int i = at % stride;
        while (i < s->kernel[0] && (at - i) / stride >= s->y.h)
            i += stride;
        f.rows = 0;
        if (i < s->kernel[0] && i <= at) {
            f.x = scratch - (at - i) / stride * f.x_row;
            f.w = w + i * row;
            for (; i < s->kernel[0] && i <= at; i += stride)
                f.rows++;
        }
        f.y = made + h * s->x.w * width;
        ss_simd_table()->depthwise(&f);
    }
    put(cpu, &s->x, &to, width, made, dx);
}

void ss_depthwise_backward_data(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                const void *dy, const void *w, void *dx)
{
    const int chunks = chunks_of(s), jobs = s->x.n * chunks;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int i = 0; i < jobs; i++)
        backward_plane(cpu, s, dy, w, dx, of_thread(cpu, s), i / chunks, i % chunks);
}

/* Add the gradient of an image to `part`. */
static void gradient_plane(const struct ss_device *cpu, const struct ss_conv_shape *s,
                           const void *x, const void *dy, float *part, float *scratch, int n, int k)
{
    const int width = ss_depthwise_width(s), columns = x_columns(s), stride = s->stride[0];
    const struct plane of_x = plane_of(&s->x, width, n, k), of_y = plane_of(&s->y, width, n, k);
    const float *y = (const float *)dy + of_y.at;
    spread(cpu, &s->x, x, &of_x, width, columns, s->padding[1], 1, scratch);
    if (cpu->dtype != SS_DTYPE_F32 || of_y.pixel != (size_t)width) {
        spread(cpu, &s->y, dy, &of_y, width, s->y.w, 0, 1, scratch + first_of(s));
        y = scratch + first_of(s);
    }
    const ptrdiff_t x_row = (ptrdiff_t)columns * width;
    struct ss_rows_depthwise f = {.x_row = stride * x_row,
                                  .dy_row = (ptrdiff_t)s->y.w * width,
                                  .width = width,
                                  .taps = s->kernel[1],
                                  .stride = s->stride[1],
                                  .columns = s->y.w};
    for (int i = 0; i < s->kernel[0]; i++) {
        /* begin .. end - 1: rows p of y for which x has row p stride + up. */
        const int up = i - s->padding[0], begin = up < 0 ? (-up + stride - 1) / stride : 0;
        int end = up < s->x.h ? (s->x.h - up - 1) / stride + 1 : 0;
        if (end > s->y.h)
            end = s->y.h;
        if (begin >= end)
            continue;
        f.rows = end - begin;
        f.x = scratch + (begin * stride + up) * x_row;
        f.dy = y + begin * f.dy_row;
        f.dw = part + i * s->kernel[1] * width;
        ss_simd_table()->depthwise_gradient(&f);
    }
    if (s->bias)
        ss_simd_table()->depthwise_sum(y, (size_t)s->y.h * (size_t)s->y.w, width,
                                       part + weights_of(s));
}

/* Add up the parts of a chunk, which are contiguous, into the first one. */
static void sum_parts(const struct ss_conv_shape *s, float *parts, int k, float *dw, float *dbias)
{
    const int width = ss_depthwise_width(s), left = s->x.c - k * width;
    const size_t part = part_of(s), weights = weights_of(s);
    for (int p = 1; p < parts_of(s); p++)
        for (size_t i = 0; i < part; i++)
            parts[i] += parts[(size_t)p * part + i];
    memcpy(dw + (size_t)k * weights, parts, weights * sizeof *dw);
    if (dbias)
        memcpy(dbias + k * width, parts + weights,
               (size_t)(left < width ? left : width) * sizeof *dbias);
}

void ss_depthwise_backward_weights(const struct ss_device *cpu, const struct ss_conv_shape *s,
                                   const void *x, const void *dy, float *dw, float *dbias)
{
    const int chunks = chunks_of(s), parts = parts_of(s), jobs = chunks * parts;
    const size_t part = part_of(s);
    float *sums = (float *)ss_cpu_scratch(cpu) + (size_t)cpu->threads * thread_floats(s);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int i = 0; i < jobs; i++) {
        const int first = i % parts * IMAGES;
        float *mine = sums + (size_t)i * part;
        memset(mine, 0, part * sizeof *mine);
        for (int n = first; n < first + IMAGES && n < s->x.n; n++)
            gradient_plane(cpu, s, x, dy, mine, of_thread(cpu, s), n, i / parts);
    }
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int k = 0; k < chunks; k++)
        sum_parts(s, sums + (size_t)(k * parts) * part, k, dw, dbias);
}
