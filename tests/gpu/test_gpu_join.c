/* test_gpu_join.c: compares gathering of channels, and products, on a GPU with double precision. */
#include "tests/gpu/test_gpu_kernels.h"
#include "tests/kernels/join_reference.h"

static size_t plain_count(const struct ss_act *a)
{
    return (size_t)a->n * (size_t)a->c * (size_t)a->h * (size_t)a->w;
}

/* Returns the index in a's layout of element i of (N,C,H,W). */
static size_t place(const struct ss_act *a, size_t i)
{
    const size_t plane = (size_t)a->h * (size_t)a->w, c = i / plane % (size_t)a->c,
                 n = i / plane / (size_t)a->c;
    return a->block == 1 ? i : (n * plane + i % plane) * (size_t)a->block + c;
}

static double *draw(size_t count, uint32_t stream, enum ss_dtype dtype)
{
    const float *drawn = host_random(count, stream, dtype);
    double *out = host_doubles(count);
    for (size_t i = 0; i < count; i++)
        out[i] = (double)drawn[i];
    return out;
}

static float *pack(const struct ss_act *a, const double *plain)
{
    float *out = host_floats(ss_act_elements(a));
    for (size_t i = 0; i < plain_count(a); i++)
        out[place(a, i)] = (float)plain[i];
    return out;
}

static double *pack_doubles(const struct ss_act *a, const double *plain)
{
    double *out = host_doubles(ss_act_elements(a));
    for (size_t i = 0; i < plain_count(a); i++)
        out[place(a, i)] = plain[i];
    return out;
}

/* Block sizes: all channels, channels padded to a multiple of 8 as for the input, or 1. */
static int block_of(int which, int c)
{
    return which == 0 ? c : which == 1 ? (c + 7) / 8 * 8 : 1;
}

static void check_gather(struct ss_device *gpu, int i, int n, int of_x, int of_y)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    struct ss_gather op = gather_make(i);
    const int tensors = op.nparts > 1 ? op.nparts : n;
    double *x[SS_GATHER_PARTS], *want = host_doubles(plain_count(&op.y));
    const void *from[SS_GATHER_PARTS];
    op.y.block = block_of(of_y, op.y.c);
    for (int k = 0; k < op.nparts; k++)
        op.part[k].x.block = block_of(of_x, op.part[k].x.c);
    for (int k = 0; k < tensors; k++) {
        const struct ss_act *a = &op.part[op.nparts > 1 ? k : 0].x;
        x[k] = draw(plain_count(a), (uint32_t)k, dtype);
        from[k] = gpu_put(gpu, pack(a, x[k]), ss_act_elements(a));
    }
    gather_reference(&op, (const double *const *)x, tensors, want);
    const size_t count = ss_act_elements(&op.y);
    void *y = gpu_out(gpu, count);
    OK(ss_cuda_gather(gpu, &op, from, tensors, y));
    const float *got = gpu_fetch(gpu, y, count);
    const double *packed = pack_doubles(&op.y, want);
    if (n > 1 && op.nparts == 1)
        gpu_compare("y", got, packed, count, dtype);
    else
        for (size_t k = 0; k < count; k++)
            ck_assert_msg((double)got[k] == packed[k], "case %d: element %zu is %g instead of %g",
                          i, k, (double)got[k], packed[k]);
}

/* A concatenation with a shuffle in one pass equals two passes. Gathering inverts it. */
START_TEST(shuffled_concatenation)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    for (int channels = 24; channels >= 10; channels -= 14) {
        const struct ss_act part = {2, channels, 3, 5, channels},
                            y = {2, 2 * channels, 3, 5, 2 * channels};
        const size_t count = plain_count(&part);
        const float *value[] = {host_random(count, 1, (enum ss_dtype)_i),
                                host_random(count, 2, (enum ss_dtype)_i)};
        const void *x[] = {gpu_put(gpu, value[0], count), gpu_put(gpu, value[1], count)};
        void *joined = gpu_out(gpu, 2 * count), *two = gpu_out(gpu, 2 * count),
             *one = gpu_out(gpu, 2 * count);
        struct ss_gather join = {
            .y = y,
            .nparts = 2,
            .part = {{part, 0, 0, channels, 1}, {part, 0, channels, channels, 1}}};
        const struct ss_gather shuffle = {
            .y = y, .nparts = 1, .part = {{y, 0, 0, 2 * channels, 2}}};
        OK(ss_cuda_gather(gpu, &join, x, 2, joined));
        OK(ss_cuda_gather(gpu, &shuffle, (const void *const[]){joined}, 1, two));
        join.groups = 2;
        OK(ss_cuda_gather(gpu, &join, x, 2, one));
        ck_assert_mem_eq(gpu_fetch(gpu, one, 2 * count), gpu_fetch(gpu, two, 2 * count),
                         2 * count * sizeof(float));
        for (int k = 0; k < 2; k++) {
            const struct ss_gather back = {
                .y = part, .nparts = 1, .part = {{y, k * channels, 0, channels, channels}}};
            void *dx = gpu_out(gpu, count);
            OK(ss_cuda_gather(gpu, &back, (const void *const[]){one}, 1, dx));
            ck_assert_mem_eq(gpu_fetch(gpu, dx, count), value[k], count * sizeof(float));
        }
    }
}
END_TEST

