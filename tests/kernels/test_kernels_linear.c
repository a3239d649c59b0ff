/* test_kernels_linear.c: the linear layer with every layout of its input. */
#include "tests/kernels/test_kernels.h"

struct reference {
    struct ss_act act;
    size_t n, k, f;
    int bias; /* 0: b is zero, db is unused */
    double *x, *w, *b, *y, *dy, *dx, *dw, *db;
};

static void walk(struct reference *r)
{
    memset(r->dx, 0, r->n * r->f * sizeof(double));
    memset(r->dw, 0, r->k * r->f * sizeof(double));
    memset(r->db, 0, r->k * sizeof(double));
    for (size_t n = 0; n < r->n; n++)
        for (size_t k = 0; k < r->k; k++) {
            const double g = r->dy[n * r->k + k];
            double sum = r->b[k];
            for (size_t i = 0; i < r->f; i++) {
                sum += r->w[k * r->f + i] * r->x[n * r->f + i];
                r->dx[n * r->f + i] += g * r->w[k * r->f + i];
                r->dw[k * r->f + i] += g * r->x[n * r->f + i];
            }
            r->y[n * r->k + k] = sum;
            r->db[k] += g;
        }
}

static double loss(void *ctx)
{
    struct reference *r = ctx;
    walk(r);
    return dot(r->y, r->dy, r->n * r->k);
}

static const struct {
    int n, c, h, w, outputs;
} cases[] = {
    {4, 64, 1, 1, 100}, {3, 20, 1, 1, 10}, {2, 40, 3, 2, 10}, {5, 56, 2, 2, 7}, {1, 8, 4, 4, 1}};
enum { NCASES = sizeof cases / sizeof cases[0] };

/* Each case without and with a bias. */
static void reference_make(struct reference *r, int run)
{
    const int i = run / 2;
    r->bias = run % 2;
    r->act = (struct ss_act){cases[i].n, cases[i].c, cases[i].h, cases[i].w, 1};
    r->n = (size_t)cases[i].n;
    r->k = (size_t)cases[i].outputs;
    r->f = plain_count(&r->act) / r->n;
    r->x = random_doubles(r->n * r->f, 1);
    r->w = random_doubles(r->k * r->f, 2);
    r->b = r->bias ? random_doubles(r->k, 3) : zero_doubles(r->k);
    r->dy = random_doubles(r->n * r->k, 4);
    r->y = zero_doubles(r->n * r->k);
    r->dx = zero_doubles(r->n * r->f);
    r->dw = zero_doubles(r->k * r->f);
    r->db = zero_doubles(r->k);
    walk(r);
}

