/* test_kernels_bf16.c: CPU kernels in bf16 against the same kernels in fp32.
 *
 * A bf16 kernel computes in fp32 and rounds what it stores. With inputs that bf16 represents
 * exactly, its activations therefore equal those of the fp32 kernel, rounded once, and its fp32
 * outputs (statistics, parameter gradients) are equal. */
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/wire.h"
#include "tests/kernels/amx_emulator.h"
#include "tests/kernels/join_reference.h"
#include "tests/kernels/test_kernels.h"

enum { F32, BF16, DEVICES };
static struct ss_device *device[DEVICES];
static const uint64_t key = 0x123456789abcdef;
/* Evaluates the call for each device d. */
#define BOTH(...)                                                                                  \
    for (int d = 0; d < DEVICES; d++)                                                              \
    OK(__VA_ARGS__)

/* An activation or a compute weight; if bytes > 0, data with the same format on both devices. */
struct tensor {
    struct ss_act a;
    size_t bytes;
    size_t number; /* size of a number, fp32 or double; 0: compare bytes */
    void *at[DEVICES];
};

static void *owned[2048]; /* freed at the end of the test */
static size_t nowned, nwatched;
static struct {
    const char *what;
    struct tensor t;
} watched[16];

static void *own(void *p)
{
    ck_assert(p && nowned < sizeof owned / sizeof *owned);
    return owned[nowned++] = p;
}

/* fp32 uses one thread: results do not depend on the number of threads. */
static void open_devices(const char *isa, int threads)
{
    struct ss_device_options options = {.threads = 1};
    setenv("DNNL_MAX_CPU_ISA", isa, 1);
    OK(ss_cpu_open(&options, &device[F32]));
    options = (struct ss_device_options){.threads = threads, .dtype = SS_DTYPE_BF16};
    OK(ss_cpu_open(&options, &device[BF16]));
}

static void close_devices(void)
{
    while (nowned)
        free(owned[--nowned]);
    for (int d = 0; d < DEVICES; d++)
        ss_cpu_close(device[d]);
}

/* Copies the bf16 tensor to the fp32 one. */
static void widen(const struct tensor *t)
{
    ss_wire_unpack(SS_DTYPE_BF16, t->at[BF16], 1, t->at[F32], ss_act_elements(&t->a));
}

/* Makes a tensor of f, rounded to bf16. f becomes the fp32 tensor. */
static struct tensor tensor_from(const struct ss_act *a, float *f)
{
    const size_t count = ss_act_elements(a);
    const struct tensor t = {*a, 0, 0, {f, own(ss_aligned_alloc(count * sizeof(uint16_t)))}};
    ss_wire_pack(SS_DTYPE_BF16, f, 1, t.at[BF16], count);
    widen(&t);
    return t;
}

static struct tensor random_of(const struct ss_act *a, uint32_t stream)
{
    return tensor_from(a, own(act_pack(a, own(random_doubles(plain_count(a), stream)))));
}

static struct tensor nan_of(const struct ss_act *a)
{
    return tensor_from(a, own(act_pack(a, NULL)));
}

/* is_random: an output that need not be overwritten. */
static struct tensor nan_or_random(const struct ss_act *a, int is_random)
{
    return is_random ? random_of(a, 20) : nan_of(a);
}

/* Pointers are NULL if bytes is 0. */
static struct tensor bytes_of(size_t bytes, size_t number, int fill)
{
    struct tensor t = {.bytes = bytes, .number = number};
    for (int d = 0; d < DEVICES && bytes; d++)
        t.at[d] = memset(own(ss_aligned_alloc(bytes)), fill, bytes);
    return t;
}

/* Returns random fp32 numbers, shared by both devices. */
static float *vector(size_t count, uint32_t stream, double shift)
{
    double *x = own(random_doubles(count, stream));
    for (size_t i = 0; i < count; i++)
        x[i] += shift;
    return own(to_floats(x, count));
}

