/* test_gpu_norm_pool.c: checks that max pooling fused into CUDA normalization is bit-identical to
 * the separate kernels, and compares it with double precision.
 *
 * BatchNorm's mean and invstd are given, not computed. "Coarse" values are multiples of 1/8, so
 * that windows have equal values, and all sums of backward are exact in any order. */
#include "kernels/dropout.h"
#include "tests/gpu/test_gpu_kernels.h"

enum { KEY = 4711 };

struct layer {
    struct ss_norm_act op;
    enum ss_dtype dtype;
    struct ss_pool_shape pool;
    size_t count, pooled, channels; /* elements of z and y */
    int ndy;
    float *z, *r, *dy[SS_NORM_MAX_DY], *gamma, *beta, *saved; /* on the host */
};

/* Results of the fused or the separate kernels; tensors as bytes. */
struct result {
    unsigned char *y, *argmax, *dz, *ds;
    float *dgamma, *dbeta;
};

static float *values(size_t count, uint32_t stream, const struct layer *l, int coarse)
{
    float *x = host_random(count, stream, l->dtype);
    for (size_t i = 0; coarse && i < count; i++)
        x[i] = nearbyintf(8 * x[i]) / 8 + 0.0f; /* no -0 */
    return x;
}

/* bits 0 to 4: BN, ReLU, residual, second ReLU, dropout. */
static struct layer *layer_make(int bits, struct ss_act shape, int pool, enum ss_dtype dtype,
                                int ndy, int coarse)
{
    struct layer *l = host_alloc(sizeof *l);
    l->op = (struct ss_norm_act){.shape = shape,
                                 .has_bn = bits & 1,
                                 .act = bits >> 1 & 1,
                                 .slope = 0.125f,
                                 .residual = bits >> 2 & 1,
                                 .relu_out = bits >> 3 & 1,
                                 .dropout = bits >> 4 & 1 ? 0.5f : 0,
                                 .pool = pool,
                                 .eps = 1e-5f,
                                 .momentum = 0.1f};
    l->pool =
        (struct ss_pool_shape){SS_POOL_MAX, shape, shape, {pool, pool}, {pool, pool}, {0, 0}, 0};
    l->pool.y.h = shape.h / pool;
    l->pool.y.w = shape.w / pool;
    l->dtype = dtype;
    l->ndy = ndy;
    l->count = ss_act_elements(&shape);
    l->pooled = ss_act_elements(&l->pool.y);
    l->channels = (size_t)shape.c;
    l->z = values(l->count, 1, l, coarse);
    l->r = values(l->count, 2, l, coarse);
    for (int k = 0; k < ndy; k++)
        l->dy[k] = values(l->pooled, 10 + (uint32_t)k, l, coarse);
    l->gamma = host_random(l->channels, 4, SS_DTYPE_F32);
    l->beta = host_random(l->channels, 5, SS_DTYPE_F32);
    l->saved = host_floats(2 * l->channels);
    for (size_t c = 0; c < l->channels; c++) {
        l->saved[c] = 0.125f * (float)(c % 4);
        l->saved[l->channels + c] = 0.5f + 0.1f * (float)(c % 7);
    }
    return l;
}

/* A layer's tensors on the device. */
struct device_layer {
    struct ss_device *gpu;
    void *z, *r, *y, *dz, *ds, *dy[SS_NORM_MAX_DY];
    uint8_t *argmax;
    float *gamma, *beta, *saved, *dgamma, *dbeta;
};

