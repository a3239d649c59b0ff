/* test_gpu_conv.c: compares convolutions on a GPU with double precision. */
#include "tests/gpu/test_gpu_conv.h"

/* Calls visit(c, x, w, y) with the indices of each product of the convolution. */
static void each_product(const struct ss_conv_shape *s, struct conv_case *c,
                         void (*visit)(struct conv_case *c, size_t x, size_t w, size_t y))
{
    const size_t block = (size_t)s->x.block, co = (size_t)s->y.c,
                 inputs = block / (size_t)s->groups, outputs = co / (size_t)s->groups;
    for (int n = 0; n < s->y.n; n++)
        for (int p = 0; p < s->y.h; p++)
            for (int q = 0; q < s->y.w; q++)
                for (int i = 0; i < s->kernel[0]; i++)
                    for (int j = 0; j < s->kernel[1]; j++) {
                        const int h = p * s->stride[0] - s->padding[0] + i * s->dilation[0],
                                  w = q * s->stride[1] - s->padding[1] + j * s->dilation[1];
                        if (h < 0 || w < 0 || h >= s->x.h || w >= s->x.w)
                            continue;
                        const size_t x = (size_t)((n * s->x.h + h) * s->x.w + w) * block,
                                     y = (size_t)((n * s->y.h + p) * s->y.w + q) * co,
                                     tap = (size_t)(i * s->kernel[1] + j);
                        for (size_t k = 0; k < co; k++)
                            for (size_t ci = 0; ci < inputs; ci++)
                                visit(c, x + k / outputs * inputs + ci,
                                      (k * (size_t)ss_conv_taps(s) + tap) * inputs + ci, y + k);
                    }
}

static void visit_all(struct conv_case *c, size_t x, size_t w, size_t y)
{
    c->y[y] += (double)c->x[x] * (double)c->w[w];
    c->dx[x] += (double)c->dy[y] * (double)c->w[w];
    c->dw[w] += (double)c->x[x] * (double)c->dy[y];
}

/* Returns rows of `block` numbers: the first `channels` of each are random, the others zero. */
static float *padded_random(size_t rows, int channels, int block, uint32_t stream,
                            enum ss_dtype dtype)
{
    float *x = host_random(rows * (size_t)block, stream, dtype);
    for (size_t r = 0; r < rows; r++)
        for (int i = channels; i < block; i++)
            x[r * (size_t)block + (size_t)i] = 0;
    return x;
}

struct conv_case conv_case_make(enum ss_dtype dtype, int n, int ci, int block, int co, int h, int w,
                                int kernel, int stride, int pad, int bias)
{
    const struct ss_conv_shape s = {.x = {n, ci, h, w, block ? block : ci},
                                    .y = {.c = co},
                                    .kernel = {kernel, kernel},
                                    .stride = {stride, stride},
                                    .padding = {pad, pad},
                                    .dilation = {1, 1},
                                    .groups = 1,
                                    .bias = bias};
    return conv_case_of(dtype, &s);
}

