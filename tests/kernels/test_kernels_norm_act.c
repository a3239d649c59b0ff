/* test_kernels_norm_act.c: fused normalization with all options against double precision. */
#include "kernels/dropout.h"
#include "tests/kernels/activation_reference.h"
#include "tests/kernels/test_kernels.h"

static const uint64_t key = 12345;

/* The layer as defined in cpu/norm_act.h, on plain tensors. */
struct layer {
    struct ss_norm_act op;
    size_t count;
    double *z, *r, *gamma, *beta, *cotangent; /* in */
    double *y, *u, *s, *mean, *var;           /* out */
    double *dz, *dr, *dgamma, *dbeta;         /* gradients of <y, cotangent> */
};

static size_t channel_of(const struct layer *l, size_t i)
{
    return i / (size_t)(l->op.shape.h * l->op.shape.w) % (size_t)l->op.shape.c;
}

static double keep_factor(const struct layer *l, size_t i)
{
    if (l->op.dropout == 0)
        return 1;
    const size_t sample = l->count / (size_t)l->op.shape.n;
    /* Indexed as in NHWC for every block */
    struct ss_act nhwc = l->op.shape;
    nhwc.block = nhwc.c;
    const uint32_t at = l->op.drop == SS_DROP_ELEMENT  ? (uint32_t)storage_index(&nhwc, i)
                        : l->op.drop == SS_DROP_SAMPLE ? (uint32_t)(i / sample)
                                                       : 0;
    return ss_dropout_keep(key, at, l->op.dropout) ? 1 / (1 - (double)l->op.dropout) : 0;
}

static void forward(struct layer *l)
{
    const size_t channels = (size_t)l->op.shape.c;
    const double m = (double)l->count / (double)channels, eps = (double)l->op.eps;
    memset(l->mean, 0, channels * sizeof(double));
    memset(l->var, 0, channels * sizeof(double));
    for (size_t i = 0; i < l->count; i++)
        l->mean[channel_of(l, i)] += l->z[i] / m;
    for (size_t i = 0; i < l->count; i++)
        l->var[channel_of(l, i)] += pow(l->z[i] - l->mean[channel_of(l, i)], 2) / m;
    for (size_t i = 0; i < l->count; i++) {
        const size_t c = channel_of(l, i);
        double u = l->z[i];
        if (l->op.has_bn)
            u = l->gamma[c] * (u - l->mean[c]) / sqrt(l->var[c] + eps) + l->beta[c];
        l->u[i] = u;
        l->s[i] = act_value(l->op.act, u) * keep_factor(l, i) + (l->op.residual ? l->r[i] : 0);
        l->y[i] = l->op.relu_out && l->s[i] < 0 ? 0 : l->s[i];
    }
}

static void backward(struct layer *l)
{
    const size_t channels = (size_t)l->op.shape.c;
    const double m = (double)l->count / (double)channels, eps = (double)l->op.eps;
    memset(l->dgamma, 0, channels * sizeof(double));
    memset(l->dbeta, 0, channels * sizeof(double));
    for (size_t i = 0; i < l->count; i++) {
        const size_t c = channel_of(l, i);
        l->dr[i] = l->op.relu_out && l->s[i] <= 0 ? 0 : l->cotangent[i];
        const double g = l->dr[i] * keep_factor(l, i) * act_slope(l->op.act, l->u[i]);
        l->dz[i] = g;
        l->dbeta[c] += g;
        l->dgamma[c] += g * (l->z[i] - l->mean[c]) / sqrt(l->var[c] + eps);
    }
    for (size_t i = 0; l->op.has_bn && i < l->count; i++) {
        const size_t c = channel_of(l, i);
        const double invstd = 1 / sqrt(l->var[c] + eps), zhat = (l->z[i] - l->mean[c]) * invstd;
        l->dz[i] = l->gamma[c] * invstd * (l->dz[i] - l->dbeta[c] / m - zhat * l->dgamma[c] / m);
    }
}

static double loss(void *ctx)
{
    struct layer *l = ctx;
    forward(l);
    return dot(l->y, l->cotangent, l->count);
}

/* Moves inputs away from kinks, where fp32 and double may be on different sides. */
static void leave_kinks(struct layer *l)
{
    for (int again = 1, turn = 0; again && turn < 50; turn++) {
        again = 0;
        forward(l);
        for (size_t i = 0; i < l->count; i++) {
            if (act_from_kink(l->op.act, l->u[i]) < 2e-5)
                again = 1, l->z[i] = (double)(float)(l->z[i] + 0.07);
            else if (l->op.relu_out && l->s[i] != 0 && fabs(l->s[i]) < 2e-5)
                again = 1, *(l->op.residual ? &l->r[i] : &l->z[i]) += 0.0625;
        }
    }
    forward(l);
    backward(l);
}

