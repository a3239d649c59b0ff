/* test_gpu_small.c: tests sums, casts, biases and input conversion on a GPU. Most results are
 * exact: a few fp32 operations with one rounding. */
#include "tests/gpu/test_gpu_small.h"

static struct {
    struct ss_device *gpu;
    int sms;
} shrunk;

struct ss_device *gpu_one_sm(enum ss_dtype dtype)
{
    ck_assert_ptr_null(shrunk.gpu);
    shrunk.gpu = gpu_for(dtype);
    shrunk.sms = shrunk.gpu->sms;
    shrunk.gpu->sms = 1;
    return shrunk.gpu;
}

void restore_sms(void)
{
    if (shrunk.gpu)
        shrunk.gpu->sms = shrunk.sms;
    shrunk.gpu = NULL;
}

static _Noreturn void differ(const char *what, const float *got, const float *want, size_t count,
                             size_t i)
{
    ck_abort_msg("%s: element %zu of %zu is %.9g, want %.9g", what, i, count, (double)got[i],
                 (double)want[i]);
}

/* No assertions in these loops: Check writes a record for each. */
void check_equal(const char *what, const float *got, const float *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i] && !(isnan(got[i]) && isnan(want[i])))
            differ(what, got, want, count, i);
}

void check_near(const char *what, const float *got, const float *want, size_t count,
                double tolerance)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance))
            differ(what, got, want, count, i);
}

/* The last takes more than one iteration of the grid on one multiprocessor. */
static const size_t counts[] = {1, 3, 8, 77, 1024, 300001};
enum { NCOUNTS = sizeof counts / sizeof counts[0] };

START_TEST(sums)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_one_sm(dtype);
    for (int at = 0; at < NCOUNTS; at++) {
        const size_t count = counts[at];
        float *x[SS_NORM_MAX_DY], *sum = host_floats(count), *want = host_floats(count);
        void *src[SS_NORM_MAX_DY];
        for (int n = 1; n <= SS_NORM_MAX_DY; n++) {
            x[n - 1] = host_random(count, (uint32_t)n, dtype);
            src[n - 1] = gpu_put(gpu, x[n - 1], count);
            for (size_t i = 0; i < count; i++) {
                sum[i] += x[n - 1][i];
                want[i] = gpu_round(sum[i], dtype);
            }
            void *dst = gpu_out(gpu, count);
            OK(ss_cuda_sum(gpu, (const void *const *)src, n, dst, count));
            check_equal("sum", gpu_fetch(gpu, dst, count), want, count);
        }
        OK(ss_cuda_sum(gpu, (const void *const *)src, SS_NORM_MAX_DY, src[0], count));
        check_equal("sum in place", gpu_fetch(gpu, src[0], count), want, count);
        OK(ss_cuda_sum(gpu, (const void *const *)src, 2, src[0], 0));
        check_equal("no elements", gpu_fetch(gpu, src[0], count), want, count);
    }
}
END_TEST

START_TEST(casts)
{
    static const float special[] = {
        0,        -0.0f,     1 + 0x1p-11f, 1 + 0x3p-11f, 1 + 0x1p-8f, 65504,
        65520,    -70000,    0x1p-24f,     0x1.8p-24f,   0x1p-26f,    3.4e38f,
        INFINITY, -INFINITY, NAN,          0x1p-130f,    -1.0f / 3,
    };
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_one_sm(dtype);
    for (int at = 0; at < NCOUNTS; at++) {
        const size_t count = counts[at];
        float *x = host_random(count, 1, SS_DTYPE_F32), *want = host_floats(count);
        for (size_t i = 0; i < count; i++) {
            if (i % 3 == 0)
                x[i] = special[i / 3 % (sizeof special / sizeof special[0])];
            want[i] = gpu_round(x[i], dtype);
        }
        void *narrow = gpu_out(gpu, count);
        float *wide = gpu_out_f32(gpu, count);
        OK(ss_cuda_cast(gpu, gpu_put_f32(gpu, x, count), narrow, count));
        check_equal("to the format", gpu_fetch(gpu, narrow, count), want, count);
        OK(ss_cuda_uncast(gpu, narrow, wide, count));
        check_equal("to fp32", gpu_fetch_f32(gpu, wide, count), want, count);
    }
}
END_TEST

