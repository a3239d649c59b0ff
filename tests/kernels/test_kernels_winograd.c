/* test_kernels_winograd.c: Winograd convolution, every vector width, against double precision. */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/winograd.h"
#include "tests/kernels/conv_reference.h"

static const struct {
    int n, ci, co, groups, h, w, padding[2], bias;
} cases[] = {
    {2, 16, 16, 1, 4, 4, {1, 1}, 0},
    {2, 16, 16, 1, 7, 9, {1, 1}, 1},
    {3, 32, 48, 1, 8, 5, {1, 1}, 0},
    /* Partial vectors; fewer channels than a vector. */
    {2, 20, 40, 1, 6, 6, {1, 1}, 1},
    {1, 5, 3, 1, 9, 10, {1, 1}, 1},
    {2, 40, 72, 1, 5, 13, {1, 1}, 0},
    {1, 17, 33, 1, 4, 8, {1, 1}, 1},
    /* Other paddings, maps smaller than a tile and smaller than the window. */
    {2, 16, 32, 1, 6, 7, {0, 0}, 1},
    {2, 24, 16, 1, 6, 6, {0, 1}, 0},
    {2, 16, 24, 1, 5, 6, {2, 1}, 1},
    {3, 16, 16, 1, 1, 1, {1, 1}, 0},
    {1, 16, 16, 1, 1, 7, {2, 2}, 1},
    {2, 32, 16, 1, 3, 3, {1, 1}, 0},
    {2, 16, 16, 1, 3, 4, {0, 0}, 0},
    /* Several chunks of channels, of unequal length. */
    {1, 150, 16, 1, 6, 6, {1, 1}, 0},
    {1, 16, 272, 1, 5, 5, {1, 1}, 1},
    /* Several blocks of tiles, and outputs so large that they bypass the caches. */
    {9, 16, 16, 1, 24, 20, {1, 1}, 1},
    {40, 8, 8, 1, 16, 16, {1, 1}, 0},
    /* Weights that are not transformed as a whole; two blocks of tiles. */
    {1, 344, 352, 1, 6, 5, {1, 1}, 1},
    {130, 352, 340, 1, 1, 2, {1, 1}, 0},
    /* Groups of whole vectors. */
    {2, 64, 96, 2, 6, 9, {1, 1}, 1},
    {2, 144, 48, 3, 7, 4, {1, 1}, 0},
    {1, 160, 160, 10, 8, 8, {0, 1}, 1},
    /* Four channels fill a vector with SSE4.1; rows so long that few fit into a cache. */
    {2, 4, 12, 1, 9, 11, {1, 1}, 0},
    {1, 16, 16, 1, 15, 190, {1, 0}, 1},
    /* So many tiles that the weight gradient is a sum of partial ones; several blocks, the last
     * one shorter. */
    {27, 16, 24, 1, 24, 25, {1, 1}, 1},
    {31, 64, 32, 2, 22, 20, {1, 1}, 0},
};
enum { NCASES = sizeof cases / sizeof cases[0] };

static void case_inputs(struct reference *r, int i)
{
    const struct ss_conv_shape s = {
        .x = {cases[i].n, cases[i].ci, cases[i].h, cases[i].w, 1},
        .y = {.c = cases[i].co},
        .kernel = {3, 3},
        .stride = {1, 1},
        .padding = {cases[i].padding[0], cases[i].padding[1]},
        .dilation = {1, 1},
        .groups = cases[i].groups,
        .bias = cases[i].bias,
    };
    reference_inputs(r, &s);
}

/* Block sizes: this processor's preferred one, NHWC, plain planes. */
static int block_of(int which, int c)
{
    const int preferred = ss_cpu_preferred_block();
    return which == 0 && preferred ? preferred : which == 2 ? 1 : c;
}