/* Returns the address of element i on device d. */
static void *place(const struct tensor *t, int d, size_t i)
{
    return (char *)t->at[d] + i * (d == F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Tolerance of fp32 results, relative to the largest number: a compiler may contract products and
 * sums differently in the two kernels (GCC 14 does with AVX2, GCC 12 does not). */
static const float last_bits = 4e-6f;

static float largest(const float *x, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = isfinite(x[i]) ? fmaxf(most, fabsf(x[i])) : most;
    return most;
}

static float rounded(float x)
{
    uint16_t half;
    float back;
    ss_wire_pack(SS_DTYPE_BF16, &x, 1, &half, 1);
    ss_wire_unpack(SS_DTYPE_BF16, &half, 1, &back, 1);
    return back;
}

/* Checks that the bf16 tensor equals the fp32 one within last_bits, rounded. nan: NaNs are
 * allowed and must be 0x7fff; 0: NaNs fail, because outputs are initialized with them. */
static void check_tensor(const char *what, const struct tensor *t, int nan)
{
    const struct ss_act *a = &t->a;
    const uint16_t *half = t->at[BF16];
    const size_t count = ss_act_elements(a);
    const float *want = t->at[F32], slack = last_bits * largest(want, count);
    float *got = own(ss_aligned_alloc(count * sizeof *got));
    ss_wire_unpack(SS_DTYPE_BF16, half, 1, got, count);
    for (size_t i = 0; i < count; i++) {
        const int same = isnan(want[i])
                             ? nan && half[i] == 0x7fff
                             : got[i] == rounded(want[i]) || (got[i] >= rounded(want[i] - slack) &&
                                                              got[i] <= rounded(want[i] + slack));
        ck_assert_msg(same, "%s: element %zu of (%d,%d,%d,%d) block %d: %.9g, not %.9g, rounded",
                      what, i, a->n, a->c, a->h, a->w, a->block, (double)got[i], (double)want[i]);
    }
    own(act_unpack(a, got)); /* padding is zero */
}

static void check_numbers(const char *what, const struct tensor *t)
{
    const int is_double = t->number == sizeof(double);
    const size_t count = t->bytes / t->number;
    const double *wide[DEVICES] = {t->at[F32], t->at[BF16]};
    const float *narrow[DEVICES] = {t->at[F32], t->at[BF16]};
    double most = is_double ? 1 : (double)largest(narrow[F32], count);
    for (size_t i = 0; i < count && is_double; i++)
        most = fmax(most, fabs(wide[F32][i]));
    for (size_t i = 0; i < count; i++) {
        const double want = is_double ? wide[F32][i] : (double)narrow[F32][i],
                     got = is_double ? wide[BF16][i] : (double)narrow[BF16][i];
        ck_assert_msg(fabs(got - want) <= (double)last_bits * most,
                      "%s: number %zu: %.9g, not %.9g", what, i, got, want);
    }
}

static void check_bytes(const char *what, const struct tensor *t)
{
    const unsigned char *want = t->at[F32], *got = t->at[BF16];
    if (t->number) {
        check_numbers(what, t);
        return;
    }
    for (size_t i = 0, unwritten = 0; i < t->bytes; i++) {
        unwritten = got[i] == 0xff ? unwritten + 1 : 0;
        ck_assert_msg(got[i] == want[i] && unwritten < 4, "%s: byte %zu of %zu: %02x, not %02x",
                      what, i, t->bytes, got[i], want[i]);
    }
}

/* Adds a tensor to those that check_outputs() checks. */
static struct tensor watch(const char *what, struct tensor t)
{
    ck_assert_uint_lt(nwatched, sizeof watched / sizeof *watched);
    watched[nwatched].what = what;
    return watched[nwatched++].t = t;
}

static struct tensor output(const char *what, const struct ss_act *a)
{
    return watch(what, nan_of(a));
}

/* fp32 on both devices; NULL if count is 0. */
static struct tensor output_floats(const char *what, size_t count)
{
    return watch(what, bytes_of(count * sizeof(float), sizeof(float), 0xff));
}

static void check_outputs(void)
{
    for (size_t i = 0; i < nwatched; i++)
        if (watched[i].t.a.n)
            check_tensor(watched[i].what, &watched[i].t, 0);
        else
            check_bytes(watched[i].what, &watched[i].t);
    nwatched = 0;
}

/* ---- convolutions and linear layers ---- */

/* 1x1 windows with stride 1 use one image: fp32 reads x in place, and with several images it sums
 * the weight gradient over other tiles than bf16. */
static const struct conv_case {
    const char *code; /* with channels in blocks of 16 */
    int n, ci, h, w, co, kernel, stride, padding, dilation, groups, bias;
} convs[] = {
    {"winograd", 2, 20, 7, 9, 40, 3, 1, 1, 1, 1, 1},
    {"winograd", 3, 32, 8, 8, 48, 3, 1, 0, 1, 1, 0},
    {"winograd", 2, 16, 34, 65, 16, 3, 1, 1, 1, 1, 1},  /* x is computed in several bands */
    {"winograd", 40, 16, 16, 16, 16, 3, 1, 1, 1, 1, 0}, /* outputs bypass the caches */
    {"winograd", 1, 344, 6, 5, 352, 3, 1, 1, 1, 1, 1},  /* weights are not transformed as a whole */
    {"winograd", 2, 64, 5, 5, 64, 3, 1, 1, 1, 4, 1},
    {"columns", 1, 40, 13, 12, 72, 1, 1, 0, 1, 1, 1},
    {"columns", 1, 20, 7, 9, 72, 1, 1, 0, 1, 1, 1},
    {"columns", 9, 40, 9, 7, 72, 1, 2, 0, 1, 1, 1},
    {"columns", 2, 20, 9, 8, 40, 3, 2, 1, 1, 1, 1},
    {"columns", 2, 3, 17, 15, 24, 7, 2, 3, 1, 1, 0},
    {"columns", 2, 48, 5, 6, 36, 3, 1, 1, 1, 4, 1},
    {"columns", 2, 12, 7, 6, 20, 3, 1, 2, 2, 1, 1},
    {"columns", 2, 8, 24, 23, 16, 5, 1, 2, 1, 1, 1}, /* an image is several tiles */
    {"columns", 2, 60, 7, 9, 57, 5, 1, 2, 1, 1, 1},  /* the data gradient is a forward pass */
    {"columns", 1, 32, 6, 7, 600, 3, 1, 2, 2, 1, 0},
    /* Groups with few channels are merged: full and partial vectors of outputs. */
    {"columns", 2, 64, 6, 7, 64, 3, 1, 1, 1, 16, 1},
    {"columns", 2, 70, 9, 8, 42, 3, 2, 1, 1, 14, 1},
    {"columns", 1, 20, 7, 7, 12, 2, 2, 0, 1, 4, 0},
    /* With AMX, windows are views of a padded copy: several images, part of one, several pieces,
     * taps of both parities; not with more padding than the window reaches. */
    {"columns", 5, 64, 9, 8, 40, 5, 1, 2, 1, 2, 1},
    {"columns", 1, 96, 41, 37, 24, 2, 1, 0, 1, 1, 0},
    {"columns", 3, 160, 8, 9, 33, 3, 1, 2, 2, 1, 1},
    {"columns", 2, 32, 7, 31, 72, 5, 1, 1, 1, 1, 1},
    {"columns", 1, 32, 9, 8, 40, 2, 1, 2, 1, 1, 1},
    {"columns", 2, 3, 48, 40, 40, 4, 4, 0, 1, 1, 1},
    {"columns", 2, 200, 14, 13, 40, 2, 2, 0, 1, 1, 1}, /* several pieces; an edge is not covered */
    {"columns", 4, 600, 1, 1, 520, 1, 1, 0, 1, 1, 1},  /* few rows */
    {"columns", 4, 40, 3, 3, 300, 3, 3, 0, 1, 1, 0},
    {"columns", 1, 3, 5, 700, 8, 5, 1, 7, 1, 1, 1}, /* a line of planes is read in chunks */
    {"depthwise", 2, 40, 9, 7, 40, 3, 1, 1, 1, 40, 1},
    {"depthwise", 9, 20, 9, 8, 20, 3, 2, 1, 1, 20, 1},
    {"small map", 32, 64, 2, 2, 64, 3, 1, 1, 1, 1, 1},
    {"small map", 35, 62, 4, 4, 63, 3, 1, 1, 1, 1, 0},
};
enum { NCONVS = sizeof convs / sizeof *convs };

static struct ss_conv_shape conv_shape(const struct conv_case *c, int of_x, int of_y)
{
    const int reach = c->dilation * (c->kernel - 1) + 1 - 2 * c->padding;
    const int p = (c->h - reach) / c->stride + 1, q = (c->w - reach) / c->stride + 1;
    return (struct ss_conv_shape){{c->n, c->ci, c->h, c->w, test_block(of_x, c->ci)},
                                  {c->n, c->co, p, q, test_block(of_y, c->co)},
                                  {c->kernel, c->kernel},
                                  {c->stride, c->stride},
                                  {c->padding, c->padding},
                                  {c->dilation, c->dilation},
                                  c->groups,
                                  c->bias,
                                  c->bias,
                                  0};
}

/* forward_sums computes the statistics of the outputs before rounding. */
static void check_sums(const struct ss_conv_shape *s, struct ss_conv_kernel *const *conv,
                       const struct tensor *x, const struct tensor *w, const float *bias)
{
    const struct ss_norm_act op = {.shape = s->y, .has_bn = 1, .eps = 1e-5f};
    const struct tensor y = output("y with sums", &s->y),
                        saved = output_floats("saved", 2 * (size_t)s->y.c);
    BOTH(ss_cpu_norm_act_reserve(device[d], &op));
    BOTH(ss_cpu_conv_forward_sums(conv[d], x->at[d], w->at[d], bias, y.at[d], saved.at[d]));
    BOTH(ss_cpu_norm_act_stats(device[d], &op, NULL, saved.at[d], NULL));
    check_outputs();
}

/* An x that is computed while it is read is rounded as if it were stored. */
static void check_made(struct ss_conv_shape s, struct ss_conv_kernel *stored,
                       const struct tensor *z, const struct tensor *dy, const struct tensor *w,
                       const float *bias)
{
    static const struct ss_norm_act ops[] = {{.act = SS_ACT_RELU, .has_bn = 1},
                                             {.act = SS_ACT_SIGMOID, .has_bn = 1},
                                             {.act = SS_ACT_GELU, .dropout = 0.5f}};
    const size_t c = (size_t)s.x.c;
    const float *gamma = vector(c, 6, 1), *beta = vector(c, 7, 0), *saved = vector(2 * c, 8, 0);
    struct ss_conv_kernel *conv[DEVICES] = {stored};
    s.makes_x = 1;
    OK(ss_cpu_conv_create(device[BF16], &s, SS_CONV_WINOGRAD, 1, &conv[BF16]));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct ss_norm_source from = {ops[i], gamma, beta, saved, &key, 1};
        const struct tensor x = nan_of(&s.x), y = output("y of a computed x", &s.y),
                            dw = output_floats("dw of a computed x", ss_act_elements(&w->a)),
                            db = output_floats("db of a computed x", bias ? (size_t)s.y.c : 0);
        from.op.shape = s.x;
        OK(ss_cpu_norm_act_reserve(device[BF16], &from.op));
        OK(ss_cpu_norm_act_forward(device[BF16], &from.op, z->at[BF16], gamma, beta, saved, NULL,
                                   x.at[BF16], NULL, 1, &key));
        widen(&x);
        OK(ss_cpu_conv_source(conv[BF16], &from));
        const void *const in[] = {x.at[F32], z->at[BF16]};
        BOTH(ss_cpu_conv_forward(conv[d], in[d], w->at[d], bias, y.at[d]));
        BOTH(ss_cpu_conv_backward_weights(conv[d], in[d], dy->at[d], dw.at[d], db.at[d]));
        check_outputs();
    }
    ss_cpu_conv_destroy(conv[BF16]);
}

static size_t not_zero(const float *x, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += x[i] < 0 || x[i] > 0;
    return n;
}

static void check_conv(int i, int of_x, int of_y)
{
    const struct ss_conv_shape s = conv_shape(&convs[i], of_x, of_y);
    const int is_winograd = !strcmp(convs[i].code, "winograd") && ss_winograd_takes(&s);
    const enum ss_conv_algo algo = is_winograd ? SS_CONV_WINOGRAD : SS_CONV_PRODUCT;
    const size_t weights = (size_t)(s.y.c * ss_conv_inputs(&s) * ss_conv_taps(&s)),
                 outputs = s.bias ? (size_t)s.y.c : 0;
    struct ss_conv_kernel *conv[DEVICES];
    BOTH(ss_cpu_conv_create(device[d], &s, algo, 1, &conv[d]));
    ck_assert_str_eq(ss_cpu_conv_info(conv[F32]), ss_cpu_conv_info(conv[BF16]));
    ck_assert(of_x || of_y || strstr(ss_cpu_conv_info(conv[BF16]), convs[i].code));
    ck_assert_int_eq(ss_cpu_conv_has_sums(conv[F32]), ss_cpu_conv_has_sums(conv[BF16]));
    /* Each device has its own weight layout, padded with zeros. */
    const struct ss_act of_plain = {1, (int)weights, 1, 1, (int)weights};
    const float *plain = tensor_from(&of_plain, vector(weights, 4, 0)).at[F32],
                *bias = outputs ? vector(outputs, 5, 0) : NULL;
    const struct tensor again = output_floats("weight", weights), dw = output_floats("dw", weights),
                        db = output_floats("db", outputs);
    struct tensor w = {.a = {0}}, native_dw = {.a = {0}};
    size_t count[DEVICES];
    for (int d = 0; d < DEVICES; d++) {
        const size_t bytes = ss_cpu_conv_weight_bytes(conv[d]);
        count[d] = bytes / sizeof(float);
        w.a = (struct ss_act){1, (int)count[d], 1, 1, (int)count[d]};
        const struct tensor native = bytes_of(bytes, sizeof(float), 0xff);
        OK(ss_cpu_conv_import(conv[d], plain, native.at[F32]));
        OK(ss_cpu_conv_export(conv[d], native.at[F32], again.at[d]));
        ck_assert_uint_eq(not_zero(native.at[F32], count[d]), not_zero(plain, weights));
        w.at[d] = tensor_from(&w.a, native.at[F32]).at[d];
        native_dw.at[d] = native.at[BF16];
    }
    const struct tensor x = random_of(&s.x, 1), dy = random_of(&s.y, 2), r = random_of(&s.y, 3),
                        y = output("y", &s.y), dx = output("dx", &s.x),
                        sum = ss_cpu_conv_adds(&s, SS_DTYPE_BF16, algo) ? output("y + r", &s.y) : y;
    BOTH(ss_cpu_conv_forward(conv[d], x.at[d], w.at[d], bias, y.at[d]));
    BOTH(ss_cpu_conv_backward_data(conv[d], dy.at[d], w.at[d], dx.at[d]));
    BOTH(ss_cpu_conv_backward_weights(conv[d], x.at[d], dy.at[d], native_dw.at[d], db.at[d]));
    BOTH(ss_cpu_conv_export(conv[d], native_dw.at[d], dw.at[d]));
    for (int d = 0; d < DEVICES; d++)
        ck_assert_uint_eq(not_zero(native_dw.at[d], count[d]), not_zero(dw.at[d], weights));
    if (ss_cpu_conv_adds(&s, SS_DTYPE_BF16, algo))
        BOTH(ss_cpu_conv_forward_add(conv[d], x.at[d], w.at[d], bias, r.at[d], sum.at[d]));
    check_outputs();
    if (ss_cpu_conv_has_sums(conv[BF16]))
        check_sums(&s, conv, &x, &w, bias);
    if (ss_cpu_conv_makes_x(&s, SS_DTYPE_BF16, algo))
        check_made(s, conv[F32], &x, &dy, &w, bias);
    for (int d = 0; d < DEVICES; d++)
        ss_cpu_conv_destroy(conv[d]);
}

/* Every layout, then x in planes with y in blocks of 16. */
START_TEST(convolutions)
{
    const int block = _i % (NBLOCKS + 1);
    check_conv(_i / (NBLOCKS + 1), block < NBLOCKS ? block : 3, block % NBLOCKS);
}
END_TEST

/* fp32 uses one thread, so equal results show that they do not depend on the number of threads. */
START_TEST(any_threads)
{
    static const int some[] = {0, 2, 8, 12};
    const char *isa = getenv("DNNL_MAX_CPU_ISA");
    close_devices();
    open_devices(isa, 1 + _i % 3);
    check_conv(some[_i / 3], 0, 0);
}
END_TEST

/* bf16 results are bit-identical for 1 to 3 threads. */
START_TEST(same_bits)
{
    const struct ss_conv_shape s = conv_shape(&convs[_i], 0, 0);
    const size_t outputs = s.bias ? (size_t)s.y.c : 0;
    const float *bias = outputs ? vector(outputs, 5, 0) : NULL;
    const struct tensor x = random_of(&s.x, 1), dy = random_of(&s.y, 2);
    struct tensor first[3];
    for (int threads = 1; threads <= 3; threads++) {
        struct ss_device *of_threads;
        struct ss_conv_kernel *conv;
        OK(ss_cpu_open(&(struct ss_device_options){.threads = threads, .dtype = SS_DTYPE_BF16},
                       &of_threads));
        OK(ss_cpu_conv_create(of_threads, &s, SS_CONV_AUTO, 1, &conv));
        const int count = (int)(ss_cpu_conv_weight_bytes(conv) / sizeof(float));
        const struct ss_act flat = {1, count, 1, 1, count};
        const struct tensor w = random_of(&flat, 4),
                            made[3] = {nan_of(&s.y), nan_of(&s.x),
                                       bytes_of((size_t)count * sizeof(float), 0, 0xff)};
        float *db = outputs ? vector(outputs, 6, 0) : NULL;
        OK(ss_cpu_conv_forward(conv, x.at[BF16], w.at[BF16], bias, made[0].at[BF16]));
        OK(ss_cpu_conv_backward_data(conv, dy.at[BF16], w.at[BF16], made[1].at[BF16]));
        OK(ss_cpu_conv_backward_weights(conv, x.at[BF16], dy.at[BF16], made[2].at[BF16], db));
        for (int i = 0; i < 3; i++) {
            const size_t bytes =
                i < 2 ? ss_act_elements(&made[i].a) * sizeof(uint16_t) : made[i].bytes;
            if (threads == 1)
                first[i] = made[i];
            ck_assert_mem_eq(first[i].at[BF16], made[i].at[BF16], bytes);
        }
        ss_cpu_conv_destroy(conv);
        ss_cpu_close(of_threads);
    }
}
END_TEST

/* With AMX, matrix products replace Winograd if both passes can read padded copies of x and dy. */
START_TEST(amx_choices)
{
    static const struct {
        int ci, co, h, amx;
    } shapes[] = {{64, 96, 8, 1}, {32, 32, 7, 1}, {64, 64, 6, 0}, {16, 64, 8, 0}, {64, 48, 8, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int d = 0; d < DEVICES; d++) {
            const struct conv_case c = {
                "", 32, shapes[i].ci, shapes[i].h, shapes[i].h, shapes[i].co, 3, 1, 1, 1, 1, 0};
            const struct ss_conv_shape s = conv_shape(&c, 0, 0);
            const int is_amx = ss_simd_pairs() && !ss_simd_pairs()->outer_product;
            struct ss_conv_kernel *conv;
            OK(ss_cpu_conv_create(device[d], &s, SS_CONV_AUTO, 1, &conv));
            const char *code = is_amx && d == BF16 && shapes[i].amx ? "columns" : "winograd";
            ck_assert_msg(strstr(ss_cpu_conv_info(conv), code) != NULL, "%zu: not %s, but %s", i,
                          code, ss_cpu_conv_info(conv));
            ss_cpu_conv_destroy(conv);
        }
}
END_TEST

START_TEST(linear)
{
    static const int cases[][5] = {{4, 20, 3, 2, 10}, {150, 40, 1, 1, 24}, {3, 600, 1, 1, 70}};
    const int *i = cases[_i / NBLOCKS], k = i[4];
    const struct ss_act a = {i[0], i[1], i[2], i[3], test_block(_i % NBLOCKS, i[1])};
    const size_t outputs = _i / NBLOCKS % 2 ? 0 : (size_t)k; /* biases */
    struct ss_linear_kernel *l[DEVICES];
    BOTH(ss_cpu_linear_create(device[d], &a, k, outputs > 0, 1, &l[d]));
    const int count = (int)(ss_cpu_linear_weight_bytes(l[BF16]) / sizeof(float));
    const struct ss_act out = {a.n, k, 1, 1, k}, flat = {1, count, 1, 1, count};
    const float *plain = vector((size_t)(k * a.c * a.h * a.w), 3, 0),
                *bias = outputs ? vector(outputs, 4, 0) : NULL;
    float *master = own(ss_aligned_alloc((size_t)count * sizeof *master));
    OK(ss_cpu_linear_import(l[BF16], plain, master));
    const struct tensor x = random_of(&a, 1), dy = random_of(&out, 2),
                        w = tensor_from(&flat, master), y = output("y", &out),
                        dx = output("dx", &a), dw = output_floats("dw", (size_t)count),
                        db = output_floats("db", outputs);
    BOTH(ss_cpu_linear_forward(l[d], x.at[d], w.at[d], bias, y.at[d]));
    BOTH(ss_cpu_linear_backward_data(l[d], dy.at[d], w.at[d], dx.at[d]));
    BOTH(ss_cpu_linear_backward_weights(l[d], x.at[d], dy.at[d], dw.at[d], db.at[d]));
    for (int d = 0; d < DEVICES; d++)
        ss_cpu_linear_destroy(l[d]);
    check_outputs();
}
END_TEST

static const struct ss_pool_shape pools[] = {
    {SS_POOL_MAX, {2, 40, 9, 12, 0}, {2, 40, 5, 6, 0}, {3, 3}, {2, 2}, {1, 1}, 0},
    {SS_POOL_MAX, {2, 20, 7, 7, 0}, {2, 20, 7, 7, 0}, {3, 3}, {1, 1}, {1, 1}, 0},
    {SS_POOL_MAX, {2, 20, 8, 6, 0}, {2, 20, 4, 3, 0}, {2, 2}, {2, 2}, {0, 0}, 0},
    {SS_POOL_MAX, {2, 5, 18, 20, 0}, {2, 5, 18, 20, 0}, {17, 17}, {1, 1}, {8, 8}, 0},
    {SS_POOL_AVG, {2, 40, 9, 7, 0}, {2, 40, 5, 4, 0}, {3, 3}, {2, 2}, {1, 1}, 1},
    {SS_POOL_AVG, {2, 5, 8, 8, 0}, {2, 5, 8, 8, 0}, {3, 3}, {1, 1}, {1, 1}, 0},
    {SS_POOL_AVG, {2, 32, 8, 8, 0}, {2, 32, 1, 1, 0}, {8, 8}, {8, 8}, {0, 0}, 1},
    {SS_POOL_ADAPTIVE, {2, 20, 7, 5, 0}, {2, 20, 3, 2, 0}, {0, 0}, {0, 0}, {0, 0}, 0},
    {SS_POOL_ADAPTIVE, {2, 40, 2, 1, 0}, {2, 40, 7, 6, 0}, {0, 0}, {0, 0}, {0, 0}, 0},
};
enum { NPOOLS = sizeof pools / sizeof *pools };

START_TEST(pooling)
{
    struct ss_pool_shape s = pools[_i / NBLOCKS];
    struct ss_pool_kernel *pool[DEVICES];
    s.x.block = s.y.block = test_block(_i % NBLOCKS, s.x.c);
    BOTH(ss_cpu_pool_create(device[d], &s, 1, &pool[d]));
    const size_t bytes = ss_cpu_pool_workspace_bytes(pool[BF16]);
    const struct tensor x = random_of(&s.x, 1), dy = random_of(&s.y, 2), y = output("y", &s.y),
                        dx = output("dx", &s.x),
                        at = watch("positions of maxima", bytes_of(bytes, 0, 0xff));
    BOTH(ss_cpu_pool_forward(pool[d], x.at[d], y.at[d], at.at[d]));
    BOTH(ss_cpu_pool_backward(pool[d], dy.at[d], at.at[d], dx.at[d]));
    for (int d = 0; d < DEVICES; d++)
        ss_cpu_pool_destroy(pool[d]);
    check_outputs();
}
END_TEST

/* ---- normalization ---- */

enum { PITCH = 64, FIRST = 16 }; /* of a view: the tensor's channels, the view's first one */

static const struct {
    struct ss_norm_act op;
    int ndy, adds;
} norms[] = {
    {{{3, 20, 5, 7, 0}, .act = SS_ACT_RELU, .has_bn = 1}, 1, 0},
    {{{2, 40, 3, 3, 0}, .has_bn = 1, .residual = 1, .relu_out = 1}, 2, 0},
    {{{70, 32, 2, 2, 0}, .act = SS_ACT_RELU6, .has_bn = 1, .residual = 1}, 4, 1},
    {{{2, 20, 9, 7, 0}, .act = SS_ACT_GELU, .has_bn = 1, .dropout = 0.3f}, 3, 0},
    {{{2, 20, 5, 5, 0}, .act = SS_ACT_LEAKY_RELU, .slope = 0.1f, .relu_out = 1}, 1, 1},
    {{{4, 32, 5, 3, 0}, .residual = 1, .dropout = 0.5f, .drop = SS_DROP_SAMPLE}, 1, 0},
    {{{2, 24, 4, 4, 0}, .act = SS_ACT_SILU, .dropout = 0.2f, .drop = SS_DROP_BATCH}, 2, 0},
    {{{1, 16, 33, 40, 0}, .act = SS_ACT_RELU, .has_bn = 1}, 1, 1},
    {{{2, 20, 5, 3, 0}, PITCH, PITCH, SS_ACT_RELU, .has_bn = 1}, 2, 1},
    {{{2, 32, 7, 5, 0}, PITCH, PITCH, SS_ACT_HARDSWISH, .has_bn = 1, .dropout = 0.1f}, 1, 0},
};
enum { NNORMS = sizeof norms / sizeof *norms };

/* Runs backward in two calls; sums NULL: in one. */
static void run_backward(int d, const struct ss_norm_act *op, const struct ss_norm_act_grad *g,
                         double *sums)
{
    if (!sums) {
        OK(ss_cpu_norm_act_backward(device[d], op, g));
        return;
    }
    OK(ss_cpu_norm_act_backward_sums(device[d], op, g, sums));
    OK(ss_cpu_norm_act_backward_apply(device[d], op, g, sums));
}

static void check_norm(struct ss_norm_act op, int ndy, int adds, int block)
{
    const int stored = ndy > 1 || op.relu_out; /* dz is computed from the rounded ds */
    const size_t c = (size_t)op.shape.c;
    op.shape.block = test_block(block, op.shape.c);
    op.eps = op.momentum = 0.1f;
    struct ss_act whole = op.shape;
    whole.c = op.z_pitch ? PITCH : whole.c;
    const int part = op.z_pitch > 0;
    const size_t first = part ? ss_act_channel(&whole, FIRST) : 0;
    const struct tensor z = random_of(&whole, 1), r = random_of(&whole, 2),
                        y = watch("y", nan_or_random(&whole, part)),
                        stats = watch("saved, running",
                                      bytes_of(6 * c * sizeof(float), sizeof(float), 0)),
                        sums = watch("sums", bytes_of(6 * c * sizeof(double), sizeof(double), 0));
    struct tensor dy[SS_NORM_MAX_DY];
    for (int k = 0; k < ndy; k++)
        dy[k] = random_of(&whole, 10 + (uint32_t)k);
    struct ss_norm_act_grad g = {.gamma = vector(c, 5, 1), .beta = vector(c, 6, 0)};
    for (int d = 0; d < DEVICES; d++) {
        const void *from = place(&z, d, first);
        float *saved = stats.at[d];
        OK(ss_cpu_norm_act_reserve(device[d], &op));
        if (op.has_bn) {
            OK(ss_cpu_norm_act_sums(device[d], &op, from, sums.at[d]));
            OK(ss_cpu_norm_act_stats_of_sums(device[d], &op, sums.at[d], saved + 4 * c, NULL));
            OK(ss_cpu_norm_act_stats(device[d], &op, from, saved, saved + 2 * c));
        }
        OK(ss_cpu_norm_act_forward(device[d], &op, from, g.gamma, g.beta, saved,
                                   op.residual ? r.at[d] : NULL, place(&y, d, first), NULL, 1,
                                   &key));
    }
    check_outputs();
    widen(&y);
    g.adds = adds;
    g.dropout_key = &key;
    for (int halves = 0; halves <= op.has_bn; halves++) {
        const struct tensor ds = stored ? watch("ds", nan_or_random(&whole, part)) : dy[0],
                            dz = nan_or_random(&whole, part || adds),
                            spare = nan_or_random(&whole, part || adds),
                            grads = bytes_of(2 * c * sizeof(float), sizeof(float), 0);
        for (int step = 0; step < 2 + stored; step++) {
            const int d = step ? F32 : BF16, last = step == 1 + stored;
            struct ss_norm_act of_ds = op;
            if (step == 2) {
                check_outputs();
                widen(&ds);
                of_ds.relu_out = 0;
            }
            g.ndy = step == 2 ? 1 : ndy;
            g.ds = place(&ds, d, first);
            for (int k = 0; k < g.ndy; k++)
                g.dy[k] = step == 2 ? g.ds : place(&dy[k], d, first);
            g.y = place(&y, d, first);
            g.z = place(&z, d, first);
            g.dz = place(step == 0 || last ? &dz : &spare, d, first);
            g.saved = stats.at[d];
            g.dgamma = grads.at[d];
            g.dbeta = g.dgamma + c;
            run_backward(d, &of_ds, &g, halves ? (double *)sums.at[d] + 2 * c : NULL);
        }
        watch("dz", dz);
        watch("dgamma, dbeta", grads);
        watch("sums", sums);
        check_outputs();
    }
}

/* The cases, then each activation. */
START_TEST(normalisation)
{
    const int i = _i / NBLOCKS, block = _i % NBLOCKS;
    struct ss_norm_act op = norms[i % NNORMS].op;
    if (i >= NNORMS)
        op = (struct ss_norm_act){{2, 20, 5, 3, 0}, .slope = 0.1f, .has_bn = 1, .residual = 1};
    if (i >= NNORMS)
        op.act = (enum ss_activation)(i - NNORMS);
    if (!op.z_pitch || test_block(block, op.shape.c) != op.shape.c)
        check_norm(op, i < NNORMS ? norms[i].ndy : 1, i < NNORMS && norms[i].adds, block);
}
END_TEST

/* Group and layer normalization. */
START_TEST(other_normalisations)
{
    static const struct ss_act shapes[] = {
        {2, 20, 5, 3, 0}, {3, 48, 33, 32, 0}, {2, 1100, 3, 1, 0}};
    struct ss_norm_act op = {shapes[_i / NBLOCKS], .act = SS_ACT_SIGMOID, .eps = 1e-5f};
    const struct ss_act *a = &op.shape;
    const int groups = 4;
    const size_t c = (size_t)a->c, places = (size_t)(a->n * a->h * a->w);
    op.shape.block = test_block(_i % NBLOCKS, a->c);
    const float *gamma = vector(c, 3, 1), *beta = vector(c, 4, 0);
    const struct tensor x = watch("groupnorm dx", random_of(a, 1)), dy = random_of(a, 2),
                        y = output("y", a), layer_y = output("layernorm y", a),
                        layer_dx = output("layernorm dx", a),
                        saved = output_floats("saved", (size_t)(2 * a->n * groups)),
                        layer_saved = output_floats("layernorm saved", 2 * places),
                        dgamma = output_floats("dgamma", c), dbeta = output_floats("dbeta", c),
                        layer_dgamma = output_floats("layernorm dgamma", c),
                        layer_dbeta = output_floats("layernorm dbeta", c);
    BOTH(ss_cpu_layernorm_reserve(device[d], a));
    BOTH(ss_cpu_layernorm_forward(device[d], a, op.eps, x.at[d], gamma, beta, layer_saved.at[d],
                                  layer_y.at[d]));
    BOTH(ss_cpu_layernorm_backward(device[d], a, dy.at[d], x.at[d], gamma, layer_saved.at[d],
                                   layer_dx.at[d], layer_dgamma.at[d], layer_dbeta.at[d]));
    BOTH(ss_cpu_groupnorm_reserve(device[d], &op, groups));
    BOTH(ss_cpu_groupnorm_forward(device[d], &op, groups, x.at[d], gamma, beta, saved.at[d],
                                  y.at[d]));
    BOTH(ss_cpu_groupnorm_backward(device[d], &op, groups, dy.at[d], x.at[d], gamma, beta,
                                   saved.at[d], dgamma.at[d], dbeta.at[d]));
    check_outputs();
}
END_TEST

/* ---- sequences ---- */

START_TEST(tokens)
{
    const int c = 20, has_class = _i / NBLOCKS % 2, has_positions = _i / NBLOCKS / 2,
              block = test_block(_i % NBLOCKS, c), s = 12 + has_class, index = 5;
    const size_t nc = has_class ? (size_t)c : 0, np = has_positions ? (size_t)(c * s) : 0;
    const struct ss_tokens_shape t = {
        {3, c, 3, 4, block}, {3, c, s, 1, block}, has_class, has_positions};
    const struct ss_act one = {3, c, 1, 1, block};
    const float *token = nc ? vector(nc, 3, 0) : NULL, *positions = np ? vector(np, 4, 0) : NULL;
    const struct tensor x = random_of(&t.x, 1), dy = random_of(&t.y, 2), dz = random_of(&one, 3),
                        y = output("y", &t.y), dx = output("dx", &t.x), z = output("token", &one),
                        dz_y = output("gradient of a token's tensor", &t.y),
                        dtoken = output_floats("dclass_token", nc),
                        dpositions = output_floats("dpositions", np);
    BOTH(ss_cpu_tokens_forward(device[d], &t, x.at[d], token, positions, y.at[d]));
    BOTH(ss_cpu_tokens_backward(device[d], &t, dy.at[d], dx.at[d], dtoken.at[d], dpositions.at[d]));
    BOTH(ss_cpu_token_forward(device[d], &t.y, index, dy.at[d], z.at[d]));
    BOTH(ss_cpu_token_backward(device[d], &t.y, index, dz.at[d], dz_y.at[d]));
    check_outputs();
}
END_TEST

START_TEST(attention)
{
    static const int cases[][4] = {{2, 20, 2, 7}, {1, 64, 4, 16}, {1, 24, 2, 150}};
    const int *i = cases[_i / NBLOCKS], n = i[0], e = i[1], heads = i[2], s = i[3];
    const struct ss_attention_shape shape = {{n, 3 * e, s, 1, test_block(_i % NBLOCKS, 3 * e)},
                                             {n, e, s, 1, test_block(_i % NBLOCKS, e)},
                                             heads};
    const struct tensor x = random_of(&shape.x, 1), dy = random_of(&shape.y, 2),
                        y = output("y", &shape.y), dx = output("dx", &shape.x),
                        saved = output_floats("saved", (size_t)(n * heads * s));
    struct ss_attention_kernel *k[DEVICES];
    BOTH(ss_cpu_attention_create(device[d], &shape, 1, &k[d]));
    BOTH(ss_cpu_attention_forward(k[d], x.at[d], saved.at[d], y.at[d]));
    BOTH(ss_cpu_attention_backward(k[d], x.at[d], dy.at[d], saved.at[d], dx.at[d]));
    for (int d = 0; d < DEVICES; d++)
        ss_cpu_attention_destroy(k[d]);
    check_outputs();
}
END_TEST

/* ---- gather, mul, sum ---- */

/* Sets tensor k of x to random numbers. */
static void random_in(const struct ss_act *a, int k, const void *x[DEVICES][6])
{
    const struct tensor t = random_of(a, 10 + (uint32_t)k);
    for (int d = 0; d < DEVICES; d++)
        x[d][k] = t.at[d];
}

/* y_groups: number of groups by which y is shuffled, too. */
static void check_gather(struct ss_gather op, int n, int of_x, int of_y, int y_groups)
{
    const int tensors = op.nparts > 1 ? op.nparts : n;
    const void *x[DEVICES][6];
    op.y.block = test_block(of_y, op.y.c);
    op.groups = y_groups;
    for (int k = 0; k < op.nparts; k++)
        op.part[k].x.block = test_block(of_x, op.part[k].x.c);
    for (int k = 0; k < tensors; k++)
        random_in(&op.part[op.nparts > 1 ? k : 0].x, k, x);
    const struct tensor y = output("y", &op.y);
    BOTH(ss_cpu_gather(device[d], &op, x[d], tensors, y.at[d]));
    check_outputs();
}

START_TEST(gather)
{
    const int i = _i / NBLOCKS, of_x = _i % NBLOCKS;
    for (int of_y = 0; of_y < NBLOCKS; of_y++)
        for (int n = 1; n <= SS_NORM_MAX_DY; n++)
            check_gather(gather_make(i), n, of_x, of_y, 1);
    if (gather_cases[i].c % 2 == 0)
        check_gather(gather_make(i), 1, of_x, 0, 2);
}
END_TEST

/* Writes a view of a tensor, whose other channels must be unchanged, and reads a sum of views. */
START_TEST(gather_parts)
{
    const struct ss_act whole = {2, PITCH, 5, 3, test_block(_i, 1)}, part = ss_act_view(&whole, 32),
                        alone = {2, 32, 5, 3, 16};
    const struct ss_gather
        in = {.y = part, .nparts = 1, .part = {{alone, 0, 0, 32, 1}}, .y_pitch = PITCH},
        out = {.y = alone, .nparts = 1, .part = {{part, 0, 0, 32, 1}}, .x_pitch = PITCH};
    const struct tensor x = random_of(&alone, 1), y = watch("whole", random_of(&whole, 2)),
                        back = output("part", &alone);
    for (int d = 0; d < DEVICES; d++) {
        void *to = place(&y, d, ss_act_channel(&whole, FIRST));
        OK(ss_cpu_gather(device[d], &in, (const void *const[]){x.at[d]}, 1, to));
        OK(ss_cpu_gather(device[d], &out, (const void *const[]){to, y.at[d]}, 2, back.at[d]));
    }
    check_outputs();
}
END_TEST

/* Sums n gradients. wants_x, wants_s: the gradients to compute. */
static void check_mul(const struct mul_case *c, int block, int n, int wants_x, int wants_s)
{
    const int param = c->kind == SS_MUL_PARAM, of_s = test_block((block + n) % NBLOCKS, c->c);
    struct ss_mul op = {.kind = c->kind, .x = {c->n, c->c, c->h, c->w, test_block(block, c->c)}};
    op.s = op.x;
    if (c->kind == SS_MUL_IMAGE)
        op.s = (struct ss_act){c->n, c->c, 1, 1, of_s}; /* in another layout */
    void *factors = vector((size_t)c->c, 3, 0);
    const void *dy[DEVICES][6];
    for (int k = 0; k < n; k++)
        random_in(&op.x, k, dy);
    const struct tensor none = {.bytes = 0}, x = random_of(&op.x, 1), s = random_of(&op.s, 2),
                        y = output("y", &op.x), dx = wants_x ? output("dx", &op.x) : none,
                        ds = !wants_s ? none
                             : param  ? output_floats("ds", (size_t)c->c)
                                      : output("ds", &op.s);
    const void *const factor[] = {param ? factors : s.at[F32], param ? factors : s.at[BF16]};
    BOTH(ss_cpu_mul_reserve(device[d], &op));
    BOTH(ss_cpu_mul_forward(device[d], &op, x.at[d], factor[d], y.at[d]));
    BOTH(ss_cpu_mul_backward(device[d], &op, dy[d], n, x.at[d], factor[d], dx.at[d], ds.at[d]));
    check_outputs();
}

START_TEST(products)
{
    for (int n = 1; n <= SS_NORM_MAX_DY; n++)
        check_mul(&mul_cases[_i / NBLOCKS], _i % NBLOCKS, n, 1, 1);
    check_mul(&mul_cases[_i / NBLOCKS], _i % NBLOCKS, 1, 0, 1);
    check_mul(&mul_cases[_i / NBLOCKS], _i % NBLOCKS, 2, 1, 0);
}
END_TEST

/* More than SS_NORM_MAX_DY tensors are summed in two steps, and the first sum is stored. */
START_TEST(sums)
{
    const int n = _i / 2 + 1, count = _i % 2 ? 40001 : 33,
              first = n < SS_NORM_MAX_DY ? n : SS_NORM_MAX_DY, rest = n - first;
    const struct ss_act a = {1, count, 1, 1, count};
    const struct tensor y = output("sum", &a);
    const void *x[DEVICES][6];
    for (int k = 0; k < n; k++)
        random_in(&a, k, x);
    OK(ss_cpu_sum(device[F32], x[F32], first, y.at[F32], (size_t)count));
    if (rest > 0) {
        x[F32][first - 1] = tensor_from(&a, y.at[F32]).at[F32];
        OK(ss_cpu_sum(device[F32], x[F32] + first - 1, rest + 1, y.at[F32], (size_t)count));
    }
    OK(ss_cpu_sum(device[BF16], x[BF16], n, y.at[BF16], (size_t)count));
    check_outputs();
}
END_TEST

/* All bf16 values. The sum of one tensor preserves NaN payloads. */
START_TEST(every_value)
{
    const size_t count = 1 << 16;
    const struct ss_act a = {1, 32, 64, 32, test_block(_i, 32)};
    const struct tensor x = nan_of(&a), other = nan_of(&a), y = nan_of(&a);
    for (uint32_t i = 0; i < count; i++) {
        ((uint16_t *)x.at[BF16])[i] = (uint16_t)i;
        ((uint16_t *)other.at[BF16])[i] = (uint16_t)(i * 40503 >> 3);
    }
    OK(ss_cpu_sum(device[BF16], (const void *const[]){x.at[BF16]}, 1, y.at[BF16], count));
    ck_assert_mem_eq(y.at[BF16], x.at[BF16], count * sizeof(uint16_t));
    widen(&x);
    widen(&other);
    BOTH(ss_cpu_sum(device[d], (const void *const[]){x.at[d], other.at[d]}, 2, y.at[d], count));
    check_tensor("sum", &y, 1);
    for (int relu = 0; relu < 2; relu++) {
        const struct ss_norm_act op = {a, .act = (enum ss_activation)relu, .residual = 1};
        BOTH(ss_cpu_norm_act_reserve(device[d], &op));
        BOTH(ss_cpu_norm_act_forward(device[d], &op, x.at[d], NULL, NULL, NULL, other.at[d],
                                     y.at[d], NULL, 1, NULL));
        check_tensor("activation", &y, 1);
    }
}
END_TEST

START_TEST(loss)
{
    static const int shapes[][2] = {{4, 10}, {37, 100}, {33, 1000}, {2, 3}};
    const int n = shapes[_i / 2][0], k = shapes[_i / 2][1], mixed = _i % 2;
    const struct ss_act a = {n, k, 1, 1, k};
    const struct tensor x = random_of(&a, 1), dx = output("dlogits", &a),
                        metrics = watch("metrics", bytes_of(sizeof(struct ss_metrics), 0, 0xff));
    struct ss_label *labels = own(calloc((size_t)n, sizeof *labels));
    for (int row = 0; row < n; row++)
        labels[row] = (struct ss_label){row * 7 % k, (row + 1) % k, mixed ? 0.75f : 1};
    labels[n - 1].label = -1;
    BOTH(ss_cpu_loss(device[d], n, k, x.at[d], labels, mixed ? 0.1f : 0, NULL, metrics.at[d], 0,
                     dx.at[d]));
    check_outputs();
    BOTH(ss_cpu_loss(device[d], n, k, x.at[d], labels, 0, NULL, metrics.at[d], 1, x.at[d]));
    check_tensor("dlogits in place", &x, 0);
    check_bytes("metrics", &metrics);
}
END_TEST

#define OPEN(name, isa)                                                                            \
    static void name(void)                                                                         \
    {                                                                                              \
        open_devices(isa, 2);                                                                      \
    }
OPEN(open_all, "ALL")
OPEN(open_pairs, "AVX512_CORE_BF16")
OPEN(open_avx512, "AVX512_CORE")
OPEN(open_avx2, "AVX2")
OPEN(open_sse41, "SSE41")

#if defined(__x86_64__) && defined(__linux__)
/* Emulated on processors without AMX. */
static void open_amx(void)
{
    open_devices("ALL", 2);
    if (ss_product_lanes() != 16)
        return;
    amx_emulate();
    ss_simd_use_pairs(&ss_pairs_amx);
}
#endif

static TCase *limited(const char *isa, void (*open)(void))
{
    TCase *t = tcase_create(isa);
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, open, close_devices);
    tcase_add_loop_test(t, convolutions, 0, NCONVS * (NBLOCKS + 1));
    tcase_add_loop_test(t, linear, 0, 3 * NBLOCKS);
    return t;
}

Suite *bf16_suite(void)
{
    static void (*const opens[NISAS])(void) = {open_all, open_avx2, open_sse41};
    Suite *suite = suite_create("bf16");
    suite_add_tcase(suite, limited("AVX512_CORE_BF16", open_pairs));
    suite_add_tcase(suite, limited("AVX512_CORE", open_avx512));
#if defined(__x86_64__) && defined(__linux__)
    TCase *amx = limited("AMX", open_amx);
    tcase_add_loop_test(amx, same_bits, 0, NCONVS);
    tcase_add_test(amx, amx_choices);
    suite_add_tcase(suite, amx);
#endif
    for (int isa = 0; isa < NISAS; isa++) {
        TCase *t = limited(isas[isa], opens[isa]);
        tcase_add_loop_test(t, any_threads, 0, 4 * 3);
        tcase_add_loop_test(t, same_bits, 0, NCONVS);
        tcase_add_loop_test(t, pooling, 0, NPOOLS * NBLOCKS);
        tcase_add_loop_test(t, normalisation, 0, (NNORMS + SS_ACT_COUNT) * NBLOCKS);
        tcase_add_loop_test(t, other_normalisations, 0, 3 * NBLOCKS);
        tcase_add_loop_test(t, tokens, 0, 4 * NBLOCKS);
        tcase_add_loop_test(t, attention, 0, 3 * NBLOCKS);
        tcase_add_loop_test(t, gather, 0, GATHER_CASES * NBLOCKS);
        tcase_add_loop_test(t, gather_parts, 0, NBLOCKS - 1);
        tcase_add_loop_test(t, products, 0, MUL_CASES * NBLOCKS);
        tcase_add_loop_test(t, sums, 0, 6 * 2);
        tcase_add_loop_test(t, every_value, 0, NBLOCKS);
        tcase_add_loop_test(t, loss, 0, 4 * 2);
        suite_add_tcase(suite, t);
    }
    return suite;
}
