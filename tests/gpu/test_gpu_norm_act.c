/* test_gpu_norm_act.c: compares CUDA normalization with double precision, for all options. Also
 * tests that runs are bit-identical, in-place operation, NaN, and dropout equal to the CPU
 * kernel's. */
#include "kernels/cpu/cpu.h"
#include "kernels/dropout.h"
#include "tests/gpu/test_gpu_kernels.h"
#include "tests/kernels/activation_reference.h"
#include "tests/kernels/norm_parts.h"

enum { KEY = 12345 };

/* The layer as defined in shapes.h, on NHWC tensors. */
struct layer {
    struct ss_norm_act op;
    enum ss_dtype dtype;
    size_t pixels, channels, count;
    int training, ndy;
    float *z, *r, *dy[SS_NORM_MAX_DY], *gamma, *beta; /* in, rounded to the format */
    double *mean, *var, *u, *s, *y;                   /* out */
    double *ds, *dz, *dgamma, *dbeta;
};

static double keep_factor(const struct layer *l, size_t i)
{
    if (l->op.dropout == 0 || !l->training)
        return 1;
    const size_t shared = l->op.drop == SS_DROP_ELEMENT  ? 1
                          : l->op.drop == SS_DROP_SAMPLE ? l->count / (size_t)l->op.shape.n
                                                         : l->count;
    return ss_dropout_keep(KEY, (uint32_t)(i / shared), l->op.dropout)
               ? 1 / (1 - (double)l->op.dropout)
               : 0;
}

static void moments(struct layer *l)
{
    const double m = (double)l->pixels;
    memset(l->mean, 0, l->channels * sizeof(double));
    memset(l->var, 0, l->channels * sizeof(double));
    for (size_t i = 0; i < l->count; i++)
        l->mean[i % l->channels] += (double)l->z[i] / m;
    for (size_t i = 0; i < l->count; i++) {
        const double d = (double)l->z[i] - l->mean[i % l->channels];
        l->var[i % l->channels] += d * d / m;
    }
}

static double invstd(const struct layer *l, size_t c)
{
    return 1 / sqrt(l->var[c] + (double)l->op.eps);
}

static void forward(struct layer *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const size_t c = i % l->channels;
        double u = (double)l->z[i];
        if (l->op.has_bn)
            u = (double)l->gamma[c] * (u - l->mean[c]) * invstd(l, c) + (double)l->beta[c];
        l->u[i] = u;
        l->s[i] =
            act_value(l->op.act, u) * keep_factor(l, i) + (l->op.residual ? (double)l->r[i] : 0);
        l->y[i] = l->op.relu_out && l->s[i] < 0 ? 0 : l->s[i];
    }
}

static void backward(struct layer *l)
{
    const double m = (double)l->pixels;
    memset(l->dgamma, 0, l->channels * sizeof(double));
    memset(l->dbeta, 0, l->channels * sizeof(double));
    for (size_t i = 0; i < l->count; i++) {
        const size_t c = i % l->channels;
        double g = 0;
        for (int k = 0; k < l->ndy; k++)
            g += (double)l->dy[k][i];
        l->ds[i] = l->op.relu_out && l->s[i] <= 0 ? 0 : g;
        l->dz[i] = l->ds[i] * keep_factor(l, i) * act_slope(l->op.act, l->u[i]);
        l->dbeta[c] += l->dz[i];
        l->dgamma[c] += l->dz[i] * ((double)l->z[i] - l->mean[c]) * invstd(l, c);
    }
    for (size_t i = 0; l->op.has_bn && i < l->count; i++) {
        const size_t c = i % l->channels;
        const double zhat = ((double)l->z[i] - l->mean[c]) * invstd(l, c);
        l->dz[i] = (double)l->gamma[c] * invstd(l, c) *
                   (l->dz[i] - l->dbeta[c] / m - zhat * l->dgamma[c] / m);
    }
}

/* Moves inputs away from the kinks of the activations, where fp32 and double may differ. */
static void leave_kinks(struct layer *l)
{
    int again = 1;
    for (int turn = 0; again; turn++) {
        ck_assert_int_lt(turn, 50);
        again = 0;
        moments(l);
        forward(l);
        for (size_t i = 0; i < l->count; i++) {
            float *nudged = NULL;
            if (act_from_kink(l->op.act, l->u[i]) < 2e-5)
                nudged = l->op.has_bn && l->gamma[i % l->channels] == 0 ? &l->beta[i % l->channels]
                                                                        : &l->z[i];
            else if (l->op.relu_out && l->s[i] != 0 && fabs(l->s[i]) < 2e-5)
                nudged = l->op.residual ? &l->r[i] : &l->z[i];
            if (nudged) {
                *nudged = gpu_round(*nudged + 0.07f, l->dtype);
                again = 1;
            }
        }
    }
}