static struct device_layer upload(struct ss_device *gpu, const struct layer *l)
{
    struct device_layer d = {.gpu = gpu,
                             .z = gpu_put(gpu, l->z, l->count),
                             .dz = gpu_put(gpu, l->z, l->count),
                             .y = gpu_out(gpu, l->pooled),
                             .ds = gpu_out(gpu, l->count),
                             .argmax = gpu_out_bytes(gpu, l->pooled)};
    if (l->op.residual)
        d.r = gpu_put(gpu, l->r, l->count);
    for (int k = 0; k < l->ndy; k++)
        d.dy[k] = gpu_put(gpu, l->dy[k], l->pooled);
    if (l->op.has_bn) {
        d.gamma = gpu_put_f32(gpu, l->gamma, l->channels);
        d.beta = gpu_put_f32(gpu, l->beta, l->channels);
        d.saved = gpu_put_f32(gpu, l->saved, 2 * l->channels);
        d.dgamma = gpu_out_f32(gpu, l->channels);
        d.dbeta = gpu_out_f32(gpu, l->channels);
    }
    OK(ss_cuda_norm_act_reserve(gpu, &l->op));
    return d;
}

static struct result download(const struct layer *l, const struct device_layer *d)
{
    const size_t size = ss_dtype_bytes(l->dtype);
    struct result out = {.y = host_alloc(l->pooled * size),
                         .argmax = host_alloc(l->pooled),
                         .dz = host_alloc(l->count * size),
                         .ds = host_alloc(l->count * size)};
    gpu_get_bytes(d->gpu, d->y, out.y, l->pooled * size);
    gpu_get_bytes(d->gpu, d->argmax, out.argmax, l->pooled);
    gpu_get_bytes(d->gpu, d->dz, out.dz, l->count * size);
    gpu_get_bytes(d->gpu, d->ds, out.ds, l->count * size);
    if (l->op.has_bn) {
        out.dgamma = gpu_fetch_f32(d->gpu, d->dgamma, l->channels);
        out.dbeta = gpu_fetch_f32(d->gpu, d->dbeta, l->channels);
    }
    return out;
}

static struct ss_norm_act_grad grad_of(const struct layer *l, const struct device_layer *d)
{
    struct ss_norm_act_grad g = {.ndy = l->ndy,
                                 .ds = d->ds,
                                 .y = l->op.relu_out ? d->y : NULL,
                                 .workspace = d->argmax,
                                 .z = d->dz,
                                 .dz = d->dz,
                                 .gamma = d->gamma,
                                 .beta = d->beta,
                                 .saved = d->saved,
                                 .dgamma = d->dgamma,
                                 .dbeta = d->dbeta,
                                 .dropout_key = gpu_put_key(d->gpu, KEY)};
    for (int k = 0; k < l->ndy; k++)
        g.dy[k] = d->dy[k];
    return g;
}

static struct result fused(const struct layer *l)
{
    const struct device_layer d = upload(gpu_for(l->dtype), l);
    OK(ss_cuda_norm_act_forward(d.gpu, &l->op, d.z, d.gamma, d.beta, d.saved, d.r, d.y, d.argmax, 1,
                                gpu_put_key(d.gpu, KEY)));
    const struct ss_norm_act_grad g = grad_of(l, &d);
    OK(ss_cuda_norm_act_backward(d.gpu, &l->op, &g));
    return download(l, &d);
}

/* Runs the separate kernels: normalization, pooling; sum, their gradients. */
static struct result separate(const struct layer *l)
{
    struct device_layer d = upload(gpu_for(l->dtype), l);
    struct ss_norm_act op = l->op;
    op.pool = 0;
    OK(ss_cuda_norm_act_reserve(d.gpu, &op));
    void *const y = gpu_out(d.gpu, l->count), *const dy = gpu_out(d.gpu, l->count);
    uint8_t *mask = gpu_out_bytes(d.gpu, l->count);
    OK(ss_cuda_norm_act_forward(d.gpu, &op, d.z, d.gamma, d.beta, d.saved, d.r, y, mask, 1,
                                gpu_put_key(d.gpu, KEY)));
    struct ss_pool_kernel *pool;
    OK(ss_cuda_pool_create(d.gpu, &l->pool, 1, &pool));
    OK(ss_cuda_pool_forward(pool, y, d.y, d.argmax));