static int extent(int size, int kernel, int stride, int padding, int dilation)
{
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

struct conv_case conv_case_of(enum ss_dtype dtype, const struct ss_conv_shape *shape)
{
    struct conv_case c = {.s = *shape};
    struct ss_conv_shape *s = &c.s;
    const int co = s->y.c, width = s->x.block / s->groups;
    s->y = (struct ss_act){
        s->x.n, co, extent(s->x.h, s->kernel[0], s->stride[0], s->padding[0], s->dilation[0]),
        extent(s->x.w, s->kernel[1], s->stride[1], s->padding[1], s->dilation[1]), co};
    c.nx = ss_act_elements(&s->x);
    c.ny = ss_act_elements(&s->y);
    c.nb = (size_t)co;
    c.nw = (size_t)(co * ss_conv_taps(s)) * (size_t)width;
    c.x = padded_random(c.nx / (size_t)s->x.block, s->x.c, s->x.block, 1, dtype);
    c.w = padded_random(c.nw / (size_t)width, ss_conv_inputs(s), width, 2, dtype);
    c.dy = host_random(c.ny, 3, dtype);
    c.bias = host_random(c.nb, 4, SS_DTYPE_F32);
    c.y = host_doubles(c.ny);
    c.dx = host_doubles(c.nx);
    c.dw = host_doubles(c.nw);
    c.dbias = host_doubles(c.nb);
    each_product(s, &c, visit_all);
    for (size_t i = 0; i < c.ny; i++) {
        c.dbias[i % c.nb] += (double)c.dy[i];
        if (s->bias)
            c.y[i] += (double)c.bias[i % c.nb];
    }
    return c;
}

struct conv_run conv_run_make(struct ss_device *gpu, const struct conv_case *c)
{
    struct conv_run r = {.gpu = gpu};
    OK(ss_cuda_conv_create(gpu, &c->s, SS_CONV_AUTO, 1, &r.conv));
    ck_assert_uint_eq(ss_cuda_conv_weight_bytes(r.conv), c->nw * sizeof(float));
    r.x = gpu_put(gpu, c->x, c->nx);
    r.w = gpu_put(gpu, c->w, c->nw);
    r.dy = gpu_put(gpu, c->dy, c->ny);
    r.bias = c->s.bias ? gpu_put_f32(gpu, c->bias, c->nb) : NULL;
    return r;
}

void conv_run_all(struct conv_run *r, const struct conv_case *c)
{
    r->y = gpu_out(r->gpu, c->ny);
    r->dx = gpu_out(r->gpu, c->nx);
    r->dw = gpu_out_f32(r->gpu, c->nw);
    r->dbias = c->s.bias ? gpu_out_f32(r->gpu, c->nb) : NULL;
    conv_run_again(r);
}

void conv_run_again(struct conv_run *r)
{
    OK(ss_cuda_conv_forward(r->conv, r->x, r->w, r->bias, r->y));
    OK(ss_cuda_conv_backward_data(r->conv, r->dy, r->w, r->dx));
    OK(ss_cuda_conv_backward_weights(r->conv, r->x, r->dy, r->dw, r->dbias));
}

/* Fails unless all numbers after the first `channels` of each row of `width` are zero. */
static void check_padding(const char *what, const float *x, size_t count, int width, int channels)
{
    size_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad += i % (size_t)width >= (size_t)channels && x[i] != 0;
    ck_assert_msg(bad == 0, "%s: %zu values in padding channels are not zero", what, bad);
}

void conv_run_compare(const struct conv_run *r, const struct conv_case *c, double bound)
{
    struct ss_device *gpu = r->gpu;
    float *y = gpu_fetch(gpu, r->y, c->ny), *dx = gpu_fetch(gpu, r->dx, c->nx),
          *dw = gpu_fetch_f32(gpu, r->dw, c->nw);
    const char *info = ss_cuda_conv_info(r->conv);
    char what[4][1500], text[256];
    ss_conv_text(&c->s, text, sizeof text);
    const char *const names[4] = {"y", "dx", "dweight", "dbias"};
    for (int i = 0; i < 4; i++)
        snprintf(what[i], sizeof what[i], "%s of %s, by %s", names[i], text, info);
    gpu_compare_bound(what[0], y, c->y, c->ny, bound);
    gpu_compare_bound(what[1], dx, c->dx, c->nx, bound);
    gpu_compare_bound(what[2], dw, c->dw, c->nw, bound);
    check_padding(what[1], dx, c->nx, c->s.x.block, c->s.x.c);
    check_padding(what[2], dw, c->nw, c->s.x.block / c->s.groups, ss_conv_inputs(&c->s));
    gpu_check_written(what[0], gpu, r->y, c->ny);
    gpu_check_written(what[1], gpu, r->dx, c->nx);
    gpu_check_written_f32(what[2], gpu, r->dw, c->nw);
    if (c->s.bias)
        gpu_compare_bound(what[3], gpu_fetch_f32(gpu, r->dbias, c->nb), c->dbias, c->nb, 1e-5);
}

void conv_run_destroy(struct conv_run *r)
{
    ss_cuda_conv_destroy(r->conv);
    r->conv = NULL;
}

int conv_emulated(struct ss_device *gpu)
{
    return strncmp(ss_cuda_info(gpu), "host emulation", strlen("host emulation")) == 0;
}

/* PADDED: to 8 channels (2-byte formats) or 4 (fp32), as the network's input. */
enum { PADDED = -1 };
static const struct {
    int n, ci, block, co, h, w, kernel, stride, pad, bias;
} cases[] = {
    {2, 8, 0, 16, 7, 9, 3, 1, 1, 0},      {2, 16, 0, 8, 8, 6, 3, 2, 1, 0},
    {3, 16, 0, 24, 6, 6, 1, 1, 0, 1},     {2, 24, 0, 16, 7, 7, 1, 2, 0, 0},
    {2, 24, 0, 16, 8, 8, 1, 2, 0, 0}, /* no output reads the last row and column */
    {2, 3, PADDED, 16, 8, 8, 3, 1, 1, 0}, {1, 3, PADDED, 20, 21, 17, 7, 2, 3, 1},
    {2, 5, 0, 7, 9, 5, 3, 1, 0, 1},       {1, 1, 0, 1, 1, 1, 1, 1, 0, 1},
    {2, 1, PADDED, 9, 6, 6, 5, 1, 2, 0},  {1, 64, 0, 40, 8, 8, 3, 1, 1, 0},
    {2, 15, 0, 33, 11, 10, 3, 2, 1, 1},
};
enum { NCASES = sizeof cases / sizeof cases[0] };

static struct conv_case make_case(int i, enum ss_dtype dtype)
{
    const int block = cases[i].block == PADDED ? ss_gpu_input_block(dtype) : cases[i].block;
    return conv_case_make(dtype, cases[i].n, cases[i].ci, block, cases[i].co, cases[i].h,
                          cases[i].w, cases[i].kernel, cases[i].stride, cases[i].pad,
                          cases[i].bias);
}

START_TEST(passes)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    for (int i = 0; i < NCASES; i++) {
        const struct conv_case c = make_case(i, dtype);
        struct conv_run r = conv_run_make(gpu_for(dtype), &c);
        conv_run_all(&r, &c);
        conv_run_compare(&r, &c, gpu_tolerance(dtype));
        conv_run_destroy(&r);
    }
}
END_TEST