static struct layer *layer_make(const struct ss_norm_act *op, enum ss_dtype dtype, int ndy)
{
    struct layer *l = host_alloc(sizeof *l);
    const size_t count = ss_act_elements(&op->shape), channels = (size_t)op->shape.c;
    *l = (struct layer){.op = *op,
                        .dtype = dtype,
                        .pixels = count / channels,
                        .channels = channels,
                        .count = count,
                        .training = 1,
                        .ndy = ndy};
    double **const tensors[] = {&l->u, &l->s, &l->y, &l->ds, &l->dz};
    double **const vectors[] = {&l->mean, &l->var, &l->dgamma, &l->dbeta};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        *tensors[i] = host_doubles(count);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        *vectors[i] = host_doubles(channels);
    l->z = host_random(count, 1, dtype);
    l->r = host_random(count, 2, dtype);
    for (int k = 0; k < ndy; k++)
        l->dy[k] = host_random(count, 10 + (uint32_t)k, dtype);
    l->gamma = host_random(channels, 4, SS_DTYPE_F32);
    l->beta = host_random(channels, 5, SS_DTYPE_F32);
    for (size_t c = 0; c < channels; c++)
        l->gamma[c] = c == 1 ? 0 : 1 + 0.5f * l->gamma[c]; /* some models initialize it to 0 */
    leave_kinks(l);
    backward(l);
    return l;
}

/* Returns the number of elements per byte of the mask, as defined in list.h. */
static size_t mask_elements(const struct layer *l)
{
    const size_t most = 16 / ss_dtype_bytes(l->dtype);
    return (l->op.has_bn ? l->channels : l->count) % most ? 1 : most;
}

/* A layer's tensors on the device. */
struct device_layer {
    void *z, *r, *y, *ds, *dy[SS_NORM_MAX_DY];
    uint8_t *mask;
    float *gamma, *beta, *saved, *running, *dgamma, *dbeta;
};

static struct device_layer upload(struct ss_device *gpu, const struct layer *l)
{
    struct device_layer d = {.z = gpu_put(gpu, l->z, l->count), .y = gpu_out(gpu, l->count)};
    if (l->op.residual)
        d.r = gpu_put(gpu, l->r, l->count);
    for (int k = 0; k < l->ndy; k++)
        d.dy[k] = gpu_put(gpu, l->dy[k], l->count);
    if (l->op.relu_out)
        d.mask = gpu_out_bytes(gpu, l->count / mask_elements(l));
    d.ds = d.dy[0];
    /* Where ds may be a separate tensor, alternate between that and in place. */
    if ((l->ndy > 1 || l->op.relu_out) && l->ndy % 2)
        d.ds = gpu_out(gpu, l->count);
    if (l->op.has_bn) {
        float *running = host_floats(2 * l->channels);
        for (size_t c = 0; c < l->channels; c++)
            running[c] = 2, running[l->channels + c] = 3;
        d.gamma = gpu_put_f32(gpu, l->gamma, l->channels);
        d.beta = gpu_put_f32(gpu, l->beta, l->channels);
        d.saved = gpu_out_f32(gpu, 2 * l->channels);
        d.running = gpu_put_f32(gpu, running, 2 * l->channels);
        d.dgamma = gpu_out_f32(gpu, l->channels);
        d.dbeta = gpu_out_f32(gpu, l->channels);
    }
    OK(ss_cuda_norm_act_reserve(gpu, &l->op));
    return d;
}

static void run_forward(struct ss_device *gpu, const struct layer *l, const struct device_layer *d)
{
    if (l->op.has_bn)
        OK(ss_cuda_norm_act_stats(gpu, &l->op, d->z, d->saved, d->running));
    OK(ss_cuda_norm_act_forward(gpu, &l->op, d->z, d->gamma, d->beta, d->saved, d->r, d->y, d->mask,
                                l->training, gpu_put_key(gpu, KEY)));
}

static enum ss_status run_backward(struct ss_device *gpu, const struct layer *l,
                                   const struct device_layer *d)
{
    struct ss_norm_act_grad g = {.ndy = l->ndy,
                                 .ds = d->ds,
                                 .workspace = d->mask,
                                 .z = d->z,
                                 .dz = d->z,
                                 .gamma = d->gamma,
                                 .beta = d->beta,
                                 .saved = d->saved,
                                 .dgamma = d->dgamma,
                                 .dbeta = d->dbeta,
                                 .dropout_key = gpu_put_key(gpu, KEY)};
    for (int k = 0; k < l->ndy; k++)
        g.dy[k] = d->dy[k];
    return ss_cuda_norm_act_backward(gpu, &l->op, &g);
}