    if (l->ndy > 1)
        OK(ss_cuda_sum(d.gpu, (const void *const *)d.dy, l->ndy, d.dy[0], l->pooled));
    OK(ss_cuda_pool_backward(pool, d.dy[0], d.argmax, dy));
    ss_cuda_pool_destroy(pool);
    struct ss_norm_act_grad g = grad_of(l, &d);
    g.ndy = 1;
    g.dy[0] = dy;
    g.workspace = mask;
    if (!op.relu_out)
        g.ds = d.ds = dy;
    OK(ss_cuda_norm_act_backward(d.gpu, &op, &g));
    return download(l, &d);
}

static void check_same(const char *what, const struct layer *l, const void *got, const void *want,
                       size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp((const char *)got + i * size, (const char *)want + i * size, size))
            ck_abort_msg("%s: element %zu of %zu differs (BN %d, ReLU %d, residual %d, second ReLU "
                         "%d, dropout %g, pooling %d, %d gradients, %d channels)",
                         what, i, count, l->op.has_bn, l->op.act, l->op.residual, l->op.relu_out,
                         (double)l->op.dropout, l->op.pool, l->ndy, l->op.shape.c);
}

static void check_bits(const struct layer *l, const struct result *got, const struct result *want)
{
    const size_t size = ss_dtype_bytes(l->dtype);
    check_same("argmax", l, got->argmax, want->argmax, l->pooled, 1);
    check_same("y", l, got->y, want->y, l->pooled, size);
    check_same("ds", l, got->ds, want->ds, l->count, size);
    if (l->op.has_bn) {
        check_same("dgamma", l, got->dgamma, want->dgamma, l->channels, sizeof(float));
        check_same("dbeta", l, got->dbeta, want->dbeta, l->channels, sizeof(float));
    }
    check_same("dz", l, got->dz, want->dz, l->count, size);
}

/* Rows and columns not covered by a window; with and without full vectors. The order of sums
 * matters only for BatchNorm. */
START_TEST(as_separate_kernels)
{
    static const struct ss_act shapes[] = {
        {2, 16, 7, 5, 16}, {2, 5, 7, 6, 5}, {1, 12, 6, 8, 12}, {3, 40, 4, 4, 40}};
    const int pools[] = {2, 3, 2, 4};
    for (int s = 0; s < 4; s++)
        for (int bits = 0; bits < 32; bits++) {
            struct layer *l =
                layer_make(bits, shapes[s], pools[s], _i, 1 + (bits + s) % 3, bits & 1);
            do {
                const struct result got = fused(l), want = separate(l);
                check_bits(l, &got, &want);
                l->op.act++;
                l->op.drop = (enum ss_drop)(l->op.act % 3);
            } while (!l->op.has_bn && l->op.act > SS_ACT_RELU && l->op.act < SS_ACT_COUNT);
        }
}
END_TEST

/* Every window size; the maximum is at the last position of the first window. */
START_TEST(window_sizes)
{
    for (int pool = 1; pool <= 16; pool++) {
        const struct ss_act shape = {1, 8, 2 * pool + 1, pool + pool / 2, 8};
        struct layer *l = layer_make(29, shape, pool, _i, 2, 1);
        const size_t last = ((size_t)(pool - 1) * (size_t)shape.w + (size_t)pool - 1) * 8;
        l->z[last] = 9;
        l->gamma[0] = 1;
        l->r[last] = 9;
        const struct result got = fused(l), want = separate(l);
        check_bits(l, &got, &want);
        ck_assert_int_eq(got.argmax[0], pool * pool - 1);
    }
}
END_TEST

/* Several blocks and iterations per block, several channel tiles, the last one partial. */
static const struct ss_act large[] = {{3, 333, 43, 37, 333}, {2, 264, 21, 27, 264}};
enum { NLARGE = sizeof large / sizeof large[0] };

START_TEST(many_blocks)
{
    const struct layer *l = layer_make(29, large[_i / GPU_DTYPES], 2, _i % GPU_DTYPES, 2, 1);
    const struct result got = fused(l), want = separate(l);
    check_bits(l, &got, &want);
}
END_TEST

