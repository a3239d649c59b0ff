/* test_gpu_linear.c: compares the fully connected layer on a GPU with double precision. */
#include "tests/gpu/test_gpu_kernels.h"

static const struct shape {
    struct ss_act x;
    int outputs, no_bias;
} shapes[] = {
    {{.n = 1, .c = 1, .h = 1, .w = 1, .block = 1}, 1, 0},
    {{.n = 2, .c = 5, .h = 3, .w = 2, .block = 5}, 7, 0}, /* no multiples of 8 */
    {{.n = 4, .c = 8, .h = 2, .w = 2, .block = 8}, 16, 0},
    {{.n = 17, .c = 64, .h = 1, .w = 1, .block = 64}, 100, 0},
    {{.n = 64, .c = 640, .h = 1, .w = 1, .block = 640}, 100, 0}, /* WideResNet's */
    {{.n = 2, .c = 5, .h = 3, .w = 2, .block = 5}, 7, 1},
    {{.n = 17, .c = 64, .h = 1, .w = 1, .block = 64}, 100, 1},
};
enum { NSHAPES = sizeof shapes / sizeof shapes[0] };

/* Operands on the host; x, w, dy are rounded to the format. */
struct data {
    size_t n, c, pixels, f, k;
    float *x;         /* (N,H,W,C) */
    float *w;         /* plain (K, C*H*W) */
    float *bias, *dy; /* bias NULL: layer without bias */
};

static struct data make_data(const struct shape *s, enum ss_dtype dtype)
{
    struct data d = {.n = (size_t)s->x.n,
                     .c = (size_t)s->x.c,
                     .pixels = (size_t)(s->x.h * s->x.w),
                     .k = (size_t)s->outputs};
    d.f = d.c * d.pixels;
    d.x = host_random(d.n * d.f, 1, dtype);
    d.w = host_random(d.k * d.f, 2, dtype);
    d.bias = s->no_bias ? NULL : host_random(d.k, 3, SS_DTYPE_F32);
    d.dy = host_random(d.n * d.k, 4, dtype);
    return d;
}

/* Returns the column in (c,h,w) order of x's column i = (h,w,c). */
static size_t plain_column(const struct data *d, size_t i)
{
    return i % d->c * d->pixels + i / d->c;
}

struct result {
    double *y, *dx;     /* (N,K), (N,H,W,C) */
    double *dw, *dbias; /* native (K, H*W*C), (K) */
};

static struct result reference(const struct data *d)
{
    struct result r = {host_doubles(d->n * d->k), host_doubles(d->n * d->f),
                       host_doubles(d->k * d->f), host_doubles(d->k)};
    for (size_t n = 0; n < d->n; n++)
        for (size_t k = 0; k < d->k; k++) {
            const double dy = (double)d->dy[n * d->k + k];
            double y = d->bias ? (double)d->bias[k] : 0;
            for (size_t i = 0; i < d->f; i++) {
                const double x = (double)d->x[n * d->f + i];
                const double w = (double)d->w[k * d->f + plain_column(d, i)];
                y += w * x;
                r.dx[n * d->f + i] += w * dy;
                r.dw[k * d->f + i] += x * dy;
            }
            r.y[n * d->k + k] = y;
            r.dbias[k] += dy;
        }
    return r;
}

/* The layer and its arrays on the device. */
struct layer {
    struct ss_device *gpu;
    struct ss_linear_kernel *op;
    float *w_plain, *w_native; /* host */
    void *x, *w, *dy, *y, *dx;
    float *bias, *dw, *dbias;
};

static struct layer make_layer(struct ss_device *gpu, const struct shape *s, const struct data *d)
{
    struct layer l = {.gpu = gpu, .w_plain = d->w, .w_native = host_floats(d->k * d->f)};
    OK(ss_cuda_linear_create(gpu, &s->x, s->outputs, !s->no_bias, 1, &l.op));
    ck_assert_uint_eq(ss_cuda_linear_weight_bytes(l.op), d->k * d->f * sizeof(float));
    ss_cuda_linear_import(l.op, d->w, l.w_native);
    l.x = gpu_put(gpu, d->x, d->n * d->f);
    l.w = gpu_put(gpu, l.w_native, d->k * d->f);
    l.dy = gpu_put(gpu, d->dy, d->n * d->k);
    l.bias = d->bias ? gpu_put_f32(gpu, d->bias, d->k) : NULL;
    l.y = gpu_out(gpu, d->n * d->k);
    l.dx = gpu_out(gpu, d->n * d->f);
    l.dw = gpu_out_f32(gpu, d->k * d->f);
    l.dbias = d->bias ? gpu_out_f32(gpu, d->k) : NULL;
    return l;
}