/* Groups, dilation, different sizes for rows and columns. */
static const struct {
    int n, ci, co, groups, h, w, kernel[2], stride[2], padding[2], dilation[2], bias;
} grouped[] = {
    {2, 24, 24, 24, 7, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {1, 40, 40, 40, 9, 9, {5, 5}, {2, 2}, {2, 2}, {1, 1}, 1},
    {1, 16, 16, 16, 9, 8, {7, 7}, {1, 1}, {3, 3}, {1, 1}, 1},
    {2, 8, 16, 8, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0}, /* two outputs each */
    {2, 32, 32, 8, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {2, 24, 48, 3, 7, 7, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
    {1, 72, 72, 3, 5, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {2, 12, 30, 6, 5, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 16, 16, 1, 9, 9, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 0},
    {1, 24, 24, 24, 9, 9, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 0},
    {2, 16, 24, 1, 9, 12, {2, 5}, {2, 1}, {1, 0}, {3, 2}, 1},
    /* few channels, as of images */
    {2, 3, 3, 3, 9, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {2, 3, 12, 3, 9, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
    {2, 4, 6, 2, 7, 7, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 0},
    {2, 6, 9, 3, 7, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
};
enum { NGROUPED = sizeof grouped / sizeof grouped[0] };

static struct conv_case grouped_case(int i, enum ss_dtype dtype)
{
    struct ss_conv_shape s = {
        .x = {grouped[i].n, grouped[i].ci, grouped[i].h, grouped[i].w, grouped[i].ci},
        .y = {.c = grouped[i].co},
        .groups = grouped[i].groups,
        .bias = grouped[i].bias,
    };
    for (int axis = 0; axis < 2; axis++) {
        s.kernel[axis] = grouped[i].kernel[axis];
        s.stride[axis] = grouped[i].stride[axis];
        s.padding[axis] = grouped[i].padding[axis];
        s.dilation[axis] = grouped[i].dilation[axis];
    }
    return conv_case_of(dtype, &s);
}

START_TEST(groups_and_dilation)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    for (int i = 0; i < NGROUPED; i++) {
        const struct conv_case c = grouped_case(i, dtype);
        struct conv_run r = conv_run_make(gpu_for(dtype), &c);
        conv_run_all(&r, &c);
        conv_run_compare(&r, &c, gpu_tolerance(dtype));
        /* Import, then export. */
        float *plain = host_random(c.nw, 1, SS_DTYPE_F32), *native = host_floats(c.nw),
              *back = host_floats(c.nw);
        ss_cuda_conv_import(r.conv, plain, native);
        ss_cuda_conv_export(r.conv, native, back);
        ck_assert_mem_eq(plain, back, c.nw * sizeof(float));
        conv_run_destroy(&r);
    }
}
END_TEST

/* Without training: the forward pass is identical and the backward passes are refused. */
START_TEST(inference)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_for(dtype);
    const struct conv_case c = make_case(0, dtype);
    struct conv_run r = conv_run_make(gpu, &c);
    conv_run_all(&r, &c);
    struct ss_conv_kernel *conv;
    OK(ss_cuda_conv_create(gpu, &c.s, SS_CONV_AUTO, 0, &conv));
    void *y = gpu_out(gpu, c.ny);
    OK(ss_cuda_conv_forward(conv, r.x, r.w, NULL, y));
    ck_assert_mem_eq(gpu_fetch(gpu, y, c.ny), gpu_fetch(gpu, r.y, c.ny), c.ny * sizeof(float));
    ss_log_set_quiet(1);
    gpu_check_failure(ss_cuda_conv_backward_data(conv, r.dy, r.w, r.dx), SS_ERR_INVALID,
                      "without training");
    gpu_check_failure(ss_cuda_conv_backward_weights(conv, r.x, r.dy, r.dw, NULL), SS_ERR_INVALID,
                      "without training");
    gpu_check_failure(ss_cuda_conv_forward(conv, r.x, r.w, r.dw, r.y), SS_ERR_INVALID,
                      "a bias is given, but the layer has none");
    ss_log_set_quiet(0);
    ss_cuda_conv_destroy(conv);
    conv_run_destroy(&r);
}
END_TEST

START_TEST(weight_layout)
{
    for (int i = 0; i < NCASES; i++) {
        const struct conv_case c = make_case(i, SS_DTYPE_F32);
        const struct ss_conv_shape *s = &c.s;
        struct ss_conv_kernel *conv;
        OK(ss_cuda_conv_create(gpu_for(SS_DTYPE_F32), s, SS_CONV_AUTO, 0, &conv));
        const size_t ci = (size_t)s->x.c, block = (size_t)s->x.block,
                     taps = (size_t)ss_conv_taps(s), np = c.nb * ci * taps;
        float *plain = host_random(np, 1, SS_DTYPE_F32), *native = host_floats(c.nw),
              *back = host_floats(np);
        memset(native, 0xFF, c.nw * sizeof(float));
        ss_cuda_conv_import(conv, plain, native);
        size_t wrong = 0;
        for (size_t at = 0; at < c.nw; at++) {
            const size_t channel = at % block, tap = at / block % taps, k = at / block / taps;
            wrong += native[at] != (channel < ci ? plain[(k * ci + channel) * taps + tap] : 0.0f);
        }
        ck_assert_uint_eq(wrong, 0);
        ss_cuda_conv_export(conv, native, back);
        ck_assert_mem_eq(plain, back, np * sizeof(float));
        ss_cuda_conv_destroy(conv);
    }
}
END_TEST

static void check_same(const struct conv_run *a, const struct conv_run *b,
                       const struct conv_case *c)
{
    struct ss_device *gpu = a->gpu;
    ck_assert_mem_eq(gpu_fetch(gpu, a->y, c->ny), gpu_fetch(gpu, b->y, c->ny),
                     c->ny * sizeof(float));
    ck_assert_mem_eq(gpu_fetch(gpu, a->dx, c->nx), gpu_fetch(gpu, b->dx, c->nx),
                     c->nx * sizeof(float));
    ck_assert_mem_eq(gpu_fetch_f32(gpu, a->dw, c->nw), gpu_fetch_f32(gpu, b->dw, c->nw),
                     c->nw * sizeof(float));
}

/* Runs are bit-identical: into other arrays, from other arrays, and into the same arrays after the
 * scratch has moved because it had to grow. */
START_TEST(same_bits)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_for(dtype);
    const struct conv_case c = conv_case_make(dtype, 4, 32, 0, 48, 14, 14, 3, 1, 1, 0);
    struct conv_run first = conv_run_make(gpu, &c);
    conv_run_all(&first, &c);
    conv_run_compare(&first, &c, gpu_tolerance(dtype));
    struct conv_run again = first;
    conv_run_all(&again, &c);
    check_same(&first, &again, &c);

    again.x = gpu_put(gpu, c.x, c.nx);
    again.w = gpu_put(gpu, c.w, c.nw);
    again.dy = gpu_put(gpu, c.dy, c.ny);
    conv_run_all(&again, &c);
    check_same(&first, &again, &c);

    OK(ss_cuda_reserve(gpu, (size_t)32 << 20));
    conv_run_again(&again);
    check_same(&first, &again, &c);
    conv_run_destroy(&first);
}
END_TEST

/* Queued runs of several layers do not change each other's results. */
START_TEST(queued)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    enum { LAYERS = 4 };
    struct conv_case c[LAYERS];
    struct conv_run r[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        c[i] = make_case(i, dtype);
        r[i] = conv_run_make(gpu_for(dtype), &c[i]);
    }
    for (int i = 0; i < LAYERS; i++)
        conv_run_all(&r[i], &c[i]);
    for (int i = 0; i < LAYERS; i++) {
        conv_run_compare(&r[i], &c[i], gpu_tolerance(dtype));
        conv_run_destroy(&r[i]);
    }
}
END_TEST

/* TF32 has 10 fraction bits, like fp16. */
START_TEST(tf32)
{
    const struct ss_device_options options = {.dtype = SS_DTYPE_F32, .tf32 = 1, .autotune = _i};
    struct ss_device *gpu;
    OK(ss_cuda_open(&options, &gpu));
    const struct conv_case c = make_case(0, SS_DTYPE_F32);
    struct conv_run r = conv_run_make(gpu, &c);
    conv_run_all(&r, &c);
    conv_run_compare(&r, &c, gpu_tolerance(SS_DTYPE_F16));
    conv_run_destroy(&r);
    ss_cuda_close(gpu);
}
END_TEST

/* Memory allocated for trying algorithms is freed. */
START_TEST(memory)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_for(dtype);
    const struct conv_case c = make_case(0, dtype);
    struct ss_conv_kernel *conv;
    size_t before, after, device;
    OK(ss_cuda_conv_create(gpu, &c.s, SS_CONV_AUTO, 1, &conv)); /* the scratch grows once */
    ss_cuda_memory(gpu, &before, &device);
    ss_cuda_conv_destroy(conv);
    OK(ss_cuda_conv_create(gpu, &c.s, SS_CONV_AUTO, 1, &conv));
    ss_cuda_conv_destroy(conv);
    ss_cuda_memory(gpu, &after, &device);
    ck_assert_uint_eq(after, before);
}
END_TEST

START_TEST(bad_shapes)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    const struct ss_conv_shape good = {.x = {2, 16, 8, 8, 16},
                                       .y = {2, 32, 8, 8, 32},
                                       .kernel = {3, 3},
                                       .stride = {1, 1},
                                       .padding = {1, 1},
                                       .dilation = {1, 1},
                                       .groups = 1};
    struct ss_conv_shape s[] = {good, good, good, good, good, good, good, good};
    s[0].y.h = 7;
    s[1].y.n = 1;
    s[2].x.c = 0;
    s[3].stride[1] = 0;
    s[4].x.block = 8;
    s[5].padding[0] = -4;
    s[6].y.block = 40;
    s[7].groups = 5;
    struct ss_conv_kernel *conv = NULL;
    ss_log_set_quiet(1);
    for (size_t i = 0; i < sizeof s / sizeof s[0]; i++)
        gpu_check_failure(ss_cuda_conv_create(gpu, &s[i], SS_CONV_AUTO, 1, &conv), SS_ERR_SHAPE,
                          "convolution");
    gpu_check_failure(ss_cuda_conv_create(gpu, &s[0], SS_CONV_AUTO, 1, &conv), SS_ERR_SHAPE,
                      "(2,32,8,8)");
    struct ss_conv_shape padded = good;
    padded.groups = 4;
    padded.x.block = 20;
    gpu_check_failure(ss_cuda_conv_create(gpu, &padded, SS_CONV_AUTO, 1, &conv), SS_ERR_UNSUPPORTED,
                      "4 groups of an input of 16 channels");
    ss_log_set_quiet(0);
    ck_assert_ptr_null(conv);
    ss_cuda_conv_destroy(NULL);
}
END_TEST

TCase *gpu_conv_tests(void)
{
    TCase *t = tcase_create("convolution");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, passes, 0, GPU_DTYPES);
    tcase_add_loop_test(t, groups_and_dilation, 0, GPU_DTYPES);
    tcase_add_loop_test(t, inference, 0, GPU_DTYPES);
    tcase_add_test(t, weight_layout);
    tcase_add_loop_test(t, same_bits, 0, GPU_DTYPES);
    tcase_add_loop_test(t, queued, 0, GPU_DTYPES);
    tcase_add_loop_test(t, tf32, 0, 2);
    tcase_add_loop_test(t, memory, 0, GPU_DTYPES);
    tcase_add_test(t, bad_shapes);
    gpu_conv_cache_tests(t);
    gpu_conv_sums_tests(t);
    return t;
}