/* The same with full vectors and tiles, with the channels of a real layer. */
START_TEST(many_windows)
{
    const struct layer *l =
        layer_make(9, (struct ss_act){4, 640, 58, 57, 640}, 2, SS_DTYPE_F16, 1, 1);
    const struct result got = fused(l), want = separate(l);
    check_bits(l, &got, &want);
}
END_TEST

static double keep_factor(const struct layer *l, size_t i)
{
    return ss_dropout_keep(KEY, (uint32_t)i, l->op.dropout) ? 1 / (1 - (double)l->op.dropout) : 0;
}

/* Computes u and s, the inputs of both ReLUs, in double precision. */
static void before_relu(const struct layer *l, size_t i, double *u, double *s)
{
    const size_t c = i % l->channels;
    *u = (double)l->gamma[c] * ((double)l->z[i] - (double)l->saved[c]) *
             (double)l->saved[l->channels + c] +
         (double)l->beta[c];
    *s = fmax(*u, 0) * keep_factor(l, i) + (double)l->r[i];
}

/* Returns the index in z of position `place` in the window of output `out`. */
static size_t element_of(const struct layer *l, size_t out, int place)
{
    const struct ss_act *x = &l->pool.x, *y = &l->pool.y;
    const size_t c = out % l->channels, pixel = out / l->channels, pool = (size_t)l->op.pool;
    const size_t q = pixel % (size_t)y->w, p = pixel / (size_t)y->w % (size_t)y->h;
    const size_t n = pixel / (size_t)y->w / (size_t)y->h;
    const size_t row = p * pool + (size_t)place / pool, column = q * pool + (size_t)place % pool;
    return ((n * (size_t)x->h + row) * (size_t)x->w + column) * l->channels + c;
}

/* All options together. Which of two nearly equal values is larger may depend on the precision, so
 * the reference uses the device's argmax after checking the value there. */
START_TEST(double_precision)
{
    struct layer *l = layer_make(31, (struct ss_act){3, 24, 9, 7, 24}, 2, _i, 3, 0);
    double u, s, *y = host_doubles(l->pooled), *ds = host_doubles(l->count);
    double *dz = host_doubles(l->count), *dgamma = host_doubles(l->channels),
           *dbeta = host_doubles(l->channels);
    for (size_t i = 0; i < l->count; i++) /* away from the kinks of both ReLUs */
        for (before_relu(l, i, &u, &s); fabs(u) < 1e-4 || fabs(s) < 1e-4;
             before_relu(l, i, &u, &s)) {
            l->z[i] = gpu_round(l->z[i] + 0.07f, _i);
            l->r[i] = gpu_round(l->r[i] + 0.03f, _i);
        }
    const struct result got = fused(l);
    for (size_t o = 0; o < l->pooled; o++) {
        double most = 0;
        for (int place = 0; place < 4; place++) {
            before_relu(l, element_of(l, o, place), &u, &s);
            most = fmax(most, s);
        }
        const size_t i = element_of(l, o, got.argmax[o]);
        before_relu(l, i, &u, &s);
        y[o] = fmax(s, 0);
        ck_assert_double_le(most - y[o], 4 * gpu_tolerance(_i) * (1 + most));
        for (int k = 0; s > 0 && k < l->ndy; k++)
            ds[i] += (double)l->dy[k][o];
        dz[i] = u > 0 ? ds[i] * keep_factor(l, i) : 0;
    }
    const double m = (double)(l->count / l->channels);
    for (size_t i = 0; i < l->count; i++) {
        const size_t c = i % l->channels;
        dbeta[c] += dz[i];
        dgamma[c] +=
            dz[i] * ((double)l->z[i] - (double)l->saved[c]) * (double)l->saved[l->channels + c];
    }
    for (size_t i = 0; i < l->count; i++) {
        const size_t c = i % l->channels;
        const double invstd = (double)l->saved[l->channels + c];
        const double zhat = ((double)l->z[i] - (double)l->saved[c]) * invstd;
        dz[i] = (double)l->gamma[c] * invstd * (dz[i] - dbeta[c] / m - zhat * dgamma[c] / m);
    }
    struct ss_device *gpu = gpu_for(_i);
    const size_t size = ss_dtype_bytes(_i);
    gpu_compare("y", gpu_fetch(gpu, gpu_put_bytes(gpu, got.y, l->pooled * size), l->pooled), y,
                l->pooled, _i);
    gpu_compare("ds", gpu_fetch(gpu, gpu_put_bytes(gpu, got.ds, l->count * size), l->count), ds,
                l->count, _i);
    gpu_compare("dz", gpu_fetch(gpu, gpu_put_bytes(gpu, got.dz, l->count * size), l->count), dz,
                l->count, _i);
    gpu_compare("dgamma", got.dgamma, dgamma, l->channels, _i);
    gpu_compare("dbeta", got.dbeta, dbeta, l->channels, _i);
}
END_TEST

