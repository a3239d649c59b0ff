/* tokens.c: converts a map's positions to a sequence, and extracts one position of a sequence
 * (contract in kernels/list.h). Memory-bound. */
#include "core/log.h"
#include "kernels/cpu/internal.h"

#include <string.h>

enum { LANES = 16 }; /* channels summed over images at a time */

static enum ss_status check(const struct ss_tokens_shape *s)
{
    SS_TRY(ss_act_check(&s->x, "tokens"));
    if (s->y.n != s->x.n || s->y.c != s->x.c || s->y.block != s->x.block ||
        s->y.h * s->y.w != s->x.h * s->x.w + s->class_token)
        return ss_fail(SS_ERR_SHAPE,
                       "tokens: (%d,%d,%d) in blocks of %d do not become (%d,%d,%d) "
                       "in blocks of %d",
                       s->x.c, s->x.h, s->x.w, s->x.block, s->y.c, s->y.h, s->y.w, s->y.block);
    return SS_OK;
}

/* A block of an image's channels. */
struct slice {
    size_t block, pixels, tokens, first; /* pixels of x, tokens of y; first channel */
    size_t real;                         /* channels without padding */
    const float *class_token, *positions;
};

static struct slice slice_of(const struct ss_tokens_shape *s, int cb)
{
    const int first = cb * s->x.block, left = s->x.c - first;
    return (struct slice){.block = (size_t)s->x.block,
                          .pixels = (size_t)s->x.h * (size_t)s->x.w,
                          .tokens = (size_t)s->y.h * (size_t)s->y.w,
                          .first = (size_t)first,
                          .real = (size_t)(left < s->x.block ? left : s->x.block)};
}

/* Write a token from x, or from the class token if x is NULL. */
static void forward_token(const struct ss_device *cpu, const struct slice *s, const void *x,
                          const float *class_token, const float *position, void *y)
{
    float row[LANES];
    for (size_t at = 0; at < s->real; at += LANES) {
        const size_t n = s->real - at < LANES ? s->real - at : LANES;
        if (x)
            cpu->rows->read(ss_at(cpu, x, at), 0, row, 0, 1, n);
        else
            memcpy(row, class_token + at, n * sizeof *row);
        for (size_t j = 0; j < n && position; j++)
            row[j] += position[at + j];
        cpu->rows->write(row, 0, ss_at(cpu, y, at), 0, 1, n);
    }
    memset(ss_at(cpu, y, s->real), 0, (s->block - s->real) * cpu->element);
}

enum ss_status ss_cpu_tokens_forward(struct ss_device *cpu, const struct ss_tokens_shape *shape,
                                     const void *x, const float *class_token,
                                     const float *positions, void *y)
{
    SS_TRY(check(shape));
    const int blocks = ss_act_blocks(&shape->x);
    const size_t channels = (size_t)shape->x.c;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int i = 0; i < shape->x.n * blocks; i++) {
        const struct slice s = slice_of(shape, i % blocks);
        const float *position = positions ? positions + s.first : NULL;
        size_t token = (size_t)i * s.tokens;
        if (shape->class_token) {
            forward_token(cpu, &s, NULL, class_token + s.first, position,
                          ss_at(cpu, y, token++ * s.block));
            position = position ? position + channels : NULL;
        }
        for (size_t p = 0; p < s.pixels; p++)
            forward_token(cpu, &s, ss_at(cpu, x, ((size_t)i * s.pixels + p) * s.block), NULL,
                          position ? position + p * channels : NULL,
                          ss_at(cpu, y, (token + p) * s.block));
    }
    return SS_OK;
}

/* Sum `count` channels of one token over images, `image` apart. */
static void sum_images(const struct ss_device *cpu, const void *dy, int n, size_t image,
                       size_t count, float *a, float *b)
{
    double sum[LANES] = {0};
    float row[LANES];
    for (int i = 0; i < n; i++) {
        cpu->rows->read(ss_at(cpu, dy, (size_t)i * image), 0, row, 0, 1, count);
        for (size_t j = 0; j < count; j++)
            sum[j] += (double)row[j];
    }
    for (size_t j = 0; j < count; j++) {
        if (a)
            a[j] = (float)sum[j];
        if (b)
            b[j] = (float)sum[j];
    }
}

static void parameter_gradients(const struct ss_device *cpu, const struct ss_tokens_shape *shape,
                                const void *dy, float *dclass_token, float *dpositions)
{
    const int blocks = ss_act_blocks(&shape->x), channels = shape->x.c;
    const int summed = dpositions ? shape->y.h * shape->y.w : dclass_token != NULL;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int i = 0; i < blocks * summed; i++) {
        const struct slice s = slice_of(shape, i / summed);
        const size_t token = (size_t)(i % summed);
        const size_t from = ((size_t)(i / summed) * s.tokens + token) * s.block;
        for (size_t j = 0; j < s.real; j += LANES)
            sum_images(cpu, ss_at(cpu, dy, from + j), shape->x.n,
                       (size_t)blocks * s.tokens * s.block, s.real - j < LANES ? s.real - j : LANES,
                       token == 0 && dclass_token ? dclass_token + s.first + j : NULL,
                       dpositions ? dpositions + token * (size_t)channels + s.first + j : NULL);
    }
}

enum ss_status ss_cpu_tokens_backward(struct ss_device *cpu, const struct ss_tokens_shape *shape,
                                      const void *dy, void *dx, float *dclass_token,
                                      float *dpositions)
{
    SS_TRY(check(shape));
    const struct slice s = slice_of(shape, 0);
    const size_t slices = (size_t)shape->x.n * (size_t)ss_act_blocks(&shape->x);
    const size_t front = (size_t)shape->class_token * s.block;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < (dx ? slices : 0); i++)
        memcpy(ss_at(cpu, dx, i * s.pixels * s.block),
               ss_at(cpu, dy, i * s.tokens * s.block + front), s.pixels * s.block * cpu->element);
    parameter_gradients(cpu, shape, dy, dclass_token, dpositions);
    return SS_OK;
}

static enum ss_status check_index(const struct ss_act *x, int index)
{
    SS_TRY(ss_act_check(x, "token"));
    if (index < 0 || index >= x->h * x->w)
        return ss_fail(SS_ERR_SHAPE, "token %d of a sequence of %d", index, x->h * x->w);
    return SS_OK;
}

enum ss_status ss_cpu_token_forward(struct ss_device *cpu, const struct ss_act *x, int index,
                                    const void *in, void *y)
{
    SS_TRY(check_index(x, index));
    const size_t block = (size_t)x->block, slice = (size_t)x->h * (size_t)x->w * block;
    for (size_t i = 0; i < (size_t)x->n * (size_t)ss_act_blocks(x); i++)
        memcpy(ss_at(cpu, y, i * block), ss_at(cpu, in, i * slice + (size_t)index * block),
               block * cpu->element);
    return SS_OK;
}

enum ss_status ss_cpu_token_backward(struct ss_device *cpu, const struct ss_act *x, int index,
                                     const void *dy, void *dx)
{
    SS_TRY(check_index(x, index));
    const size_t block = (size_t)x->block, slice = (size_t)x->h * (size_t)x->w * block;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < (size_t)x->n * (size_t)ss_act_blocks(x); i++) {
        memset(ss_at(cpu, dx, i * slice), 0, slice * cpu->element);
        memcpy(ss_at(cpu, dx, i * slice + (size_t)index * block), ss_at(cpu, dy, i * block),
               block * cpu->element);
    }
    return SS_OK;
}
