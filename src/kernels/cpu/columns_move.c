/* columns_move.c: copies between tensors and operands (contract in columns_shape.h).
 *
 * Copies are in long runs: 3x3 windows of 400 channels in groups of 16 on 2x2 maps take 0.05 ms
 * instead of 0.21 ms, of 128 channels in groups of 4 on 16x16 maps 0.7 ms instead of 3.4 ms
 * (batch 32, bf16, 2 threads of a Zen 5). */
#include "kernels/cpu/columns_shape.h"
#include "kernels/cpu/simd.h"

#include <stdint.h>
#include <string.h>

enum { LINE = 512, /* numbers of a map's line per copy */ };

/* Rows of an operand, `row` floats apart, and their pixels: of one line of an image, or one of
 * each image. */
struct line {
    float *rows;
    void *image;
    size_t row, vector; /* vector: floats between the vectors of a row */
    size_t pixel, step, count;
};

/* Return the line that begins at row r of a tile, in a map with lines of `width` pixels. *next:
 * the row following the line. */
static struct line line_of(const struct shape *f, const struct ss_act *a, struct tile t, size_t r,
                           size_t width, int by_images, size_t *next)
{
    const size_t pixel = (t.first + r) % f->plane;
    struct line l = {.pixel = pixel};
    if (by_images) {
        l.row = f->plane * f->w;
        l.step = ss_act_image(a, 0);
        l.count = t.rows / f->plane;
        *next = r + 1 < f->plane ? r + 1 : t.rows;
    } else {
        l.row = f->w;
        l.step = (size_t)a->block;
        l.count = ss_min(width - pixel % width, t.rows - r);
        *next = r + l.count;
    }
    return l;
}

static inline void add_rows(float *to, size_t step, const float *row, size_t row_step, size_t count,
                            size_t n)
{
    for (size_t q = 0; q < count; q++, to += step, row += row_step)
#pragma omp simd
        for (size_t l = 0; l < n; l++)
            to[l] += row[l];
}

/* Copy `bytes` bytes per row, as one chunk of the constant size `part`, or as two that may
 * overlap. Faster than a call of memcpy. */
static inline void copy_parts(const char *from, size_t step, char *to, size_t row_step,
                              size_t count, size_t bytes, const size_t part)
{
    for (size_t q = 0; q < count && bytes == part; q++, from += step, to += row_step)
        memcpy(to, from, part);
    for (size_t q = 0; q < count && bytes != part; q++, from += step, to += row_step) {
        memcpy(to, from, part);
        memcpy(to + bytes - part, from + bytes - part, part);
    }
}

/* Copy n numbers of `element` bytes to each row. */
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

static inline void move_run(const struct shape *f, enum way way, void *act, size_t act_step,
                            float *row, size_t row_step, size_t count, size_t n)
{
    static const float zeros[16]; /* at most one vector is zeroed */
    const struct ss_act_rows *rows = f->cpu->rows;
    switch (way) {
    case READ:
        if (f->pairs)
            copy_run(act, act_step, row, row_step * sizeof *row, count, n, sizeof(uint16_t));
        else
            rows->read(act, act_step, row, row_step, count, n);
        break;
    case WRITE:
        rows->write(row, row_step, act, act_step, count, n);
        break;
    case CLEAR:
        copy_run(zeros, 0, row, row_step * sizeof *row, count, n,
                 f->pairs ? sizeof(uint16_t) : sizeof *row);
        break;
    case ADD:
        if (n == 16)
            add_rows(act, act_step, row, row_step, count, 16);
        else
            add_rows(act, act_step, row, row_step, count, n);
        break;
    }
}

/* Return the address of number i of a tensor. */
static inline void *place_of(const struct shape *f, enum way way, const void *act, size_t i)
{
    return way == ADD ? (float *)(uintptr_t)act + i : ss_at(f->cpu, act, i);
}

/* Return the address of number i of a line's first row. */
static inline void *number_at(const struct shape *f, enum way way, const struct line *l, size_t i)
{
    const size_t lane = i & (lanes_of(f, way) - 1);
    float *vector = l->rows + (i >> (f->shift + (size_t)has_halves(f, way))) * l->vector;
    return has_halves(f, way) ? (void *)((uint16_t *)(void *)vector + lane)
                              : (void *)(vector + lane);
}

/* Move `channels` channels from `first` on. They are numbers i, i + i_step, ... of each row. */
static inline void move_line(const struct shape *f, enum way way, const struct ss_act *a,
                             const struct line *l, size_t first, size_t channels, size_t i,
                             size_t i_step)
{
    const size_t block = (size_t)a->block, plane = (size_t)a->h * (size_t)a->w;
    void *act = place_of(f, way, l->image, (first / block * plane + l->pixel) * block);
    const size_t lanes = lanes_of(f, way);
    size_t at = first % block; /* within its block */
    for (size_t left = l->count ? channels : 0, n; left > 0; left -= n, i += n * i_step) {
        n = ss_min(ss_min(block - at, lanes - (i & (lanes - 1))), left);
        move_run(f, way, place_of(f, way, act, at), l->step, number_at(f, way, l, i), l->row,
                 l->count, n);
        at += n;
        if (at == block)
            at = 0, act = place_of(f, way, act, plane * block);
    }
}