/* Gathers into some channels of a tensor, whose other channels do not change, and out of them, as a
 * sum. Tests channel counts with and without 16-byte accesses. */
START_TEST(gather_parts)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    const size_t element = ss_dtype_bytes((enum ss_dtype)_i);
    for (int channels = 16; channels >= 5; channels -= 11) {
        const int at = channels, of = 3 * channels;
        const size_t pixels = 2 * 5 * 3, count = pixels * (size_t)of;
        const struct ss_act whole = {2, of, 5, 3, of}, own = {2, channels, 5, 3, channels},
                            part = ss_act_view(&whole, channels);
        const float *x = host_random(pixels * (size_t)channels, 1, (enum ss_dtype)_i);
        float *all = host_random(count, 2, (enum ss_dtype)_i);
        void *from = gpu_put(gpu, x, pixels * (size_t)channels), *y = gpu_put(gpu, all, count),
             *back = gpu_out(gpu, pixels * (size_t)channels);
        void *place_of = (char *)y + ss_act_channel(&whole, at) * element;
        const struct ss_gather in = {
            .y = part, .nparts = 1, .part = {{own, 0, 0, channels, 1}}, .y_pitch = of};
        const struct ss_gather out = {
            .y = own, .nparts = 1, .part = {{part, 0, 0, channels, 1}}, .x_pitch = of};
        OK(ss_cuda_gather(gpu, &in, (const void *const[]){from}, 1, place_of));
        for (size_t i = 0; i < pixels; i++)
            memcpy(all + i * (size_t)of + at, x + i * (size_t)channels,
                   (size_t)channels * sizeof *all);
        const float *got = gpu_fetch(gpu, y, count);
        ck_assert_mem_eq(got, all, count * sizeof *all);
        OK(ss_cuda_gather(gpu, &out, (const void *const[]){place_of, place_of}, 2, back));
        got = gpu_fetch(gpu, back, pixels * (size_t)channels);
        for (size_t i = 0; i < pixels * (size_t)channels; i++)
            ck_assert(got[i] == 2 * x[i]);
        struct ss_gather bad = in;
        bad.y_pitch = channels - 1;
        gpu_check_failure(ss_cuda_gather(gpu, &bad, (const void *const[]){from}, 1, place_of),
                          SS_ERR_SHAPE, "do not fit into a pitch");
    }
}
END_TEST

START_TEST(gather)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    for (int i = 0; i < GATHER_CASES; i++) {
        for (int blocks = 0; blocks < 9; blocks++)
            check_gather(gpu, i, 1, blocks / 3, blocks % 3);
        for (int n = 2; n <= SS_NORM_MAX_DY; n++)
            check_gather(gpu, i, n, 0, 0);
    }
}
END_TEST