START_TEST(every_shape)
{
    struct reference r;
    test_open_limited(isas[_i / NCASES]);
    case_inputs(&r, _i % NCASES);
    walk(&r, 1);
    for (int side = 0; side < 4; side++) {
        struct ss_conv_shape s = r.s;
        s.x.block = block_of(side == 3 ? 2 : side, s.x.c);
        s.y.block = block_of(side == 3 ? 0 : side, s.y.c);
        ck_assert(ss_winograd_takes(&s));
        conv_check(&r, s.x.block, s.y.block, SS_CONV_WINOGRAD, 1e-5);
    }
    reference_free(&r);
    test_close();
}
END_TEST

/* All three passes use Winograd if requested, or if the shape rule selects it. */
START_TEST(choices)
{
    struct ss_conv_shape s = {.x = {8, 64, 8, 8, 16},
                              .y = {8, 64, 8, 8, 16},
                              .kernel = {3, 3},
                              .stride = {1, 1},
                              .padding = {1, 1},
                              .dilation = {1, 1},
                              .groups = 1};
    static const char own[] = "fwd winograd, bwd data winograd, bwd weights winograd";
    struct ss_conv_kernel *conv;
    test_open();
    s.x.block = s.y.block = block_of(0, 64);
    for (int small = 0; small < 2; small++) {
        if (small)
            s.x.h = s.x.w = s.y.h = s.y.w = 2;
        for (int algo = SS_CONV_AUTO; algo <= SS_CONV_WINOGRAD; algo++) {
            OK(ss_cpu_conv_create(cpu, &s, (enum ss_conv_algo)algo, 1, &conv));
            const int is = algo == SS_CONV_WINOGRAD || (algo == SS_CONV_AUTO && !small);
            ck_assert_msg((strcmp(ss_cpu_conv_info(conv), own) == 0) == is, "%d %d: %s", small,
                          algo, ss_cpu_conv_info(conv));
            ss_cpu_conv_destroy(conv);
        }
    }
    OK(ss_cpu_conv_create(cpu, &s, SS_CONV_WINOGRAD, 0, &conv));
    ck_assert_str_eq(ss_cpu_conv_info(conv), "fwd winograd");
    ss_cpu_conv_destroy(conv);
    test_close();
}
END_TEST

/* Predicted work: a 4x4 tile takes 36 products instead of 144, and edge tiles count as whole. */
START_TEST(work)
{
    struct ss_conv_shape s = {.x = {3, 64, 8, 8, 16},
                              .y = {3, 128, 8, 8, 16},
                              .kernel = {3, 3},
                              .stride = {1, 1},
                              .padding = {1, 1},
                              .dilation = {1, 1},
                              .groups = 1};
    s.x.block = s.y.block = block_of(1, 64);
    s.y.block = block_of(1, 128);
    const double formula = 2.0 * 3 * 64 * 128 * 9 * 64;
    struct ss_cpu_conv_work w = ss_cpu_conv_work(&s, SS_DTYPE_F32, SS_CONV_WINOGRAD);
    ck_assert_double_eq(w.flop, formula / 4);
    ck_assert(w.cost > w.flop && w.cost < formula / 2); /* transforms */
    w = ss_cpu_conv_work(&s, SS_DTYPE_F32, SS_CONV_DIRECT);
    ck_assert_double_eq(w.flop, formula);
    ck_assert_double_eq(w.cost, formula);
    ck_assert_int_eq(w.sums, 0);
    s.x.h = s.y.h = 7;
    w = ss_cpu_conv_work(&s, SS_DTYPE_F32, SS_CONV_WINOGRAD);
    ck_assert_double_eq(w.flop, formula / 4);
}
END_TEST

