/* test_kernels_transformer.c: layer normalization, tokens and attention on the CPU against double
 * precision and finite differences. */
#include "tests/kernels/test_kernels.h"
#include "tests/kernels/transformer_reference.h"

/* ---- layer normalization ---- */

struct outcome {
    float *y, *dx, *saved, *grads;
};

static struct outcome run_layernorm(const struct layernorm_reference *r, const struct ss_act *a)
{
    const size_t c = (size_t)r->c;
    float *x = act_pack(a, r->x), *dy = act_pack(a, r->dy);
    float *gamma = to_floats(r->gamma, c), *beta = to_floats(r->beta, c);
    struct outcome o = {act_pack(a, NULL), act_pack(a, NULL),
                        ss_aligned_alloc(2 * (size_t)(r->n * r->pixels) * sizeof(float)),
                        ss_aligned_alloc(2 * c * sizeof(float))};
    OK(ss_cpu_layernorm_reserve(cpu, a));
    OK(ss_cpu_layernorm_forward(cpu, a, (float)r->eps, x, gamma, beta, o.saved, o.y));
    OK(ss_cpu_layernorm_backward(cpu, a, dy, x, gamma, o.saved, o.dx, o.grads, o.grads + c));
    free(x), free(dy), free(gamma), free(beta);
    return o;
}

static void free_outcome(struct outcome *o)
{
    free(o->y), free(o->dx), free(o->saved), free(o->grads);
}

/* offset: added to x, for a mean that is large compared to the deviation. */
static void layernorm_make(struct layernorm_reference *r, int i, double offset)
{
    const size_t c = (size_t)layernorm_cases[i].c;
    *r = (struct layernorm_reference){.n = layernorm_cases[i].n,
                                      .c = layernorm_cases[i].c,
                                      .pixels = layernorm_cases[i].h * layernorm_cases[i].w,
                                      .eps = (double)1e-6f};
    const size_t count = (size_t)(r->n * r->c * r->pixels);
    double *x = random_doubles(count, 1), *gamma = random_doubles(c, 3);
    for (size_t k = 0; k < count; k++)
        x[k] = (double)(float)(x[k] + offset);
    for (size_t k = 0; k < c; k++)
        gamma[k] = (double)(float)(1 + 0.5 * gamma[k]);
    r->x = x;
    r->gamma = gamma;
    r->dy = random_doubles(count, 2);
    r->beta = random_doubles(c, 4);
    r->y = zero_doubles(count);
    r->dx = zero_doubles(count);
    r->dgamma = zero_doubles(c);
    r->dbeta = zero_doubles(c);
    layernorm_reference(r);
}

static void layernorm_free(struct layernorm_reference *r)
{
    free((void *)r->x), free((void *)r->dy), free((void *)r->gamma), free((void *)r->beta);
    free(r->y), free(r->dx), free(r->dgamma), free(r->dbeta);
}

static struct ss_act layernorm_act(int i, int block)
{
    return (struct ss_act){layernorm_cases[i].n, layernorm_cases[i].c, layernorm_cases[i].h,
                           layernorm_cases[i].w, block};
}

START_TEST(layernorm_against_double)
{
    struct layernorm_reference r;
    layernorm_make(&r, _i, 0);
    for (int which = 0; which < NBLOCKS; which++) {
        const struct ss_act a = layernorm_act(_i, test_block(which, r.c));
        const size_t c = (size_t)r.c;
        struct outcome o = run_layernorm(&r, &a);
        double *grads = to_doubles(o.grads, 2 * c);
        check_error("dgamma", grads, r.dgamma, c, 1e-5);
        check_error("dbeta", grads + c, r.dbeta, c, 1e-5);
        check_act("y", &a, o.y, r.y, 1e-5);
        check_act("dx", &a, o.dx, r.dx, 1e-5);
        free(grads);
        free_outcome(&o);
    }
    layernorm_free(&r);
}
END_TEST

