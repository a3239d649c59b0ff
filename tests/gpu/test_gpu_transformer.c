/* test_gpu_transformer.c: compares layer normalization, tokens and attention on a GPU with double
 * precision. */
#include "tests/gpu/test_gpu_kernels.h"
#include "tests/kernels/transformer_reference.h"

/* Returns the index in (N,S,C) of element i of (N,C,S). */
static size_t place(size_t i, size_t c, size_t s)
{
    return (i / s / c * s + i % s) * c + i / s % c;
}

static float *rows(const double *plain, size_t count, int c, int s)
{
    float *out = host_floats(count);
    for (size_t i = 0; i < count; i++)
        out[place(i, (size_t)c, (size_t)s)] = (float)plain[i];
    return out;
}

static double *double_rows(const double *plain, size_t count, int c, int s)
{
    double *out = host_doubles(count);
    for (size_t i = 0; i < count; i++)
        out[place(i, (size_t)c, (size_t)s)] = plain[i];
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

/* ---- layer normalization ---- */

static void check_layernorm(int i, struct ss_device *gpu)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    const struct ss_act a = {layernorm_cases[i].n, layernorm_cases[i].c, layernorm_cases[i].h,
                             layernorm_cases[i].w, layernorm_cases[i].c};
    struct layernorm_reference r = {.n = a.n, .c = a.c, .pixels = a.h * a.w, .eps = (double)1e-6f};
    const size_t c = (size_t)a.c, count = ss_act_elements(&a), stats = 2 * count / c;
    r.x = draw(count, 1, dtype, 1, 0.5);
    r.dy = draw(count, 2, dtype, 1, 0);
    r.gamma = draw(c, 3, SS_DTYPE_F32, 0.5, 1);
    r.beta = draw(c, 4, SS_DTYPE_F32, 1, 0);
    r.y = host_doubles(count);
    r.dx = host_doubles(count);
    r.dgamma = host_doubles(c);
    r.dbeta = host_doubles(c);
    layernorm_reference(&r);
    float *gamma = gpu_put_f32(gpu, rows(r.gamma, c, a.c, 1), c);
    float *beta = gpu_put_f32(gpu, rows(r.beta, c, a.c, 1), c);
    void *x = gpu_put(gpu, rows(r.x, count, a.c, r.pixels), count);
    void *dy = gpu_put(gpu, rows(r.dy, count, a.c, r.pixels), count);
    void *y = gpu_out(gpu, count), *dx = gpu_out(gpu, count), *dx2 = gpu_out(gpu, count);
    float *saved = gpu_out_f32(gpu, stats), *dgamma = gpu_out_f32(gpu, c),
          *dbeta = gpu_out_f32(gpu, c);
    OK(ss_cuda_layernorm_reserve(gpu, &a));
    OK(ss_cuda_layernorm_forward(gpu, &a, 1e-6f, x, gamma, beta, saved, y));
    gpu_check_written_f32("saved", gpu, saved, stats);
    gpu_compare("y", gpu_fetch(gpu, y, count), double_rows(r.y, count, a.c, r.pixels), count,
                dtype);
    OK(ss_cuda_layernorm_backward(gpu, &a, dy, x, gamma, saved, dx, dgamma, dbeta));
    float *got = gpu_fetch(gpu, dx, count), *first = gpu_fetch_f32(gpu, dgamma, c);
    gpu_compare("dx", got, double_rows(r.dx, count, a.c, r.pixels), count, dtype);
    gpu_compare("dgamma", first, r.dgamma, c, SS_DTYPE_F32);
    gpu_compare("dbeta", gpu_fetch_f32(gpu, dbeta, c), r.dbeta, c, SS_DTYPE_F32);
    /* A second run is bit-identical, also without dx. */
    OK(ss_cuda_layernorm_backward(gpu, &a, dy, x, gamma, saved, dx2, dgamma, dbeta));
    ck_assert_mem_eq(gpu_fetch(gpu, dx2, count), got, count * sizeof(float));
    OK(ss_cuda_layernorm_backward(gpu, &a, dy, x, gamma, saved, NULL, dgamma, dbeta));
    ck_assert_mem_eq(gpu_fetch_f32(gpu, dgamma, c), first, c * sizeof(float));
}

START_TEST(layernorm)
{
    for (int i = 0; i < LAYERNORM_CASES; i++)
        check_layernorm(i, gpu_for((enum ss_dtype)_i));
}
END_TEST

