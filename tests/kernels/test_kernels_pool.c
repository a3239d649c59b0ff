/* test_kernels_pool.c: pooling with every layout and vector width against double precision, and
 * against PyTorch in corner cases. */
#include "graph/graph.h"
#include "layers/list.h"
#include "tests/kernels/test_kernels.h"
#include "train/safetensors.h"

struct reference {
    struct ss_pool_shape s;
    struct ss_act x, y;
    double *in, *out, *dout, *din;
};

static size_t at(const struct ss_act *a, int n, int c, int h, int w)
{
    return (size_t)((n * a->c + c) * a->h + h) * (size_t)a->w + (size_t)w;
}

/* Computes rows (axis 0) or columns (axis 1) of window o. Returns how many an average counts, as
 * PyTorch's AvgPoolKernel.cpp and AdaptiveAvgPoolKernel.cpp do. */
static int extent(const struct reference *r, int axis, int o, int *begin, int *end)
{
    const int in = axis ? r->x.w : r->x.h, out = axis ? r->y.w : r->y.h, pad = r->s.pad[axis];
    *begin = o * r->s.stride[axis] - pad;
    *end = *begin + r->s.kernel[axis];
    if (r->s.kind == SS_POOL_ADAPTIVE) {
        *begin = (int)floor((double)o * in / out);
        *end = (int)ceil((double)(o + 1) * in / out);
    } else if (*end > in + pad) {
        *end = in + pad;
    }
    const int whole = *end - *begin;
    *begin = *begin < 0 ? 0 : *begin;
    *end = *end > in ? in : *end;
    return r->s.count_pad ? whole : *end - *begin;
}

/* Computes the value of a window and distributes its gradient. The first of equal maxima is used,
 * but the last NaN, as in PyTorch's MaxPoolKernel.cpp. */
static void window(struct reference *r, int n, int c, int p, int q)
{
    const size_t o = at(&r->y, n, c, p, q);
    int top, bottom, left, right;
    const int rows = extent(r, 0, p, &top, &bottom);
    const double area = rows * extent(r, 1, q, &left, &right);
    double best = -INFINITY, sum = 0;
    size_t first = at(&r->x, n, c, top, left);
    for (int h = top; h < bottom; h++)
        for (int w = left; w < right; w++) {
            const size_t k = at(&r->x, n, c, h, w);
            sum += r->in[k] / area;
            if (r->s.kind != SS_POOL_MAX)
                r->din[k] += r->dout[o] / area;
            if (r->in[k] > best || isnan(r->in[k]))
                best = r->in[k], first = k;
        }
    if (r->s.kind == SS_POOL_MAX)
        r->din[first] += r->dout[o];
    r->out[o] = r->s.kind == SS_POOL_MAX ? best : sum;
}

static void walk(struct reference *r)
{
    memset(r->din, 0, plain_count(&r->x) * sizeof(double));
    for (int n = 0; n < r->y.n; n++)
        for (int c = 0; c < r->y.c; c++)
            for (int p = 0; p < r->y.h; p++)
                for (int q = 0; q < r->y.w; q++)
                    window(r, n, c, p, q);
}

static double loss(void *ctx)
{
    struct reference *r = ctx;
    walk(r);
    return dot(r->out, r->dout, plain_count(&r->y));
}

