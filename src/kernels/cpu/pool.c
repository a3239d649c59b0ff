/* pool.c: pooling. A job is a row of y, or of the gradient of an average, or a slice (a block of
 * channels of an image) of the gradient of a maximum, in the order of its windows. Results do not
 * depend on the number of threads. */
#include "core/log.h"
#include "kernels/cpu/internal.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { BYTE_TAPS = 256 }; /* of the largest window with byte indices */

struct ss_pool_kernel {
    struct ss_device *cpu;
    struct ss_pool_shape shape;
    int training, at_bytes;          /* at_bytes: of an index; 0: no indices */
    struct ss_pool_span *windows[2]; /* of rows and columns: the window of each output */
    struct ss_pool_span *covers[2];  /* the windows that cover each position */
    struct ss_pool_span spans[];
};

static enum ss_status check_shape(const struct ss_pool_shape *s)
{
    const struct ss_act *x = &s->x, *y = &s->y;
    SS_TRY(ss_act_check(x, "pooling input"));
    if (ss_pool_follows(s))
        return SS_OK;
    return ss_fail(
        SS_ERR_SHAPE,
        "pooling: kernel %dx%d, stride %dx%d, padding %dx%d (at most half the kernel) give "
        "no output (%d,%d,%d,%d) for input (%d,%d,%d,%d)",
        s->kernel[0], s->kernel[1], s->stride[0], s->stride[1], s->pad[0], s->pad[1], y->n, y->c,
        y->h, y->w, x->n, x->c, x->h, x->w);
}

/* Compute the spans of an axis. Begins and ends of windows never decrease. */
static void make_spans(const struct ss_pool_kernel *p, int axis)
{
    const struct ss_pool_shape *s = &p->shape;
    const int in = axis ? s->x.w : s->x.h, out = axis ? s->y.w : s->y.h;
    struct ss_pool_span *w = p->windows[axis];
    for (int o = 0; o < out; o++) {
        const int counted = ss_pool_window(s, axis, o, &w[o].begin, &w[o].end);
        w[o].first = s->kind == SS_POOL_MAX ? w[o].begin - o * s->stride[axis] + s->pad[axis] : 0;
        w[o].share = 1 / (float)counted;
    }
    for (int i = 0, begin = 0, end = 0; i < in; i++) {
        while (begin < out && w[begin].end <= i)
            begin++;
        while (end < out && w[end].begin <= i)
            end++;
        p->covers[axis][i] = (struct ss_pool_span){.begin = begin, .end = end};
    }
}

/* Return the elements of a slice. */
static size_t slice_of(const struct ss_act *a)
{
    return (size_t)a->h * (size_t)a->w * (size_t)a->block;
}

/* If elements are not floats, each thread has a slice of dx and of dy in floats: windows may
 * overlap, and sums are rounded only once. */
static size_t slices_floats(const struct ss_pool_shape *s)
{
    return ss_align_up((slice_of(&s->x) + slice_of(&s->y)) * sizeof(float)) / sizeof(float);
}

enum ss_status ss_cpu_pool_create(struct ss_device *cpu, const struct ss_pool_shape *shape,
                                  int training, struct ss_pool_kernel **out)
{
    SS_TRY(check_shape(shape));
    const struct ss_act *x = &shape->x, *y = &shape->y;
    const size_t spans = (size_t)x->h + (size_t)x->w + (size_t)y->h + (size_t)y->w;
    if (training && shape->kind == SS_POOL_MAX && cpu->dtype != SS_DTYPE_F32)
        SS_TRY(ss_cpu_reserve(cpu, (size_t)cpu->threads * slices_floats(shape) * sizeof(float)));
    struct ss_pool_kernel *p = calloc(1, sizeof *p + spans * sizeof *p->spans);
    if (!p)
        return ss_fail_memory("pooling", sizeof *p + spans * sizeof *p->spans);
    p->cpu = cpu;
    p->training = training;
    p->shape = *shape;
    if (training && shape->kind == SS_POOL_MAX)
        p->at_bytes = shape->kernel[0] * shape->kernel[1] <= BYTE_TAPS ? 1 : 4;
    p->windows[0] = p->spans;
    p->windows[1] = p->windows[0] + y->h;
    p->covers[0] = p->windows[1] + y->w;
    p->covers[1] = p->covers[0] + x->h;
    make_spans(p, 0);
    make_spans(p, 1);
    *out = p;
    return SS_OK;
}

void ss_cpu_pool_destroy(struct ss_pool_kernel *p)
{
    free(p);
}

size_t ss_cpu_pool_workspace_bytes(const struct ss_pool_kernel *p)
{
    return (size_t)p->at_bytes * ss_act_elements(&p->shape.y);
}