/* Supported shapes, and those for which it is faster. */
START_TEST(shapes_taken)
{
    const struct ss_conv_shape whole = {.x = {32, 64, 8, 8, 16},
                                        .y = {32, 64, 8, 8, 16},
                                        .kernel = {3, 3},
                                        .stride = {1, 1},
                                        .padding = {1, 1},
                                        .dilation = {1, 1},
                                        .groups = 1};
    struct ss_conv_shape s = whole;
    ck_assert(ss_winograd_takes(&s) && ss_winograd_pays(&s));
    for (int i = 0; i < 2; i++) {
        int *const other[] = {&s.kernel[i], &s.stride[i], &s.dilation[i], &s.padding[i]};
        const int value[] = {1, 2, 2, 3};
        for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
            s = whole;
            *other[k] = value[k];
            ck_assert_msg(!ss_winograd_takes(&s), "%d of axis %d", (int)k, i);
        }
    }
    s = whole;
    s.groups = 2;
    ck_assert(ss_winograd_takes(&s));
    s.groups = 32;
    ck_assert(!ss_winograd_takes(&s));
    if (ss_simd_table()->lanes == 16) {
        s = whole;
        s.x.block = 8;
        ck_assert(!ss_winograd_takes(&s));
        s.x.c = 8; /* one block is NHWC as well */
        ck_assert(ss_winograd_takes(&s));
    }

    /* Input and output channels, rows and columns, images: on both sides of the rule. */
    static const int pays[][4] = {{16, 16, 8, 32},
                                  {64, 64, 4, 16},
                                  {512, 512, 7, 3},
                                  {64, 64, 6, 32},
                                  {64, 64, 32, 1}},
                     not [][4] = {{7, 64, 32, 64},  {64, 7, 32, 64}, {512, 512, 4, 2},
                                  {64, 64, 2, 256}, {64, 64, 5, 64}, {512, 512, 7, 2}};
    for (size_t i = 0; i < sizeof pays / sizeof *pays + sizeof not / sizeof *not ; i++) {
        const int is = i < sizeof pays / sizeof *pays;
        const int *p = is ? pays[i] : not [i - sizeof pays / sizeof *pays];
        s = whole;
        s.x = (struct ss_act){p[3], p[0], p[2], p[2], 16};
        s.y = (struct ss_act){p[3], p[1], p[2], p[2], 16};
        ck_assert_msg(ss_winograd_pays(&s) == is, "%d %d %d %d", p[0], p[1], p[2], p[3]);
    }
}
END_TEST

enum { RESULTS = 5 }; /* y, dx, dw, dbias, statistics for BatchNorm */

/* Runs all passes of case i with `threads` threads. The caller frees out[]. */
static void run_with(int i, int threads, const struct reference *r, float *out[RESULTS],
                     size_t bytes[RESULTS])
{
    struct ss_device *device;
    struct ss_conv_kernel *conv;
    struct ss_conv_shape s = r->s;
    s.x.block = block_of(0, s.x.c);
    s.y.block = block_of(0, s.y.c);
    s.sums = 1;
    OK(ss_cpu_open(&(struct ss_device_options){.threads = threads}, &device));
    OK(ss_cpu_conv_create(device, &s, SS_CONV_WINOGRAD, 1, &conv));
    float *x = act_pack(&s.x, r->x), *dy = act_pack(&s.y, r->dy), *plain = to_floats(r->w, r->nw),
          *b = to_floats(r->b, (size_t)s.y.c);
    bytes[0] = ss_act_elements(&s.y) * sizeof(float);
    bytes[1] = ss_act_elements(&s.x) * sizeof(float);
    bytes[2] = ss_cpu_conv_weight_bytes(conv);
    bytes[3] = (size_t)s.y.c * sizeof(float);
    bytes[4] = ss_cpu_conv_has_sums(conv) ? 2 * bytes[3] : 0;
    float *w = ss_aligned_alloc(bytes[2]);
    for (int k = 0; k < RESULTS; k++)
        out[k] = ss_aligned_alloc(bytes[k] + 1);
    OK(ss_cpu_conv_import(conv, plain, w));
    if (bytes[4])
        OK(ss_cpu_conv_forward_sums(conv, x, w, s.bias ? b : NULL, out[0], out[4]));
    else
        OK(ss_cpu_conv_forward(conv, x, w, s.bias ? b : NULL, out[0]));
    OK(ss_cpu_conv_backward_data(conv, dy, w, out[1]));
    OK(ss_cpu_conv_backward_weights(conv, x, dy, out[2], cases[i].bias ? out[3] : NULL));
    free(x), free(dy), free(plain), free(b), free(w);
    ss_cpu_conv_destroy(conv);
    ss_cpu_close(device);
}

