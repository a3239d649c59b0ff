/* test_kernels_norm_bits.c: properties of the normalization beyond its formula: bit-identical for
 * any number of threads, statistics accurate with a large mean, dropout rate, NaN propagation. */
#include "kernels/dropout.h"
#include "tests/kernels/norm_parts.h"
#include "tests/kernels/test_kernels.h"

/* 64 random bits, as an executor generates them. */
static const uint64_t key = 9, keys[] = {0x5692161d100b05e5, 0xdbd238973a2b148a};

static const struct ss_norm_act whole = {.shape = {5, 40, 19, 23, 16},
                                         .has_bn = 1,
                                         .act = 1,
                                         .residual = 1,
                                         .relu_out = 1,
                                         .dropout = 0.1f,
                                         .eps = 1e-5f,
                                         .momentum = 0.1f};

/* Returns all outputs of a training step, concatenated. Free with free(). */
static float *step(int threads, int block, size_t *bytes)
{
    struct ss_norm_act op = whole;
    op.shape.block = block;
    struct ss_device *own;
    OK(ss_cpu_open(&(struct ss_device_options){.threads = threads}, &own));
    OK(ss_cpu_norm_act_reserve(own, &op));
    const size_t plain = plain_count(&op.shape), n = ss_act_elements(&op.shape);
    const size_t c = (size_t)op.shape.c;
    double *values = random_doubles(plain, 1);
    float *dy = act_pack(&op.shape, values), *dy2 = act_pack(&op.shape, values),
          *r = act_pack(&op.shape, values);
    float *z = act_pack(&op.shape, values);
    *bytes = (3 * n + 7 * c) * sizeof(float);
    float *out = ss_aligned_alloc(*bytes), *y = out, *ds = out + n, *small = out + 3 * n;
    float *gamma = small + 5 * c, *beta = small + 6 * c;
    for (size_t i = 0; i < c; i++)
        gamma[i] = 1, beta[i] = 0.125f;
    OK(ss_cpu_norm_act_stats(own, &op, z, small, small + 2 * c));
    OK(ss_cpu_norm_act_forward(own, &op, z, gamma, beta, small, r, y, NULL, 1, &key));
    const struct ss_norm_act_grad g = {.dy = {dy, dy2},
                                       .ndy = 2,
                                       .ds = ds,
                                       .y = y,
                                       .z = z,
                                       .dz = z,
                                       .gamma = gamma,
                                       .beta = beta,
                                       .saved = small,
                                       .dgamma = small + 4 * c,
                                       .dbeta = small + 3 * c,
                                       .dropout_key = &key};
    OK(ss_cpu_norm_act_backward(own, &op, &g));
    memcpy(out + 2 * n, z, n * sizeof(float));
    free(values), free(dy), free(dy2), free(r), free(z);
    ss_cpu_close(own);
    return out;
}

START_TEST(threads_do_not_change_bits)
{
    for (int block = 0; block < NBLOCKS; block++) {
        size_t bytes;
        float *one = step(1, test_block(block, whole.shape.c), &bytes);
        for (int threads = 1; threads <= 3; threads++) {
            float *other = step(threads, test_block(block, whole.shape.c), &bytes);
            ck_assert_mem_eq(one, other, bytes);
            free(other);
        }
        free(one);
    }
}
END_TEST

START_TEST(large_mean)
{
    const struct ss_norm_act op = {.shape = {4, 20, 32, 32, 16}, .has_bn = 1, .eps = 1e-5f};
    const size_t count = plain_count(&op.shape), m = count / 20;
    double *values = random_doubles(count, 1), mean[20] = {0}, var[20] = {0};
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)(float)(values[i] + 1000);
        mean[i / 1024 % 20] += values[i] / (double)m;
    }
    for (size_t i = 0; i < count; i++)
        var[i / 1024 % 20] += pow(values[i] - mean[i / 1024 % 20], 2) / (double)m;
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    float *z = act_pack(&op.shape, values), saved[40];
    OK(ss_cpu_norm_act_stats(cpu, &op, z, saved, NULL));
    for (int c = 0; c < 20; c++) {
        ck_assert_double_eq_tol((double)saved[c], mean[c], 1e-4);
        ck_assert_double_eq_tol((double)saved[20 + c] * sqrt(var[c] + 1e-5), 1, 1e-5);
    }
    free(z), free(values);
}
END_TEST