/* ---- attention ---- */

static void check_attention(int i, struct ss_device *gpu, double bound)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    struct attention_reference r = {.n = attention_cases[i].n,
                                    .e = attention_cases[i].e,
                                    .heads = attention_cases[i].heads,
                                    .s = attention_cases[i].s};
    const struct ss_attention_shape shape = {
        .x = {r.n, 3 * r.e, r.s, 1, 3 * r.e}, .y = {r.n, r.e, r.s, 1, r.e}, .heads = r.heads};
    const size_t count = ss_act_elements(&shape.y), stats = (size_t)(r.n * r.heads * r.s);
    struct ss_attention_kernel *k;
    r.x = draw(3 * count, 1, dtype, 1, 0);
    r.dy = draw(count, 2, dtype, 1, 0);
    r.y = host_doubles(count);
    r.dx = host_doubles(3 * count);
    attention_reference(&r);
    void *x = gpu_put(gpu, rows(r.x, 3 * count, 3 * r.e, r.s), 3 * count);
    void *dy = gpu_put(gpu, rows(r.dy, count, r.e, r.s), count);
    void *y = gpu_out(gpu, count), *dx = gpu_out(gpu, 3 * count);
    float *saved = gpu_out_f32(gpu, stats);
    OK(ss_cuda_attention_create(gpu, &shape, 1, &k));
    OK(ss_cuda_attention_forward(k, x, saved, y));
    gpu_check_written_f32("saved", gpu, saved, stats);
    gpu_compare_bound("y", gpu_fetch(gpu, y, count), double_rows(r.y, count, r.e, r.s), count,
                      bound);
    for (int again = 0; again < 2; again++) {
        OK(ss_cuda_attention_backward(k, x, dy, saved, dx));
        gpu_compare_bound("dx", gpu_fetch(gpu, dx, 3 * count),
                          double_rows(r.dx, 3 * count, 3 * r.e, r.s), 3 * count, bound);
    }
    ss_cuda_attention_destroy(k);
}

START_TEST(attention)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    for (int i = 0; i < ATTENTION_CASES; i++)
        check_attention(i, gpu_for(dtype), gpu_tolerance(dtype));
}
END_TEST

START_TEST(attention_tf32)
{
    const struct ss_device_options options = {.dtype = SS_DTYPE_F32, .tf32 = 1};
    struct ss_device *gpu;
    OK(ss_cuda_open(&options, &gpu));
    for (int i = 0; i < ATTENTION_CASES; i++)
        check_attention(i, gpu, 2.5e-3);
    ss_cuda_close(gpu);
}
END_TEST

START_TEST(attention_refused)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    struct ss_attention_shape shape = {.x = {2, 36, 5, 1, 36}, .y = {2, 12, 5, 1, 12}, .heads = 5};
    struct ss_attention_kernel *k;
    ss_log_set_quiet(1);
    gpu_check_failure(ss_cuda_attention_create(gpu, &shape, 1, &k), SS_ERR_SHAPE, "5 heads");
    shape.heads = 3;
    OK(ss_cuda_attention_create(gpu, &shape, 0, &k));
    gpu_check_failure(ss_cuda_attention_backward(k, NULL, NULL, NULL, NULL), SS_ERR_INVALID,
                      "without training");
    gpu_check_failure(ss_cuda_attention_forward(k, (void *)(uintptr_t)4, NULL, NULL),
                      SS_ERR_INVALID, "multiples of 16");
    ss_log_set_quiet(0);
    ss_cuda_attention_destroy(k);
}
END_TEST

/* ---- tokens ---- */

static const struct {
    int n, c, h, w, class_token, positions;
} token_cases[] = {
    {2, 12, 4, 4, 1, 1}, {3, 20, 2, 3, 0, 1}, {2, 24, 7, 7, 1, 0},
    {1, 48, 1, 1, 1, 1}, {2, 16, 3, 1, 0, 0},
};
enum { TOKEN_CASES = sizeof token_cases / sizeof *token_cases };

