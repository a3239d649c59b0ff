/* columns_move.c: see columns_shape.h. */
#include "kernels/cpu/columns_shape.h"
#include "kernels/cpu/simd.h"

#include <stdint.h>
#include <string.h>

enum { LINE = 512, /* numbers of a map's line that are read at once */ };

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

void ss_columns_move_windows(const struct shape *f, enum way way, const void *x, size_t group,
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
    for (size_t r = 0; r < t.rows;) {
        const size_t pixel = (t.first + r) % f->plane;
        const struct line line = {
            .rows = rows + row_of_pixel(f, r) * f->w,
            .image = ss_at(f->cpu, y, (t.first + r) / f->plane * ss_act_image(a, 0)),
            .vector = vector,
            .pixel = pixel,
            .step = line_step(f, a, 1),
            .count = line_count(f, pixel, t.rows - r, f->padded ? (size_t)a->w : f->plane)};
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
