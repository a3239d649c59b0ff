/* test_gpu_groupnorm.c: compares group normalization on a GPU with double precision. */
#include "tests/gpu/test_gpu_kernels.h"
#include "tests/kernels/groupnorm_reference.h"

/* Returns the NHWC index of element i of (N,C,H,W). */
static size_t place(const struct groupnorm_reference *r, size_t i)
{
    const size_t pixels = (size_t)r->pixels, c = i / pixels % (size_t)r->c;
    return (i / pixels / (size_t)r->c * pixels + i % pixels) * (size_t)r->c + c;
}

static float *to_nhwc(const struct groupnorm_reference *r, const double *plain, size_t count)
{
    float *out = host_floats(count);
    for (size_t i = 0; i < count; i++)
        out[place(r, i)] = (float)plain[i];
    return out;
}

static double *doubles_nhwc(const struct groupnorm_reference *r, const double *plain, size_t count)
{
    double *out = host_doubles(count);
    for (size_t i = 0; i < count; i++)
        out[place(r, i)] = plain[i];
    return out;
}

/* Returns random inputs, scaled, shifted and rounded to the format. */
static double *draw(size_t count, uint32_t stream, enum ss_dtype dtype, double scale, double add)
{
    const float *drawn = host_random(count, stream, dtype);
    double *out = host_doubles(count);
    for (size_t i = 0; i < count; i++)
        out[i] = (double)gpu_round((float)((double)drawn[i] * scale + add), dtype);
    return out;
}

static void reference_make(struct groupnorm_reference *r, int i, enum ss_activation act,
                           enum ss_dtype dtype)
{
    const int c = groupnorm_cases[i].c;
    *r = (struct groupnorm_reference){.n = groupnorm_cases[i].n,
                                      .c = c,
                                      .pixels = groupnorm_cases[i].h * groupnorm_cases[i].w,
                                      .groups = groupnorm_cases[i].groups,
                                      .act = act,
                                      .eps = (double)1e-5f};
    const size_t count = (size_t)(r->n * c * r->pixels), channels = (size_t)c;
    r->x = draw(count, 1, dtype, 1, 0.5);
    r->dy = draw(count, 2, dtype, 1, 0);
    r->gamma = draw(channels, 3, SS_DTYPE_F32, 0.5, 1);
    r->beta = draw(channels, 4, SS_DTYPE_F32, 1, 0);
    r->y = host_doubles(count);
    r->dx = host_doubles(count);
    r->dgamma = host_doubles(channels);
    r->dbeta = host_doubles(channels);
    groupnorm_reference(r);
}

static void check_case(int i, enum ss_activation act, struct ss_device *gpu)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    const struct ss_norm_act op = {.shape = {groupnorm_cases[i].n, groupnorm_cases[i].c,
                                             groupnorm_cases[i].h, groupnorm_cases[i].w,
                                             groupnorm_cases[i].c},
                                   .act = act,
                                   .eps = 1e-5f};
    struct groupnorm_reference r;
    reference_make(&r, i, act, dtype);
    const size_t count = ss_act_elements(&op.shape), channels = (size_t)r.c;
    float *plain = host_floats(channels);
    for (size_t c = 0; c < channels; c++)
        plain[c] = (float)r.gamma[c];
    const float *gamma = gpu_put_f32(gpu, plain, channels);
    for (size_t c = 0; c < channels; c++)
        plain[c] = (float)r.beta[c];
    const float *beta = gpu_put_f32(gpu, plain, channels);
    float *x_plain = to_nhwc(&r, r.x, count);
    void *x = gpu_put(gpu, x_plain, count), *dy = gpu_put(gpu, to_nhwc(&r, r.dy, count), count);
    void *y = gpu_out(gpu, count), *again = gpu_put(gpu, x_plain, count);
    float *saved = gpu_out_f32(gpu, (size_t)(2 * r.n * r.groups));
    float *dgamma = gpu_out_f32(gpu, channels), *dbeta = gpu_out_f32(gpu, channels);
    OK(ss_cuda_groupnorm_reserve(gpu, &op, r.groups));
    OK(ss_cuda_groupnorm_forward(gpu, &op, r.groups, x, gamma, beta, saved, y));
    gpu_check_written_f32("saved", gpu, saved, (size_t)(2 * r.n * r.groups));
    gpu_compare("y", gpu_fetch(gpu, y, count), doubles_nhwc(&r, r.y, count), count, dtype);
    OK(ss_cuda_groupnorm_backward(gpu, &op, r.groups, dy, x, gamma, beta, saved, dgamma, dbeta));
    float *dx = gpu_fetch(gpu, x, count), *first = gpu_fetch_f32(gpu, dgamma, channels);
    gpu_compare("dx", dx, doubles_nhwc(&r, r.dx, count), count, dtype);
    gpu_compare("dgamma", first, r.dgamma, channels, dtype);
    gpu_compare("dbeta", gpu_fetch_f32(gpu, dbeta, channels), r.dbeta, channels, dtype);
    /* A second run is bit-identical. */
    OK(ss_cuda_groupnorm_backward(gpu, &op, r.groups, dy, again, gamma, beta, saved, dgamma,
                                  dbeta));
    ck_assert_mem_eq(gpu_fetch(gpu, again, count), dx, count * sizeof(float));
    ck_assert_mem_eq(gpu_fetch_f32(gpu, dgamma, channels), first, channels * sizeof(float));
}

START_TEST(against_double)
{
    for (int i = 0; i < GROUPNORM_CASES; i++)
        for (int k = 0; k < 3; k++)
            check_case(i, groupnorm_acts[k], gpu_for((enum ss_dtype)_i));
}
END_TEST

START_TEST(refused)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    const struct ss_norm_act op = {.shape = {2, 16, 3, 3, 16}, .eps = 1e-5f};
    gpu_check_failure(ss_cuda_groupnorm_reserve(gpu, &op, 3), SS_ERR_SHAPE, "3 groups");
}
END_TEST

TCase *gpu_groupnorm_tests(void)
{
    TCase *t = tcase_create("groupnorm");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, against_double, 0, GPU_DTYPES);
    tcase_add_test(t, refused);
    return t;
}
