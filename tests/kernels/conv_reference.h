/* Convolution by its definition in double precision, and a check of all passes against it. */
#ifndef SS_TESTS_CONV_REFERENCE_H
#define SS_TESTS_CONV_REFERENCE_H

#include "tests/kernels/test_kernels.h"

struct reference {
    struct ss_conv_shape s;
    size_t nx, ny, nw;
    double *x, *w, *b, *y, *dy, *dx, *dw, *db;
};

/* Computes y = conv(x); with `backward`, also the three gradients for dy. */
static inline void walk(struct reference *r, int backward)
{
    const struct ss_conv_shape *s = &r->s;
    const int ci = ss_conv_inputs(s), co = ss_conv_outputs(s);
    for (int n = 0; n < s->y.n; n++)
        for (int k = 0; k < s->y.c; k++)
            for (int p = 0; p < s->y.h; p++)
                for (int q = 0; q < s->y.w; q++) {
                    const size_t o =
                        (size_t)((n * s->y.c + k) * s->y.h + p) * (size_t)s->y.w + (size_t)q;
                    double sum = s->bias ? r->b[k] : 0;
                    if (backward && s->bias)
                        r->db[k] += r->dy[o];
                    for (int c = 0; c < ci; c++)
                        for (int i = 0; i < s->kernel[0]; i++)
                            for (int j = 0; j < s->kernel[1]; j++) {
                                const int h = p * s->stride[0] - s->padding[0] + i * s->dilation[0],
                                          w = q * s->stride[1] - s->padding[1] + j * s->dilation[1];
                                if (h < 0 || w < 0 || h >= s->x.h || w >= s->x.w)
                                    continue;
                                const int from = k / co * ci + c;
                                const size_t xi = (size_t)((n * s->x.c + from) * s->x.h + h) *
                                                      (size_t)s->x.w +
                                                  (size_t)w,
                                             wi = (size_t)((k * ci + c) * s->kernel[0] + i) *
                                                      (size_t)s->kernel[1] +
                                                  (size_t)j;
                                sum += r->w[wi] * r->x[xi];
                                if (backward) {
                                    r->dx[xi] += r->w[wi] * r->dy[o];
                                    r->dw[wi] += r->x[xi] * r->dy[o];
                                }
                            }
                    r->y[o] = sum;
                }
}

static inline double reference_loss(void *ctx)
{
    struct reference *r = ctx;
    walk(r, 0);
    return dot(r->y, r->dy, r->ny);
}

