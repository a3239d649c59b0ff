/* test_gpu_small_pool.c: compares pooling on a GPU with a naive reference. */
#include "tests/gpu/test_gpu_small.h"

struct reference {
    struct ss_pool_shape s;
    size_t inputs, outputs;
    float *x, *dy;
    double *y, *dx;
    unsigned char *argmax;
};

static const struct {
    int kind, n, c, h, w, kernel, stride, pad;
} cases[] = {
    {SS_POOL_MAX, 2, 32, 8, 8, 2, 2, 0},    {SS_POOL_MAX, 3, 24, 9, 7, 2, 2, 0},
    {SS_POOL_MAX, 2, 20, 6, 5, 2, 2, 0},    {SS_POOL_MAX, 2, 5, 5, 6, 2, 2, 0},
    {SS_POOL_MAX, 2, 40, 9, 12, 3, 2, 1},   {SS_POOL_MAX, 1, 3, 7, 7, 3, 1, 1},
    {SS_POOL_MAX, 1, 16, 17, 18, 16, 2, 8}, {SS_POOL_MAX, 1, 8, 9, 9, 2, 3, 0},
    {SS_POOL_MAX, 2, 8, 4, 4, 2, 1, 1},     {SS_POOL_MAX, 1, 2056, 3, 3, 2, 2, 0},
    {SS_POOL_MAX, 5, 64, 34, 32, 2, 2, 0},  {SS_POOL_AVG, 2, 56, 8, 8, 7, 7, 0},
    {SS_POOL_AVG, 3, 640, 8, 8, 8, 8, 0},   {SS_POOL_AVG, 1, 41, 9, 7, 3, 2, 1},
    {SS_POOL_AVG, 2, 16, 6, 7, 2, 2, 0},    {SS_POOL_AVG, 2, 16, 7, 7, 5, 1, 2},
    {SS_POOL_AVG, 1, 8, 1, 1, 1, 1, 0},     {SS_POOL_AVG, 3, 16, 10, 10, 3, 4, 0},
    {SS_POOL_AVG, 3, 32, 40, 41, 3, 1, 1},
};
enum { NSQUARE = sizeof cases / sizeof cases[0] };

/* Non-square windows, ceil mode, count_pad 0 and 1, adaptive pooling. Only channels, heights and
 * widths of x and y are given. The windows are tested against PyTorch's formulas on the CPU. */
static const struct ss_pool_shape others[] = {
    {SS_POOL_MAX, {0, 12, 9, 7, 0}, {0, 0, 5, 2, 0}, {3, 2}, {2, 3}, {1, 0}, 0},
    {SS_POOL_MAX, {0, 16, 8, 7, 0}, {0, 0, 4, 3, 0}, {3, 3}, {2, 2}, {0, 0}, 0},
    {SS_POOL_MAX, {0, 8, 7, 5, 0}, {0, 0, 4, 3, 0}, {2, 2}, {2, 2}, {0, 0}, 0},
    {SS_POOL_AVG, {0, 24, 7, 8, 0}, {0, 0, 8, 3, 0}, {2, 3}, {1, 2}, {1, 0}, 0},
    {SS_POOL_AVG, {0, 12, 8, 7, 0}, {0, 0, 5, 4, 0}, {3, 3}, {2, 2}, {1, 1}, 1},
    {SS_POOL_AVG, {0, 20, 8, 7, 0}, {0, 0, 5, 4, 0}, {3, 2}, {2, 2}, {1, 0}, 0},
    {SS_POOL_AVG, {0, 3, 30, 20, 0}, {0, 0, 1, 1, 0}, {30, 20}, {30, 20}, {0, 0}, 1},
    {SS_POOL_ADAPTIVE, {0, 20, 7, 5, 0}, {0, 0, 3, 2, 0}, {0, 0}, {0, 0}, {0, 0}, 0},
    {SS_POOL_ADAPTIVE, {0, 16, 2, 1, 0}, {0, 0, 7, 6, 0}, {0, 0}, {0, 0}, {0, 0}, 0},
    {SS_POOL_ADAPTIVE, {0, 24, 6, 9, 0}, {0, 0, 3, 3, 0}, {0, 0}, {0, 0}, {0, 0}, 0},
};
enum { NCASES = NSQUARE + sizeof others / sizeof others[0] };

static size_t at(const struct ss_act *a, int n, int h, int w, int c)
{
    return (size_t)((n * a->h + h) * a->w + w) * (size_t)a->c + (size_t)c;
}

