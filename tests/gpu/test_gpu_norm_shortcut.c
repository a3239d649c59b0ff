/* test_gpu_norm_shortcut.c: compares additions that apply BatchNorm or a bias to their residual
 * with double precision. Statistics are random, as the formulas hold for any. */
#include "tests/gpu/test_gpu_kernels.h"
#include "kernels/dropout.h"

/* C with and without full vectors, C wider than a tile, more pixels than one iteration of the
 * grid. */
static const struct ss_act shapes[] = {
    {2, 16, 3, 5, 16}, {3, 7, 4, 4, 7}, {1, 264, 3, 3, 264}, {4, 8, 96, 96, 8}, {2, 1, 1, 1, 1},
};
static const struct {
    enum ss_shortcut shortcut;
    enum ss_activation act;
    float dropout;
    int relu_out, ndy;
} variants[] = {
    {SS_SHORTCUT_BN, SS_ACT_NONE, 0, 1, 2},   {SS_SHORTCUT_BN, SS_ACT_NONE, 0, 0, 1},
    {SS_SHORTCUT_BN, SS_ACT_NONE, 0, 1, 1},   {SS_SHORTCUT_BN, SS_ACT_NONE, 0, 0, 4},
    {SS_SHORTCUT_BIAS, SS_ACT_RELU, 0, 0, 1}, {SS_SHORTCUT_BIAS, SS_ACT_RELU, 0.25f, 0, 2},
    {SS_SHORTCUT_BIAS, SS_ACT_NONE, 0, 1, 3},
};
enum { NSHAPES = sizeof shapes / sizeof *shapes, NVARIANTS = sizeof variants / sizeof *variants };
static const uint64_t key = 0x123456789abcdefULL;

/* Parameters and statistics of a BatchNorm on the host, (C) each. */
struct norm {
    float *gamma, *beta, *mean, *invstd;
};

static struct norm norm_draw(size_t c, uint32_t stream)
{
    struct norm n = {host_random(c, stream, SS_DTYPE_F32), host_random(c, stream + 1, SS_DTYPE_F32),
                     host_random(c, stream + 2, SS_DTYPE_F32),
                     host_random(c, stream + 3, SS_DTYPE_F32)};
    for (size_t i = 0; i < c; i++)
        n.invstd[i] = 1.25f + n.invstd[i] / 2;
    return n;
}

static float *put_saved(struct ss_device *gpu, const struct norm *n, size_t c)
{
    float *saved = host_floats(2 * c);
    memcpy(saved, n->mean, c * sizeof *saved);
    memcpy(saved + c, n->invstd, c * sizeof *saved);
    return gpu_put_f32(gpu, saved, 2 * c);
}

/* Computes dz of BatchNorm from the gradient g of its output. Adds the parameters' gradients to
 * dgamma and dbeta. */
static void norm_backward(const struct norm *n, const double *g, const float *z, size_t count,
                          size_t c, double *dz, double *dgamma, double *dbeta)
{
    const double m = (double)(count / c);
    for (size_t i = 0; i < count; i++) {
        const size_t k = i % c;
        dbeta[k] += g[i];
        dgamma[k] += g[i] * ((double)z[i] - (double)n->mean[k]) * (double)n->invstd[k];
    }
    for (size_t i = 0; i < count; i++) {
        const size_t k = i % c;
        const double hat = ((double)z[i] - (double)n->mean[k]) * (double)n->invstd[k];
        dz[i] = (double)n->gamma[k] * (double)n->invstd[k] *
                (g[i] - dbeta[k] / m - hat * dgamma[k] / m);
    }
}

static double normalised(const struct norm *n, size_t k, float z)
{
    return (double)n->gamma[k] * ((double)z - (double)n->mean[k]) * (double)n->invstd[k] +
           (double)n->beta[k];
}