static inline int extent(int size, int kernel, int stride, int padding, int dilation)
{
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

/* Makes inputs of the shape, and zeros as results. Of s->y, only the channels are read. */
static inline void reference_inputs(struct reference *r, const struct ss_conv_shape *s)
{
    memset(r, 0, sizeof *r);
    r->s = *s;
    r->s.x.block = r->s.y.block = 1;
    r->s.y.n = s->x.n;
    r->s.y.h = extent(s->x.h, s->kernel[0], s->stride[0], s->padding[0], s->dilation[0]);
    r->s.y.w = extent(s->x.w, s->kernel[1], s->stride[1], s->padding[1], s->dilation[1]);
    r->nx = plain_count(&r->s.x);
    r->ny = plain_count(&r->s.y);
    r->nw = (size_t)s->y.c * (size_t)ss_conv_inputs(s) * (size_t)ss_conv_taps(s);
    r->x = random_doubles(r->nx, 1);
    r->w = random_doubles(r->nw, 2);
    r->b = random_doubles((size_t)s->y.c, 3);
    r->dy = random_doubles(r->ny, 4);
    r->y = zero_doubles(r->ny);
    r->dx = zero_doubles(r->nx);
    r->dw = zero_doubles(r->nw);
    r->db = zero_doubles((size_t)s->y.c);
}

static inline void reference_of(struct reference *r, const struct ss_conv_shape *s)
{
    reference_inputs(r, s);
    walk(r, 1);
}

static inline void reference_make(struct reference *r, int n, int ci, int co, int h, int w, int k,
                                  int stride, int pad, int bias)
{
    const struct ss_conv_shape s = {.x = {n, ci, h, w, 1},
                                    .y = {.c = co},
                                    .kernel = {k, k},
                                    .stride = {stride, stride},
                                    .padding = {pad, pad},
                                    .dilation = {1, 1},
                                    .groups = 1,
                                    .bias = bias};
    reference_of(r, &s);
}

static inline void reference_free(struct reference *r)
{
    double *const all[] = {r->x, r->w, r->b, r->y, r->dy, r->dx, r->dw, r->db};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* Checks all passes of a convolution with blocks bx and by. Returns the largest error. */
static inline double conv_check(const struct reference *r, int bx, int by, enum ss_conv_algo algo,
                                double bound)
{
    struct ss_conv_shape s = r->s;
    s.x.block = bx;
    s.y.block = by;
    struct ss_conv_kernel *conv, *inference;
    OK(ss_cpu_conv_create(cpu, &s, algo, 1, &conv));
    OK(ss_cpu_conv_create(cpu, &s, algo, 0, &inference));
    const size_t bytes = ss_cpu_conv_weight_bytes(conv);
    ck_assert_uint_eq(bytes, ss_cpu_conv_weight_bytes(inference));
    ck_assert_msg(!strstr(ss_cpu_conv_info(conv), "ref"), "%s", ss_cpu_conv_info(conv));

    float *plain = to_floats(r->w, r->nw), *back = ss_aligned_alloc(r->nw * sizeof(float));
    float *w = ss_aligned_alloc(bytes), *w2 = ss_aligned_alloc(bytes),
          *dw = ss_aligned_alloc(bytes);
    float *b = to_floats(r->b, (size_t)s.y.c), *db = to_floats(r->b, (size_t)s.y.c);
    /* Filled with garbage, so that import and the gradient must write their padding. */
    memset(w, 0x7f, bytes);
    memset(dw, 0x7f, bytes);
    OK(ss_cpu_conv_import(conv, plain, w));
    OK(ss_cpu_conv_import(inference, plain, w2));
    ck_assert_mem_eq(w, w2, bytes);
    OK(ss_cpu_conv_export(conv, w, back));
    ck_assert_mem_eq(plain, back, r->nw * sizeof(float));

    float *x = act_pack(&s.x, r->x), *dy = act_pack(&s.y, r->dy), *y = act_pack(&s.y, NULL),
          *y2 = act_pack(&s.y, NULL), *dx = act_pack(&s.x, NULL);
    OK(ss_cpu_conv_forward(conv, x, w, s.bias ? b : NULL, y));
    OK(ss_cpu_conv_forward(inference, x, w, s.bias ? b : NULL, y2));
    ck_assert_mem_eq(y, y2, ss_act_elements(&s.y) * sizeof(float));
    OK(ss_cpu_conv_backward_data(conv, dy, w, dx));
    OK(ss_cpu_conv_backward_weights(conv, x, dy, dw, s.bias ? db : NULL));
    OK(ss_cpu_conv_export(conv, dw, back));

    double *got[4] = {act_unpack(&s.y, y), act_unpack(&s.x, dx), to_doubles(back, r->nw),
                      to_doubles(db, (size_t)s.y.c)};
    const double *want[4] = {r->y, r->dx, r->dw, r->db};
    const size_t count[4] = {r->ny, r->nx, r->nw, s.bias ? (size_t)s.y.c : 0};
    const char *name[4] = {"y", "dx", "dweight", "dbias"};
    double worst = 0;
    for (int i = 0; i < 4; i++) {
        const double e = error_of(got[i], want[i], count[i]);
        char text[256];
        ck_assert_msg(e <= bound, "%s: error %.3g; %s, blocks %d %d, %s", name[i], e,
                      ss_conv_text(&s, text, sizeof text), bx, by, ss_cpu_conv_info(conv));
        worst = e > worst ? e : worst;
        free(got[i]);
    }
    /* Exporting and importing the gradient restores it, padding included. */
    OK(ss_cpu_conv_import(conv, back, w2));
    ck_assert_mem_eq(dw, w2, bytes);

    float *const all[] = {plain, back, w, w2, dw, b, db, x, dy, y, y2, dx};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    ss_cpu_conv_destroy(conv);
    ss_cpu_conv_destroy(inference);
    return worst;
}

#endif