START_TEST(evaluation)
{
    const struct ss_norm_act op = {
        .shape = {2, 20, 4, 4, 16}, .has_bn = 1, .act = 1, .dropout = 0.5f, .eps = 1e-3f};
    const size_t count = plain_count(&op.shape);
    double *values = random_doubles(count, 1), *want = zero_doubles(count);
    float running[40], saved[40], gamma[20], beta[20];
    for (int c = 0; c < 20; c++) {
        running[c] = 0.1f * (float)c;
        running[20 + c] = 1 + 0.1f * (float)c;
        gamma[c] = 2;
        beta[c] = 0.5f;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t c = i / 16 % 20;
        want[i] = 2 * (values[i] - (double)running[c]) / sqrt((double)running[20 + c] + 1e-3) + 0.5;
        want[i] = want[i] > 0 ? want[i] : 0;
    }
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    OK(ss_cpu_norm_act_stats_eval(cpu, &op, running, saved));
    float *z = act_pack(&op.shape, values);
    OK(ss_cpu_norm_act_forward(cpu, &op, z, gamma, beta, saved, NULL, z, NULL, 0, NULL));
    check_act("y", &op.shape, z, want, 1e-6);
    free(z), free(values), free(want);
}
END_TEST

START_TEST(dropout_rate)
{
    const uint32_t n = 1 << 20;
    const float rates[] = {0.01f, 0.1f, 0.5f, 0.9f};
    for (int k = 0; k < 4; k++) {
        uint32_t kept = 0, again = 0, both = 0, pairs = 0;
        for (uint32_t i = 0; i < n; i++) {
            const int keep = ss_dropout_keep(keys[0], i, rates[k]);
            kept += (uint32_t)keep;
            again += (uint32_t)(keep == ss_dropout_keep(keys[0], i, rates[k]));
            both += (uint32_t)(keep && ss_dropout_keep(keys[1], i, rates[k]));
            pairs += (uint32_t)(keep && ss_dropout_keep(keys[0], i ^ 1, rates[k]));
        }
        const double p = 1 - (double)rates[k], q = p * p;
        /* 5 standard deviations of a binomial distribution */
        ck_assert_double_eq_tol((double)kept / n, p, 5 * sqrt(p * (1 - p) / n));
        ck_assert_double_eq_tol((double)both / n, q, 5 * sqrt(q * (1 - q) / n));
        ck_assert_double_eq_tol((double)pairs / n, q, 5 * sqrt(2 * q * (1 - q) / n));
        ck_assert_uint_eq(again, n);
    }
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_int_eq(ss_dropout_keep(i, i, 0), 1);
}
END_TEST

START_TEST(nan_stays_visible)
{
    const struct ss_norm_act op = {.shape = {1, 16, 2, 2, 16}, .act = 1, .relu_out = 1};
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    float *z = act_pack(&op.shape, NULL);
    z[0] = -1;
    OK(ss_cpu_norm_act_forward(cpu, &op, z, NULL, NULL, NULL, NULL, z, NULL, 1, &key));
    ck_assert_float_eq(z[0], 0);
    ck_assert_float_nan(z[1]);
    free(z);
}
END_TEST

