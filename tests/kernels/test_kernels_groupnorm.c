/* test_kernels_groupnorm.c: group normalization on the CPU against double precision. */
#include "tests/kernels/groupnorm_reference.h"
#include "tests/kernels/test_kernels.h"

/* Results of one run of the kernels. */
struct outcome {
    float *y, *dx, *saved, *grads;
};

static struct outcome run(const struct groupnorm_reference *r, const struct ss_norm_act *op)
{
    const struct ss_act *a = &op->shape;
    const size_t channels = (size_t)r->c, stats = (size_t)(r->n * r->groups);
    float *x = act_pack(a, r->x), *dy = act_pack(a, r->dy);
    float *gamma = to_floats(r->gamma, channels), *beta = to_floats(r->beta, channels);
    struct outcome o = {act_pack(a, NULL), x, ss_aligned_alloc(2 * stats * sizeof(float)),
                        ss_aligned_alloc(2 * channels * sizeof(float))};
    OK(ss_cpu_groupnorm_reserve(cpu, op, r->groups));
    OK(ss_cpu_groupnorm_forward(cpu, op, r->groups, x, gamma, beta, o.saved, o.y));
    OK(ss_cpu_groupnorm_backward(cpu, op, r->groups, dy, x, gamma, beta, o.saved, o.grads,
                                 o.grads + channels));
    free(dy), free(gamma), free(beta);
    return o;
}

static void free_outcome(struct outcome *o)
{
    free(o->y), free(o->dx), free(o->saved), free(o->grads);
}

/* offset: added to x, for a mean that is large compared to the deviation. */
static void reference_make(struct groupnorm_reference *r, int i, enum ss_activation act,
                           double offset)
{
    const int c = groupnorm_cases[i].c;
    *r = (struct groupnorm_reference){.n = groupnorm_cases[i].n,
                                      .c = c,
                                      .pixels = groupnorm_cases[i].h * groupnorm_cases[i].w,
                                      .groups = groupnorm_cases[i].groups,
                                      .act = act,
                                      .eps = (double)1e-5f};
    const size_t count = (size_t)(r->n * c * r->pixels), channels = (size_t)c;
    double *x = random_doubles(count, 1), *gamma = random_doubles(channels, 3);
    for (size_t k = 0; k < count; k++)
        x[k] = (double)(float)(x[k] + offset);
    for (size_t k = 0; k < channels; k++)
        gamma[k] = (double)(float)(1 + 0.5 * gamma[k]);
    r->x = x;
    r->gamma = gamma;
    r->dy = random_doubles(count, 2);
    r->beta = random_doubles(channels, 4);
    r->y = zero_doubles(count);
    r->dx = zero_doubles(count);
    r->dgamma = zero_doubles(channels);
    r->dbeta = zero_doubles(channels);
    groupnorm_reference(r);
}

static void reference_free(struct groupnorm_reference *r)
{
    free((void *)r->x), free((void *)r->dy), free((void *)r->gamma), free((void *)r->beta);
    free(r->y), free(r->dx), free(r->dgamma), free(r->dbeta);
}

static struct ss_norm_act options(int i, enum ss_activation act, int block)
{
    return (struct ss_norm_act){.shape = {groupnorm_cases[i].n, groupnorm_cases[i].c,
                                          groupnorm_cases[i].h, groupnorm_cases[i].w, block},
                                .act = act,
                                .eps = 1e-5f};
}

START_TEST(against_double)
{
    for (int which = 0; which < 3 * NBLOCKS; which++) {
        const enum ss_activation act = groupnorm_acts[which % 3];
        const int block = test_block(which / 3, groupnorm_cases[_i].c);
        const struct ss_norm_act op = options(_i, act, block);
        struct groupnorm_reference r;
        reference_make(&r, _i, act, 0);
        const size_t channels = (size_t)r.c;
        struct outcome o = run(&r, &op);
        double *grads = to_doubles(o.grads, 2 * channels);
        check_error("dgamma", grads, r.dgamma, channels, 1e-5);
        check_error("dbeta", grads + channels, r.dbeta, channels, 1e-5);
        check_act("y", &op.shape, o.y, r.y, 1e-5);
        check_act("dx", &op.shape, o.dx, r.dx, 1e-5);
        free(grads);
        free_outcome(&o);
        reference_free(&r);
    }
}
END_TEST

/* A deviation of 0.6 around 1000: fp32 inputs are exact, sums of squares would not be. */
START_TEST(large_mean)
{
    const struct ss_norm_act op = options(5, 0, 8);
    struct groupnorm_reference r;
    reference_make(&r, 5, 0, 1000);
    struct outcome o = run(&r, &op);
    check_act("y", &op.shape, o.y, r.y, 1e-3);
    free_outcome(&o);
    reference_free(&r);
}
END_TEST

START_TEST(same_bits_on_any_threads)
{
    const struct ss_norm_act op = options(_i, 1, 8);
    struct groupnorm_reference r;
    reference_make(&r, _i, 1, 0);
    struct outcome two = run(&r, &op);
    test_close();
    test_open_one();
    struct outcome one = run(&r, &op);
    const size_t bytes = ss_act_elements(&op.shape) * sizeof(float);
    ck_assert_mem_eq(one.y, two.y, bytes);
    ck_assert_mem_eq(one.dx, two.dx, bytes);
    ck_assert_mem_eq(one.grads, two.grads, 2 * (size_t)r.c * sizeof(float));
    free_outcome(&one);
    free_outcome(&two);
    reference_free(&r);
}
END_TEST

START_TEST(refused)
{
    const struct ss_norm_act op = options(0, 0, 16);
    float x[16 * 15] = {0}, v[16] = {0}, saved[16];
    ck_assert_int_eq(ss_cpu_groupnorm_forward(cpu, &op, 4, x, v, v, saved, x), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "call groupnorm_reserve first"));
    OK(ss_cpu_groupnorm_reserve(cpu, &op, 4));
    ck_assert_int_eq(ss_cpu_groupnorm_forward(cpu, &op, 0, x, v, v, saved, x), SS_ERR_SHAPE);
    ck_assert_int_eq(ss_cpu_groupnorm_forward(cpu, &op, 3, x, v, v, saved, x), SS_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "16 channels are not 3 equal groups"));
}
END_TEST

Suite *groupnorm_suite(void)
{
    Suite *suite = suite_create("groupnorm");
    TCase *t = tcase_create("groupnorm");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_loop_test(t, against_double, 0, GROUPNORM_CASES);
    tcase_add_test(t, large_mean);
    tcase_add_loop_test(t, same_bits_on_any_threads, 0, GROUPNORM_CASES);
    tcase_add_test(t, refused);
    suite_add_tcase(suite, t);
    return suite;
}