static void check_near(const char *what, size_t c, float got, double want, double bound)
{
    if (!(fabs((double)got - want) <= bound * (1 + fabs(want))))
        ck_abort_msg("%s of channel %zu: %.9g, want %.9g", what, c, (double)got, want);
}

static void check_statistics(struct ss_device *gpu, const struct layer *l,
                             const struct device_layer *d)
{
    const size_t channels = l->channels;
    const float *saved = gpu_fetch_f32(gpu, d->saved, 2 * channels),
                *running = gpu_fetch_f32(gpu, d->running, 2 * channels);
    const double m = (double)l->pixels, k = (double)l->op.momentum;
    for (size_t c = 0; c < channels; c++) {
        check_near("mean", c, saved[c], l->mean[c], 1e-6);
        check_near("invstd", c, saved[channels + c], invstd(l, c), 2e-6);
        check_near("running mean", c, running[c], (1 - k) * 2 + k * l->mean[c], 1e-6);
        check_near("running variance", c, running[channels + c],
                   (1 - k) * 3 + k * l->var[c] * m / (m - 1), 1e-6);
    }
}

/* Checks every bit of the mask, and that no byte after it is written. */
static void check_mask(struct ss_device *gpu, const struct layer *l, const struct device_layer *d)
{
    if (!l->op.relu_out)
        return;
    const size_t each = mask_elements(l);
    uint8_t *mask = host_alloc(l->count / each);
    gpu_get_bytes(gpu, d->mask, mask, l->count / each);
    const float *y = gpu_fetch(gpu, d->y, l->count);
    for (size_t i = 0; i < l->count; i++)
        if ((mask[i / each] >> i % each & 1) != !(y[i] <= 0))
            ck_abort_msg("mask of element %zu of %zu, %g, in %zu channels: byte %#x", i, l->count,
                         (double)y[i], l->channels, mask[i / each]);
}

static void check_layer(const struct layer *l)
{
    struct ss_device *gpu = gpu_for(l->dtype);
    const struct device_layer d = upload(gpu, l);
    run_forward(gpu, l, &d);
    if (l->op.has_bn)
        check_statistics(gpu, l, &d);
    gpu_check_written("y", gpu, d.y, l->count);
    gpu_compare("y", gpu_fetch(gpu, d.y, l->count), l->y, l->count, l->dtype);
    check_mask(gpu, l, &d);

    OK(run_backward(gpu, l, &d));
    gpu_check_written("ds", gpu, d.ds, l->count);
    gpu_compare("dz", gpu_fetch(gpu, d.z, l->count), l->dz, l->count, l->dtype);
    gpu_compare("ds", gpu_fetch(gpu, d.ds, l->count), l->ds, l->count, l->dtype);
    if (l->op.has_bn) {
        gpu_compare("dgamma", gpu_fetch_f32(gpu, d.dgamma, l->channels), l->dgamma, l->channels,
                    l->dtype);
        gpu_compare("dbeta", gpu_fetch_f32(gpu, d.dbeta, l->channels), l->dbeta, l->channels,
                    l->dtype);
    }
}