START_TEST(bits_of_threads)
{
    struct reference r;
    setenv("DNNL_MAX_CPU_ISA", isas[_i / NCASES], 1);
    case_inputs(&r, _i % NCASES);
    static const int threads[] = {1, 2, 3, 7};
    float *want[RESULTS], *got[RESULTS];
    size_t bytes[RESULTS];
    run_with(_i % NCASES, 1, &r, want, bytes);
    for (size_t t = 1; t < sizeof threads / sizeof *threads; t++) {
        run_with(_i % NCASES, threads[t], &r, got, bytes);
        for (int k = 0; k < RESULTS; k++) {
            ck_assert_msg(!memcmp(want[k], got[k], bytes[k]), "result %d with %d threads", k,
                          threads[t]);
            free(got[k]);
        }
    }
    for (int k = 0; k < RESULTS; k++)
        free(want[k]);
    reference_free(&r);
}
END_TEST

/* forward_sums computes mean and variance of the stored y, also if the mean is 100 deviations. */
START_TEST(leaves_sums)
{
    struct reference r;
    test_open_limited(isas[_i / NCASES]);
    case_inputs(&r, _i % NCASES);
    struct ss_conv_shape s = r.s;
    struct ss_conv_kernel *conv;
    s.x.block = block_of(0, s.x.c);
    s.y.block = block_of(0, s.y.c);
    s.bias = s.sums = 1;
    const int channels = s.y.c, pixels = s.y.h * s.y.w;
    OK(ss_cpu_conv_create(cpu, &s, SS_CONV_WINOGRAD, 1, &conv));
    float *x = act_pack(&s.x, r.x), *y = act_pack(&s.y, NULL), *plain = to_floats(r.w, r.nw),
          *w = ss_aligned_alloc(ss_cpu_conv_weight_bytes(conv)),
          *bias = to_floats(r.b, (size_t)channels),
          *sums = ss_aligned_alloc(2 * (size_t)channels * sizeof *sums);
    for (int c = 0; c < channels; c++)
        bias[c] += (float)(c % 3) * 300;
    OK(ss_cpu_conv_import(conv, plain, w));
    if (!ss_cpu_conv_has_sums(conv)) {
        ck_assert_int_ne(s.y.block % ss_simd_table()->lanes, 0);
        ss_log_set_quiet(1);
        ck_assert_int_eq(ss_cpu_conv_forward_sums(conv, x, w, bias, y, sums), SS_ERR_INVALID);
        ss_log_set_quiet(0);
    } else {
        OK(ss_cpu_conv_forward_sums(conv, x, w, bias, y, sums));
        double *got = act_unpack(&s.y, y);
        for (int c = 0; c < channels; c++) {
            double mean = 0, var = 0;
            const double n = (double)s.y.n * pixels;
            for (int pass = 0; pass < 2; pass++)
                for (int k = 0; k < s.y.n * pixels; k++) {
                    const double v = got[(size_t)(k / pixels * channels + c) * (size_t)pixels +
                                         (size_t)(k % pixels)];
                    if (pass)
                        var += (v - mean) * (v - mean) / n;
                    else
                        mean += v / n;
                }
            ck_assert_msg(fabs((double)sums[c] - mean) <= 1e-7 * fabs(mean) + 5e-7 * sqrt(var),
                          "channel %d: mean %.9g, not %.9g", c, (double)sums[c], mean);
            ck_assert_msg(fabs((double)sums[channels + c] - var) <= 2e-6 * var,
                          "channel %d: variance %.9g, not %.9g", c, (double)sums[channels + c],
                          var);
        }
        free(got);
    }
    float *const all[] = {x, y, plain, w, bias, sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    ss_cpu_conv_destroy(conv);
    reference_free(&r);
    test_close();
}
END_TEST

/* Operations applied to z. */
static const struct {
    int has_bn;
    enum ss_activation act;
    float slope, dropout;
    enum ss_drop drop;
} made[] = {
    {1, SS_ACT_RELU, 0, 0, SS_DROP_ELEMENT},         {1, SS_ACT_NONE, 0, 0.5f, SS_DROP_ELEMENT},
    {0, SS_ACT_LEAKY_RELU, 0.1f, 0, SS_DROP_SAMPLE}, {1, SS_ACT_SIGMOID, 0, 0, SS_DROP_BATCH},
    {0, SS_ACT_RELU, 0, 0.3f, SS_DROP_ELEMENT},      {1, SS_ACT_GELU, 0, 0.5f, SS_DROP_SAMPLE}};
enum { NMADE = sizeof made / sizeof *made };

/* Adding a residual on store is bit-identical to adding it afterwards. */
START_TEST(adds)
{
    struct reference r;
    test_open_limited(isas[_i / NCASES]);
    case_inputs(&r, _i % NCASES);
    float *plain = to_floats(r.w, r.nw), *b = to_floats(r.b, (size_t)r.s.y.c);
    for (int side = 0; side < 3; side++) {
        struct ss_conv_shape s = r.s;
        struct ss_conv_kernel *conv;
        s.x.block = block_of(side, s.x.c);
        s.y.block = block_of(side, s.y.c);
        OK(ss_cpu_conv_create(cpu, &s, SS_CONV_WINOGRAD, 0, &conv));
        const size_t ny = ss_act_elements(&s.y);
        float *x = act_pack(&s.x, r.x), *residual = act_pack(&s.y, r.dy),
              *y[2] = {act_pack(&s.y, NULL), act_pack(&s.y, NULL)},
              *w = ss_aligned_alloc(ss_cpu_conv_weight_bytes(conv));
        OK(ss_cpu_conv_import(conv, plain, w));
        OK(ss_cpu_conv_forward(conv, x, w, s.bias ? b : NULL, y[0]));
        const void *both[] = {y[0], residual};
        OK(ss_cpu_sum(cpu, both, 2, y[0], ny));
        OK(ss_cpu_conv_forward_add(conv, x, w, s.bias ? b : NULL, residual, y[1]));
        ck_assert_mem_eq(y[0], y[1], ny * sizeof(float));
        ss_cpu_conv_destroy(conv);
        ck_assert(ss_cpu_conv_adds(&s, SS_DTYPE_F32, SS_CONV_WINOGRAD) &&
                  !ss_cpu_conv_adds(&s, SS_DTYPE_F32, SS_CONV_DIRECT));
        OK(ss_cpu_conv_create(cpu, &s, SS_CONV_PRODUCT, 0, &conv));
        ss_log_set_quiet(1);
        ck_assert_int_eq(ss_cpu_conv_forward_add(conv, x, w, NULL, residual, y[1]), SS_ERR_INVALID);
        ss_log_set_quiet(0);
        ss_cpu_conv_destroy(conv);
        free(x), free(residual), free(y[0]), free(y[1]), free(w);
    }
    free(plain), free(b);
    reference_free(&r);
    test_close();
}
END_TEST

/* Computing x while it is read is bit-identical to storing it first. */
START_TEST(makes_x)
{
    struct reference r;
    test_open_limited(isas[_i / NCASES]);
    case_inputs(&r, _i % NCASES);
    struct ss_conv_shape s = r.s;
    struct ss_conv_kernel *stored, *making;
    const size_t nc = (size_t)s.x.c;
    s.x.block = block_of(0, s.x.c);
    s.y.block = block_of(0, s.y.c);
    OK(ss_cpu_conv_create(cpu, &s, SS_CONV_WINOGRAD, 1, &stored));
    const int can = ss_cpu_conv_makes_x(&s, SS_DTYPE_F32, SS_CONV_WINOGRAD);
    ck_assert_int_eq(can, s.x.block == ss_simd_table()->lanes);
    s.makes_x = 1;
    ss_log_set_quiet(1);
    if (!can)
        ck_assert_int_eq(ss_cpu_conv_create(cpu, &s, SS_CONV_WINOGRAD, 1, &making), SS_ERR_INVALID);
    ck_assert_int_eq(ss_cpu_conv_create(cpu, &s, SS_CONV_DIRECT, 1, &making), SS_ERR_INVALID);
    ss_log_set_quiet(0);
    const size_t bytes = ss_cpu_conv_weight_bytes(stored),
                 ny = ss_act_elements(&s.y) * sizeof(float);
    float *z = act_pack(&s.x, r.x), *x = act_pack(&s.x, NULL), *dy = act_pack(&s.y, r.dy),
          *plain = to_floats(r.w, r.nw), *b = to_floats(r.b, (size_t)s.y.c),
          *db = to_floats(r.b, (size_t)s.y.c);
    float *w = ss_aligned_alloc(bytes), *dw[2] = {ss_aligned_alloc(bytes), ss_aligned_alloc(bytes)},
          *y[2] = {act_pack(&s.y, NULL), act_pack(&s.y, NULL)};
    double *g = random_doubles(4 * nc, 5);
    float *gamma = to_floats(g, nc), *beta = to_floats(g + nc, nc),
          *saved = to_floats(g + 2 * nc, 2 * nc);
    const uint64_t key = 0x123456789abcdef;
    OK(ss_cpu_conv_import(stored, plain, w));
    for (int k = 0; can && k < NMADE; k++) {
        const struct ss_norm_source source = {.op = {.shape = s.x,
                                                     .has_bn = made[k].has_bn,
                                                     .act = made[k].act,
                                                     .slope = made[k].slope,
                                                     .dropout = made[k].dropout,
                                                     .drop = made[k].drop},
                                              .gamma = made[k].has_bn ? gamma : NULL,
                                              .beta = made[k].has_bn ? beta : NULL,
                                              .saved = made[k].has_bn ? saved : NULL,
                                              .dropout_key = &key,
                                              .training = k != NMADE - 1};
        OK(ss_cpu_norm_act_reserve(cpu, &source.op));
        OK(ss_cpu_norm_act_forward(cpu, &source.op, z, source.gamma, source.beta, source.saved,
                                   NULL, x, NULL, source.training, &key));
        OK(ss_cpu_conv_create(cpu, &s, SS_CONV_WINOGRAD, 1, &making));
        ss_log_set_quiet(1);
        ck_assert_int_eq(ss_cpu_conv_source(stored, &source), SS_ERR_INVALID);
        ck_assert_int_eq(ss_cpu_conv_forward(making, z, w, s.bias ? b : NULL, y[1]),
                         SS_ERR_INVALID);
        ss_log_set_quiet(0);
        OK(ss_cpu_conv_source(making, &source));
        for (int i = 0; i < 2; i++) {
            struct ss_conv_kernel *conv = i ? making : stored;
            OK(ss_cpu_conv_forward(conv, i ? z : x, w, s.bias ? b : NULL, y[i]));
            OK(ss_cpu_conv_backward_weights(conv, i ? z : x, dy, dw[i], s.bias ? db : NULL));
        }
        ck_assert_msg(!memcmp(y[0], y[1], ny), "forward, %d", k);
        ck_assert_msg(!memcmp(dw[0], dw[1], bytes), "weight gradient, %d", k);
        ss_cpu_conv_destroy(making);
    }
    float *const all[] = {z, x, dy, plain, b, db, w, dw[0], dw[1], y[0], y[1], gamma, beta, saved};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(g);
    ss_cpu_conv_destroy(stored);
    reference_free(&r);
    test_close();
}
END_TEST

static void check_rms(const char *what, const double *got, const double *want, size_t count,
                      double bound)
{
    double error = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        all += want[i] * want[i];
    }
    const double rms = sqrt(error / all);
    printf("Winograd convolution, %s: relative RMS error %.2g\n", what, rms);
    ck_assert_msg(rms <= bound, "%s: %.3g, the bound is %.3g", what, rms, bound);
}