/* p, q: output size of ceil mode and adaptive pooling; 0: computed. */
static const struct {
    int kind, n, c, h, w, kernel[2], stride[2], pad[2], count_pad, p, q;
} cases[] = {
    {SS_POOL_MAX, 2, 20, 8, 8, {2, 2}, {2, 2}, {0, 0}, 0, 0, 0},
    {SS_POOL_MAX, 2, 40, 9, 12, {3, 3}, {2, 2}, {1, 1}, 0, 0, 0},
    {SS_POOL_MAX, 1, 8, 7, 7, {3, 3}, {1, 1}, {1, 1}, 0, 0, 0},
    {SS_POOL_AVG, 2, 56, 8, 8, {7, 7}, {7, 7}, {0, 0}, 1, 0, 0},
    {SS_POOL_AVG, 2, 20, 8, 8, {8, 8}, {8, 8}, {0, 0}, 1, 0, 0},
    {SS_POOL_AVG, 1, 40, 9, 7, {3, 3}, {2, 2}, {1, 1}, 1, 0, 0},
    {SS_POOL_AVG, 2, 128, 8, 8, {7, 7}, {7, 7}, {0, 0}, 1, 0, 0},
    {SS_POOL_AVG, 2, 16, 6, 6, {2, 2}, {2, 2}, {0, 0}, 1, 0, 0},
    {SS_POOL_MAX, 2, 12, 9, 7, {3, 2}, {2, 3}, {1, 0}, 0, 0, 0},
    {SS_POOL_MAX, 2, 20, 8, 7, {3, 3}, {2, 2}, {0, 0}, 0, 4, 3},
    {SS_POOL_MAX, 2, 8, 2, 5, {3, 2}, {2, 2}, {0, 0}, 0, 1, 3},
    {SS_POOL_AVG, 2, 24, 7, 8, {2, 3}, {1, 2}, {1, 0}, 0, 0, 0},
    {SS_POOL_AVG, 2, 12, 8, 7, {3, 3}, {2, 2}, {1, 1}, 1, 5, 4},
    {SS_POOL_AVG, 2, 20, 8, 7, {3, 2}, {2, 2}, {1, 0}, 0, 5, 4},
    {SS_POOL_AVG, 2, 3, 9, 4, {9, 4}, {9, 4}, {0, 0}, 1, 0, 0},
    {SS_POOL_ADAPTIVE, 2, 20, 7, 5, {0, 0}, {0, 0}, {0, 0}, 0, 3, 2},
    {SS_POOL_ADAPTIVE, 2, 12, 2, 1, {0, 0}, {0, 0}, {0, 0}, 0, 7, 6},
    {SS_POOL_ADAPTIVE, 1, 24, 6, 9, {0, 0}, {0, 0}, {0, 0}, 0, 3, 3},
    /* Several vectors of channels; rows of many windows of equal extent. */
    {SS_POOL_MAX, 1, 72, 6, 7, {3, 3}, {2, 2}, {1, 1}, 0, 0, 0},
    {SS_POOL_MAX, 1, 9, 5, 43, {2, 3}, {2, 1}, {0, 1}, 0, 0, 0},
    {SS_POOL_MAX, 1, 5, 7, 70, {3, 3}, {2, 2}, {1, 1}, 0, 0, 0},
    {SS_POOL_MAX, 1, 5, 3, 64, {1, 4}, {1, 3}, {0, 2}, 0, 0, 0},
    {SS_POOL_AVG, 1, 9, 5, 43, {3, 3}, {1, 1}, {1, 1}, 1, 0, 0},
    {SS_POOL_AVG, 1, 18, 6, 40, {3, 2}, {3, 3}, {1, 1}, 0, 0, 0},
    {SS_POOL_ADAPTIVE, 1, 5, 3, 40, {0, 0}, {0, 0}, {0, 0}, 0, 2, 17},
    /* Large windows: the gradient uses other code, and an index exceeds a byte. */
    {SS_POOL_MAX, 1, 18, 9, 10, {7, 7}, {1, 1}, {3, 3}, 0, 0, 0},
    {SS_POOL_MAX, 1, 9, 16, 17, {16, 16}, {1, 1}, {8, 0}, 0, 0, 0},
    {SS_POOL_MAX, 1, 18, 20, 19, {17, 17}, {1, 2}, {8, 8}, 0, 0, 0},
    {SS_POOL_MAX, 1, 5, 18, 21, {2, 130}, {2, 1}, {0, 65}, 0, 0, 0},
    {SS_POOL_AVG, 1, 18, 20, 19, {17, 17}, {1, 2}, {8, 8}, 1, 0, 0},
};
enum { NCASES = sizeof cases / sizeof cases[0] };

static void reference_make(struct reference *r, int i)
{
    *r = (struct reference){.x = {cases[i].n, cases[i].c, cases[i].h, cases[i].w, 1}};
    r->s = (struct ss_pool_shape){.kind = (enum ss_pool_kind)cases[i].kind,
                                  .count_pad = cases[i].count_pad};
    r->y = r->x;
    int *const out[2] = {&r->y.h, &r->y.w};
    for (int a = 0; a < 2; a++) {
        r->s.kernel[a] = cases[i].kernel[a];
        r->s.stride[a] = cases[i].stride[a];
        r->s.pad[a] = cases[i].pad[a];
        if (!cases[i].p)
            *out[a] = (*out[a] + 2 * r->s.pad[a] - r->s.kernel[a]) / r->s.stride[a] + 1;
    }
    if (cases[i].p)
        r->y.h = cases[i].p, r->y.w = cases[i].q;
    r->in = random_doubles(plain_count(&r->x), 1);
    r->dout = random_doubles(plain_count(&r->y), 2);
    r->din = zero_doubles(plain_count(&r->x));
    r->out = zero_doubles(plain_count(&r->y));
    /* Few different values: many windows have several maxima. */
    if (i % 2 == 0)
        for (size_t k = 0; k < plain_count(&r->x); k++)
            r->in[k] = floor(3 * r->in[k]);
    walk(r);
}