static struct ss_norm_act options(int bits, int c)
{
    const struct ss_norm_act op = {.shape = {2, c, 5, 3, c},
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

/* 3, 37: one channel at a time; 12: vectors in fp32 only. */
static const int channels_tested[] = {8, 3, 12, 37, 160};
enum { NCHANNELS = sizeof channels_tested / sizeof channels_tested[0] };

START_TEST(every_option)
{
    for (int i = 0; i < NCHANNELS; i++) {
        for (int bits = 0; bits < 32; bits++) {
            struct ss_norm_act op = options(bits, channels_tested[i]);
            check_layer(layer_make(&op, _i, 1 + (bits + i) % SS_NORM_MAX_DY));
            if (!op.act)
                continue;
            /* Two of the other activations */
            for (int k = 0; k < 2; k++) {
                op.act = SS_ACT_GELU + (2 * (bits / 4 + 3 * i) + k + bits) % (SS_ACT_COUNT - 2);
                check_layer(layer_make(&op, _i, 1 + (bits + i) % SS_NORM_MAX_DY));
            }
        }
    }
}
END_TEST

/* Stochastic depth, also if a vector spans two samples. */
START_TEST(shared_drops)
{
    static const struct ss_act shapes[] = {{7, 8, 3, 1, 8}, {8, 3, 1, 1, 3}, {9, 160, 1, 2, 160}};
    for (int i = 0; i < 3; i++)
        for (int bits = 0; bits < 16; bits++)
            for (int batch = 0; batch < 2; batch++) {
                struct ss_norm_act op = options(bits, 8);
                op.shape = shapes[i];
                op.dropout = 0.4f;
                op.drop = batch ? SS_DROP_BATCH : SS_DROP_SAMPLE;
                check_layer(layer_make(&op, _i, 1 + bits % SS_NORM_MAX_DY));
            }
}
END_TEST

/* Values and slopes at the kinks of activations, as in PyTorch. */
START_TEST(kinks)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    for (int i = 0; i < ACT_KINKS; i++) {
        const struct ss_norm_act op = {
            .shape = {1, 8, 1, 1, 8}, .act = act_kinks[i].kind, .slope = (float)ACT_LEAK};
        float z[8], dy[8];
        for (int j = 0; j < 8; j++)
            z[j] = act_kinks[i].at, dy[j] = 1;
        void *in = gpu_put(gpu, z, 8), *out = gpu_out(gpu, 8), *g = gpu_put(gpu, dy, 8);
        OK(ss_cuda_norm_act_reserve(gpu, &op));
        OK(ss_cuda_norm_act_forward(gpu, &op, in, NULL, NULL, NULL, NULL, out, NULL, 1,
                                    gpu_put_key(gpu, KEY)));
        const struct ss_norm_act_grad grad = {.dy = {g}, .ndy = 1, .ds = g, .z = in, .dz = in};
        OK(ss_cuda_norm_act_backward(gpu, &op, &grad));
        gpu_get(gpu, out, z, 8);
        for (int j = 0; j < 8; j++)
            ck_assert(z[j] == act_kinks[i].value || fabsf(z[j] - act_kinks[i].value) < 1e-37f);
        gpu_get(gpu, in, z, 8);
        for (int j = 0; j < 8 && isfinite(act_kinks[i].at); j++)
            ck_assert_float_eq(z[j], act_kinks[i].slope);
    }
}
END_TEST

/* Several blocks, several channel tiles, partial tiles; several chunks of pixels per block, the
 * last one partial. */
static const struct ss_act large[] = {{3, 640, 5, 4, 640}, {1, 333, 7, 9, 333}, {2, 16, 37, 33, 16},
                                      {1, 264, 9, 7, 264}, {9, 33, 40, 25, 33}, {1, 1, 61, 53, 1}};
enum { NLARGE = sizeof large / sizeof large[0] };

START_TEST(many_blocks)
{
    struct ss_norm_act op = options(31, 1);
    op.shape = large[_i / GPU_DTYPES];
    check_layer(layer_make(&op, _i % GPU_DTYPES, 2));
}
END_TEST

/* The same with full vectors, at the size of a real layer. */
START_TEST(many_chunks)
{
    struct ss_norm_act op = options(5, 1); /* no kinks */
    for (int ndy = 1; ndy <= 2; ndy++) {
        op.shape = (struct ss_act){10 / ndy, 160, 54, 54, 160};
        check_layer(layer_make(&op, SS_DTYPE_F16, ndy));
    }
}
END_TEST

/* Means so large that fp32 sums of unshifted squares would lose the variance. */
START_TEST(large_mean)
{
    for (int mean = 100; mean <= 10000; mean *= 100) {
        struct ss_norm_act op = options(1, 24);
        op.shape = (struct ss_act){4, 24, 32, 32, 24};
        struct layer *l = layer_make(&op, _i, 1);
        for (size_t i = 0; i < l->count; i++)
            l->z[i] = gpu_round((float)mean + 1.7f * l->z[i], _i); /* standard deviation 1 */
        moments(l);
        struct ss_device *gpu = gpu_for(_i);
        const struct device_layer d = upload(gpu, l);
        OK(ss_cuda_norm_act_stats(gpu, &op, d.z, d.saved, NULL));
        const float *saved = gpu_fetch_f32(gpu, d.saved, 2 * l->channels);
        for (size_t c = 0; c < l->channels; c++) {
            check_near("mean", c, saved[c], l->mean[c], 1e-7);
            check_near("invstd", c, saved[l->channels + c], invstd(l, c), 2e-6);
        }
    }
}
END_TEST

START_TEST(in_place)
{
    struct ss_device *gpu = gpu_for(_i);
    for (int bits = 0; bits < 8; bits++) {
        const struct ss_norm_act op = options(bits | 16, 40);
        const struct layer *l = layer_make(&op, _i, 1);
        const struct device_layer d = upload(gpu, l);
        run_forward(gpu, l, &d);
        const float *want = gpu_fetch(gpu, d.y, l->count);
        if (op.residual) {
            void *r = gpu_put(gpu, l->r, l->count);
            OK(ss_cuda_norm_act_forward(gpu, &op, d.z, d.gamma, d.beta, d.saved, r, r, NULL, 1,
                                        gpu_put_key(gpu, KEY)));
            ck_assert_mem_eq(gpu_fetch(gpu, r, l->count), want, l->count * sizeof(float));
        }
        OK(ss_cuda_norm_act_forward(gpu, &op, d.z, d.gamma, d.beta, d.saved, d.r, d.z, NULL, 1,
                                    gpu_put_key(gpu, KEY)));
        ck_assert_mem_eq(gpu_fetch(gpu, d.z, l->count), want, l->count * sizeof(float));
    }
}
END_TEST

/* Evaluation uses running statistics and no dropout. */
START_TEST(evaluation)
{
    struct ss_device *gpu = gpu_for(_i);
    const struct ss_norm_act op = options(31, 300);
    struct layer *l = layer_make(&op, _i, 1);
    const struct device_layer d = upload(gpu, l);
    float *running = host_floats(2 * l->channels);
    for (size_t c = 0; c < l->channels; c++) {
        running[c] = 0.01f * (float)(c % 7);
        running[l->channels + c] = 0.5f + (float)(c % 5);
        l->mean[c] = (double)running[c];
        l->var[c] = (double)running[l->channels + c];
    }
    l->training = 0;
    forward(l);
    OK(ss_cuda_norm_act_stats_eval(gpu, &op, gpu_put_f32(gpu, running, 2 * l->channels), d.saved));
    OK(ss_cuda_norm_act_forward(gpu, &op, d.z, d.gamma, d.beta, d.saved, d.r, d.y, NULL, 0,
                                gpu_put_key(gpu, KEY)));
    const float *saved = gpu_fetch_f32(gpu, d.saved, 2 * l->channels);
    for (size_t c = 0; c < l->channels; c++) {
        ck_assert(saved[c] == running[c]);
        check_near("invstd", c, saved[l->channels + c], invstd(l, c), 1e-7);
    }
    gpu_compare("y", gpu_fetch(gpu, d.y, l->count), l->y, l->count, _i);
}
END_TEST

/* Runs a training step and returns all its outputs, concatenated. */
static unsigned char *step(const struct layer *l, size_t *bytes)
{
    struct ss_device *gpu = gpu_for(l->dtype);
    const struct device_layer d = upload(gpu, l);
    const size_t tensor = l->count * ss_dtype_bytes(l->dtype), vector = l->channels * sizeof(float);
    run_forward(gpu, l, &d);
    OK(run_backward(gpu, l, &d));
    *bytes = 3 * tensor + 6 * vector;
    unsigned char *out = host_alloc(*bytes), *small = out + 3 * tensor;
    gpu_get_bytes(gpu, d.y, out, tensor);
    gpu_get_bytes(gpu, d.ds, out + tensor, tensor);
    gpu_get_bytes(gpu, d.z, out + 2 * tensor, tensor);
    gpu_get_bytes(gpu, d.saved, small, 2 * vector);
    gpu_get_bytes(gpu, d.running, small + 2 * vector, 2 * vector);
    gpu_get_bytes(gpu, d.dgamma, small + 4 * vector, vector);
    gpu_get_bytes(gpu, d.dbeta, small + 5 * vector, vector);
    return out;
}

START_TEST(same_bits_again)
{
    struct ss_norm_act op = options(31, 40);
    op.shape = (struct ss_act){5, 40, 19, 23, 40};
    const struct layer *l = layer_make(&op, _i, 3);
    size_t bytes;
    const unsigned char *one = step(l, &bytes);
    for (int turn = 0; turn < 3; turn++)
        ck_assert_mem_eq(step(l, &bytes), one, bytes);
}
END_TEST

/* Backward with several gradients equals backward with their rounded sum, except for the order of
 * BatchNorm's sums. Unrounded gradients would differ more. */
START_TEST(stored_sum_is_used)
{
    struct ss_device *gpu = gpu_for(_i);
    for (int bits = 0; bits < 2; bits++) {
        const struct ss_norm_act op = options(bits | 2 | 16, 40);
        struct layer *l = layer_make(&op, _i, 3);
        const struct device_layer d = upload(gpu, l);
        run_forward(gpu, l, &d);
        struct device_layer one = d;
        one.z = gpu_put(gpu, l->z, l->count);
        one.dgamma = bits ? gpu_out_f32(gpu, l->channels) : NULL;
        OK(run_backward(gpu, l, &d));
        one.dy[0] = one.ds = d.ds;
        l->ndy = 1;
        OK(run_backward(gpu, l, &one));
        const float *dz = gpu_fetch(gpu, d.z, l->count), *want = gpu_fetch(gpu, one.z, l->count);
        if (!bits) {
            ck_assert_mem_eq(dz, want, l->count * sizeof(float));
            continue;
        }
        for (size_t i = 0; i < l->count; i++)
            l->dz[i] = (double)want[i];
        want = gpu_fetch_f32(gpu, one.dgamma, l->channels);
        for (size_t c = 0; c < l->channels; c++)
            l->dgamma[c] = (double)want[c];
        gpu_compare_bound("dz", dz, l->dz, l->count, gpu_tolerance(_i) / 10);
        gpu_compare_bound("dgamma", gpu_fetch_f32(gpu, d.dgamma, l->channels), l->dgamma,
                          l->channels, 1e-6);
    }
}
END_TEST

/* Dropout's mask, element by element; with and without full vectors. */
START_TEST(dropout_mask)
{
    struct ss_device *gpu = gpu_for(_i);
    for (int c = 7; c <= 8; c++) {
        const struct ss_norm_act op = {.shape = {3, c, 21, 5, c}, .dropout = 0.3f};
        const size_t count = ss_act_elements(&op.shape);
        float *ones = host_floats(count);
        for (size_t i = 0; i < count; i++)
            ones[i] = 1;
        void *y = gpu_put(gpu, ones, count);
        OK(ss_cuda_norm_act_forward(gpu, &op, y, NULL, NULL, NULL, NULL, y, NULL, 1,
                                    gpu_put_key(gpu, KEY)));
        const float *got = gpu_fetch(gpu, y, count), kept = gpu_round(1 / (1 - 0.3f), _i);
        for (size_t i = 0; i < count; i++)
            if (got[i] != (ss_dropout_keep(KEY, (uint32_t)i, 0.3f) ? kept : 0))
                ck_abort_msg("element %zu of %d channels is %g", i, c, (double)got[i]);
    }
}
END_TEST

/* Equals the CPU kernel in NHWC and fp32, except for the order of sums. */
START_TEST(as_the_cpu)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    struct ss_device *cpu;
    if (ss_cpu_kernels.missing)
        return;
    OK(ss_cpu_kernels.open(&(struct ss_device_options){.threads = 1}, &cpu));
    for (int bits = 1; bits < 32; bits += 2) {
        const struct ss_norm_act op = options(bits, 20);
        const struct layer *l = layer_make(&op, SS_DTYPE_F32, 1 + bits / 2 % 2);
        const size_t n = l->count, c = l->channels;
        const struct device_layer d = upload(gpu, l);
        run_forward(gpu, l, &d);
        OK(run_backward(gpu, l, &d));

        OK(ss_cpu_kernels.norm_act_reserve(cpu, &op));
        float *saved = host_floats(2 * c), *y = host_floats(n), *ds = host_floats(n),
              *grads = host_floats(2 * c);
        OK(ss_cpu_kernels.norm_act_stats(cpu, &op, l->z, saved, NULL));
        OK(ss_cpu_kernels.norm_act_forward(cpu, &op, l->z, l->gamma, l->beta, saved,
                                           op.residual ? l->r : NULL, y, NULL, 1,
                                           &(uint64_t){KEY}));
        struct ss_norm_act_grad g = {.dy = {l->dy[0], l->dy[1]},
                                     .ndy = l->ndy,
                                     .ds = l->ndy > 1 || op.relu_out ? ds : l->dy[0],
                                     .y = op.relu_out ? y : NULL,
                                     .z = l->z,
                                     .dz = l->z,
                                     .gamma = l->gamma,
                                     .beta = l->beta,
                                     .saved = saved,
                                     .dgamma = grads,
                                     .dbeta = grads + c,
                                     .dropout_key = &(uint64_t){KEY}};
        OK(ss_cpu_kernels.norm_act_backward(cpu, &op, &g));
        double *want = host_doubles(n);
        const struct {
            const char *what;
            const float *device, *host;
            size_t count;
        } pairs[] = {{"y", d.y, y, n},
                     {"ds", d.ds, g.ds, n},
                     {"dz", d.z, l->z, n},
                     {"saved", d.saved, saved, 2 * c},
                     {"dgamma", d.dgamma, grads, c},
                     {"dbeta", d.dbeta, grads + c, c}};
        for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
            for (size_t i = 0; i < pairs[k].count; i++)
                want[i] = (double)pairs[k].host[i];
            gpu_compare_bound(pairs[k].what, gpu_fetch_f32(gpu, pairs[k].device, pairs[k].count),
                              want, pairs[k].count, 2e-6);
        }
    }
    ss_cpu_kernels.close(cpu);
}
END_TEST

