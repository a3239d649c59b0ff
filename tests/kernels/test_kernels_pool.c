/* test_kernels_pool.c: pooling in every layout against a naive one in double precision. */
#include "tests/kernels/test_kernels.h"

struct reference {
    enum ss_pool_kind kind;
    struct ss_act x, y;
    int kernel, stride, pad;
    double *in, *out, *dout, *din;
};

static size_t at(const struct ss_act *a, int n, int c, int h, int w)
{
    return (size_t)((n * a->c + c) * a->h + h) * (size_t)a->w + (size_t)w;
}

/* One window: its value, and the shares of the gradient. */
static void window(struct reference *r, int n, int c, int p, int q)
{
    const size_t o = at(&r->y, n, c, p, q);
    const double area = r->kernel * r->kernel;
    double best = -INFINITY, sum = 0;
    size_t first = 0;
    for (int i = 0; i < r->kernel; i++)
        for (int j = 0; j < r->kernel; j++) {
            const int h = p * r->stride - r->pad + i, w = q * r->stride - r->pad + j;
            if (h < 0 || w < 0 || h >= r->x.h || w >= r->x.w)
                continue;
            const size_t k = at(&r->x, n, c, h, w);
            sum += r->in[k] / area;
            if (r->kind == SS_POOL_AVG)
                r->din[k] += r->dout[o] / area;
            if (r->in[k] > best)
                best = r->in[k], first = k;
        }
    if (r->kind == SS_POOL_MAX)
        r->din[first] += r->dout[o];
    r->out[o] = r->kind == SS_POOL_MAX ? best : sum;
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

static const struct {
    int kind, n, c, h, w, kernel, stride, pad;
} cases[] = {
    {SS_POOL_MAX, 2, 20, 8, 8, 2, 2, 0},  {SS_POOL_MAX, 2, 40, 9, 12, 3, 2, 1},
    {SS_POOL_MAX, 1, 8, 7, 7, 3, 1, 1},   {SS_POOL_AVG, 2, 56, 8, 8, 7, 7, 0},
    {SS_POOL_AVG, 2, 20, 8, 8, 8, 8, 0},  {SS_POOL_AVG, 1, 40, 9, 7, 3, 2, 1},
    {SS_POOL_AVG, 2, 128, 8, 8, 7, 7, 0}, {SS_POOL_AVG, 2, 16, 6, 6, 2, 2, 0},
};
enum { NCASES = sizeof cases / sizeof cases[0] };

static void reference_make(struct reference *r, int i)
{
    *r = (struct reference){.kind = (enum ss_pool_kind)cases[i].kind,
                            .x = {cases[i].n, cases[i].c, cases[i].h, cases[i].w, 1},
                            .kernel = cases[i].kernel,
                            .stride = cases[i].stride,
                            .pad = cases[i].pad};
    r->y = r->x;
    r->y.h = (r->x.h + 2 * r->pad - r->kernel) / r->stride + 1;
    r->y.w = (r->x.w + 2 * r->pad - r->kernel) / r->stride + 1;
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

static void run(const struct reference *r, int block)
{
    struct ss_act xa = r->x, ya = r->y;
    xa.block = ya.block = block;
    struct ss_pool_kernel *pool, *inference;
    const struct ss_pool_shape s = {r->kind, xa, ya, r->kernel, r->stride, r->pad};
    OK(ss_cpu_pool_create(cpu, &s, 1, &pool));
    OK(ss_cpu_pool_create(cpu, &s, 0, &inference));
    const size_t bytes = ss_cpu_pool_workspace_bytes(pool);
    ck_assert(r->kind == SS_POOL_MAX ? bytes > 0 : bytes == 0);
    void *workspace = bytes ? ss_aligned_alloc(bytes) : NULL;
    float *x = act_pack(&xa, r->in), *y = act_pack(&ya, NULL), *dy = act_pack(&ya, r->dout),
          *dx = act_pack(&xa, NULL);
    OK(ss_cpu_pool_forward(inference, x, y, NULL));
    check_act("y, inference", &ya, y, r->out, 1e-6);
    memset(y, 0x7f, ss_act_elements(&ya) * sizeof(float));
    OK(ss_cpu_pool_forward(pool, x, y, NULL));
    check_act("y, without workspace", &ya, y, r->out, 1e-6);
    memset(y, 0x7f, ss_act_elements(&ya) * sizeof(float));
    OK(ss_cpu_pool_forward(pool, x, y, workspace));
    check_act("y", &ya, y, r->out, 1e-6);
    OK(ss_cpu_pool_backward(pool, dy, workspace, dx));
    check_act("dx", &xa, dx, r->din, 1e-6);
    free(x), free(y), free(dy), free(dx), free(workspace);
    ss_cpu_pool_destroy(pool);
    ss_cpu_pool_destroy(inference);
}

START_TEST(every_layout)
{
    struct reference r;
    reference_make(&r, _i);
    for (int block = 0; block < NBLOCKS; block++)
        run(&r, test_block(block, r.x.c));
    reference_free(&r);
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
        {SS_POOL_MAX, x, y, 9, 1, 0}, {SS_POOL_MAX, x, y, 2, 0, 0},
        {SS_POOL_MAX, x, y, 2, 2, 2}, {SS_POOL_MAX, x, y, 2, 1, 0},
        {SS_POOL_MAX, x, x, 2, 2, 0}, {SS_POOL_MAX, empty, y, 2, 2, 0},
    };
    struct ss_pool_shape good = {SS_POOL_MAX, x, y, 2, 2, 0};
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
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_loop_test(t, every_layout, 0, NCASES);
    tcase_add_loop_test(t, finite_differences, 0, NCASES);
    tcase_add_test(t, bad_shapes);
    suite_add_tcase(suite, t);
    return suite;
}