static void reference_free(struct reference *r)
{
    free(r->in), free(r->out), free(r->dout), free(r->din);
}

/* Non-finite numbers must be equal, the others within a tolerance. */
static void check_values(const char *what, const struct ss_act *a, const float *got,
                         const double *want)
{
    const size_t count = plain_count(a);
    double *plain = act_unpack(a, got), *finite = zero_doubles(count);
    for (size_t i = 0; i < count; i++) {
        finite[i] = want[i];
        if (isfinite(want[i]))
            continue;
        ck_assert_msg(isnan(want[i]) ? isnan(plain[i]) : plain[i] == want[i],
                      "%s: %g at %zu instead of %g", what, plain[i], i, want[i]);
        plain[i] = finite[i] = 0;
    }
    check_error(what, plain, finite, count, 1e-6);
    free(plain), free(finite);
}

static struct ss_pool_shape shape_of(const struct reference *r, int block)
{
    struct ss_pool_shape s = r->s;
    s.x = r->x;
    s.y = r->y;
    s.x.block = s.y.block = block;
    return s;
}

static void run(const struct reference *r, int block)
{
    struct ss_pool_kernel *pool, *inference;
    const struct ss_pool_shape s = shape_of(r, block);
    OK(ss_cpu_pool_create(cpu, &s, 1, &pool));
    OK(ss_cpu_pool_create(cpu, &s, 0, &inference));
    const size_t bytes = ss_cpu_pool_workspace_bytes(pool), count = ss_act_elements(&s.y),
                 each = s.kind != SS_POOL_MAX              ? 0
                        : s.kernel[0] * s.kernel[1] <= 256 ? 1
                                                           : sizeof(int32_t);
    ck_assert_uint_eq(bytes, each * count);
    ck_assert_uint_eq(ss_cpu_pool_workspace_bytes(inference), 0);
    void *workspace = bytes ? ss_aligned_alloc(bytes) : NULL;
    float *x = act_pack(&s.x, r->in), *y = act_pack(&s.y, NULL), *again = act_pack(&s.y, NULL),
          *dy = act_pack(&s.y, r->dout), *dx = act_pack(&s.x, NULL);
    OK(ss_cpu_pool_forward(inference, x, y, NULL));
    check_values("y", &s.y, y, r->out);
    OK(ss_cpu_pool_forward(pool, x, again, NULL));
    ck_assert_mem_eq(y, again, count * sizeof *y);
    memset(again, 0x7f, count * sizeof *again);
    OK(ss_cpu_pool_forward(pool, x, again, workspace));
    ck_assert_mem_eq(y, again, count * sizeof *y);
    OK(ss_cpu_pool_backward(pool, dy, workspace, dx));
    check_values("dx", &s.x, dx, r->din);
    free(x), free(y), free(again), free(dy), free(dx), free(workspace);
    ss_cpu_pool_destroy(pool);
    ss_cpu_pool_destroy(inference);
}

START_TEST(every_layout)
{
    struct reference r;
    test_open_limited(isas[_i / NCASES]);
    reference_make(&r, _i % NCASES);
    for (int block = 0; block < NBLOCKS; block++)
        run(&r, test_block(block, r.x.c));
    reference_free(&r);
    test_close();
}
END_TEST

/* NaNs, infinities and zeros of both signs; a whole image of minus infinity. */
START_TEST(special_values)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
    struct reference r;
    test_open_limited(isas[_i / NCASES]);
    reference_make(&r, _i % NCASES);
    const size_t count = plain_count(&r.x);
    for (int every = 1; every < 50; every += 8) {
        for (size_t k = 0; k < count; k++)
            if (every == 1)
                r.in[k] = -INFINITY;
            else if (k % (size_t)every < 2)
                r.in[k] = special[(k / (size_t)every + k) % 5];
        walk(&r);
        for (int block = 0; block < NBLOCKS; block++)
            run(&r, test_block(block, r.x.c));
        free(r.in);
        r.in = random_doubles(count, (uint32_t)every + 3);
    }
    reference_free(&r);
    test_close();
}
END_TEST