/* NaN propagates, so that a diverged run is noticed. */
START_TEST(nan_stays)
{
    struct ss_device *gpu = gpu_for(_i);
    for (int bits = 0; bits < 16; bits++) {
        const struct ss_norm_act op = options(bits, 8);
        const struct layer *l = layer_make(&op, _i, 1);
        l->z[20] = NAN;
        const struct device_layer d = upload(gpu, l);
        run_forward(gpu, l, &d);
        OK(run_backward(gpu, l, &d));
        const float *y = gpu_fetch(gpu, d.y, l->count), *dz = gpu_fetch(gpu, d.z, l->count);
        ck_assert(isnan(y[20]) && !isnan(y[21]));
        ck_assert(isnan(dz[20]) || !op.has_bn);

        l->z[20] = 0.5f;
        l->dy[0][21] = NAN;
        const struct device_layer e = upload(gpu, l);
        run_forward(gpu, l, &e);
        OK(run_backward(gpu, l, &e));
        dz = gpu_fetch(gpu, e.z, l->count);
        ck_assert(isnan(dz[21]) && !isnan(dz[20]));
    }
}
END_TEST

/* The mask for zeros, values that round to zero, infinities and NaN; for pixels whose channels do
 * not fill a vector, and for a single pixel. Backward must not read y, which is NULL. */