/* A deviation of 0.6 around 1000: fp32 inputs are exact, sums of squares would not be. */
START_TEST(layernorm_large_mean)
{
    struct layernorm_reference r;
    layernorm_make(&r, 4, 1000);
    const struct ss_act a = layernorm_act(4, 16);
    struct outcome o = run_layernorm(&r, &a);
    check_act("y", &a, o.y, r.y, 1e-4);
    free_outcome(&o);
    layernorm_free(&r);
}
END_TEST

START_TEST(layernorm_same_bits_on_any_threads)
{
    struct layernorm_reference r;
    layernorm_make(&r, _i, 0);
    const struct ss_act a = layernorm_act(_i, 8);
    struct outcome two = run_layernorm(&r, &a);
    test_close();
    test_open_one();
    struct outcome one = run_layernorm(&r, &a);
    const size_t bytes = ss_act_elements(&a) * sizeof(float);
    ck_assert_mem_eq(one.y, two.y, bytes);
    ck_assert_mem_eq(one.dx, two.dx, bytes);
    ck_assert_mem_eq(one.grads, two.grads, 2 * (size_t)r.c * sizeof(float));
    free_outcome(&one);
    free_outcome(&two);
    layernorm_free(&r);
}
END_TEST

/* Parameter gradients are the same without dx. */
START_TEST(layernorm_parameters_alone)
{
    struct layernorm_reference r;
    layernorm_make(&r, 2, 0);
    const struct ss_act a = layernorm_act(2, 16);
    const size_t c = (size_t)r.c;
    struct outcome o = run_layernorm(&r, &a);
    float *x = act_pack(&a, r.x), *dy = act_pack(&a, r.dy), *gamma = to_floats(r.gamma, c);
    float *grads = ss_aligned_alloc(2 * c * sizeof(float));
    OK(ss_cpu_layernorm_backward(cpu, &a, dy, x, gamma, o.saved, NULL, grads, grads + c));
    ck_assert_mem_eq(grads, o.grads, 2 * c * sizeof(float));
    free(x), free(dy), free(gamma), free(grads);
    free_outcome(&o);
    layernorm_free(&r);
}
END_TEST

START_TEST(layernorm_needs_scratch)
{
    const struct ss_act a = layernorm_act(4, 16);
    float x[1] = {0};
    ck_assert_int_eq(ss_cpu_layernorm_backward(cpu, &a, x, x, x, x, NULL, x, x), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "layernorm_reserve"));
}
END_TEST

/* ---- attention ---- */

static struct outcome run_attention(const struct attention_reference *r,
                                    const struct ss_attention_shape *shape)
{
    struct ss_attention_kernel *k;
    float *x = act_pack(&shape->x, r->x), *dy = act_pack(&shape->y, r->dy);
    struct outcome o = {act_pack(&shape->y, NULL), act_pack(&shape->x, NULL),
                        ss_aligned_alloc((size_t)(r->n * r->heads * r->s) * sizeof(float)), NULL};
    OK(ss_cpu_attention_create(cpu, shape, 1, &k));
    OK(ss_cpu_attention_forward(k, x, o.saved, o.y));
    OK(ss_cpu_attention_backward(k, x, dy, o.saved, o.dx));
    ss_cpu_attention_destroy(k);
    free(x), free(dy);
    return o;
}

/* large: factor of x; 20 gives scores of some hundreds, whose exponentials would overflow. */
static void attention_make(struct attention_reference *r, int i, double large)
{
    *r = (struct attention_reference){.n = attention_cases[i].n,
                                      .e = attention_cases[i].e,
                                      .heads = attention_cases[i].heads,
                                      .s = attention_cases[i].s};
    const size_t count = (size_t)(r->n * r->e * r->s);
    double *x = random_doubles(3 * count, 1);
    for (size_t k = 0; k < 3 * count; k++)
        x[k] = (double)(float)(x[k] * large);
    r->x = x;
    r->dy = random_doubles(count, 2);
    r->y = zero_doubles(count);
    r->dx = zero_doubles(3 * count);
    attention_reference(r);
}

static void attention_free(struct attention_reference *r)
{
    free((void *)r->x), free((void *)r->dy), free(r->y), free(r->dx);
}