static void check_one(struct ss_device *gpu, const struct ss_act *shape, int v)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    const int bn = variants[v].shortcut == SS_SHORTCUT_BN, ndy = variants[v].ndy;
    const struct ss_norm_act op = {.shape = *shape,
                                   .act = variants[v].act,
                                   .has_bn = 1,
                                   .residual = 1,
                                   .relu_out = variants[v].relu_out,
                                   .shortcut = variants[v].shortcut,
                                   .dropout = variants[v].dropout,
                                   .eps = 1e-5f};
    const size_t count = ss_act_elements(shape), c = (size_t)shape->c;
    const struct ss_dropout_draw drop = ss_dropout_make(op.dropout, key);
    const double scale = drop.on ? (double)drop.scale : 1;
    const struct norm own = norm_draw(c, 10), other = norm_draw(c, 20);
    float *z = host_random(count, 1, dtype), *r = host_random(count, 2, dtype);
    float *gamma = gpu_put_f32(gpu, own.gamma, c), *beta = gpu_put_f32(gpu, own.beta, c);
    float *saved = put_saved(gpu, &own, c);
    struct ss_norm_shortcut s = {.r = gpu_put(gpu, r, count),
                                 .beta = gpu_put_f32(gpu, other.beta, c),
                                 .dbeta = gpu_out_f32(gpu, c)};
    if (bn) {
        s.gamma = gpu_put_f32(gpu, other.gamma, c);
        s.saved = put_saved(gpu, &other, c);
        s.dgamma = gpu_out_f32(gpu, c);
    }
    void *on_gpu = gpu_put(gpu, z, count), *y = gpu_out(gpu, count);
    uint8_t *mask = gpu_out_bytes(gpu, count);
    OK(ss_cuda_norm_act_reserve(gpu, &op));
    OK(ss_cuda_norm_shortcut_reserve(gpu, &op));
    OK(ss_cuda_norm_shortcut_forward(gpu, &op, on_gpu, gamma, beta, saved, &s, y, mask, 1,
                                     gpu_put_key(gpu, key)));
    double *want = host_doubles(count), *slope = host_doubles(count);
    for (size_t i = 0; i < count; i++) {
        const size_t k = i % c;
        const int keep =
            !drop.on || ss_dropout_hash((uint32_t)i, drop.key[0], drop.key[1]) >= drop.threshold;
        const double u = normalised(&own, k, z[i]);
        const int cut = op.act == SS_ACT_RELU && u <= 0;
        slope[i] = keep && !cut ? scale : 0;
        want[i] = slope[i] * u +
                  (bn ? normalised(&other, k, r[i]) : (double)r[i] + (double)other.beta[k]);
        if (op.relu_out && want[i] < 0)
            want[i] = 0;
    }
    float *out = gpu_fetch(gpu, y, count);
    gpu_compare("y", out, want, count, dtype);

    /* Backward; the second ReLU cuts where y <= 0. */
    struct ss_norm_act_grad g = {.ndy = ndy,
                                 .workspace = mask,
                                 .z = on_gpu,
                                 .dz = on_gpu,
                                 .gamma = gamma,
                                 .beta = beta,
                                 .saved = saved,
                                 .dgamma = gpu_out_f32(gpu, c),
                                 .dbeta = gpu_out_f32(gpu, c),
                                 .dropout_key = gpu_put_key(gpu, key)};
    double *ds = host_doubles(count), *du = host_doubles(count);
    float *rounded = host_floats(count);
    for (int k = 0; k < ndy; k++) {
        const float *dy = host_random(count, 30 + (uint32_t)k, dtype);
        g.dy[k] = gpu_put(gpu, dy, count);
        for (size_t i = 0; i < count; i++)
            rounded[i] += dy[i];
    }
    void *first = (void *)(uintptr_t)g.dy[0];
    g.ds = first;
    for (size_t i = 0; i < count; i++) {
        ds[i] = op.relu_out && out[i] <= 0 ? 0 : (double)gpu_round(rounded[i], dtype);
        du[i] = ds[i] * slope[i];
    }
    void *residual = s.r;
    s.r = bn ? residual : NULL; /* not needed with a bias */
    OK(ss_cuda_norm_shortcut_backward(gpu, &op, &g, &s));
    double *dz = host_doubles(count), *dgamma = host_doubles(c), *dbeta = host_doubles(c);
    norm_backward(&own, du, z, count, c, dz, dgamma, dbeta);
    gpu_compare("dz", gpu_fetch(gpu, on_gpu, count), dz, count, dtype);
    gpu_compare("dgamma", gpu_fetch_f32(gpu, g.dgamma, c), dgamma, c, dtype);
    gpu_compare("dbeta", gpu_fetch_f32(gpu, g.dbeta, c), dbeta, c, dtype);
    memset(dgamma, 0, c * sizeof *dgamma);
    memset(dbeta, 0, c * sizeof *dbeta);
    if (bn) {
        norm_backward(&other, ds, r, count, c, dz, dgamma, dbeta);
        gpu_compare("dz'", gpu_fetch(gpu, s.r, count), dz, count, dtype);
        gpu_compare("dgamma'", gpu_fetch_f32(gpu, s.dgamma, c), dgamma, c, dtype);
    } else {
        for (size_t i = 0; i < count; i++)
            dbeta[i % c] += ds[i];
        gpu_compare("ds", gpu_fetch(gpu, first, count), ds, count, dtype);
        ck_assert_mem_eq(gpu_fetch(gpu, residual, count), r, count * sizeof *r);
    }
    gpu_compare("dbeta'", gpu_fetch_f32(gpu, s.dbeta, c), dbeta, c, dtype);
}

START_TEST(against_double)
{
    for (int k = 0; k < NSHAPES; k++)
        for (int v = 0; v < NVARIANTS; v++)
            check_one(gpu_for((enum ss_dtype)_i), &shapes[k], v);
}
END_TEST

START_TEST(refused)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    struct ss_norm_act op = {.shape = shapes[0], .has_bn = 1, .residual = 1};
    gpu_check_failure(ss_cuda_norm_shortcut_reserve(gpu, &op), SS_ERR_INVALID, "residual");
    op.shortcut = SS_SHORTCUT_BN;
    OK(ss_cuda_norm_shortcut_reserve(gpu, &op));
    op.act = SS_ACT_RELU; /* supported only with a bias */
    gpu_check_failure(ss_cuda_norm_shortcut_reserve(gpu, &op), SS_ERR_INVALID, "residual");
    op.shortcut = SS_SHORTCUT_BIAS;
    OK(ss_cuda_norm_shortcut_reserve(gpu, &op));
    op.act = SS_ACT_GELU;
    gpu_check_failure(ss_cuda_norm_shortcut_reserve(gpu, &op), SS_ERR_INVALID, "residual");
}
END_TEST

TCase *gpu_norm_shortcut_tests(void)
{
    TCase *t = tcase_create("norm_shortcut");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, against_double, 0, GPU_DTYPES);
    tcase_add_test(t, refused);
    return t;
}