static int clamp(int x, int most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

/* Zero rows first, first + step, ... before `end`. */
static void clear_rows(const struct shape *f, const struct line *all, int first, int step, int end,
                       size_t channels, size_t i, size_t i_step)
{
    struct line part = *all;
    part.rows = all->rows + (size_t)first * all->row;
    part.row = (size_t)step * all->row;
    part.count = first < end ? ss_divide_up((size_t)(end - first), (size_t)step) : 0;
    move_line(f, CLEAR, &f->s->x, &part, 0, channels, i, i_step);
}

/* Move tap t of the windows of `all`; the first output is at line `line`, column `column`. */
static void move_tap(const struct shape *f, enum way way, size_t group, const struct piece *p,
                     size_t t, int line, int column, const struct line *all)
{
    const struct ss_conv_shape *s = f->s;
    const int i = (int)t / s->kernel[1], j = (int)t % s->kernel[1], step = s->stride[1];
    const int h = line * s->stride[0] - s->padding[0] + i * s->dilation[0],
              w = column * step - s->padding[1] + j * s->dilation[1], count = (int)all->count;
    const int width = f->points ? (int)f->plane : s->x.w, one = f->by_images,
              inside = h >= 0 && h < s->x.h && !(one && (w < 0 || w >= width));
    /* Windows begin .. end - 1 have the tap inside the map. */
    int begin = inside ? 0 : count, end = count;
    if (inside && !one) {
        begin = clamp((step - 1 - w) / step, count);
        end = clamp(width > w ? (width - w + step - 1) / step : 0, count);
    }
    const size_t channels = p->last_channel - p->channel, first = group * f->in + p->channel,
                 at = f->planes ? t : (t - p->tap) * channels, each = f->planes ? f->taps : 1;
    struct line part = *all;
    if (way == READ) {
        clear_rows(f, all, 0, 1, begin < end ? begin : end, channels, at, each);
        clear_rows(f, all, end, 1, count, channels, at, each);
    }
    if (begin >= end)
        return;
    part.rows = all->rows + (size_t)begin * all->row;
    part.pixel = (size_t)(h * s->x.w + w + begin * step);
    part.step = one ? all->step : (size_t)(step * s->x.block);
    part.count = (size_t)(end - begin);
    move_line(f, way, &s->x, &part, first, channels, at, each);
}

/* The same as move_tap for x and y of equal size: a tap of all windows is the image itself,
 * shifted by some pixels, except for windows whose tap is outside. all: pixels of an image from
 * `place` on. */
static void read_shifted(const struct shape *f, size_t group, const struct piece *p, size_t t,
                         int place, const struct line *all)
{
    const struct ss_conv_shape *s = f->s;
    const int width = s->x.w, count = (int)all->count,
              h = (int)t / s->kernel[1] * s->dilation[0] - s->padding[0],
              w = (int)t % s->kernel[1] * s->dilation[1] - s->padding[1], shift = h * width + w;
    const size_t channels = p->last_channel - p->channel, at = (t - p->tap) * channels;
    /* The taps of the other windows are above or below the map. */
    const int end = clamp((s->x.h - h) * width - (w > 0 ? w : 0) - place, count);
    const int begin = clamp(-h * width - (w < 0 ? w : 0) - place, end);
    struct line part = *all;
    part.rows = all->rows + (size_t)begin * all->row;
    part.pixel = (size_t)(place + shift + begin);
    part.count = (size_t)(end - begin);
    if (begin < end)
        move_line(f, READ, &s->x, &part, group * f->in + p->channel, channels, at, 1);
    clear_rows(f, all, 0, 1, begin, channels, at, 1);
    clear_rows(f, all, end, 1, count, channels, at, 1);
    /* In these columns they are left or right of it. */
    const int first = w < 0 ? 0 : clamp(width - w, width), last = w < 0 ? clamp(-w, width) : width;
    for (int c = first; c < last; c++)
        clear_rows(f, all, (c + width - place % width) % width, width, count, channels, at, 1);
}

/* Return the smallest chunk of copy_parts with at least `bytes` bytes, or `bytes` if none has. */
static size_t part_of(size_t bytes)
{
    size_t part = 2;
    while (part < bytes)
        part *= 2;
    return part <= 32 ? part : bytes;
}

/* Copy n adjacent numbers, from `at` on, to numbers i .. i + n - 1 of each of rows q .. q + count
 * - 1; the source advances by `step` per row. May overwrite the rest of a vector: one copy is
 * faster than two. */
static void read_taps(const struct shape *f, const struct line *l, const void *at, size_t step,
                      size_t q, size_t count, size_t i, size_t n)
{
    const size_t lanes = lanes_of(f, READ);
    for (size_t run; n > 0; n -= run, i += run, at = ss_at(f->cpu, at, run)) {
        float *to = (float *)number_at(f, READ, l, i) + q * f->w;
        const size_t to_end = lanes - (i & (lanes - 1)),
                     whole = part_of(n * f->cpu->element) / f->cpu->element;
        run = ss_min(n, to_end);
        if (f->cpu->dtype == SS_DTYPE_F32 || f->pairs)
            copy_run(at, step, to, f->w * sizeof(float), count, whole <= to_end ? whole : run,
                     f->cpu->element);
        else
            f->cpu->rows->read(at, step, to, f->w, count, run);
    }
}

/* The same as move_tap for all taps of a piece of planes, one line of a window at a time. */
static void read_plane_windows(const struct shape *f, size_t group, const struct piece *p, int line,
                               int column, const struct line *all)
{
    char padded[LINE * sizeof(float) + 32]; /* a line of the map with zeros around it */
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

void ss_columns_move_windows(const struct shape *f, enum way way, const void *x, size_t group,
                             const struct piece *p, struct tile t, float *rows)
{
    const size_t width = f->points ? f->plane : (size_t)f->s->y.w;
    const int shifted = way == READ && f->alike && !f->by_images;
    for (size_t r = 0, next; r < t.rows; r = next) {
        struct line line =
            line_of(f, &f->s->x, t, r, shifted ? f->plane : width, f->by_images, &next);
        const int at[2] = {(int)(line.pixel / width), (int)(line.pixel % width)};
        line.rows = rows + r * f->w;
        line.image = place_of(f, way, x, (t.first + r) / f->plane * ss_act_image(&f->s->x, 0));
        line.vector = t.rows * f->w;
        const int by_lines = way == READ && f->planes && !f->by_images && !f->points &&
                             f->s->dilation[1] == 1 && f->s->kernel[1] <= LINE;
        if (by_lines)
            read_plane_windows(f, group, p, at[0], at[1], &line);
        for (size_t tap = p->tap; tap < p->last_tap && shifted; tap++)
            read_shifted(f, group, p, tap, (int)line.pixel, &line);
        for (size_t tap = p->tap; tap < p->last_tap && !by_lines && !shifted; tap++)
            move_tap(f, way, group, p, tap, at[0], at[1], &line);
        if (has_halves(f, way) && p->k % 2)
            move_line(f, CLEAR, &f->s->x, &line, 0, 1, p->k, 1);
    }
}

void ss_columns_pad_windows(const struct shape *f, const void *x, size_t group,
                            const struct piece *p, struct tile t, float *rows)
{
    const struct ss_act *a = &f->s->x;
    const size_t all = window_rows(f, t.rows), first = group * f->in + p->channel,
                 padding[2] = {(size_t)f->s->padding[0], (size_t)f->s->padding[1]},
                 lines = f->image / f->line, width = (size_t)a->w;
    size_t q = t.first % f->plane / (size_t)f->s->y.w;
    for (size_t r = 0; r < all; r += f->line, q++) {
        const size_t n = q / lines, h = q % lines,
                     inside = n < ss_max(t.rows / f->plane, 1) && h >= padding[0];
        struct line line = {.rows = rows + r * f->w,
                            .row = f->w,
                            .image =
                                ss_at(f->cpu, x, (t.first / f->plane + n) * ss_act_image(a, 0)),
                            .vector = all * f->w,
                            .pixel = (h - padding[0]) * width,
                            .step = (size_t)a->block,
                            .count = ss_min(inside ? padding[1] : f->line, all - r)};
        move_line(f, CLEAR, a, &line, first, p->last_channel - p->channel, 0, 1);
        line.rows += line.count * f->w;
        line.count = ss_min(f->line, all - r) - line.count;
        move_line(f, READ, a, &line, first, p->last_channel - p->channel, 0, 1);
    }
}

void ss_columns_move_outputs(const struct shape *f, enum way way, const void *y, size_t first,
                             size_t count, struct tile t, float *rows)
{
    const struct ss_act *a = &f->s->y;
    const size_t block = (size_t)a->block, end = first + count, lanes = lanes_of(f, way);
    const size_t padded =
        way == WRITE && end == (size_t)a->c ? (size_t)ss_act_blocks(a) * block - end : 0;
    const size_t vector = span_of(f, t.rows) * f->w;
    if (way == READ && f->padded)
        memset(rows, 0, ss_divide_up(count, lanes) * vector * sizeof *rows);
    const size_t width = f->padded ? (size_t)a->w : f->plane;
    const int by_images = !f->padded && f->images > f->plane;
    for (size_t r = 0, next; r < t.rows; r = next) {
        struct line line = line_of(f, a, t, r, width, by_images, &next);
        line.rows = rows + row_of_pixel(f, r) * f->w;
        line.image = ss_at(f->cpu, y, (t.first + r) / f->plane * ss_act_image(a, 0));
        line.vector = vector;
        move_line(f, way, a, &line, first, count, 0, 1);
        for (size_t q = 0; q < line.count && padded; q++)
            memset(
                ss_at(f->cpu, line.image,
                      (end / block * f->plane + line.pixel) * block + end % block + q * line.step),
                0, padded * f->cpu->element);
        if (way == READ && count % lanes)
            move_line(f, CLEAR, a, &line, 0, lanes - count % lanes, count, 1);
    }
}