/* Runs with `threads` threads. Returns y, dx and the indices, concatenated. Free with free(). */
static unsigned char *bits_of(const struct reference *r, int block, int threads, size_t *bytes)
{
    struct ss_device *device;
    struct ss_pool_kernel *pool;
    const struct ss_pool_shape s = shape_of(r, block);
    OK(ss_cpu_open(&(struct ss_device_options){.threads = threads}, &device));
    OK(ss_cpu_pool_create(device, &s, 1, &pool));
    const size_t y = ss_act_elements(&s.y) * sizeof(float),
                 dx = ss_act_elements(&s.x) * sizeof(float), at = ss_cpu_pool_workspace_bytes(pool);
    unsigned char *out = ss_aligned_alloc(y + dx + at);
    float *in = act_pack(&s.x, r->in), *dy = act_pack(&s.y, r->dout);
    *bytes = y + dx + at;
    OK(ss_cpu_pool_forward(pool, in, out, at ? out + y + dx : NULL));
    OK(ss_cpu_pool_backward(pool, dy, at ? out + y + dx : NULL, out + y));
    free(in), free(dy);
    ss_cpu_pool_destroy(pool);
    ss_cpu_close(device);
    return out;
}

START_TEST(bits_of_threads)
{
    static const int threads[] = {2, 3, 7};
    struct reference r;
    setenv("DNNL_MAX_CPU_ISA", isas[_i % NISAS], 1);
    reference_make(&r, _i);
    for (int block = 0; block < NBLOCKS; block++) {
        size_t bytes;
        unsigned char *want = bits_of(&r, test_block(block, r.x.c), 1, &bytes);
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            unsigned char *got = bits_of(&r, test_block(block, r.x.c), threads[t], &bytes);
            ck_assert_mem_eq(got, want, bytes);
            free(got);
        }
        free(want);
    }
    reference_free(&r);
}
END_TEST

/* Indices of a case's numbers in the file that record_pools.py wrote. */
enum {
    KIND,
    HEIGHT,
    WIDTH,
    KERNEL,
    STRIDE = 5,
    PADDING = 7,
    CEIL = 9,
    COUNT_PAD,
    OUT,
    NUMBERS = 16
};

/* Makes the pooling with the layer's own code, which computes the output size. */
static void reference_of_layer(const int32_t *number, struct reference *r)
{
    static const struct ss_layer_class *const classes[] = {&ss_maxpool2d_class, &ss_avgpool2d_class,
                                                           &ss_adaptive_avgpool2d_class};
    static const enum ss_pool_kind kinds[] = {SS_POOL_MAX, SS_POOL_AVG, SS_POOL_ADAPTIVE};
    struct ss_layer l = ss_layer_of(classes[number[KIND]]);
    for (int a = 0; a < 2; a++) {
        l.size[a] = l.kernel[a] = number[KERNEL + a];
        l.stride[a] = number[STRIDE + a];
        l.padding[a] = number[PADDING + a];
    }
    l.ceil_mode = number[CEIL];
    l.count_include_pad = number[COUNT_PAD];
    struct ss_graph *g = ss_graph_create("pool");
    const ss_value in = ss_input(g, 2, number[HEIGHT], number[WIDTH]),
                   out = ss_graph_add(g, &l, "", 1, &in);
    ck_assert_int_ge(out, 0);
    *r = (struct reference){.x = {1, 2, number[HEIGHT], number[WIDTH], 1}, .y = {1, 2, 0, 0, 1}};
    r->y.h = ss_graph_value(g, out)->h;
    r->y.w = ss_graph_value(g, out)->w;
    ss_graph_destroy(g);
    r->s = (struct ss_pool_shape){.kind = kinds[number[KIND]], .count_pad = l.count_include_pad};
    for (int a = 0; a < 2 && number[KIND] < 2; a++) {
        r->s.kernel[a] = l.kernel[a];
        r->s.stride[a] = l.stride[a];
        r->s.pad[a] = l.padding[a];
    }
}

static double *from_bytes(const uint8_t **at, size_t count)
{
    double *values = zero_doubles(count);
    for (size_t i = 0; i < count; i++)
        values[i] = *(*at)++;
    return values;
}

static double *from_floats(const float **at, size_t count)
{
    double *values = to_doubles(*at, count);
    *at += count;
    return values;
}