/* Computes one output: its value and argmax, and adds its gradient to dx. */
static void window(struct reference *r, int n, int p, int q, int c)
{
    const struct ss_pool_shape *s = &r->s;
    const size_t o = at(&s->y, n, p, q, c);
    int top, bottom, left, right;
    const int rows = ss_pool_window(s, 0, p, &top, &bottom);
    const double area = rows * ss_pool_window(s, 1, q, &left, &right);
    double best = -INFINITY, sum = 0;
    size_t first = 0;
    int place = -1;
    for (int h = top; h < bottom; h++)
        for (int w = left; w < right; w++) {
            const size_t k = at(&s->x, n, h, w, c);
            const double v = (double)r->x[k];
            sum += v;
            if (s->kind != SS_POOL_MAX)
                r->dx[k] += (double)r->dy[o] / area;
            if (place < 0 || v > best || isnan(v)) {
                best = v;
                first = k;
                place = (h + s->pad[0] - p * s->stride[0]) * s->kernel[1] + w + s->pad[1] -
                        q * s->stride[1];
            }
        }
    if (s->kind == SS_POOL_MAX)
        r->dx[first] += (double)r->dy[o];
    r->y[o] = s->kind == SS_POOL_MAX ? best : sum / area;
    r->argmax[o] = (unsigned char)place;
}

static void walk(struct reference *r)
{
    const struct ss_act *y = &r->s.y;
    for (int n = 0; n < y->n; n++)
        for (int p = 0; p < y->h; p++)
            for (int q = 0; q < y->w; q++)
                for (int c = 0; c < y->c; c++)
                    window(r, n, p, q, c);
}

static void reference_make(struct reference *r, int i, enum ss_dtype dtype)
{
    struct ss_pool_shape *s = &r->s;
    const int square_i = i < NSQUARE ? i : 0;
    s->kind = (enum ss_pool_kind)cases[square_i].kind;
    s->x = (struct ss_act){cases[square_i].n, cases[square_i].c, cases[square_i].h,
                           cases[square_i].w, cases[square_i].c};
    for (int a = 0; a < 2; a++) {
        s->kernel[a] = cases[square_i].kernel;
        s->stride[a] = cases[square_i].stride;
        s->pad[a] = cases[square_i].pad;
    }
    s->count_pad = 1;
    s->y = s->x;
    s->y.h = (s->x.h + 2 * s->pad[0] - s->kernel[0]) / s->stride[0] + 1;
    s->y.w = (s->x.w + 2 * s->pad[1] - s->kernel[1]) / s->stride[1] + 1;
    if (i >= NSQUARE) {
        *s = others[i - NSQUARE];
        s->y.n = s->x.n = 2;
        s->y.c = s->y.block = s->x.block = s->x.c;
    }
    r->inputs = ss_act_elements(&s->x);
    r->outputs = ss_act_elements(&s->y);
    r->x = host_random(r->inputs, 1, dtype);
    r->dy = host_random(r->outputs, 2, dtype);
    r->y = host_doubles(r->outputs);
    r->dx = host_doubles(r->inputs);
    r->argmax = host_alloc(r->outputs);
    /* Few distinct values: many windows have several maxima. */
    if (i % 2 == 0)
        for (size_t k = 0; k < r->inputs; k++)
            r->x[k] = floorf(3 * r->x[k]);
}

static void run(const struct reference *r, struct ss_device *gpu)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    const int max = r->s.kind == SS_POOL_MAX;
    const void *x = gpu_put(gpu, r->x, r->inputs), *dy = gpu_put(gpu, r->dy, r->outputs);
    void *y = gpu_out(gpu, r->outputs), *dx = gpu_out(gpu, r->inputs);
    uint8_t *argmax = max ? gpu_out_bytes(gpu, r->outputs) : NULL;
    struct ss_pool_kernel *pool;
    OK(ss_cuda_pool_create(gpu, &r->s, 1, &pool));
    ck_assert_uint_eq(ss_cuda_pool_workspace_bytes(pool), max ? r->outputs : 0);
    OK(ss_cuda_pool_forward(pool, x, y, argmax));
    float *got = gpu_fetch(gpu, y, r->outputs);
    gpu_compare_bound("y", got, r->y, r->outputs, max ? 0 : gpu_tolerance(dtype));
    if (max) {
        unsigned char *places = host_alloc(r->outputs);
        gpu_get_bytes(gpu, argmax, places, r->outputs);
        ck_assert_mem_eq(places, r->argmax, r->outputs);
        void *inference = gpu_out(gpu, r->outputs);
        OK(ss_cuda_pool_forward(pool, x, inference, NULL));
        ck_assert_mem_eq(gpu_fetch(gpu, inference, r->outputs), got, r->outputs * sizeof(float));
    }
    OK(ss_cuda_pool_backward(pool, dy, argmax, dx));
    ss_cuda_pool_destroy(pool);
    gpu_check_written("dx", gpu, dx, r->inputs);
    got = gpu_fetch(gpu, dx, r->inputs);
    gpu_compare("dx", got, r->dx, r->inputs, dtype);
    for (size_t i = 0; i < r->inputs; i++)
        if (r->dx[i] == 0 && fabsf(got[i]) > 1e-7f) /* contributions may cancel */
            ck_abort_msg("dx: element %zu is %g instead of 0", i, (double)got[i]);
}

