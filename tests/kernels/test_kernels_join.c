/* test_kernels_join.c: gather (concatenation, slice, shuffle) and mul, in every layout, against
 * double precision and finite differences. */
#include "tests/kernels/join_reference.h"
#include "tests/kernels/test_kernels.h"

/* ---- channels ---- */

/* If the case has one part, n tensors are summed. of_x, of_y: blocks, as in test_block(). */
static void check_gather(int i, int n, int of_x, int of_y)
{
    struct ss_gather op = gather_make(i);
    const int tensors = op.nparts > 1 ? op.nparts : n;
    double *x[SS_GATHER_PARTS], *want = zero_doubles(plain_count(&op.y));
    float *packed[SS_GATHER_PARTS];
    op.y.block = test_block(of_y, op.y.c);
    for (int k = 0; k < op.nparts; k++)
        op.part[k].x.block = test_block(of_x, op.part[k].x.c);
    for (int k = 0; k < tensors; k++) {
        const struct ss_act *a = &op.part[op.nparts > 1 ? k : 0].x;
        x[k] = random_doubles(plain_count(a), (uint32_t)k);
        packed[k] = act_pack(a, x[k]);
    }
    gather_reference(&op, (const double *const *)x, tensors, want);
    float *y = act_pack(&op.y, NULL);
    OK(ss_cpu_gather(cpu, &op, (const void *const *)packed, tensors, y));
    check_act("y", &op.y, y, want, tensors > 1 && op.nparts == 1 ? 1e-6 : 0);
    for (int k = 0; k < tensors; k++)
        free(x[k]), free(packed[k]);
    free(want), free(y);
}

START_TEST(gather)
{
    for (int of_x = 0; of_x < NBLOCKS; of_x++)
        for (int of_y = 0; of_y < NBLOCKS; of_y++)
            check_gather(_i, 1, of_x, of_y);
    for (int n = 2; n <= SS_NORM_MAX_DY; n++)
        check_gather(_i, n, 0, 0);
}
END_TEST

/* A concatenation followed by a shuffle, and its gradient: one pass equals two. */
START_TEST(shuffled_concatenation)
{
    static const int channels[][2] = {{24, 24}, {58, 58}, {20, 12}, {5, 15}};
    const int *c = channels[_i % 4], all = c[0] + c[1], groups = _i / 4 ? 2 : 4;
    for (int block = 0; block < NBLOCKS; block++) {
        const struct ss_act y = {2, all, 3, 5, test_block(block, all)};
        const struct ss_act part[] = {{2, c[0], 3, 5, test_block(block, c[0])},
                                      {2, c[1], 3, 5, test_block(block, c[1])}};
        double *plain[2];
        float *x[2], *dx[2];
        for (int k = 0; k < 2; k++) {
            plain[k] = random_doubles(plain_count(&part[k]), (uint32_t)k);
            x[k] = act_pack(&part[k], plain[k]);
            dx[k] = act_pack(&part[k], NULL);
        }
        float *joined = act_pack(&y, NULL), *two = act_pack(&y, NULL), *one = act_pack(&y, NULL);
        struct ss_gather join = {
            .y = y, .nparts = 2, .part = {{part[0], 0, 0, c[0], 1}, {part[1], 0, c[0], c[1], 1}}};
        const struct ss_gather shuffle = {.y = y, .nparts = 1, .part = {{y, 0, 0, all, groups}}};
        OK(ss_cpu_gather(cpu, &join, (const void *const *)x, 2, joined));
        OK(ss_cpu_gather(cpu, &shuffle, (const void *const[]){joined}, 1, two));
        join.groups = groups;
        OK(ss_cpu_gather(cpu, &join, (const void *const *)x, 2, one));
        ck_assert_mem_eq(one, two, ss_act_elements(&y) * sizeof *one);
        for (int k = 0; k < 2; k++) {
            const struct ss_gather back = {
                .y = part[k], .nparts = 1, .part = {{y, k ? c[0] : 0, 0, c[k], all / groups}}};
            OK(ss_cpu_gather(cpu, &back, (const void *const[]){one}, 1, dx[k]));
            ck_assert_mem_eq(dx[k], x[k], ss_act_elements(&part[k]) * sizeof *one);
            free(plain[k]), free(x[k]), free(dx[k]);
        }
        join.groups = 7;
        ck_assert_int_eq(ss_cpu_gather(cpu, &join, (const void *const *)x, 2, one), SS_ERR_SHAPE);
        free(joined), free(two), free(one);
    }
}
END_TEST