static struct ss_attention_shape attention_shape(const struct attention_reference *r, int which)
{
    return (struct ss_attention_shape){
        .x = {r->n, 3 * r->e, r->s, 1, test_block(which, 3 * r->e)},
        .y = {r->n, r->e, r->s, 1, test_block(which, r->e)},
        .heads = r->heads,
    };
}

START_TEST(attention_against_double)
{
    struct attention_reference r;
    attention_make(&r, _i, 1);
    for (int which = 0; which < NBLOCKS; which++) {
        const struct ss_attention_shape shape = attention_shape(&r, which);
        struct outcome o = run_attention(&r, &shape);
        check_act("y", &shape.y, o.y, r.y, 1e-5);
        check_act("dx", &shape.x, o.dx, r.dx, 1e-5);
        free_outcome(&o);
    }
    attention_free(&r);
}
END_TEST

START_TEST(attention_large_scores)
{
    struct attention_reference r;
    attention_make(&r, 7, 20);
    const struct ss_attention_shape shape = attention_shape(&r, 0);
    struct outcome o = run_attention(&r, &shape);
    check_act("y", &shape.y, o.y, r.y, 2e-4); /* a score of 1000 has an error of 1e-4 */
    check_act("dx", &shape.x, o.dx, r.dx, 1e-3);
    free_outcome(&o);
    attention_free(&r);
}
END_TEST

/* The gradient of sum(y w) for a fixed w, along one direction of x. */
struct slope {
    struct ss_attention_kernel *kernel;
    struct ss_attention_shape shape;
    double *x, *w;
    float *saved;
};

static double weighted(void *ctx)
{
    struct slope *s = ctx;
    float *x = act_pack(&s->shape.x, s->x), *y = act_pack(&s->shape.y, NULL);
    OK(ss_cpu_attention_forward(s->kernel, x, s->saved, y));
    double *plain = act_unpack(&s->shape.y, y), sum = dot(plain, s->w, plain_count(&s->shape.y));
    free(x), free(y), free(plain);
    return sum;
}

START_TEST(attention_slopes)
{
    struct attention_reference r;
    attention_make(&r, _i, 1);
    struct slope s = {.shape = attention_shape(&r, 0), .x = (double *)r.x, .w = (double *)r.dy};
    s.saved = ss_aligned_alloc((size_t)(r.n * r.heads * r.s) * sizeof(float));
    OK(ss_cpu_attention_create(cpu, &s.shape, 1, &s.kernel));
    float *x = act_pack(&s.shape.x, r.x), *dy = act_pack(&s.shape.y, r.dy);
    float *y = act_pack(&s.shape.y, NULL), *dx = act_pack(&s.shape.x, NULL);
    OK(ss_cpu_attention_forward(s.kernel, x, s.saved, y));
    OK(ss_cpu_attention_backward(s.kernel, x, dy, s.saved, dx));
    double *gradient = act_unpack(&s.shape.x, dx);
    check_slope("attention", weighted, &s, s.x, gradient, plain_count(&s.shape.x), 1e-2, 1e-2);
    ss_cpu_attention_destroy(s.kernel);
    free(x), free(dy), free(y), free(dx), free(gradient), free(s.saved);
    attention_free(&r);
}
END_TEST

START_TEST(attention_same_bits_on_any_threads)
{
    struct attention_reference r;
    attention_make(&r, _i, 1);
    const struct ss_attention_shape shape = attention_shape(&r, 1);
    struct outcome two = run_attention(&r, &shape);
    test_close();
    test_open_one();
    struct outcome one = run_attention(&r, &shape);
    ck_assert_mem_eq(one.y, two.y, ss_act_elements(&shape.y) * sizeof(float));
    ck_assert_mem_eq(one.dx, two.dx, ss_act_elements(&shape.x) * sizeof(float));
    free_outcome(&one);
    free_outcome(&two);
    attention_free(&r);
}
END_TEST