static void run_layer(struct layer *l)
{
    OK(ss_cuda_linear_forward(l->op, l->x, l->w, l->bias, l->y));
    OK(ss_cuda_linear_backward_data(l->op, l->dy, l->w, l->dx));
    OK(ss_cuda_linear_backward_weights(l->op, l->x, l->dy, l->dw, l->dbias));
}

static void compare_layer(struct layer *l, const struct data *d, double bound, double bound_f32)
{
    const struct result want = reference(d);
    const size_t ny = d->n * d->k, nx = d->n * d->f, nw = d->k * d->f;
    gpu_check_written("y", l->gpu, l->y, ny);
    gpu_check_written("dx", l->gpu, l->dx, nx);
    gpu_check_written_f32("dw", l->gpu, l->dw, nw);
    gpu_compare_bound("y", gpu_fetch(l->gpu, l->y, ny), want.y, ny, bound);
    gpu_compare_bound("dx", gpu_fetch(l->gpu, l->dx, nx), want.dx, nx, bound);
    /* fp32 sums of exact products: the error does not depend on the format of the factors. */
    gpu_compare_bound("dw", gpu_fetch_f32(l->gpu, l->dw, nw), want.dw, nw, bound_f32);
    if (!d->bias)
        return;
    gpu_check_written_f32("dbias", l->gpu, l->dbias, d->k);
    gpu_compare_bound("dbias", gpu_fetch_f32(l->gpu, l->dbias, d->k), want.dbias, d->k, 1e-5);
}

static void check_layer(struct ss_device *gpu, const struct shape *s, double bound,
                        double bound_f32)
{
    const struct data d = make_data(s, ss_cuda_dtype(gpu));
    struct layer l = make_layer(gpu, s, &d);
    run_layer(&l);
    compare_layer(&l, &d, bound, bound_f32);
    ss_cuda_linear_destroy(l.op);
}

START_TEST(products)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    for (int i = 0; i < NSHAPES; i++)
        check_layer(gpu_for(dtype), &shapes[i], gpu_tolerance(dtype), 1e-5);
}
END_TEST

/* Same as products, but without the library's bias epilogue. The host emulation can disable it;
 * on a GPU this repeats products. */
START_TEST(bias_by_a_kernel)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    for (int i = 0; i < NSHAPES; i++) {
        const struct data d = make_data(&shapes[i], dtype);
        setenv("SS_HOSTGPU_NO_BIAS_EPILOGUE", "1", 1);
        struct layer l = make_layer(gpu_for(dtype), &shapes[i], &d);
        unsetenv("SS_HOSTGPU_NO_BIAS_EPILOGUE");
        run_layer(&l);
        compare_layer(&l, &d, gpu_tolerance(dtype), 1e-5);
        ss_cuda_linear_destroy(l.op);
    }
}
END_TEST

START_TEST(tf32)
{
    const struct ss_device_options options = {.dtype = SS_DTYPE_F32, .tf32 = 1};
    struct ss_device *gpu;
    OK(ss_cuda_open(&options, &gpu));
    for (int i = 0; i < NSHAPES; i++)
        check_layer(gpu, &shapes[i], 2.5e-3, 2.5e-3); /* 2 * 2^-10, if inputs are truncated */
    ss_cuda_close(gpu);
}
END_TEST