static void reference_free(struct reference *r)
{
    double *const all[] = {r->x, r->w, r->b, r->y, r->dy, r->dx, r->dw, r->db};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void check_floats(const char *what, const float *got, const double *want, size_t count)
{
    double *g = to_doubles(got, count);
    check_error(what, g, want, count, 1e-5);
    free(g);
}

static void run(const struct reference *r, int block)
{
    struct ss_act xa = r->act;
    xa.block = block;
    struct ss_linear_kernel *linear, *inference;
    OK(ss_cpu_linear_create(cpu, &xa, (int)r->k, r->bias, 1, &linear));
    OK(ss_cpu_linear_create(cpu, &xa, (int)r->k, r->bias, 0, &inference));
    const size_t bytes = ss_cpu_linear_weight_bytes(linear);
    ck_assert_uint_eq(bytes, ss_cpu_linear_weight_bytes(inference));
    float *plain = to_floats(r->w, r->k * r->f), *back = to_floats(r->w, r->k * r->f);
    float *w = ss_aligned_alloc(bytes), *dw = ss_aligned_alloc(bytes);
    float *b = r->bias ? to_floats(r->b, r->k) : NULL, *db = r->bias ? to_floats(r->b, r->k) : NULL;
    float *x = act_pack(&xa, r->x), *dx = act_pack(&xa, NULL), *dy = to_floats(r->dy, r->n * r->k),
          *y = to_floats(r->dy, r->n * r->k);
    memset(w, 0x7f, bytes);
    memset(dw, 0x7f, bytes);
    OK(ss_cpu_linear_import(linear, plain, w));
    OK(ss_cpu_linear_export(inference, w, back));
    ck_assert_mem_eq(plain, back, r->k * r->f * sizeof(float));
    OK(ss_cpu_linear_forward(linear, x, w, b, y));
    check_floats("y", y, r->y, r->n * r->k);
    OK(ss_cpu_linear_forward(inference, x, w, b, y));
    check_floats("y, inference", y, r->y, r->n * r->k);
    OK(ss_cpu_linear_backward_data(linear, dy, w, dx));
    check_act("dx", &xa, dx, r->dx, 1e-5);
    OK(ss_cpu_linear_backward_weights(linear, x, dy, dw, db));
    OK(ss_cpu_linear_export(linear, dw, back));
    check_floats("dweight", back, r->dw, r->k * r->f);
    if (r->bias)
        check_floats("dbias", db, r->db, r->k);
    float *const all[] = {plain, back, w, dw, b, db, x, dx, dy, y};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    ss_cpu_linear_destroy(linear);
    ss_cpu_linear_destroy(inference);
}

START_TEST(every_layout)
{
    struct reference r;
    reference_make(&r, _i);
    for (int block = 0; block < NBLOCKS; block++)
        run(&r, test_block(block, r.act.c));
    reference_free(&r);
}
END_TEST

START_TEST(finite_differences)
{
    struct reference r;
    reference_make(&r, _i);
    double *const gradients[] = {r.dx, r.dw, r.db};
    double *const arguments[] = {r.x, r.w, r.b};
    const char *const names[] = {"x", "weight", "bias"};
    const size_t counts[] = {r.n * r.f, r.k * r.f, r.k};
    for (int i = 0; i < 2 + r.bias; i++) {
        double *gradient = zero_doubles(counts[i]);
        memcpy(gradient, gradients[i], counts[i] * sizeof(double));
        check_slope(names[i], loss, &r, arguments[i], gradient, counts[i], 0.5, 1e-10);
        walk(&r);
        free(gradient);
    }
    reference_free(&r);
}
END_TEST

START_TEST(bad_shapes)
{
    ss_log_set_quiet(1);
    struct ss_linear_kernel *linear = NULL;
    struct ss_act x = {2, 16, 1, 1, 16};
    ck_assert_int_eq(ss_cpu_linear_create(cpu, &x, 0, 1, 1, &linear), SS_ERR_SHAPE);
    x.n = 0;
    ck_assert_int_eq(ss_cpu_linear_create(cpu, &x, 10, 1, 1, &linear), SS_ERR_SHAPE);
    ck_assert_ptr_null(linear);
    x.n = 2;
    OK(ss_cpu_linear_create(cpu, &x, 10, 1, 0, &linear));
    float v[1] = {0};
    ck_assert_int_eq(ss_cpu_linear_backward_data(linear, v, v, v), SS_ERR_INVALID);
    ck_assert_int_eq(ss_cpu_linear_backward_weights(linear, v, v, v, v), SS_ERR_INVALID);
    ck_assert_int_eq(ss_cpu_linear_forward(linear, v, v, NULL, v), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "a bias is missing, but the layer has one"));
    ss_cpu_linear_destroy(linear);
    OK(ss_cpu_linear_create(cpu, &x, 10, 0, 1, &linear));
    ck_assert_int_eq(ss_cpu_linear_backward_weights(linear, v, v, v, v), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "a bias is given, but the layer has none"));
    ss_cpu_linear_destroy(linear);
    ss_cpu_linear_destroy(NULL);
}
END_TEST

Suite *linear_suite(void)
{
    Suite *suite = suite_create("linear layer");
    TCase *t = tcase_create("linear layer");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_loop_test(t, every_layout, 0, 2 * NCASES);
    tcase_add_loop_test(t, finite_differences, 0, 2 * NCASES);
    tcase_add_test(t, bad_shapes);
    suite_add_tcase(suite, t);
    return suite;
}