/* Fails unless both are equal or both NaN. */
static void check_values(const char *what, const struct layer *l, const unsigned char *got,
                         const unsigned char *want, size_t count)
{
    struct ss_device *gpu = gpu_for(l->dtype);
    const size_t bytes = count * ss_dtype_bytes(l->dtype);
    const float *a = gpu_fetch(gpu, gpu_put_bytes(gpu, got, bytes), count),
                *b = gpu_fetch(gpu, gpu_put_bytes(gpu, want, bytes), count);
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            ck_abort_msg("%s: element %zu is %g, want %g", what, i, (double)a[i], (double)b[i]);
}

/* Replaces the given statistics by those of z. */
static void take_statistics(struct layer *l)
{
    if (!l->op.has_bn)
        return;
    const struct device_layer d = upload(gpu_for(l->dtype), l);
    OK(ss_cuda_norm_act_stats(d.gpu, &l->op, d.z, d.saved, NULL));
    gpu_get_f32(d.gpu, d.saved, l->saved, 2 * l->channels);
}

/* NaN and infinities in z, alone and together in a window, in the residual and in a gradient. */
START_TEST(not_finite)
{
    for (int bits = 0; bits < 16; bits++) {
        struct layer *l = layer_make(bits, (struct ss_act){1, 8, 5, 9, 8}, 2, _i, 2, 1);
        const struct {
            int place; /* in the window of the first row whose number is the channel's */
            float value;
        } put[] = {{3, NAN}, {0, NAN}, {2, INFINITY}, {1, -INFINITY}};
        for (int o = 0; o < 4; o++)
            l->z[element_of(l, (size_t)(o * 8 + o), put[o].place)] = put[o].value;
        l->z[element_of(l, 0, 1)] = NAN; /* the last of two NaN wins */
        l->r[element_of(l, 5, 2)] = NAN;
        l->dy[1][16 + 6] = NAN;
        for (int place = 0; place < 4; place++)
            l->z[element_of(l, 8 + 7, place)] = -INFINITY;
        take_statistics(l);
        const struct result got = fused(l), want = separate(l);
        check_same("argmax", l, got.argmax, want.argmax, l->pooled, 1);
        ck_assert_int_eq(got.argmax[0], 3);
        check_values("y", l, got.y, want.y, l->pooled);
        check_values("ds", l, got.ds, want.ds, l->count);
        check_values("dz", l, got.dz, want.dz, l->count);
    }
}
END_TEST

/* Repeated runs are bit-identical, with sums that are not exact. */
START_TEST(same_bits_again)
{
    const struct layer *l = layer_make(31, (struct ss_act){5, 40, 19, 23, 40}, 2, _i, 3, 0);
    const struct result one = fused(l);
    for (int turn = 0; turn < 3; turn++) {
        const struct result again = fused(l);
        check_bits(l, &again, &one);
    }
}
END_TEST