/* Errors do not exceed those of oneDNN 2.6's Winograd: 1.2e-6 forward with 160 channels. */
START_TEST(accuracy)
{
    const struct ss_conv_shape shape = {.x = {4, 160, 16, 16, 1},
                                        .y = {.c = 32},
                                        .kernel = {3, 3},
                                        .stride = {1, 1},
                                        .padding = {1, 1},
                                        .dilation = {1, 1},
                                        .groups = 1};
    struct reference r;
    setenv("DNNL_MAX_CPU_ISA", isas[_i], 1);
    reference_of(&r, &shape);
    struct ss_conv_shape s = r.s;
    s.x.block = block_of(0, s.x.c);
    s.y.block = block_of(0, s.y.c);
    float *out[RESULTS];
    size_t bytes[RESULTS];
    run_with(0, 2, &r, out, bytes);
    float *plain = ss_aligned_alloc(r.nw * sizeof(float));
    ss_winograd_export(&s, out[2], plain);
    double *y = act_unpack(&s.y, out[0]), *dx = act_unpack(&s.x, out[1]),
           *dw = to_doubles(plain, r.nw);
    check_rms("forward", y, r.y, r.ny, 1.3e-6);
    check_rms("data gradient", dx, r.dx, r.nx, 1.3e-6);
    check_rms("weight gradient", dw, r.dw, r.nw, 1.3e-6);
    free(y), free(dx), free(dw), free(plain);
    for (int k = 0; k < RESULTS; k++)
        free(out[k]);
    reference_free(&r);
}
END_TEST