static void check_tokens(int i, struct ss_device *gpu)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    const int n = token_cases[i].n, c = token_cases[i].c,
              pixels = token_cases[i].h * token_cases[i].w;
    const int front = token_cases[i].class_token, s = pixels + front;
    const struct ss_tokens_shape shape = {.x = {n, c, token_cases[i].h, token_cases[i].w, c},
                                          .y = {n, c, s, 1, c},
                                          .class_token = front,
                                          .positions = token_cases[i].positions};
    const size_t nx = (size_t)(n * pixels * c), ny = (size_t)(n * s * c), np = (size_t)(s * c);
    const float *x = host_random(nx, 1, dtype), *dy = host_random(ny, 2, dtype),
                *token = host_random((size_t)c, 3, SS_DTYPE_F32),
                *at = host_random(np, 4, SS_DTYPE_F32);
    double *y = host_doubles(ny), *dx = host_doubles(nx), *dtoken = host_doubles((size_t)c),
           *dat = host_doubles(np);
    for (int image = 0; image < n; image++)
        for (int k = 0; k < s * c; k++) {
            const size_t to = (size_t)(image * s * c + k),
                         from = (size_t)(image * pixels * c + k - front * c);
            y[to] = (double)(k < front * c ? token[k] : x[from]) +
                    (shape.positions ? (double)at[k] : 0);
            dat[k] += (double)dy[to];
            if (k < front * c)
                dtoken[k] += (double)dy[to];
            else
                dx[from] = (double)dy[to];
        }
    void *gx = gpu_put(gpu, x, nx), *gdy = gpu_put(gpu, dy, ny), *gy = gpu_out(gpu, ny),
         *gdx = gpu_out(gpu, nx);
    float *gtoken = gpu_put_f32(gpu, token, (size_t)c), *gat = gpu_put_f32(gpu, at, np);
    float *gdtoken = gpu_out_f32(gpu, (size_t)c), *gdat = gpu_out_f32(gpu, np);
    OK(ss_cuda_tokens_forward(gpu, &shape, gx, front ? gtoken : NULL, shape.positions ? gat : NULL,
                              gy));
    gpu_compare("y", gpu_fetch(gpu, gy, ny), y, ny, dtype);
    OK(ss_cuda_tokens_backward(gpu, &shape, gdy, gdx, front ? gdtoken : NULL,
                               shape.positions ? gdat : NULL));
    gpu_compare("dx", gpu_fetch(gpu, gdx, nx), dx, nx, dtype);
    if (front)
        gpu_compare("dclass_token", gpu_fetch_f32(gpu, gdtoken, (size_t)c), dtoken, (size_t)c,
                    SS_DTYPE_F32);
    if (shape.positions)
        gpu_compare("dpositions", gpu_fetch_f32(gpu, gdat, np), dat, np, SS_DTYPE_F32);
}

START_TEST(tokens)
{
    for (int i = 0; i < TOKEN_CASES; i++)
        check_tokens(i, gpu_for((enum ss_dtype)_i));
}
END_TEST

START_TEST(one_token)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    const struct ss_act x = {2, 24, 5, 1, 24};
    const float *values = host_random(240, 1, (enum ss_dtype)_i),
                *dy = host_random(48, 2, (enum ss_dtype)_i);
    double *want = host_doubles(48), *dx = host_doubles(240);
    for (size_t i = 0; i < 48; i++) {
        want[i] = (double)values[i / 24 * 120 + 3 * 24 + i % 24];
        dx[i / 24 * 120 + 3 * 24 + i % 24] = (double)dy[i];
    }
    void *y = gpu_out(gpu, 48), *gdx = gpu_out(gpu, 240);
    OK(ss_cuda_token_forward(gpu, &x, 3, gpu_put(gpu, values, 240), y));
    OK(ss_cuda_token_backward(gpu, &x, 3, gpu_put(gpu, dy, 48), gdx));
    gpu_compare("y", gpu_fetch(gpu, y, 48), want, 48, (enum ss_dtype)_i);
    gpu_compare("dx", gpu_fetch(gpu, gdx, 240), dx, 240, (enum ss_dtype)_i);
    ss_log_set_quiet(1);
    gpu_check_failure(ss_cuda_token_forward(gpu, &x, 5, y, y), SS_ERR_SHAPE,
                      "token 5 of a sequence of 5");
    ss_log_set_quiet(0);
}
END_TEST

TCase *gpu_transformer_tests(void)
{
    TCase *t = tcase_create("transformer");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, layernorm, 0, GPU_DTYPES);
    tcase_add_loop_test(t, attention, 0, GPU_DTYPES);
    tcase_add_test(t, attention_tf32);
    tcase_add_test(t, attention_refused);
    tcase_add_loop_test(t, tokens, 0, GPU_DTYPES);
    tcase_add_loop_test(t, one_token, 0, GPU_DTYPES);
    return t;
}
