/* test_gpu_small_watch.c: checks that kernels which compute parameter gradients detect infinities
 * in them (watch_gradients), for each kind of parameter. The other gradients of the same call are
 * finite where possible. */
#include "tests/gpu/test_gpu_small.h"

enum { N = 2, C = 16, SIDE = 3, PIXELS = N * SIDE * SIDE, COUNT = PIXELS * C, OUTPUTS = 5 };
static const struct ss_act act = {N, C, SIDE, SIDE, C};

/* Inputs and outputs of a call. Inputs are finite, except for one value `bad`. */
struct inputs {
    struct ss_device *gpu;
    void *x, *dy, *narrow;
    float *gamma, *beta, *saved, *out, *out2;
};

static void weights_of_conv(struct inputs *in)
{
    const struct ss_conv_shape s = {
        .x = act, .y = act, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    struct ss_conv_kernel *conv;
    OK(ss_cuda_conv_create(in->gpu, &s, SS_CONV_AUTO, 1, &conv));
    OK(ss_cuda_conv_backward_weights(conv, in->x, in->dy, in->out, NULL));
    ss_cuda_conv_destroy(conv);
}

static void bias(struct inputs *in)
{
    OK(ss_cuda_bias_reserve(in->gpu, &act));
    OK(ss_cuda_bias_backward(in->gpu, &act, in->dy, in->out));
}

static void linear(struct inputs *in)
{
    struct ss_linear_kernel *l;
    OK(ss_cuda_linear_create(in->gpu, &act, OUTPUTS, 1, 1, &l));
    OK(ss_cuda_linear_backward_weights(l, in->x, in->narrow, in->out, in->out2));
    ss_cuda_linear_destroy(l);
}

static void batchnorm(struct inputs *in)
{
    const struct ss_norm_act op = {.shape = act, .has_bn = 1, .eps = 1e-5f};
    struct ss_norm_act_grad g = {.dy = {in->dy},
                                 .ndy = 1,
                                 .ds = in->dy,
                                 .z = in->x,
                                 .dz = in->x,
                                 .gamma = in->gamma,
                                 .beta = in->beta,
                                 .saved = in->saved,
                                 .dgamma = in->out,
                                 .dbeta = in->out2};
    OK(ss_cuda_norm_act_reserve(in->gpu, &op));
    OK(ss_cuda_norm_act_backward(in->gpu, &op, &g));
}

static void groupnorm(struct inputs *in)
{
    const struct ss_norm_act op = {.shape = act, .eps = 1e-5f};
    OK(ss_cuda_groupnorm_reserve(in->gpu, &op, 2));
    OK(ss_cuda_groupnorm_backward(in->gpu, &op, 2, in->dy, in->x, in->gamma, in->beta, in->saved,
                                  in->out, in->out2));
}

enum where { NOWHERE, IN_X, IN_DY, IN_DY_OF_LINEAR };
static const struct {
    const char *what;
    void (*run)(struct inputs *in);
    enum where bad;
} cases[] = {
    {"a convolution's weights", weights_of_conv, IN_X},
    {"a convolution's weights", weights_of_conv, IN_DY},
    {"a bias", bias, IN_DY},
    {"a linear layer's weights", linear, IN_X},
    {"a linear layer's bias", linear, IN_DY_OF_LINEAR},
    {"BatchNorm's gamma", batchnorm, IN_X},
    {"BatchNorm's gamma and beta", batchnorm, IN_DY},
    {"GroupNorm's gamma", groupnorm, IN_X},
    {"GroupNorm's gamma and beta", groupnorm, IN_DY},
};

/* Returns the scaler's `found` after a call, with or without watch_gradients. */
static int found(struct ss_device *gpu, int which, enum where where, float bad, int watched)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    struct ss_scaler scaler = ss_scaler_defaults();
    struct ss_scaler *device = gpu_put_bytes(gpu, &scaler, sizeof scaler);
    float *x = host_random(COUNT, 1, dtype), *dy = host_random(COUNT, 2, dtype);
    float *narrow = host_random(N * OUTPUTS, 3, dtype), *saved = host_floats(2 * C);
    for (int c = 0; c < 2 * C; c++)
        saved[c] = c >= C;
    if (where != NOWHERE)
        *(where == IN_X ? x + COUNT - 1 : where == IN_DY ? dy + COUNT - 1 : narrow) = bad;
    float *gamma = gpu_put_f32(gpu, host_random(C, 4, SS_DTYPE_F32), C);
    struct inputs in = {gpu,
                        gpu_put(gpu, x, COUNT),
                        gpu_put(gpu, dy, COUNT),
                        gpu_put(gpu, narrow, N * OUTPUTS),
                        gamma,
                        gamma,
                        gpu_put_f32(gpu, saved, 2 * C),
                        gpu_out_f32(gpu, (size_t)COUNT * OUTPUTS),
                        gpu_out_f32(gpu, C)};
    ss_cuda_watch_gradients(gpu, watched ? device : NULL);
    cases[which].run(&in);
    ss_cuda_watch_gradients(gpu, NULL);
    gpu_get_bytes(gpu, device, &scaler, sizeof scaler);
    return scaler.found;
}

START_TEST(each_kind)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    for (int k = 0; k < (int)(sizeof cases / sizeof cases[0]); k++) {
        const char *what = cases[k].what;
        ck_assert_msg(!found(gpu, k, NOWHERE, 0, 1), "%s: infinity found in finite values", what);
        ck_assert_msg(found(gpu, k, cases[k].bad, INFINITY, 1), "%s: infinity not found", what);
        ck_assert_msg(found(gpu, k, cases[k].bad, NAN, 1), "%s: NaN not found", what);
        ck_assert_msg(!found(gpu, k, cases[k].bad, NAN, 0), "%s: found without a scaler", what);
    }
}
END_TEST

/* Every position in the cast that converts the gradients of convolutions. */
START_TEST(each_place)
{
    enum { CAST = 19 };
    struct ss_device *gpu = gpu_one_sm((enum ss_dtype)_i);
    struct ss_scaler scaler = ss_scaler_defaults(), after;
    for (size_t at = 0; at <= CAST; at++) {
        float x[CAST + 1] = {0x1p-24f, -65504, 1};
        x[at] = at % 2 ? INFINITY : -NAN;
        struct ss_scaler *device = gpu_put_bytes(gpu, &scaler, sizeof scaler);
        ss_cuda_watch_gradients(gpu, device);
        OK(ss_cuda_uncast(gpu, gpu_put(gpu, x, CAST), gpu_out_f32(gpu, CAST), CAST));
        ss_cuda_watch_gradients(gpu, NULL);
        gpu_get_bytes(gpu, device, &after, sizeof after);
        ck_assert_int_eq(after.found, at < CAST);
        after.found = 0;
        ck_assert_mem_eq(&after, &scaler, sizeof after); /* no other field has changed */
    }
}
END_TEST

TCase *gpu_watch_tests(void)
{
    TCase *t = tcase_create("watch");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, NULL, restore_sms);
    tcase_add_loop_test(t, each_kind, 0, GPU_DTYPES);
    tcase_add_loop_test(t, each_place, 0, GPU_DTYPES);
    return t;
}