/* C with and without 16-byte accesses, C wider than a block of threads, and more pixels than one
 * iteration of the grid. The last has more pixels than 512 shares of 8 pixels per thread. */
static const struct ss_act biased[] = {
    {2, 160, 4, 4, 160},   {3, 10, 1, 1, 10},   {2, 3, 5, 7, 3},      {1, 2056, 2, 2, 2056},
    {1, 2057, 1, 3, 2057}, {9, 64, 16, 16, 64}, {1, 8, 1, 1, 8},      {2, 4, 3, 3, 4},
    {3, 1, 9, 5, 1},       {2, 40, 40, 40, 40}, {10, 7, 128, 128, 7},
};
enum { NBIASED = sizeof biased / sizeof biased[0] };

static size_t elements(const struct ss_act *a)
{
    return ss_act_elements(a);
}

START_TEST(bias_forward)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_one_sm(dtype);
    for (int at = 0; at < NBIASED; at++) {
        const struct ss_act *a = &biased[at];
        const size_t count = elements(a), c = (size_t)a->c;
        float *y = host_random(count, 1, dtype), *bias = host_random(c, 2, SS_DTYPE_F32);
        void *dy = gpu_put(gpu, y, count);
        OK(ss_cuda_bias_forward(gpu, a, dy, gpu_put_f32(gpu, bias, c)));
        for (size_t i = 0; i < count; i++)
            y[i] = gpu_round(y[i] + bias[i % c], dtype);
        check_equal("y", gpu_fetch(gpu, dy, count), y, count);
    }
}
END_TEST

START_TEST(bias_backward)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_for(dtype);
    for (int at = 0; at < NBIASED; at++) {
        const struct ss_act *a = &biased[at];
        const size_t count = elements(a), c = (size_t)a->c;
        float *dy = host_random(count, 1, dtype), *first = host_floats(c);
        double *want = host_doubles(c);
        for (size_t i = 0; i < count; i++)
            want[i % c] += (double)dy[i];
        const void *device = gpu_put(gpu, dy, count);
        OK(ss_cuda_bias_reserve(gpu, a));
        for (int again = 0; again < 2; again++) {
            float *dbias = gpu_out_f32(gpu, c);
            OK(ss_cuda_bias_backward(gpu, a, device, dbias));
            float *got = gpu_fetch_f32(gpu, dbias, c);
            gpu_compare_bound("dbias", got, want, c, 2e-6);
            if (again)
                ck_assert_mem_eq(got, first, c * sizeof(float));
            first = got;
        }
    }
}
END_TEST

START_TEST(bias_bits_without_device)
{
    const struct ss_act a = {8, 64, 32, 32, 64};
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    const size_t count = elements(&a), c = (size_t)a.c;
    const void *dy = gpu_put(gpu_for(dtype), host_random(count, 1, dtype), count);
    float *dbias[2], *got[2];
    for (int small = 0; small < 2; small++) {
        struct ss_device *gpu = small ? gpu_one_sm(dtype) : gpu_for(dtype);
        dbias[small] = gpu_out_f32(gpu, c);
        OK(ss_cuda_bias_reserve(gpu, &a));
        OK(ss_cuda_bias_backward(gpu, &a, dy, dbias[small]));
        got[small] = gpu_fetch_f32(gpu, dbias[small], c);
    }
    ck_assert_mem_eq(got[0], got[1], c * sizeof(float));
}
END_TEST