START_TEST(attention_refused)
{
    struct ss_attention_kernel *k;
    struct ss_attention_shape shape = {.x = {2, 36, 5, 1, 16}, .y = {2, 12, 5, 1, 16}, .heads = 5};
    ck_assert_int_eq(ss_cpu_attention_create(cpu, &shape, 1, &k), SS_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "5 heads"));
    shape.heads = 3;
    OK(ss_cpu_attention_create(cpu, &shape, 0, &k));
    ck_assert_int_eq(ss_cpu_attention_backward(k, NULL, NULL, NULL, NULL), SS_ERR_INVALID);
    ss_cpu_attention_destroy(k);
}
END_TEST

/* ---- tokens ---- */

static const struct {
    int n, c, h, w, class_token, positions;
} token_cases[] = {
    {2, 12, 4, 4, 1, 1}, {3, 20, 2, 3, 0, 1}, {2, 24, 7, 7, 1, 0},
    {1, 48, 1, 1, 1, 1}, {2, 16, 3, 1, 0, 0},
};
enum { TOKEN_CASES = sizeof token_cases / sizeof *token_cases };

/* Element (n,c,s) of a plain tensor. */
static size_t element(const struct ss_act *a, int n, int c, int s)
{
    return (size_t)((n * a->c + c) * a->h * a->w + s);
}

START_TEST(tokens_exact)
{
    for (int which = 0; which < NBLOCKS; which++) {
        const int c = token_cases[_i].c, block = test_block(which, c);
        struct ss_tokens_shape s = {
            .x = {token_cases[_i].n, c, token_cases[_i].h, token_cases[_i].w, block},
            .class_token = token_cases[_i].class_token,
            .positions = token_cases[_i].positions};
        s.y = s.x;
        s.y.h = s.x.h * s.x.w + s.class_token;
        s.y.w = 1;
        const size_t nx = plain_count(&s.x), ny = plain_count(&s.y), np = (size_t)(s.y.h * c);
        double *x = random_doubles(nx, 1), *dy = random_doubles(ny, 2),
               *token = random_doubles((size_t)c, 3), *place = random_doubles(np, 4),
               *y = zero_doubles(ny), *dx = zero_doubles(nx), *dtoken = zero_doubles((size_t)c),
               *dplace = zero_doubles(np);
        for (int n = 0; n < s.x.n; n++)
            for (int k = 0; k < c; k++)
                for (int t = 0; t < s.y.h; t++) {
                    const int front = t < s.class_token;
                    const double g = dy[element(&s.y, n, k, t)],
                                 p = s.positions ? place[t * c + k] : 0;
                    dplace[t * c + k] += g;
                    if (front)
                        dtoken[k] += g;
                    else
                        dx[element(&s.x, n, k, t - s.class_token)] = g;
                    y[element(&s.y, n, k, t)] =
                        (front ? token[k] : x[element(&s.x, n, k, t - s.class_token)]) + p;
                }
        float *xf = act_pack(&s.x, x), *dyf = act_pack(&s.y, dy), *yf = act_pack(&s.y, NULL),
              *dxf = act_pack(&s.x, NULL), *tokenf = to_floats(token, (size_t)c),
              *placef = to_floats(place, np);
        OK(ss_cpu_tokens_forward(cpu, &s, xf, s.class_token ? tokenf : NULL,
                                 s.positions ? placef : NULL, yf));
        check_act("y", &s.y, yf, y, 1e-7);
        OK(ss_cpu_tokens_backward(cpu, &s, dyf, dxf, s.class_token ? tokenf : NULL,
                                  s.positions ? placef : NULL));
        check_act("dx", &s.x, dxf, dx, 0);
        double *got = to_doubles(tokenf, (size_t)c), *got_place = to_doubles(placef, np);
        if (s.class_token)
            check_error("dclass_token", got, dtoken, (size_t)c, 1e-7);
        if (s.positions)
            check_error("dpositions", got_place, dplace, np, 1e-7);
        free(x), free(dy), free(token), free(place), free(y), free(dx), free(dtoken), free(dplace);
        free(xf), free(dyf), free(yf), free(dxf), free(tokenf), free(placef), free(got),
            free(got_place);
    }
}
END_TEST