START_TEST(as_pytorch)
{
    const char *srcdir = getenv("srcdir");
    char path[1024];
    struct ss_safetensors *file;
    test_open_limited(isas[_i]);
    snprintf(path, sizeof path, "%s/tests/reference/pools.safetensors", srcdir ? srcdir : ".");
    OK(ss_safetensors_open(path, &file));
    const struct ss_st_tensor *table = ss_safetensors_find(file, "cases");
    const int32_t *number = table->data;
    const uint8_t *x = ss_safetensors_find(file, "x")->data,
                  *dy = ss_safetensors_find(file, "dy")->data;
    const float *y = ss_safetensors_find(file, "y")->data,
                *dx = ss_safetensors_find(file, "dx")->data;
    const size_t count = table->bytes / (NUMBERS * sizeof *number);
    ck_assert_uint_ge(count, 200);
    for (size_t k = 0; k < count; k++, number += NUMBERS) {
        struct reference r;
        reference_of_layer(number, &r);
        ck_assert_msg(r.y.h == number[OUT] && r.y.w == number[OUT + 1],
                      "case %zu: %dx%d, PyTorch has %dx%d", k, r.y.h, r.y.w, number[OUT],
                      number[OUT + 1]);
        r.in = from_bytes(&x, plain_count(&r.x));
        r.dout = from_bytes(&dy, plain_count(&r.y));
        r.out = from_floats(&y, plain_count(&r.y));
        r.din = from_floats(&dx, plain_count(&r.x));
        for (int block = 0; block < NBLOCKS; block++)
            run(&r, test_block(block, r.x.c));
        reference_free(&r);
    }
    ss_safetensors_close(file);
    test_close();
}
END_TEST

START_TEST(finite_differences)
{
    struct reference r;
    reference_make(&r, _i);
    double *gradient;
    if (_i % 2 == 0) { /* ties have no derivative */
        free(r.in);
        r.in = random_doubles(plain_count(&r.x), 1);
        walk(&r);
    }
    gradient = zero_doubles(plain_count(&r.x));
    memcpy(gradient, r.din, plain_count(&r.x) * sizeof(double));
    check_slope("x", loss, &r, r.in, gradient, plain_count(&r.x), 1e-7, 1e-5);
    free(gradient);
    reference_free(&r);
}
END_TEST

START_TEST(bad_shapes)
{
    ss_log_set_quiet(1);
    struct ss_pool_kernel *pool = NULL;
    const struct ss_act x = {2, 16, 8, 8, 16}, y = {2, 16, 4, 4, 16}, empty = {2, 16, 0, 8, 16};
    const struct ss_pool_shape bad[] = {
        {SS_POOL_MAX, x, y, {9, 9}, {1, 1}, {0, 0}, 0},
        {SS_POOL_MAX, x, y, {2, 2}, {0, 0}, {0, 0}, 0},
        {SS_POOL_MAX, x, y, {2, 2}, {2, 2}, {2, 2}, 0},
        {SS_POOL_MAX, x, y, {2, 2}, {1, 1}, {0, 0}, 0},
        {SS_POOL_MAX, x, x, {2, 2}, {2, 2}, {0, 0}, 0},
        {SS_POOL_MAX, empty, y, {2, 2}, {2, 2}, {0, 0}, 0},
    };
    struct ss_pool_shape good = {SS_POOL_MAX, x, y, {2, 2}, {2, 2}, {0, 0}, 0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(ss_cpu_pool_create(cpu, &bad[i], 1, &pool), SS_ERR_SHAPE);
    ck_assert_ptr_null(pool);
    OK(ss_cpu_pool_create(cpu, &good, 1, &pool));
    float v[1] = {0};
    ck_assert_int_eq(ss_cpu_pool_backward(pool, v, NULL, v), SS_ERR_INVALID);
    ss_cpu_pool_destroy(pool);
    good.kind = SS_POOL_AVG;
    OK(ss_cpu_pool_create(cpu, &good, 0, &pool));
    ck_assert_int_eq(ss_cpu_pool_backward(pool, v, NULL, v), SS_ERR_INVALID);
    ss_cpu_pool_destroy(pool);
    ss_cpu_pool_destroy(NULL);
}
END_TEST

Suite *pool_suite(void)
{
    Suite *suite = suite_create("pooling");
    TCase *t = tcase_create("pooling");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_loop_test(t, finite_differences, 0, NCASES);
    tcase_add_test(t, bad_shapes);
    suite_add_tcase(suite, t);
    t = tcase_create("instruction sets");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, every_layout, 0, NCASES * NISAS);
    tcase_add_loop_test(t, special_values, 0, NCASES * NISAS);
    tcase_add_loop_test(t, as_pytorch, 0, NISAS);
    tcase_add_loop_test(t, bits_of_threads, 0, NCASES);
    suite_add_tcase(suite, t);
    return suite;
}