/* Return the number of slices of x. */
static size_t slices_of(const struct ss_pool_kernel *p)
{
    return (size_t)p->shape.x.n * (size_t)ss_act_blocks(&p->shape.x);
}

typedef void (*row_function)(const struct ss_rows_pool *f);

/* Run `function` for the rows of all slices, each from a map of `in` to one of `out`. */
static void run_rows(const struct ss_pool_kernel *p, row_function function, const struct ss_act *in,
                     const struct ss_act *out, struct ss_pool_span *const *spans, const void *from,
                     void *to, char *at)
{
    const size_t height = (size_t)out->h, rows = slices_of(p) * height,
                 line = (size_t)out->w * (size_t)out->block;
#pragma omp parallel for schedule(static) num_threads(p->cpu->threads)
    for (size_t i = 0; i < rows; i++)
        function(&(struct ss_rows_pool){.x = ss_at(p->cpu, from, i / height * slice_of(in)),
                                        .y = ss_at(p->cpu, to, i * line),
                                        .at = at ? at + i * line * (size_t)p->at_bytes : NULL,
                                        .at_bytes = p->at_bytes,
                                        .rows = spans[0][i % height],
                                        .columns = spans[1],
                                        .shares = {p->windows[0], p->windows[1]},
                                        .block = in->block,
                                        .width = in->w,
                                        .places = out->w,
                                        .taps = p->shape.kernel[1]});
}

enum ss_status ss_cpu_pool_forward(struct ss_pool_kernel *p, const void *x, void *y,
                                   void *workspace)
{
    const struct ss_pool_shape *s = &p->shape;
    const struct ss_act_rows *rows = p->cpu->rows;
    run_rows(p, s->kind == SS_POOL_MAX ? rows->pool_max : rows->pool_average, &s->x, &s->y,
             p->windows, x, y, p->at_bytes ? workspace : NULL);
    return SS_OK;
}

static float *slices_of_thread(const struct ss_pool_kernel *p)
{
    return (float *)ss_cpu_scratch(p->cpu) +
           (size_t)omp_get_thread_num() * slices_floats(&p->shape);
}

/* Add dy at the positions of the maxima. */
static void scatter(const struct ss_pool_kernel *p, const float *dy, const char *at, float *dx)
{
    const struct ss_pool_shape *s = &p->shape;
    const int block = s->x.block, taps = s->kernel[1];
    int32_t offsets[BYTE_TAPS] = {0}; /* from the window's first tap, if indices are bytes */
    for (int tap = 0; p->at_bytes == 1 && tap < s->kernel[0] * taps; tap++)
        offsets[tap] = (tap / taps * s->x.w + tap % taps) * block;
    for (int h = 0; h < s->y.h; h++)
        for (int w = 0; w < s->y.w; w++) {
            float *first = dx + ((ptrdiff_t)(h * s->stride[0] - s->pad[0]) * s->x.w +
                                 w * s->stride[1] - s->pad[1]) *
                                    block;
            for (int c = 0; c < block; c++, dy++, at += p->at_bytes) {
                int32_t tap;
                if (p->at_bytes == 1) {
                    first[offsets[(uint8_t)*at] + c] += *dy;
                    continue;
                }
                memcpy(&tap, at, sizeof tap);
                first[(tap / taps * s->x.w + tap % taps) * block + c] += *dy;
            }
        }
}

enum ss_status ss_cpu_pool_backward(struct ss_pool_kernel *p, const void *dy, const void *workspace,
                                    void *dx)
{
    const struct ss_pool_shape *s = &p->shape;
    const size_t in = slice_of(&s->x), out = slice_of(&s->y);
    if (!p->training)
        return ss_fail(SS_ERR_INVALID, "pooling: backward pass, but it was made without training");
    if (p->at_bytes && !workspace)
        return ss_fail(SS_ERR_INVALID, "max pooling: backward pass without its workspace");
    if (!p->at_bytes) {
        run_rows(p, p->cpu->rows->pool_average_gradient, &s->y, &s->x, p->covers, dy, dx, NULL);
        return SS_OK;
    }
#pragma omp parallel for schedule(static) num_threads(p->cpu->threads)
    for (size_t i = 0; i < slices_of(p); i++) {
        const char *at = (const char *)workspace + i * out * (size_t)p->at_bytes;
        const int floats = p->cpu->dtype == SS_DTYPE_F32;
        float *to = floats ? (float *)dx + i * in : slices_of_thread(p);
        memset(to, 0, in * sizeof *to);
        scatter(p, ss_floats(p->cpu->dtype, dy, i * out, out, to + in), at, to);
        if (!floats)
            p->cpu->rows->write(to, 0, ss_at(p->cpu, dx, i * in), 0, 1, in);
    }
    return SS_OK;
}