/* Writes a view of a tensor, whose other channels are unchanged, and reads a sum of views. */
START_TEST(gather_parts)
{
    static const int blocks[] = {16, 8, 1};
    const int block = blocks[_i % 3], at = 16, channels = _i / 3 ? 20 : 16,
              of = at + channels + 16 * !(_i / 3);
    const struct ss_act whole = {2, of, 5, 3, block}, part = ss_act_view(&whole, channels),
                        own = {2, channels, 5, 3, 16};
    double *plain = random_doubles(plain_count(&own), 1),
           *all = random_doubles(plain_count(&whole), 2);
    float *x = act_pack(&own, plain), *y = act_pack(&whole, all), *back = act_pack(&own, NULL);
    const struct ss_gather in = {
        .y = part, .nparts = 1, .part = {{own, 0, 0, channels, 1}}, .y_pitch = of};
    const struct ss_gather out = {
        .y = own, .nparts = 1, .part = {{part, 0, 0, channels, 1}}, .x_pitch = of};
    float *place = y + ss_act_channel(&whole, at);
    OK(ss_cpu_gather(cpu, &in, (const void *const[]){x}, 1, place));
    const size_t plane = 5 * 3;
    for (size_t i = 0; i < plain_count(&whole); i++) {
        const size_t n = i / plane / (size_t)of, c = i / plane % (size_t)of;
        if (c >= (size_t)at && c < (size_t)(at + channels))
            all[i] = plain[(n * (size_t)channels + c - (size_t)at) * plane + i % plane];
    }
    check_act("whole", &whole, y, all, 0);
    OK(ss_cpu_gather(cpu, &out, (const void *const[]){place, place}, 2, back));
    for (size_t i = 0; i < plain_count(&own); i++)
        plain[i] *= 2;
    check_act("part", &own, back, plain, 0);
    struct ss_gather bad = in;
    bad.y_pitch = channels - 1;
    ck_assert_int_eq(ss_cpu_gather(cpu, &bad, (const void *const[]){x}, 1, place), SS_ERR_SHAPE);
    free(plain), free(all);
    free(x), free(y), free(back);
}
END_TEST

/* A shuffle with C / groups groups is the inverse of a shuffle with `groups`. */
START_TEST(shuffle_back)
{
    struct ss_gather op = {
        .y = {2, 60, 3, 3, 16}, .nparts = 1, .part = {{{2, 60, 3, 3, 16}, 0, 0, 60, 4}}};
    double *plain = random_doubles(plain_count(&op.y), 1);
    float *x = act_pack(&op.y, plain), *y = act_pack(&op.y, NULL), *z = act_pack(&op.y, NULL);
    OK(ss_cpu_gather(cpu, &op, (const void *const[]){x}, 1, y));
    op.part[0].groups = 15;
    OK(ss_cpu_gather(cpu, &op, (const void *const[]){y}, 1, z));
    ck_assert_mem_eq(x, z, ss_act_elements(&op.y) * sizeof *x);
    free(plain), free(x), free(y), free(z);
}
END_TEST

START_TEST(gather_refused)
{
    float x[64] = {0};
    const void *const from[] = {x, x};
    struct ss_gather op = gather_make(4);
    op.part[0].from = 29;
    ck_assert_int_eq(ss_cpu_gather(cpu, &op, from, 1, x), SS_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "20 channels from 29 of 48"));
    op = gather_make(8);
    op.part[0].groups = 5;
    ck_assert_int_eq(ss_cpu_gather(cpu, &op, from, 1, x), SS_ERR_SHAPE);
    op = gather_make(0);
    ck_assert_int_eq(ss_cpu_gather(cpu, &op, from, 1, x), SS_ERR_INVALID);
    op.part[1].x.w = 6;
    ck_assert_int_eq(ss_cpu_gather(cpu, &op, from, 2, x), SS_ERR_SHAPE);
    op.nparts = 5;
    ck_assert_int_eq(ss_cpu_gather(cpu, &op, from, 5, x), SS_ERR_INVALID);
}
END_TEST