static void layer_make(struct layer *l, const struct ss_norm_act *op)
{
    l->op = *op;
    l->count = plain_count(&op->shape);
    const size_t channels = (size_t)op->shape.c;
    double **const tensors[] = {&l->y, &l->u, &l->s, &l->dz, &l->dr};
    double **const vectors[] = {&l->mean, &l->var, &l->dgamma, &l->dbeta};
    for (int i = 0; i < 5; i++)
        *tensors[i] = zero_doubles(l->count);
    for (int i = 0; i < 4; i++)
        *vectors[i] = zero_doubles(channels);
    l->z = random_doubles(l->count, 1);
    l->r = random_doubles(l->count, 2);
    l->cotangent = random_doubles(l->count, 3);
    l->gamma = random_doubles(channels, 4);
    l->beta = random_doubles(channels, 5);
    for (size_t c = 0; c < channels; c++)
        l->gamma[c] = (double)(float)(1 + 0.5 * l->gamma[c]);
    leave_kinks(l);
}

static void layer_free(struct layer *l)
{
    double *const all[] = {l->z, l->r,    l->gamma, l->beta, l->cotangent, l->y,      l->u,
                           l->s, l->mean, l->var,   l->dz,   l->dr,        l->dgamma, l->dbeta};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* Runs forward and backward of the kernels; the cotangent is the sum of ndy tensors. */
static void run(const struct layer *l, int ndy)
{
    const struct ss_norm_act *op = &l->op;
    const struct ss_act *a = &op->shape;
    const size_t channels = (size_t)a->c;
    OK(ss_cpu_norm_act_reserve(cpu, op));
    float *z = act_pack(a, l->z), *r = act_pack(a, l->r), *y = act_pack(a, NULL),
          *ds = act_pack(a, NULL);
    float *gamma = to_floats(l->gamma, channels), *beta = to_floats(l->beta, channels);
    float *saved = ss_aligned_alloc(2 * channels * sizeof(float)),
          *running = ss_aligned_alloc(2 * channels * sizeof(float)),
          *grads = ss_aligned_alloc(2 * channels * sizeof(float));
    for (size_t c = 0; c < channels; c++)
        running[c] = 2, running[channels + c] = 3;
    if (op->has_bn) {
        OK(ss_cpu_norm_act_stats(cpu, op, z, saved, running));
        const double m = (double)(l->count / channels), k = (double)op->momentum;
        for (size_t c = 0; c < channels; c++) {
            ck_assert_double_eq_tol((double)saved[c], l->mean[c], 1e-6);
            const double invstd = 1 / sqrt(l->var[c] + (double)op->eps);
            ck_assert_double_eq_tol((double)saved[channels + c], invstd,
                                    fmin(1e-5, 1e-6 * invstd) + 1e-7 * invstd);
            ck_assert_double_eq_tol((double)running[c], (1 - k) * 2 + k * l->mean[c], 1e-6);
            ck_assert_double_eq_tol((double)running[channels + c],
                                    (1 - k) * 3 + k * l->var[c] * m / (m - 1), 1e-6);
        }
    }
    const float *residual = op->residual ? r : NULL;
    OK(ss_cpu_norm_act_forward(cpu, op, z, gamma, beta, saved, residual, y, NULL, 1, &key));
    check_act("y", a, y, l->y, 1e-5);
    float *in_place = act_pack(a, op->residual ? l->r : l->z);
    OK(ss_cpu_norm_act_forward(cpu, op, op->residual ? z : in_place, gamma, beta, saved,
                               op->residual ? in_place : NULL, in_place, NULL, 1, &key));
    ck_assert_mem_eq(in_place, y, ss_act_elements(a) * sizeof(float));

    double *part = zero_doubles(l->count);
    float *dy[SS_NORM_MAX_DY] = {NULL};
    for (int k = 0; k < ndy; k++) {
        for (size_t i = 0; i < l->count; i++)
            part[i] = l->cotangent[i] / ndy;
        dy[k] = act_pack(a, part);
    }
    const int writes_ds = ndy > 1 || op->relu_out;
    struct ss_norm_act_grad g = {.ndy = ndy,
                                 .ds = writes_ds && ndy % 2 ? ds : dy[0],
                                 .y = op->relu_out ? y : NULL,
                                 .z = z,
                                 .dz = z,
                                 .gamma = gamma,
                                 .beta = beta,
                                 .saved = saved,
                                 .dgamma = op->has_bn ? grads : NULL,
                                 .dbeta = op->has_bn ? grads + channels : NULL,
                                 .dropout_key = &key};
    for (int k = 0; k < ndy; k++)
        g.dy[k] = dy[k];
    OK(ss_cpu_norm_act_backward(cpu, op, &g));
    check_act("dz", a, z, l->dz, 1e-5);
    check_act("ds", a, g.ds, l->dr, 1e-5);
    if (op->has_bn) {
        double *got = to_doubles(grads, 2 * channels);
        check_error("dgamma", got, l->dgamma, channels, 1e-5);
        check_error("dbeta", got + channels, l->dbeta, channels, 1e-5);
        free(got);
    }
    for (int k = 0; k < ndy; k++)
        free(dy[k]);
    free(z), free(r), free(y), free(ds), free(in_place), free(part);
    free(gamma), free(beta), free(saved), free(running), free(grads);
}

static struct ss_norm_act options(int bits, int c, int block)
{
    const struct ss_norm_act op = {.shape = {2, c, 5, 3, block},
                                   .has_bn = bits & 1,
                                   .act = bits >> 1 & 1,
                                   .slope = (float)ACT_LEAK,
                                   .residual = bits >> 2 & 1,
                                   .relu_out = bits >> 3 & 1,
                                   .dropout = bits >> 4 & 1 ? 0.25f : 0,
                                   .eps = 1e-5f,
                                   .momentum = 0.1f};
    return op;
}

static const int channels_tested[] = {8, 20, 40, 56, 16};

/* _i selects the channels and the activation. */
START_TEST(every_option)
{
    const int c = channels_tested[_i % 5];
    const enum ss_activation act = SS_ACT_RELU + (enum ss_activation)(_i / 5);
    for (int bits = 0; bits < 32; bits++)
        for (int block = 0; block < NBLOCKS; block++) {
            struct ss_norm_act op = options(bits, c, test_block(block, c));
            if (op.act)
                op.act = act;
            else if (act != SS_ACT_RELU)
                continue;
            struct layer l;
            layer_make(&l, &op);
            run(&l, 1 + (bits + block) % SS_NORM_MAX_DY);
            layer_free(&l);
        }
}
END_TEST

/* Slices longer than a chunk that is summed in fp32, and a shape with a tail. */
START_TEST(long_slices)
{
    struct ss_norm_act op = options(_i ? 3 : 31, 8, 8);
    if (_i)
        op.act = (enum ss_activation)_i;
    op.shape = (struct ss_act){1, 8, 53, 47, 8};
    struct layer l;
    layer_make(&l, &op);
    run(&l, 1 + _i % SS_NORM_MAX_DY);
    layer_free(&l);
}
END_TEST

/* The variance is 0 or small compared to eps. */
START_TEST(small_variance)
{
    struct ss_norm_act op = options(1, 8, 8);
    const size_t channels = (size_t)op.shape.c;
    struct layer l;
    layer_make(&l, &op);
    for (size_t i = 0; i < l.count; i++)
        l.z[i] = _i ? (double)(float)(1e-3 * l.z[i]) : 0;
    forward(&l);
    backward(&l);
    run(&l, 1);
    layer_free(&l);

    float running[2 * 8], saved[2 * 8];
    double sums[2 * 8];
    const double m = ss_norm_values(&op), eps = (double)op.eps;
    for (size_t c = 0; c < channels; c++) {
        running[c] = 1;
        running[channels + c] = _i ? 1e-6f : 0;
        sums[c] = m;
        sums[channels + c] =
            m * (_i ? 1 + 1e-6 : 1 - eps); /* rounding errors exceed the variance */
    }
    OK(ss_cpu_norm_act_stats_eval(cpu, &op, running, saved));
    const double want = 1 / sqrt(eps + (_i ? 1e-6 : 0));
    for (size_t c = 0; c < channels; c++)
        ck_assert_double_eq_tol((double)saved[channels + c], want, 1e-6 * want);
    OK(ss_cpu_norm_act_stats_of_sums(cpu, &op, sums, saved, NULL));
    for (size_t c = 0; c < channels; c++)
        ck_assert_double_eq_tol((double)saved[channels + c], want, 1e-6 * want);
}
END_TEST

START_TEST(finite_differences)
{
    struct ss_norm_act op = options(_i % 32, 8, 8);
    if (op.act)
        op.act += (enum ss_activation)(_i / 32);
    struct layer l;
    layer_make(&l, &op);
    const size_t channels = (size_t)op.shape.c;
    const double h = 1e-6, bound = 1e-6;
    check_slope("z", loss, &l, l.z, l.dz, l.count, h, bound);
    if (op.residual)
        check_slope("r", loss, &l, l.r, l.dr, l.count, h, bound);
    if (op.has_bn) {
        check_slope("gamma", loss, &l, l.gamma, l.dgamma, channels, h, bound);
        check_slope("beta", loss, &l, l.beta, l.dbeta, channels, h, bound);
    }
    layer_free(&l);
}
END_TEST

/* The kernels' gradients against finite differences of the kernels' outputs. */
static double kernel_loss(void *ctx)
{
    struct layer *l = ctx;
    const struct ss_act *a = &l->op.shape;
    float *z = act_pack(a, l->z), *y = act_pack(a, NULL),
          *gamma = to_floats(l->gamma, (size_t)a->c), *beta = to_floats(l->beta, (size_t)a->c),
          saved[2 * 20];
    OK(ss_cpu_norm_act_stats(cpu, &l->op, z, saved, NULL));
    OK(ss_cpu_norm_act_forward(cpu, &l->op, z, gamma, beta, saved, NULL, y, NULL, 1, &key));
    double *out = act_unpack(a, y), value = dot(out, l->cotangent, l->count);
    free(z), free(y), free(gamma), free(beta), free(out);
    return value;
}

/* Statistics computed from mean and variance, as a convolution stores them in saved, equal those
 * computed from z. */
START_TEST(stats_of_sums)
{
    struct ss_norm_act op = options(1 | 2, 20, 16);
    op.momentum = 0.25f;
    struct layer l;
    layer_make(&l, &op);
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    float *z = act_pack(&op.shape, l.z);
    float saved[2][2 * 20], running[2][2 * 20];
    for (int i = 0; i < 40; i++)
        running[0][i] = running[1][i] = (float)i;
    OK(ss_cpu_norm_act_stats(cpu, &op, z, saved[0], running[0]));
    for (int c = 0; c < 20; c++) {
        const double invstd = (double)saved[0][20 + c];
        saved[1][c] = saved[0][c];
        saved[1][20 + c] = (float)(1 / (invstd * invstd) - (double)op.eps);
    }
    OK(ss_cpu_norm_act_stats(cpu, &op, NULL, saved[1], running[1]));
    for (int i = 0; i < 40; i++) {
        ck_assert_float_eq_tol(saved[1][i], saved[0][i], 1e-6f * fabsf(saved[0][i]));
        ck_assert_float_eq_tol(running[1][i], running[0][i], 1e-6f * fabsf(running[0][i]) + 1e-7f);
    }
    op.shape.n = op.shape.h = op.shape.w = 1;
    ss_log_set_quiet(1);
    ck_assert_int_eq(ss_cpu_norm_act_stats(cpu, &op, NULL, saved[1], NULL), SS_ERR_SHAPE);
    ss_log_set_quiet(0);
    free(z);
    layer_free(&l);
}
END_TEST

START_TEST(finite_differences_kernel)
{
    const struct ss_norm_act op = options(1 | 2 | 16, 20, 16); /* BatchNorm, ReLU, dropout */
    struct layer l;
    layer_make(&l, &op);
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    float *z = act_pack(&op.shape, l.z), *dy = act_pack(&op.shape, l.cotangent), saved[2 * 20],
          grads[2 * 20];
    float *gamma = to_floats(l.gamma, 20), *beta = to_floats(l.beta, 20);
    OK(ss_cpu_norm_act_stats(cpu, &op, z, saved, NULL));
    const struct ss_norm_act_grad g = {.dy = {dy},
                                       .ndy = 1,
                                       .ds = dy,
                                       .z = z,
                                       .dz = z,
                                       .gamma = gamma,
                                       .beta = beta,
                                       .saved = saved,
                                       .dgamma = grads,
                                       .dbeta = grads + 20,
                                       .dropout_key = &key};
    OK(ss_cpu_norm_act_backward(cpu, &op, &g));
    double *dz = act_unpack(&op.shape, z), *vectors = to_doubles(grads, 40);
    check_slope("z", kernel_loss, &l, l.z, dz, l.count, 5e-4, 1e-2);
    check_slope("gamma", kernel_loss, &l, l.gamma, vectors, 20, 5e-4, 1e-2);
    check_slope("beta", kernel_loss, &l, l.beta, vectors + 20, 20, 5e-4, 1e-2);
    free(z), free(dy), free(gamma), free(beta), free(dz), free(vectors);
    layer_free(&l);
}
END_TEST

/* Every activation from -12 to 12 and at extreme values. PyTorch's fp32 has similar errors. */
START_TEST(activation_alone)
{
    const struct ss_norm_act op = {
        .shape = {1, 16, 96, 64, 16}, .act = (enum ss_activation)_i, .slope = (float)ACT_LEAK};
    const size_t count = ss_act_elements(&op.shape);
    float *z = ss_aligned_alloc(count * sizeof *z), *y = ss_aligned_alloc(count * sizeof *y),
          *dy = ss_aligned_alloc(count * sizeof *dy), *dz = ss_aligned_alloc(count * sizeof *dz);
    for (size_t i = 0; i < count; i++) {
        z[i] = dz[i] = 24 * (float)i / (float)count - 12;
        dy[i] = 1;
    }
    z[0] = dz[0] = -1e9f;
    z[1] = dz[1] = 1e9f;
    z[2] = dz[2] = NAN;
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    OK(ss_cpu_norm_act_forward(cpu, &op, z, NULL, NULL, NULL, NULL, y, NULL, 1, &key));
    const struct ss_norm_act_grad g = {.dy = {dy}, .ndy = 1, .ds = dy, .z = dz, .dz = dz};
    OK(ss_cpu_norm_act_backward(cpu, &op, &g));
    ck_assert(isnan(y[2]) && (isnan(dz[2]) || isfinite(act_from_kink(op.act, 0))));
    for (size_t i = 0; i < count; i++) {
        const double u = (double)z[i], size = fmax(1, fabs(u));
        if (i == 2)
            continue;
        ck_assert_double_eq_tol((double)y[i], act_value(op.act, u), 1.5e-7 * size);
        if (act_from_kink(op.act, u) < 1e-6)
            continue;
        ck_assert_double_eq_tol((double)dz[i], act_slope(op.act, u), 3e-7);
    }
    free(z), free(y), free(dy), free(dz);
}
END_TEST

START_TEST(kinks)
{
    struct ss_norm_act op = {
        .shape = {1, 16, 1, 1, 16}, .act = act_kinks[_i].kind, .slope = (float)ACT_LEAK};
    float z[16], y[16], dy[16];
    for (int j = 0; j < 16; j++)
        z[j] = act_kinks[_i].at, dy[j] = 1;
    OK(ss_cpu_norm_act_reserve(cpu, &op));
    OK(ss_cpu_norm_act_forward(cpu, &op, z, NULL, NULL, NULL, NULL, y, NULL, 1, &key));
    const struct ss_norm_act_grad g = {.dy = {dy}, .ndy = 1, .ds = dy, .z = z, .dz = z};
    OK(ss_cpu_norm_act_backward(cpu, &op, &g));
    for (int j = 0; j < 16; j++) {
        ck_assert(y[j] == act_kinks[_i].value || fabsf(y[j] - act_kinks[_i].value) < 1e-37f);
        if (isfinite(act_kinks[_i].at))
            ck_assert_float_eq(z[j], act_kinks[_i].slope);
    }
}
END_TEST

/* Stochastic depth of samples or of the batch. */
START_TEST(shared_drops)
{
    for (int bits = 0; bits < 32; bits++) {
        struct ss_norm_act op = options(bits, 20, test_block(_i, 20));
        op.shape.n = 7;
        op.dropout = 0.4f;
        op.drop = bits >> 4 & 1 ? SS_DROP_SAMPLE : SS_DROP_BATCH;
        struct layer l;
        layer_make(&l, &op);
        run(&l, 1 + bits % SS_NORM_MAX_DY);
        layer_free(&l);
    }
}
END_TEST

Suite *norm_act_suite(void)
{
    Suite *suite = suite_create("normalisation");
    TCase *t = tcase_create("normalisation");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open_one, test_close);
    tcase_add_loop_test(t, every_option, 0, 5 * (SS_ACT_COUNT - 1));
    tcase_add_loop_test(t, long_slices, 0, SS_ACT_COUNT);
    tcase_add_loop_test(t, small_variance, 0, 2);
    tcase_add_loop_test(t, finite_differences, 0, 32 * (SS_ACT_COUNT - 1));
    tcase_add_loop_test(t, activation_alone, SS_ACT_RELU, SS_ACT_COUNT);
    tcase_add_test(t, finite_differences_kernel);
    tcase_add_test(t, stats_of_sums);
    tcase_add_loop_test(t, kinks, 0, ACT_KINKS);
    tcase_add_loop_test(t, shared_drops, 0, NBLOCKS);
    suite_add_tcase(suite, t);
    return suite;
}