START_TEST(mask_of_junction)
{
    static const float odd[] = {0, -0.0f, NAN, 1e-30f, -1e-30f, INFINITY, -INFINITY, 1e-3f, -1};
    enum { ODD = sizeof odd / sizeof odd[0] };
    static const int sizes[] = {8, 12, 5, 640};
    struct ss_device *gpu = gpu_for(_i);
    for (int s = 0; s < 4; s++)
        for (int pixels = 1; pixels <= 31; pixels += 15) {
            struct ss_norm_act op = options(4 | 8, sizes[s]); /* y = max(z + r, 0) */
            op.shape.n = 1, op.shape.h = 1, op.shape.w = pixels;
            struct layer *l = layer_make(&op, _i, 2);
            for (size_t i = 0; i < l->count; i++) {
                l->z[i] = gpu_round(odd[i % ODD], _i);
                l->r[i] = 0;
            }
            struct device_layer d = upload(gpu, l);
            run_forward(gpu, l, &d);
            check_mask(gpu, l, &d);
            const float *y = gpu_fetch(gpu, d.y, l->count);
            d.y = NULL;
            OK(run_backward(gpu, l, &d));
            const float *ds = gpu_fetch(gpu, d.ds, l->count);
            for (size_t i = 0; i < l->count; i++) {
                const float sum = gpu_round(l->dy[0][i] + l->dy[1][i], _i);
                if (ds[i] != (y[i] <= 0 ? 0 : sum))
                    ck_abort_msg("ds of %g is %g, gradients are %g", (double)y[i], (double)ds[i],
                                 (double)sum);
            }
        }
}
END_TEST