static void check_input(struct ss_device *gpu, int n, int c, int h, int w, int block_channels)
{
    static const float mean[SS_INPUT_CHANNELS] = {0.5071f, 0.4865f, 0.4409f, 0.3f, 0.2f, 0.4f},
                       std[SS_INPUT_CHANNELS] = {0.2673f, 0.2564f, 0.2762f, 0.7f, 0.5f, 0.6f, 1, 1,
                                                 1,       1,       1,       1,    1,    1,    1, 1};
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    const struct ss_act x = {n, c, h, w, block_channels};
    const size_t plane = (size_t)h * (size_t)w, bytes = (size_t)n * (size_t)c * plane,
                 block = (size_t)x.block, count = elements(&x);
    unsigned char *images = host_alloc(bytes);
    float *want = host_floats(count);
    for (size_t i = 0; i < bytes; i++) {
        images[i] = (unsigned char)(i * 37 + i / 251);
        const size_t channel = i / plane % (size_t)c, image = i / plane / (size_t)c;
        const float v = ((float)images[i] / 255.0f - mean[channel]) / std[channel];
        want[(image * plane + i % plane) * block + channel] = gpu_round(v, dtype);
    }
    void *out = gpu_out(gpu, count);
    OK(ss_cuda_convert(gpu, &x, gpu_put_bytes(gpu, images, bytes), mean, std, out));
    check_equal("input", gpu_fetch(gpu, out, count), want, count);
}

START_TEST(input)
{
    struct ss_device *gpu = gpu_one_sm((enum ss_dtype)_i);
    const int block = ss_gpu_input_block((enum ss_dtype)_i);
    for (int c = 1; c <= 4; c++)
        check_input(gpu, 3, c, 5, 7, block);
    check_input(gpu, 40, 3, 32, 32, block);
    check_input(gpu, 1, 3, 100, 101, block);
    check_input(gpu, 1000, 1, 3, 3, block);
    check_input(gpu, 2, 6, 9, 4, 8);
    check_input(gpu, 2, 16, 9, 4, 16);
    for (int c = 1; c <= 6; c++) /* without padding */
        check_input(gpu, 3, c, 5, 7, c);
}
END_TEST

START_TEST(bad_arguments)
{
    ss_log_set_quiet(1);
    struct ss_device *gpu = gpu_for(SS_DTYPE_F16);
    const void *src[5] = {NULL};
    const float scales[5] = {1, 1, 1, 1, 1};
    float *bias = gpu_out_f32(gpu, 16);
    void *y = gpu_out(gpu, 256);
    ck_assert_int_eq(ss_cuda_sum(gpu, src, 0, y, 8), SS_ERR_INVALID);
    ck_assert_int_eq(ss_cuda_sum(gpu, src, SS_NORM_MAX_DY + 1, y, 8), SS_ERR_INVALID);
    const struct ss_act blocked = {1, 16, 2, 2, 8}, empty = {1, 16, 0, 2, 16};
    ck_assert_int_eq(ss_cuda_bias_forward(gpu, &blocked, y, bias), SS_ERR_SHAPE);
    ck_assert_int_eq(ss_cuda_bias_reserve(gpu, &empty), SS_ERR_SHAPE);
    ck_assert_int_eq(ss_cuda_bias_backward(gpu, &empty, y, bias), SS_ERR_SHAPE);
    const struct ss_act inputs[] = {{1, 17, 2, 2, 24}, {1, 3, 2, 2, 2}, {1, 3, 2, 0, 8}};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ss_cuda_convert(gpu, &inputs[i], y, scales, scales, y), SS_ERR_SHAPE);
        ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "input"));
    }
    ss_log_set_quiet(0);
}
END_TEST

TCase *gpu_small_tests(void)
{
    TCase *t = tcase_create("small");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, NULL, restore_sms);
    tcase_add_loop_test(t, sums, 0, GPU_DTYPES);
    tcase_add_loop_test(t, casts, 0, GPU_DTYPES);
    tcase_add_loop_test(t, bias_forward, 0, GPU_DTYPES);
    tcase_add_loop_test(t, bias_backward, 0, GPU_DTYPES);
    tcase_add_loop_test(t, bias_bits_without_device, 0, GPU_DTYPES);
    tcase_add_loop_test(t, input, 0, GPU_DTYPES);
    tcase_add_test(t, bad_arguments);
    add_pool_tests(t);
    add_loss_tests(t);
    add_optimizer_tests(t);
    add_wire_tests(t);
    return t;
}