/* Two layers alternate on the same scratch; the second round must be bit-identical to the first. */
START_TEST(repeatable)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    const struct shape *const two[] = {&shapes[1], &shapes[4]};
    struct layer layers[2];
    struct data data[2];
    float *first[2][2];
    for (int i = 0; i < 2; i++) {
        data[i] = make_data(two[i], (enum ss_dtype)_i);
        layers[i] = make_layer(gpu, two[i], &data[i]);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++)
            run_layer(&layers[i]);
        for (int i = 0; i < 2; i++) {
            const size_t ny = data[i].n * data[i].k, nw = data[i].k * data[i].f;
            float *y = gpu_fetch(gpu, layers[i].y, ny);
            float *dw = gpu_fetch_f32(gpu, layers[i].dw, nw);
            if (round == 0) {
                first[i][0] = y;
                first[i][1] = dw;
                continue;
            }
            ck_assert_int_eq(memcmp(y, first[i][0], ny * sizeof(float)), 0);
            ck_assert_int_eq(memcmp(dw, first[i][1], nw * sizeof(float)), 0);
        }
    }
    for (int i = 0; i < 2; i++)
        ss_cuda_linear_destroy(layers[i].op);
}
END_TEST

START_TEST(weights_there_and_back)
{
    const struct shape *s = &shapes[1];
    const struct data d = make_data(s, SS_DTYPE_F32);
    struct layer l = make_layer(gpu_for(SS_DTYPE_F32), s, &d);
    /* Output 3, channel 4, row 2, column 1 of (5,3,2). */
    ck_assert_float_eq(l.w_native[3 * 30 + (2 * 2 + 1) * 5 + 4], d.w[3 * 30 + 4 * 6 + 2 * 2 + 1]);
    float *back = host_floats(d.k * d.f);
    ss_cuda_linear_export(l.op, l.w_native, back);
    ck_assert_int_eq(memcmp(back, d.w, d.k * d.f * sizeof(float)), 0);
    ss_cuda_linear_destroy(l.op);
}
END_TEST

START_TEST(wrong_use)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    struct ss_linear_kernel *op = NULL;
    struct ss_act x = {.n = 2, .c = 8, .h = 1, .w = 1, .block = 8};
    ss_log_set_quiet(1);
    gpu_check_failure(ss_cuda_linear_create(gpu, &x, 0, 1, 1, &op), SS_ERR_SHAPE, "0 outputs");
    x.block = 4;
    gpu_check_failure(ss_cuda_linear_create(gpu, &x, 3, 1, 1, &op), SS_ERR_SHAPE, "blocks of 4");
    x = (struct ss_act){.n = 2, .c = 65536, .h = 256, .w = 256, .block = 65536};
    gpu_check_failure(ss_cuda_linear_create(gpu, &x, 3, 1, 1, &op), SS_ERR_SHAPE,
                      "too many features");
    x = (struct ss_act){.n = 2, .c = 8, .h = 1, .w = 1, .block = 8};
    OK(ss_cuda_linear_create(gpu, &x, 4, 1, 0, &op));
    float *values = gpu_out_f32(gpu, 64);
    gpu_check_failure(ss_cuda_linear_backward_data(op, values, values, values), SS_ERR_INVALID,
                      "without training");
    gpu_check_failure(ss_cuda_linear_backward_weights(op, values, values, values, values),
                      SS_ERR_INVALID, "without training");
    gpu_check_failure(ss_cuda_linear_forward(op, values + 1, values, values, values),
                      SS_ERR_INVALID, "multiples of 16");
    gpu_check_failure(ss_cuda_linear_forward(op, values, values, values + 1, values),
                      SS_ERR_INVALID, "multiples of 16");
    gpu_check_failure(ss_cuda_linear_forward(op, values, values, NULL, values), SS_ERR_INVALID,
                      "a bias is missing, but the layer has one");
    ss_cuda_linear_destroy(op);
    OK(ss_cuda_linear_create(gpu, &x, 4, 0, 1, &op));
    gpu_check_failure(ss_cuda_linear_backward_weights(op, values, values, values, values),
                      SS_ERR_INVALID, "a bias is given, but the layer has none");
    ss_log_set_quiet(0);
    ss_cuda_linear_destroy(op);
    ss_cuda_linear_destroy(NULL);
}
END_TEST

TCase *gpu_linear_tests(void)
{
    TCase *t = tcase_create("linear");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, products, 0, GPU_DTYPES);
    tcase_add_loop_test(t, bias_by_a_kernel, 0, GPU_DTYPES);
    tcase_add_test(t, tf32);
    tcase_add_loop_test(t, repeatable, 0, GPU_DTYPES);
    tcase_add_test(t, weights_there_and_back);
    tcase_add_test(t, wrong_use);
    return t;
}