START_TEST(refusals)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    struct ss_norm_act op = options(1, 8);
    struct layer *l = layer_make(&op, SS_DTYPE_F32, 1);
    struct device_layer d = upload(gpu, l);
    run_forward(gpu, l, &d);
    ss_log_set_quiet(1);
    ck_assert_int_eq(ss_cuda_norm_act_forward(gpu, &op, d.z, d.gamma, d.beta, d.saved, d.y, d.y,
                                              NULL, 1, gpu_put_key(gpu, KEY)),
                     SS_ERR_INVALID); /* a residual, but the layer has none */
    ck_assert_int_eq(ss_cuda_norm_act_forward(gpu, &op, d.z, d.gamma, d.beta, NULL, NULL, d.y, NULL,
                                              1, gpu_put_key(gpu, KEY)),
                     SS_ERR_INVALID);
    d.ds = d.y;
    ck_assert_int_eq(run_backward(gpu, l, &d), SS_ERR_INVALID); /* ds would not be written */
    d.ds = d.dy[0];
    l->ndy = 0;
    ck_assert_int_eq(run_backward(gpu, l, &d), SS_ERR_INVALID);
    l->ndy = 1;
    l->op.relu_out = 1;
    ck_assert_int_eq(run_backward(gpu, l, &d), SS_ERR_INVALID);

    struct ss_norm_act bad = op;
    bad.shape.block = 4;
    ck_assert_int_eq(ss_cuda_norm_act_reserve(gpu, &bad), SS_ERR_SHAPE);
    bad = op;
    bad.shape.n = 1, bad.shape.h = 1, bad.shape.w = 1;
    ck_assert_int_eq(ss_cuda_norm_act_stats(gpu, &bad, d.z, d.saved, NULL), SS_ERR_SHAPE);
    bad = op;
    bad.dropout = 1;
    ck_assert_int_eq(ss_cuda_norm_act_reserve(gpu, &bad), SS_ERR_INVALID);
    bad = op;
    bad.eps = -1;
    ck_assert_int_eq(ss_cuda_norm_act_reserve(gpu, &bad), SS_ERR_INVALID);
    bad = op;
    bad.shape = (struct ss_act){256, 4096, 32, 32, 4096}; /* no scratch for this one */
    ck_assert_int_eq(ss_cuda_norm_act_stats(gpu, &bad, d.z, d.saved, NULL), SS_ERR_INVALID);
    ss_log_set_quiet(0);
}
END_TEST