/* ---- products ---- */

struct product {
    const struct mul_case *c;
    struct ss_mul op;
    size_t count, factors;
    double *x, *s, *dy, *y, *dx, *ds;
};

static struct product product_make(int i, int block)
{
    const struct mul_case *c = &mul_cases[i];
    struct product p = {.c = c,
                        .op = {c->kind,
                               {c->n, c->c, c->h, c->w, test_block(block, c->c)},
                               {c->n, c->c, c->h, c->w, test_block(block, c->c)}}};
    if (c->kind == SS_MUL_IMAGE) { /* also in another layout than x */
        p.op.s.h = p.op.s.w = 1;
        p.op.s.block = test_block((block + i) % NBLOCKS, c->c);
    }
    p.count = plain_count(&p.op.x);
    p.factors = mul_factors(c);
    p.x = random_doubles(p.count, 1);
    p.s = random_doubles(p.factors, 2);
    p.dy = random_doubles(p.count, 3);
    p.y = zero_doubles(p.count);
    p.dx = zero_doubles(p.count);
    p.ds = zero_doubles(p.factors);
    mul_reference(c, p.x, p.s, p.dy, p.y, p.dx, p.ds);
    return p;
}

static void product_free(struct product *p)
{
    free(p->x), free(p->s), free(p->dy), free(p->y), free(p->dx), free(p->ds);
}

static float *pack_factors(const struct product *p)
{
    return p->c->kind == SS_MUL_PARAM ? to_floats(p->s, p->factors) : act_pack(&p->op.s, p->s);
}

/* Frees got. */
static void check_factors(const struct product *p, float *got)
{
    if (p->c->kind != SS_MUL_PARAM) {
        check_act("ds", &p->op.s, got, p->ds, 1e-5);
        return;
    }
    double *doubles = to_doubles(got, p->factors);
    check_error("ds", doubles, p->ds, p->factors, 1e-5);
    free(doubles);
}

/* Splits dy into n tensors. wants_x, wants_s: the gradients to compute. */
static void check_product(const struct product *p, int n, int wants_x, int wants_s)
{
    float *x = act_pack(&p->op.x, p->x), *s = pack_factors(p), *y = act_pack(&p->op.x, NULL);
    float *dx = act_pack(&p->op.x, NULL);
    float *ds = p->c->kind == SS_MUL_PARAM ? to_floats(p->s, p->factors) : act_pack(&p->op.s, NULL);
    float *dy[SS_NORM_MAX_DY];
    double *part = zero_doubles(p->count);
    for (int k = 0; k < n; k++) { /* disjoint elements: their sum is exactly dy */
        for (size_t i = 0; i < p->count; i++)
            part[i] = i % (size_t)n == (size_t)k ? p->dy[i] : 0;
        dy[k] = act_pack(&p->op.x, part);
    }
    OK(ss_cpu_mul_reserve(cpu, &p->op));
    OK(ss_cpu_mul_forward(cpu, &p->op, x, s, y));
    check_act("y", &p->op.x, y, p->y, 1e-6);
    OK(ss_cpu_mul_backward(cpu, &p->op, (const void *const *)dy, n, x, s, wants_x ? dx : NULL,
                           wants_s ? ds : NULL));
    if (wants_x)
        check_act("dx", &p->op.x, dx, p->dx, 1e-6);
    if (wants_s)
        check_factors(p, ds);
    for (int k = 0; k < n; k++)
        free(dy[k]);
    free(x), free(s), free(part), free(y);
    free(dx), free(ds);
}

START_TEST(products)
{
    for (int block = 0; block < NBLOCKS; block++) {
        struct product p = product_make(_i, block);
        for (int n = 1; n <= SS_NORM_MAX_DY; n++)
            check_product(&p, n, 1, 1);
        check_product(&p, 1, 0, 1);
        check_product(&p, 2, 1, 0);
        product_free(&p);
    }
}
END_TEST