START_TEST(pooling)
{
    struct ss_device *gpu = gpu_one_sm((enum ss_dtype)(_i % GPU_DTYPES));
    struct reference r;
    reference_make(&r, _i / GPU_DTYPES, ss_cuda_dtype(gpu));
    walk(&r);
    run(&r, gpu);
}
END_TEST

/* Infinities and NaN: the last NaN of a window wins; windows may contain only -infinity. */
START_TEST(special_values)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    for (int i = 0; i < NCASES; i++) {
        struct reference r;
        reference_make(&r, i, ss_cuda_dtype(gpu));
        if (r.s.kind != SS_POOL_MAX || r.inputs > 100000)
            continue;
        for (size_t k = 0; k < r.inputs; k++)
            r.x[k] = k % 11 == 3 ? NAN : k % 13 == 5 ? INFINITY : k % 3 ? -INFINITY : r.x[k];
        walk(&r);
        void *y = gpu_out(gpu, r.outputs);
        uint8_t *argmax = gpu_out_bytes(gpu, r.outputs);
        struct ss_pool_kernel *pool;
        OK(ss_cuda_pool_create(gpu, &r.s, 0, &pool));
        OK(ss_cuda_pool_forward(pool, gpu_put(gpu, r.x, r.inputs), y, argmax));
        ss_cuda_pool_destroy(pool);
        const float *got = gpu_fetch(gpu, y, r.outputs);
        unsigned char *places = host_alloc(r.outputs);
        gpu_get_bytes(gpu, argmax, places, r.outputs);
        float *want = host_floats(r.outputs);
        for (size_t k = 0; k < r.outputs; k++)
            want[k] = (float)r.y[k];
        check_equal("y", got, want, r.outputs);
        ck_assert_mem_eq(places, r.argmax, r.outputs);
    }
}
END_TEST

START_TEST(bad_shapes)
{
    static const struct ss_pool_shape good = {
        SS_POOL_MAX, {2, 16, 8, 8, 16}, {2, 16, 4, 4, 16}, {2, 2}, {2, 2}, {0, 0}, 0};
    static const struct {
        int kernel, stride, pad, p, q;
    } bad[] = {{0, 1, 0, 8, 8}, {17, 1, 8, 8, 8}, {2, 0, 0, 4, 4}, {2, 2, 2, 6, 6},
               {9, 1, 0, 0, 0}, {2, 2, -1, 3, 3}, {2, 2, 0, 4, 5}, {2, 2, 0, 5, 4}};
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    struct ss_pool_kernel *pool;
    ss_log_set_quiet(1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ss_pool_shape s = good;
        for (int a = 0; a < 2; a++) {
            s.kernel[a] = bad[i].kernel;
            s.stride[a] = bad[i].stride;
            s.pad[a] = bad[i].pad;
        }
        s.y.h = bad[i].p;
        s.y.w = bad[i].q;
        ck_assert_int_eq(ss_cuda_pool_create(gpu, &s, 1, &pool), SS_ERR_SHAPE);
        ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "pooling"));
    }
    struct ss_pool_shape s = good;
    s.y.c = s.y.block = 8;
    ck_assert_int_eq(ss_cuda_pool_create(gpu, &s, 1, &pool), SS_ERR_SHAPE);
    s = good;
    s.x.block = s.y.block = 8;
    ck_assert_int_eq(ss_cuda_pool_create(gpu, &s, 1, &pool), SS_ERR_SHAPE);
    s = good;
    s.y.n = 1;
    ck_assert_int_eq(ss_cuda_pool_create(gpu, &s, 1, &pool), SS_ERR_SHAPE);
    s = good;
    s.x.n = s.y.n = 0;
    ck_assert_int_eq(ss_cuda_pool_create(gpu, &s, 1, &pool), SS_ERR_SHAPE);
    s = good;
    s.x.n = s.y.n = 1 << 25; /* 2^31 pixels */
    ck_assert_int_eq(ss_cuda_pool_create(gpu, &s, 1, &pool), SS_ERR_SHAPE);
    s.x.n = s.y.n = (1 << 25) - 1;
    OK(ss_cuda_pool_create(gpu, &s, 1, &pool));
    ss_cuda_pool_destroy(pool);
    OK(ss_cuda_pool_create(gpu, &good, 1, &pool));
    ck_assert_int_eq(ss_cuda_pool_backward(pool, gpu_out(gpu, 1), NULL, gpu_out(gpu, 1)),
                     SS_ERR_INVALID);
    ss_cuda_pool_destroy(pool);
    ss_log_set_quiet(0);
}
END_TEST

void add_pool_tests(TCase *t)
{
    tcase_add_loop_test(t, pooling, 0, GPU_DTYPES * NCASES);
    tcase_add_loop_test(t, special_values, 0, GPU_DTYPES);
    tcase_add_test(t, bad_shapes);
}
