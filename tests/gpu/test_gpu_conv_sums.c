/* test_gpu_conv_sums.c: compares convolutions that also compute BatchNorm's sums, and the
 * statistics derived from them, with double precision. */
#include "tests/gpu/test_gpu_conv.h"

/* sums: whether cuDNN can compute the sums for the layer, as ss_gpu_conv_sums returns. */
static const struct {
    int n, ci, block, co, size, kernel, stride, bias, training;
    enum ss_dtype dtype;
    int sums;
} cases[] = {
    {2, 16, 16, 24, 9, 3, 1, 0, 1, SS_DTYPE_F16, 1},
    {2, 3, 8, 16, 8, 3, 1, 0, 1, SS_DTYPE_F16, 1},
    {3, 24, 24, 8, 8, 1, 2, 0, 1, SS_DTYPE_F16, 1},
    {2, 8, 8, 40, 7, 5, 2, 0, 1, SS_DTYPE_F16, 1},
    {2, 16, 16, 24, 9, 3, 1, 1, 1, SS_DTYPE_F16, 0},
    {2, 16, 16, 24, 9, 3, 1, 0, 0, SS_DTYPE_F16, 0},
    {2, 3, 8, 64, 14, 7, 2, 0, 1, SS_DTYPE_F16, 0},
    {2, 12, 12, 16, 8, 3, 1, 0, 1, SS_DTYPE_F16, 0},
    {2, 16, 16, 12, 8, 3, 1, 0, 1, SS_DTYPE_F16, 0},
    {2, 16, 16, 24, 9, 3, 1, 0, 1, SS_DTYPE_BF16, 0},
    {2, 16, 16, 24, 9, 3, 1, 0, 1, SS_DTYPE_F32, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };
static const float eps = 1e-5f, momentum = 0.1f;

/* sums (2,C): of y and of its square. stats (4,C): mean, invstd, running mean and running variance,
 * starting from 0 and 1. */
static void reference(const double *y, size_t count, size_t c, double *sums, double *stats)
{
    const double m = (double)(count / c);
    for (size_t i = 0; i < count; i++) {
        sums[i % c] += y[i];
        sums[c + i % c] += y[i] * y[i];
    }
    for (size_t i = 0; i < c; i++) {
        const double mean = sums[i] / m, var = sums[c + i] / m - mean * mean;
        stats[i] = mean;
        stats[c + i] = 1 / sqrt(var + (double)eps);
        stats[2 * c + i] = (double)momentum * mean;
        stats[3 * c + i] = 1 - (double)momentum + (double)momentum * var * m / (m - 1);
    }
}

/* The layer with its operands, y and the sums on the device. */
struct summed {
    struct conv_run run;
    void *y;
    float *sums, *running;
};

static void run_sums(struct summed *s, const struct conv_case *c)
{
    float *start = host_floats(2 * c->nb);
    for (size_t i = 0; i < c->nb; i++)
        start[c->nb + i] = 1;
    s->y = gpu_out(s->run.gpu, c->ny);
    s->sums = gpu_out_f32(s->run.gpu, 2 * c->nb);
    s->running = gpu_put_f32(s->run.gpu, start, 2 * c->nb);
    OK(ss_cuda_conv_forward_sums(s->run.conv, s->run.x, s->run.w, NULL, s->y, s->sums));
}

static void check_sums(struct summed *s, const struct conv_case *c)
{
    struct ss_device *gpu = s->run.gpu;
    const struct ss_norm_act op = {
        .shape = c->s.y, .act = SS_ACT_RELU, .has_bn = 1, .eps = eps, .momentum = momentum};
    double *sums = host_doubles(2 * c->nb), *stats = host_doubles(4 * c->nb);
    reference(c->y, c->ny, c->nb, sums, stats);
    run_sums(s, c);
    float *first = gpu_fetch_f32(gpu, s->sums, 2 * c->nb), *y = gpu_fetch(gpu, s->y, c->ny);
    gpu_compare("y", y, c->y, c->ny, SS_DTYPE_F16);
    gpu_compare("sums", first, sums, c->nb, SS_DTYPE_F16);
    gpu_compare("sums of squares", first + c->nb, sums + c->nb, c->nb, SS_DTYPE_F16);

    OK(ss_cuda_norm_act_reserve(gpu, &op));
    OK(ss_cuda_norm_act_stats(gpu, &op, NULL, s->sums, s->running));
    float *saved = gpu_fetch_f32(gpu, s->sums, 2 * c->nb),
          *running = gpu_fetch_f32(gpu, s->running, 2 * c->nb);
    gpu_compare("mean", saved, stats, c->nb, SS_DTYPE_F16);
    gpu_compare("invstd", saved + c->nb, stats + c->nb, c->nb, SS_DTYPE_F16);
    gpu_compare("running mean", running, stats + 2 * c->nb, c->nb, SS_DTYPE_F16);
    gpu_compare("running variance", running + c->nb, stats + 3 * c->nb, c->nb, SS_DTYPE_F16);

    /* Same statistics as from our own pass over y; repeated runs are bit-identical. */
    float *own = gpu_out_f32(gpu, 2 * c->nb);
    OK(ss_cuda_norm_act_stats(gpu, &op, s->y, own, NULL));
    double *wide = host_doubles(2 * c->nb);
    float *narrow = gpu_fetch_f32(gpu, own, 2 * c->nb);
    for (size_t i = 0; i < 2 * c->nb; i++)
        wide[i] = (double)narrow[i];
    gpu_compare("mean and invstd by our pass", saved, wide, 2 * c->nb, SS_DTYPE_F16);
    run_sums(s, c);
    ck_assert_mem_eq(gpu_fetch_f32(gpu, s->sums, 2 * c->nb), first, 2 * c->nb * sizeof(float));
    ck_assert_mem_eq(gpu_fetch(gpu, s->y, c->ny), y, c->ny * sizeof(float));
}

START_TEST(sums)
{
    const enum ss_dtype dtype = cases[_i].dtype;
    struct ss_device *gpu = gpu_for(dtype);
    struct conv_case c = conv_case_make(dtype, cases[_i].n, cases[_i].ci, cases[_i].block,
                                        cases[_i].co, cases[_i].size, cases[_i].size,
                                        cases[_i].kernel, cases[_i].stride, 1, cases[_i].bias);
    c.s.sums = cases[_i].training;
    struct summed s = {.run = conv_run_make(gpu, &c)};
    const int has = ss_cuda_conv_has_sums(s.run.conv);
    ck_assert_int_eq(ss_gpu_conv_sums(&c.s, dtype), cases[_i].sums);
    ck_assert_int_eq(strstr(ss_cuda_conv_info(s.run.conv), "fwd sums") != NULL, has);
    ck_assert_msg(has == cases[_i].sums, "cuDNN engine with sums: %s: %s", has ? "yes" : "no",
                  ss_cuda_conv_info(s.run.conv));
    ss_log_set_quiet(1);
    if (has)
        check_sums(&s, &c);
    else
        gpu_check_failure(
            ss_cuda_conv_forward_sums(s.run.conv, s.run.x, s.run.w, NULL, s.run.x, NULL),
            SS_ERR_INVALID, "does not compute sums");
    ss_log_set_quiet(0);
    conv_run_destroy(&s.run);
}
END_TEST

/* If the engine fails, the layer reports no sums and still computes its passes. */
START_TEST(sums_fail)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F16);
    struct conv_case c = conv_case_make(SS_DTYPE_F16, 2, 16, 16, 24, 5, 5, 3, 1, 1, 0);
    c.s.sums = 1;
    if (!conv_emulated(gpu))
        return;
    struct conv_run r = conv_run_make(gpu, &c);
    int engine;
    const char *at = strstr(ss_cuda_conv_info(r.conv), "fwd sums eng");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(sscanf(at, "fwd sums eng%d", &engine), 1);
    conv_run_destroy(&r);
    char fault[64];
    snprintf(fault, sizeof fault, "run:%d", engine);
    setenv("SS_HOSTGPU_CUDNN_FAULT", fault, 1);
    r = conv_run_make(gpu, &c);
    unsetenv("SS_HOSTGPU_CUDNN_FAULT");
    ck_assert_int_eq(ss_cuda_conv_has_sums(r.conv), 0);
    conv_run_all(&r, &c);
    conv_run_compare(&r, &c, gpu_tolerance(SS_DTYPE_F16));
    conv_run_destroy(&r);
}
END_TEST

void gpu_conv_sums_tests(TCase *t)
{
    tcase_add_loop_test(t, sums, 0, CASES);
    tcase_add_test(t, sums_fail);
}