START_TEST(one_token)
{
    for (int which = 0; which < NBLOCKS; which++) {
        const struct ss_act x = {2, 20, 5, 1, test_block(which, 20)}, y = {2, 20, 1, 1, x.block};
        double *values = random_doubles(plain_count(&x), 1),
               *dy = random_doubles(plain_count(&y), 2);
        double *want = zero_doubles(plain_count(&y)), *dx = zero_doubles(plain_count(&x));
        for (int n = 0; n < 2; n++)
            for (int c = 0; c < 20; c++) {
                want[n * 20 + c] = values[element(&x, n, c, 3)];
                dx[element(&x, n, c, 3)] = dy[n * 20 + c];
            }
        float *xf = act_pack(&x, values), *yf = act_pack(&y, NULL), *dyf = act_pack(&y, dy),
              *dxf = act_pack(&x, NULL);
        OK(ss_cpu_token_forward(cpu, &x, 3, xf, yf));
        OK(ss_cpu_token_backward(cpu, &x, 3, dyf, dxf));
        check_act("y", &y, yf, want, 0);
        check_act("dx", &x, dxf, dx, 0);
        ck_assert_int_eq(ss_cpu_token_forward(cpu, &x, 5, xf, yf), SS_ERR_SHAPE);
        ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "token 5 of a sequence of 5"));
        free(values), free(dy), free(want), free(dx), free(xf), free(yf), free(dyf), free(dxf);
    }
}
END_TEST

/* Invalid layouts and mismatched shapes. */
START_TEST(shapes_refused)
{
    float v[64] = {0};
    const struct ss_act odd = {1, 4, 2, 2, 3};
    struct ss_tokens_shape tokens = {.x = {1, 4, 2, 2, 4}, .y = {1, 4, 5, 1, 4}, .class_token = 1};
    ck_assert_int_eq(ss_cpu_layernorm_reserve(cpu, &odd), SS_ERR_SHAPE);
    ck_assert_int_eq(ss_cpu_layernorm_forward(cpu, &odd, 1, v, v, v, v, v), SS_ERR_SHAPE);
    ck_assert_int_eq(ss_cpu_layernorm_backward(cpu, &odd, v, v, v, v, v, v, v), SS_ERR_SHAPE);
    ck_assert_int_eq(ss_cpu_token_forward(cpu, &odd, 0, v, v), SS_ERR_SHAPE);
    ck_assert_int_eq(ss_cpu_token_backward(cpu, &odd, 0, v, v), SS_ERR_SHAPE);
    OK(ss_cpu_tokens_forward(cpu, &tokens, v, v, v, v + 32));
    for (int k = 0; k < 5; k++) {
        struct ss_tokens_shape s = tokens;
        int *const one[] = {&s.y.n, &s.y.c, &s.y.block, &s.y.h, &s.class_token};
        *one[k] += 1;
        ck_assert_msg(ss_cpu_tokens_forward(cpu, &s, v, v, v, v + 32) == SS_ERR_SHAPE, "%d", k);
        ck_assert_msg(ss_cpu_tokens_backward(cpu, &s, v, v, v, v + 32) == SS_ERR_SHAPE, "%d", k);
    }
}
END_TEST

Suite *transformer_suite(void)
{
    Suite *suite = suite_create("transformer");
    TCase *t = tcase_create("transformer");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_loop_test(t, layernorm_against_double, 0, LAYERNORM_CASES);
    tcase_add_test(t, layernorm_large_mean);
    tcase_add_test(t, shapes_refused);
    tcase_add_loop_test(t, layernorm_same_bits_on_any_threads, 0, LAYERNORM_CASES);
    tcase_add_test(t, layernorm_parameters_alone);
    tcase_add_test(t, layernorm_needs_scratch);
    tcase_add_loop_test(t, attention_against_double, 0, ATTENTION_CASES);
    tcase_add_test(t, attention_large_scores);
    tcase_add_loop_test(t, attention_slopes, 0, ATTENTION_CASES);
    tcase_add_loop_test(t, attention_same_bits_on_any_threads, 0, ATTENTION_CASES);
    tcase_add_test(t, attention_refused);
    tcase_add_loop_test(t, tokens_exact, 0, TOKEN_CASES);
    tcase_add_test(t, one_token);
    suite_add_tcase(suite, t);
    return suite;
}