START_TEST(bad_arguments)
{
    ss_log_set_quiet(1);
    struct ss_norm_act op = {.shape = {2, 16, 4, 4, 16}, .has_bn = 1, .eps = 1e-5f};
    float *z = ss_aligned_alloc(2 * 16 * 16 * sizeof(float)), v[32] = {0};
    struct ss_norm_act_grad g = {.dy = {z},
                                 .ndy = 1,
                                 .ds = z,
                                 .z = z,
                                 .dz = z,
                                 .gamma = v,
                                 .beta = v,
                                 .saved = v,
                                 .dgamma = v,
                                 .dbeta = v};
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL), SS_ERR_INVALID); /* no scratch */
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    OK(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL));
    OK(ss_cpu_norm_act_backward(cpu, &op, &g));

    ck_assert_int_eq(ss_cpu_norm_act_forward(cpu, &op, z, v, v, v, z, z, NULL, 1, &key),
                     SS_ERR_INVALID);
    ck_assert_int_eq(ss_cpu_norm_act_forward(cpu, &op, z, NULL, v, v, NULL, z, NULL, 1, &key),
                     SS_ERR_INVALID);
    g.ndy = 5;
    ck_assert_int_eq(ss_cpu_norm_act_backward(cpu, &op, &g), SS_ERR_INVALID);
    g.ndy = 1;
    g.ds = v;
    ck_assert_int_eq(ss_cpu_norm_act_backward(cpu, &op, &g), SS_ERR_INVALID);
    g.ds = z;
    op.relu_out = 1;
    ck_assert_int_eq(ss_cpu_norm_act_backward(cpu, &op, &g), SS_ERR_INVALID); /* y */
    op.relu_out = 0;
    op.dropout = 1;
    ck_assert_int_eq(ss_cpu_norm_act_backward(cpu, &op, &g), SS_ERR_INVALID);
    op.dropout = NAN;
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL), SS_ERR_INVALID);
    op.dropout = 0;
    op.act = SS_ACT_COUNT;
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL), SS_ERR_INVALID);
    op.act = 0;
    op.eps = -1e-5f;
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL), SS_ERR_INVALID);
    op.eps = NAN;
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL), SS_ERR_INVALID);
    op.eps = 0;
    OK(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL));
    op.pool = 1;
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL), SS_ERR_INVALID);
    op.pool = 0;
    /* Arguments that BatchNorm's gradient requires; the sums do not need dgamma and dbeta. */
    double sums[64] = {0};
    for (int i = 0; i < 5; i++) {
        struct ss_norm_act_grad lacks = g;
        const float **const read[] = {&lacks.gamma, &lacks.beta, &lacks.saved};
        float **const written[] = {&lacks.dgamma, &lacks.dbeta};
        if (i < 3)
            *read[i] = NULL;
        else
            *written[i - 3] = NULL;
        ck_assert_int_eq(ss_cpu_norm_act_backward(cpu, &op, &lacks), SS_ERR_INVALID);
        ck_assert_int_eq(ss_cpu_norm_act_backward_sums(cpu, &op, &lacks, sums),
                         i < 3 ? SS_ERR_INVALID : SS_OK);
        ck_assert_int_eq(ss_cpu_norm_act_backward_apply(cpu, &op, &lacks, sums), SS_ERR_INVALID);
    }
    OK(ss_cpu_norm_act_backward_apply(cpu, &op, &g, sums));
    ck_assert_int_eq(ss_cpu_norm_act_backward_apply(cpu, &op, &g, NULL), SS_ERR_INVALID);
    ck_assert_int_eq(ss_cpu_norm_act_backward_sums(cpu, &op, &g, NULL), SS_ERR_INVALID);
    g.ndy = 5;
    ck_assert_int_eq(ss_cpu_norm_act_backward_sums(cpu, &op, &g, sums), SS_ERR_INVALID);
    g.ndy = 1;
    g.ds = NULL;
    ck_assert_int_eq(ss_cpu_norm_act_backward_apply(cpu, &op, &g, sums), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "its second half needs ds"));
    g.ds = z;
    op.has_bn = 0;
    ck_assert_int_eq(ss_cpu_norm_act_backward_sums(cpu, &op, &g, sums), SS_ERR_INVALID);
    ck_assert_int_eq(ss_cpu_norm_act_backward_apply(cpu, &op, &g, sums), SS_ERR_INVALID);
    op.has_bn = 1;
    op.shape.block = 4;
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL), SS_ERR_SHAPE);
    op.shape = (struct ss_act){1, 16, 1, 1, 16};
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, v, NULL), SS_ERR_SHAPE);
    free(z);
}
END_TEST