static void check_product(struct ss_device *gpu, int i, int n)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    const struct mul_case *c = &mul_cases[i];
    const int image = c->kind == SS_MUL_IMAGE, param = c->kind == SS_MUL_PARAM;
    const struct ss_mul op = {c->kind,
                              {c->n, c->c, c->h, c->w, c->c},
                              {c->n, c->c, image ? 1 : c->h, image ? 1 : c->w, c->c}};
    const size_t count = plain_count(&op.x), factors = mul_factors(c);
    double *x = draw(count, 1, dtype), *s = draw(factors, 2, param ? SS_DTYPE_F32 : dtype);
    double *dy = draw(count, 3, dtype), *part = host_doubles(count), *y = host_doubles(count);
    double *dx = host_doubles(count), *ds = host_doubles(factors);
    const void *from[SS_NORM_MAX_DY];
    mul_reference(c, x, s, dy, y, dx, ds);
    for (int k = 0; k < n; k++) {
        for (size_t e = 0; e < count; e++)
            part[e] = e % (size_t)n == (size_t)k ? dy[e] : 0;
        from[k] = gpu_put(gpu, pack(&op.x, part), count);
    }
    float *plain = host_floats(factors);
    for (size_t e = 0; e < factors; e++)
        plain[e] = (float)s[e];
    const void *in = gpu_put(gpu, pack(&op.x, x), count);
    const void *by =
        param ? (void *)gpu_put_f32(gpu, plain, factors) : gpu_put(gpu, pack(&op.s, s), factors);
    void *out = gpu_out(gpu, count), *to_x = gpu_out(gpu, count);
    void *to_s = param ? (void *)gpu_out_f32(gpu, factors) : gpu_out(gpu, factors);
    OK(ss_cuda_mul_reserve(gpu, &op));
    OK(ss_cuda_mul_forward(gpu, &op, in, by, out));
    gpu_compare("y", gpu_fetch(gpu, out, count), pack_doubles(&op.x, y), count, dtype);
    OK(ss_cuda_mul_backward(gpu, &op, from, n, in, by, to_x, to_s));
    gpu_compare("dx", gpu_fetch(gpu, to_x, count), pack_doubles(&op.x, dx), count, dtype);
    const float *first = param ? gpu_fetch_f32(gpu, to_s, factors) : gpu_fetch(gpu, to_s, factors);
    gpu_compare("ds", first, param ? ds : pack_doubles(&op.s, ds), factors, dtype);
    /* A second run is bit-identical; each gradient may be omitted. */
    OK(ss_cuda_mul_backward(gpu, &op, from, n, in, by, NULL, to_s));
    const float *again = param ? gpu_fetch_f32(gpu, to_s, factors) : gpu_fetch(gpu, to_s, factors);
    ck_assert_mem_eq(first, again, factors * sizeof *first);
    OK(ss_cuda_mul_backward(gpu, &op, from, n, in, by, to_x, NULL));
}

START_TEST(products)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    for (int i = 0; i < MUL_CASES; i++)
        for (int n = 1; n <= SS_NORM_MAX_DY; n += 3)
            check_product(gpu, i, n);
}
END_TEST

/* An infinite gradient of a parameter is reported to the loss scaler; one of an activation is
 * not. */
START_TEST(infinities)
{
    static const struct {
        enum ss_mul_kind kind;
        float worst;
        int found;
    } runs[] = {{SS_MUL_PARAM, INFINITY, 1}, {SS_MUL_PARAM, 1, 0}, {SS_MUL_IMAGE, INFINITY, 0}};
    struct ss_device *gpu = gpu_for(SS_DTYPE_F16);
    float *big = host_floats(32), ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        const struct ss_mul op = {runs[k].kind, {1, 8, 2, 2, 8}, {1, 8, 1, 1, 8}};
        for (int i = 0; i < 32; i++)
            big[i] = i == 3 ? runs[k].worst : 1;
        struct ss_scaler scaler = ss_scaler_defaults();
        struct ss_scaler *told = gpu_put_bytes(gpu, &scaler, sizeof scaler);
        const void *x = gpu_put(gpu, big, 32), *dy[] = {x};
        const void *s = runs[k].kind == SS_MUL_PARAM ? (void *)gpu_put_f32(gpu, ones, 8)
                                                     : gpu_put(gpu, ones, 8);
        float *ds = gpu_out_f32(gpu, 8);
        OK(ss_cuda_mul_reserve(gpu, &op));
        ss_cuda_watch_gradients(gpu, told);
        OK(ss_cuda_mul_backward(gpu, &op, dy, 1, x, s, NULL, ds));
        ss_cuda_watch_gradients(gpu, NULL);
        gpu_get_bytes(gpu, told, &scaler, sizeof scaler);
        ck_assert_int_eq(scaler.found, runs[k].found);
    }
}
END_TEST

START_TEST(refused)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    void *y = gpu_out(gpu, 64);
    const void *const from[] = {y, y};
    struct ss_gather op = gather_make(4);
    op.y.block = 7;
    gpu_check_failure(ss_cuda_gather(gpu, &op, from, 1, y), SS_ERR_SHAPE, "blocks of 7");
    op = gather_make(4);
    op.part[0].to = 1;
    gpu_check_failure(ss_cuda_gather(gpu, &op, from, 1, y), SS_ERR_SHAPE, "to 1 of 20, in");
    const struct ss_mul mul = {SS_MUL_PARAM, {1, 8, 2, 2, 16}, {0, 0, 0, 0, 0}};
    gpu_check_failure(ss_cuda_mul_forward(gpu, &mul, y, y, y), SS_ERR_SHAPE, "blocks of 16");
}
END_TEST

TCase *gpu_join_tests(void)
{
    TCase *t = tcase_create("join");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, gather, 0, GPU_DTYPES);
    tcase_add_loop_test(t, gather_parts, 0, GPU_DTYPES);
    tcase_add_loop_test(t, shuffled_concatenation, 0, GPU_DTYPES);
    tcase_add_loop_test(t, products, 0, GPU_DTYPES);
    tcase_add_test(t, infinities);
    tcase_add_test(t, refused);
    return t;
}