START_TEST(halves_are_the_whole)
{
    /* Rounding to 2 bytes may differ by one unit. */
    const struct halves h = {&ss_cuda_kernels,
                             gpu_for((enum ss_dtype)_i),
                             _i == SS_DTYPE_F32 ? 1e-6 : gpu_tolerance((enum ss_dtype)_i) / 4,
                             gpu_put,
                             gpu_get,
                             NULL};
    for (int channels = 29; channels <= 32; channels += 3)
        for (int act = SS_ACT_RELU; act <= SS_ACT_GELU; act += SS_ACT_GELU - SS_ACT_RELU) {
            const struct ss_norm_act op = {.shape = {4, channels, 9, 11, channels},
                                           .has_bn = 1,
                                           .act = (enum ss_activation)act,
                                           .residual = 1,
                                           .relu_out = 1,
                                           .eps = 1e-5f,
                                           .momentum = 0.1f};
            halves_check(&h, &op);
        }
}
END_TEST

START_TEST(parts)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    const struct halves h = {&ss_cuda_kernels, gpu_for(dtype), 0, gpu_put, gpu_get, NULL};
    for (int bits = 0; bits < 16; bits++) {
        const struct ss_norm_act op = {.shape = {3, 24, 5, 7, 24},
                                       .has_bn = bits & 1,
                                       .act = bits & 2 ? SS_ACT_GELU : SS_ACT_RELU,
                                       .residual = bits >> 2 & 1,
                                       .relu_out = bits >> 2 & 1,
                                       .dropout = bits & 8 ? 0.25f : 0,
                                       .eps = 1e-5f,
                                       .momentum = 0.1f};
        parts_check_ways(&h, ss_dtype_bytes(dtype), 1, &op, 16, 48);
    }
}
END_TEST

/* Views that do not allow 16-byte accesses, or that the operation does not support, are refused. */
START_TEST(parts_refused)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F16);
    struct ss_norm_act op = {.shape = {1, 8, 2, 2, 8}, .act = SS_ACT_RELU, .z_pitch = 20};
    gpu_check_failure(ss_cuda_norm_act_reserve(gpu, &op), SS_ERR_SHAPE, "multiples of 8");
    op.z_pitch = 0;
    op.y_pitch = 16;
    OK(ss_cuda_norm_act_reserve(gpu, &op));
    op.residual = 1;
    gpu_check_failure(ss_cuda_norm_act_reserve(gpu, &op), SS_ERR_INVALID, "residual");
    op.residual = op.y_pitch = 0;
    void *z = gpu_out(gpu, 32);
    const struct ss_norm_act_grad g = {
        .dy = {z}, .ndy = 1, .ds = z, .z = z, .dz = (char *)z + 16, .adds = 1};
    gpu_check_failure(ss_cuda_norm_act_backward(gpu, &op, &g), SS_ERR_INVALID, "is a view");
}
END_TEST

TCase *gpu_norm_act_tests(void)
{
    TCase *t = tcase_create("norm_act");
    tcase_add_loop_test(t, shared_drops, 0, GPU_DTYPES);
    tcase_add_test(t, kinks);
    tcase_add_loop_test(t, every_option, 0, GPU_DTYPES);
    tcase_add_loop_test(t, many_blocks, 0, NLARGE * GPU_DTYPES);
    tcase_add_test(t, many_chunks);
    tcase_add_loop_test(t, large_mean, 0, GPU_DTYPES);
    tcase_add_loop_test(t, in_place, 0, GPU_DTYPES);
    tcase_add_loop_test(t, evaluation, 0, GPU_DTYPES);
    tcase_add_loop_test(t, same_bits_again, 0, GPU_DTYPES);
    tcase_add_loop_test(t, stored_sum_is_used, 0, GPU_DTYPES);
    tcase_add_loop_test(t, dropout_mask, 0, GPU_DTYPES);
    tcase_add_loop_test(t, halves_are_the_whole, 0, GPU_DTYPES);
    tcase_add_loop_test(t, parts, 0, GPU_DTYPES);
    tcase_add_test(t, parts_refused);
    tcase_add_test(t, as_the_cpu);
    tcase_add_loop_test(t, nan_stays, 0, GPU_DTYPES);
    tcase_add_loop_test(t, mask_of_junction, 0, GPU_DTYPES);
    tcase_add_test(t, refusals);
    return t;
}