/* For any batch and layer size, scratch is at most a block of tiles and buffers per thread. */
START_TEST(scratch_is_bounded)
{
    struct ss_conv_shape s = {
        .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    struct ss_device *device;
    const size_t mib = 1 << 20;
    static const int channels[] = {16, 64, 160, 320, 341, 342, 640, 1280};
    for (int threads = 1; threads <= 64; threads *= 8) {
        OK(ss_cpu_open(&(struct ss_device_options){.threads = threads}, &device));
        for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
            const int c = channels[i];
            s.x = s.y = (struct ss_act){256, c, 32, 32, 16};
            const size_t bytes = ss_winograd_scratch(device, &s, 1),
                         block = (size_t)36 * 2 * 132 * (size_t)(c + 16) * sizeof(float);
            ck_assert_uint_ge(bytes, ss_winograd_scratch(device, &s, 0));
            ck_assert_msg(bytes <= block + 17 * mib + (size_t)threads * 4 * mib,
                          "%d channels, %d threads: %zu MiB", c, threads, bytes / mib);
            struct ss_conv_shape both = s;
            both.sums = both.makes_x = 1;
            /* A band; up to 6 more tiles in a block; partial sums, of 7 tiles each. */
            const size_t more = 64 * 1024 + (size_t)6 * 36 * 2 * (size_t)(c + 16) * sizeof(float);
            ck_assert_uint_le(ss_winograd_scratch(device, &both, 1),
                              bytes + (size_t)threads * more + mib +
                                  ss_act_elements(&s.y) * sizeof(float) / 37);
        }
        ss_cpu_close(device);
    }
}
END_TEST

Suite *winograd_suite(void)
{
    Suite *suite = suite_create("winograd");
    TCase *t = tcase_create("winograd");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, every_shape, 0, NISAS * NCASES);
    tcase_add_loop_test(t, bits_of_threads, 0, NISAS * NCASES);
    tcase_add_loop_test(t, accuracy, 0, NISAS);
    tcase_add_loop_test(t, leaves_sums, 0, NISAS * NCASES);
    tcase_add_loop_test(t, makes_x, 0, NISAS * NCASES);
    tcase_add_loop_test(t, adds, 0, NISAS * NCASES);
    tcase_add_test(t, choices);
    tcase_add_test(t, shapes_taken);
    tcase_add_test(t, work);
    tcase_add_test(t, scratch_is_bounded);
    suite_add_tcase(suite, t);
    return suite;
}