/* Without ds in backward; without argmax and dropout in forward. */
START_TEST(outputs_left_out)
{
    struct layer *l = layer_make(31, (struct ss_act){2, 16, 7, 5, 16}, 2, _i, 2, 1);
    const struct device_layer d = upload(gpu_for(_i), l);
    const struct result want = fused(l);
    OK(ss_cuda_norm_act_forward(d.gpu, &l->op, d.z, d.gamma, d.beta, d.saved, d.r, d.y, d.argmax, 1,
                                gpu_put_key(d.gpu, KEY)));
    struct ss_norm_act_grad g = grad_of(l, &d);
    g.ds = NULL;
    OK(ss_cuda_norm_act_backward(d.gpu, &l->op, &g));
    check_same("dz", l, download(l, &d).dz, want.dz, l->count, ss_dtype_bytes(_i));

    OK(ss_cuda_norm_act_forward(d.gpu, &l->op, d.z, d.gamma, d.beta, d.saved, d.r, d.y, NULL, 0,
                                gpu_put_key(d.gpu, KEY)));
    l->op.dropout = 0;
    check_same("y", l, download(l, &d).y, fused(l).y, l->pooled, ss_dtype_bytes(_i));
}
END_TEST

START_TEST(refusals)
{
    struct layer *l = layer_make(9, (struct ss_act){2, 8, 5, 4, 8}, 2, SS_DTYPE_F32, 1, 1);
    struct device_layer d = upload(gpu_for(SS_DTYPE_F32), l);
    ss_log_set_quiet(1);
    struct ss_norm_act bad = l->op;
    bad.pool = 5;
    gpu_check_failure(ss_cuda_norm_act_reserve(d.gpu, &bad), SS_ERR_SHAPE, "5x5");
    bad.shape.h = bad.shape.w = 40;
    bad.pool = 17;
    gpu_check_failure(ss_cuda_norm_act_reserve(d.gpu, &bad), SS_ERR_SHAPE, "17x17");
    gpu_check_failure(ss_cuda_norm_act_forward(d.gpu, &l->op, d.z, d.gamma, d.beta, d.saved, NULL,
                                               d.z, d.argmax, 1, gpu_put_key(d.gpu, KEY)),
                      SS_ERR_INVALID, "of its own");
    struct ss_norm_act_grad g = grad_of(l, &d);
    g.workspace = NULL;
    gpu_check_failure(ss_cuda_norm_act_backward(d.gpu, &l->op, &g), SS_ERR_INVALID, "argmax");
    g = grad_of(l, &d);
    g.ds = d.dy[0];
    gpu_check_failure(ss_cuda_norm_act_backward(d.gpu, &l->op, &g), SS_ERR_INVALID, "dy[0]");

    const struct ss_device_options options = {.dtype = SS_DTYPE_F32};
    struct ss_device *fresh;
    OK(ss_cuda_open(&options, &fresh));
    g = grad_of(l, &d);
    gpu_check_failure(ss_cuda_norm_act_backward(fresh, &l->op, &g), SS_ERR_INVALID, "reserve");
    ss_cuda_close(fresh);
    ss_log_set_quiet(0);
}
END_TEST

TCase *gpu_norm_pool_tests(void)
{
    TCase *t = tcase_create("norm_pool");
    tcase_add_loop_test(t, as_separate_kernels, 0, GPU_DTYPES);
    tcase_add_loop_test(t, window_sizes, 0, GPU_DTYPES);
    tcase_add_loop_test(t, many_blocks, 0, NLARGE * GPU_DTYPES);
    tcase_add_test(t, many_windows);
    tcase_add_loop_test(t, double_precision, 0, GPU_DTYPES);
    tcase_add_loop_test(t, not_finite, 0, GPU_DTYPES);
    tcase_add_loop_test(t, same_bits_again, 0, GPU_DTYPES);
    tcase_add_loop_test(t, outputs_left_out, 0, GPU_DTYPES);
    tcase_add_test(t, refusals);
    return t;
}