static double product_loss(void *ctx)
{
    struct product *p = ctx;
    float *x = act_pack(&p->op.x, p->x), *s = pack_factors(p), *y = act_pack(&p->op.x, NULL);
    OK(ss_cpu_mul_forward(cpu, &p->op, x, s, y));
    double *out = act_unpack(&p->op.x, y);
    const double loss = dot(out, p->dy, p->count);
    free(x), free(s), free(y), free(out);
    return loss;
}

START_TEST(product_slopes)
{
    struct product p = product_make(_i, 0);
    OK(ss_cpu_mul_reserve(cpu, &p.op));
    check_slope("x", product_loss, &p, p.x, p.dx, p.count, 1e-2, 1e-3);
    check_slope("s", product_loss, &p, p.s, p.ds, p.factors, 1e-2, 1e-3);
    product_free(&p);
}
END_TEST

/* In place: gradients overwrite an input and dy. */
START_TEST(product_in_place)
{
    struct product p = product_make(0, 0);
    float *x = act_pack(&p.op.x, p.x), *s = pack_factors(&p), *dy = act_pack(&p.op.x, p.dy);
    OK(ss_cpu_mul_backward(cpu, &p.op, (const void *const[]){dy}, 1, x, s, dy, x));
    check_act("dx", &p.op.x, dy, p.dx, 1e-6);
    check_act("ds", &p.op.x, x, p.ds, 1e-6);
    free(x), free(s), free(dy);
    product_free(&p);
}
END_TEST

/* Bit-identical to one thread. */
START_TEST(products_on_any_threads)
{
    struct product p = product_make(_i, 1);
    const size_t bytes = p.factors * sizeof(float);
    float *x = act_pack(&p.op.x, p.x), *s = pack_factors(&p), *dy = act_pack(&p.op.x, p.dy);
    float *ds[2];
    for (int one = 0; one < 2; one++) {
        if (one)
            test_close(), test_open_one();
        ds[one] = p.c->kind == SS_MUL_PARAM ? to_floats(p.s, p.factors) : act_pack(&p.op.s, NULL);
        OK(ss_cpu_mul_reserve(cpu, &p.op));
        OK(ss_cpu_mul_backward(cpu, &p.op, (const void *const[]){dy}, 1, x, s, NULL, ds[one]));
    }
    ck_assert_mem_eq(ds[0], ds[1], bytes);
    free(x), free(s), free(dy), free(ds[0]), free(ds[1]);
    product_free(&p);
}
END_TEST

START_TEST(products_refused)
{
    float v[64] = {0};
    const void *const dy[] = {v};
    struct ss_mul op = {SS_MUL_IMAGE, {1, 4, 2, 2, 4}, {1, 4, 2, 2, 4}};
    ck_assert_int_eq(ss_cpu_mul_forward(cpu, &op, v, v, v), SS_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "a product of (1,4,2,2)"));
    op.s.h = op.s.w = 1;
    ck_assert_int_eq(ss_cpu_mul_forward(cpu, &op, v, v, v), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "call mul_reserve first"));
    OK(ss_cpu_mul_reserve(cpu, &op));
    ck_assert_int_eq(ss_cpu_mul_backward(cpu, &op, dy, 0, v, v, v, v), SS_ERR_INVALID);
    op.kind = SS_MUL_EQUAL;
    ck_assert_int_eq(ss_cpu_mul_forward(cpu, &op, v, v, v), SS_ERR_SHAPE);
}
END_TEST

Suite *join_suite(void)
{
    Suite *suite = suite_create("join");
    TCase *t = tcase_create("join");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_loop_test(t, gather, 0, GATHER_CASES);
    tcase_add_loop_test(t, gather_parts, 0, 6);
    tcase_add_loop_test(t, shuffled_concatenation, 0, 8);
    tcase_add_test(t, shuffle_back);
    tcase_add_test(t, gather_refused);
    tcase_add_loop_test(t, products, 0, MUL_CASES);
    tcase_add_loop_test(t, product_slopes, 0, MUL_CASES);
    tcase_add_test(t, product_in_place);
    tcase_add_loop_test(t, products_on_any_threads, 0, MUL_CASES);
    tcase_add_test(t, products_refused);
    suite_add_tcase(suite, t);
    return suite;
}