static void *put(struct ss_device *d, const float *values, size_t count)
{
    float *data = ss_aligned_alloc(count * sizeof *data);
    (void)d;
    memcpy(data, values, count * sizeof *data);
    return data;
}

static void get(struct ss_device *d, const void *data, float *values, size_t count)
{
    (void)d;
    memcpy(values, data, count * sizeof *values);
}

START_TEST(halves_are_the_whole)
{
    const struct halves h = {&ss_cpu_kernels, cpu, 1e-6, put, get, free};
    const struct ss_norm_act op = {.shape = {4, 32, 9, 11, test_block(_i, 32)},
                                   .has_bn = 1,
                                   .act = SS_ACT_GELU,
                                   .residual = 1,
                                   .relu_out = 1,
                                   .eps = 1e-5f,
                                   .momentum = 0.1f};
    halves_check(&h, &op);
}
END_TEST

/* Views of whole blocks in the middle, and of a partial block at the end; also maps so small that
 * 16 images of a block are processed together. */
START_TEST(parts)
{
    const struct halves h = {&ss_cpu_kernels, cpu, 0, put, get, free};
    static const int blocks[] = {16, 8, 1}, maps[][3] = {{3, 5, 7}, {19, 2, 2}};
    const int block = blocks[_i % 3], end = _i / 3 % 2, *map = maps[_i / 6];
    for (int bits = 0; bits < 16; bits++) {
        const struct ss_norm_act op = {.shape = {map[0], end ? 20 : 32, map[1], map[2], block},
                                       .has_bn = bits & 1,
                                       .act = bits & 2 ? SS_ACT_GELU : SS_ACT_RELU,
                                       .residual = bits >> 2 & 1,
                                       .relu_out = bits >> 2 & 1,
                                       .dropout = bits & 8 ? 0.25f : 0,
                                       .eps = 1e-5f,
                                       .momentum = 0.1f};
        parts_check_ways(&h, sizeof(float), 0, &op, 48, end ? 68 : 112);
    }
}
END_TEST

START_TEST(parts_refused)
{
    float z[256] = {0}, saved[32] = {0};
    struct ss_norm_act op = {
        .shape = {1, 16, 2, 2, 16}, .act = SS_ACT_RELU, .z_pitch = 15, .has_bn = 1, .eps = 1};
    struct ss_norm_act_grad g = {.dy = {z}, .ndy = 1, .ds = z, .z = z, .dz = z, .adds = 1};
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, saved, NULL), SS_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "as a view of 15"));
    op.z_pitch = 0;
    op.y_pitch = 32;
    op.residual = 1;
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, saved, NULL), SS_ERR_INVALID);
    op.residual = op.y_pitch = op.has_bn = 0;
    ck_assert_int_eq(ss_cpu_norm_act_backward(cpu, &op, &g), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "added to z itself"));
    op.shape = (struct ss_act){1, 12, 2, 2, 12};
    op.y_pitch = 24;
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, z, saved, NULL), SS_ERR_SHAPE);
}
END_TEST

Suite *norm_act_bits_suite(void)
{
    Suite *suite = suite_create("normalisation, properties");
    TCase *t = tcase_create("properties");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_test(t, threads_do_not_change_bits);
    tcase_add_loop_test(t, halves_are_the_whole, 0, NBLOCKS);
    tcase_add_loop_test(t, parts, 0, 12);
    tcase_add_test(t, parts_refused);
    tcase_add_test(t, large_mean);
    tcase_add_test(t, evaluation);
    tcase_add_test(t, dropout_rate);
    tcase_add_test(t, nan_stays_visible);
    tcase_add_test(t, bad_arguments);
    suite_add_tcase(suite, t);
    return suite;
}
