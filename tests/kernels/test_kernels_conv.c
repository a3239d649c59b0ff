/* test_kernels_conv.c: convolution in every layout against double precision. */
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/product.h"
#ifdef HAVE_DNNL
#    include "kernels/cpu/dnnl_shim.h"
#endif
#include "tests/kernels/conv_reference.h"

#include <limits.h>

static const struct {
    int n, ci, co, h, w, k, stride, pad, bias;
} cases[] = {
    {2, 8, 20, 7, 9, 3, 1, 1, 0},
    {2, 20, 8, 9, 7, 3, 2, 1, 0},
    {2, 16, 32, 8, 8, 3, 2, 1, 0},
    {2, 40, 56, 6, 6, 1, 1, 0, 1},
    {1, 16, 24, 7, 7, 1, 2, 0, 0},
    {2, 56, 40, 8, 8, 3, 1, 1, 1},
    {1, 48, 64, 12, 12, 3, 1, 1, 0},
    {3, 16, 16, 5, 5, 3, 1, 0, 0},
    {2, 8, 8, 6, 6, 3, 1, 1, 1},
    {2, 12, 16, 5, 5, 3, 2, 1, 0},
    /* Winograd in all passes, with partial tiles. */
    {4, 40, 56, 15, 14, 3, 1, 1, 1},
    /* Small maps, for which direct code needs fewer operations. */
    {9, 20, 40, 2, 2, 3, 1, 1, 0},
    {17, 40, 20, 4, 4, 3, 2, 1, 0},
    {3, 32, 48, 4, 3, 1, 2, 0, 0},
    {11, 32, 16, 4, 4, 3, 1, 1, 0},
    {8, 48, 32, 1, 4, 3, 1, 1, 0},
    {10, 16, 64, 2, 2, 1, 1, 0, 0},
    {1, 24, 24, 3, 3, 3, 3, 1, 0},
};
enum { NCASES = sizeof cases / sizeof cases[0] };

START_TEST(every_layout)
{
    struct reference r;
    reference_make(&r, cases[_i].n, cases[_i].ci, cases[_i].co, cases[_i].h, cases[_i].w,
                   cases[_i].k, cases[_i].stride, cases[_i].pad, cases[_i].bias);
    for (int block = 0; block < NBLOCKS; block++)
        for (int algo = SS_CONV_AUTO; algo <= SS_CONV_PRODUCT; algo++)
            conv_check(&r, test_block(block, cases[_i].ci), test_block(block, cases[_i].co),
                       (enum ss_conv_algo)algo,
                       algo == SS_CONV_DIRECT || algo == SS_CONV_PRODUCT ? 1e-5 : 1e-4);
    reference_free(&r);
}
END_TEST

/* The first layers of the models: three plain channels in, blocks out. */
START_TEST(first_layer)
{
    struct reference r;
    if (_i == 0)
        reference_make(&r, 2, 3, 16, 16, 16, 3, 1, 1, 0);
    else
        reference_make(&r, 1, 3, 20, 21, 17, 7, 2, 3, 1);
    for (int block = 0; block < NBLOCKS; block++)
        conv_check(&r, 1, test_block(block, r.s.y.c), SS_CONV_AUTO, 1e-5);
    reference_free(&r);
}
END_TEST

/* Groups, dilation, sizes that differ between rows and columns. */
static const struct {
    int n, ci, co, groups, h, w, kernel[2], stride[2], padding[2], dilation[2], bias;
} grouped[] = {
    /* Depthwise: whole and partial blocks, fewer channels than a block. */
    {2, 32, 32, 32, 8, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {2, 24, 24, 24, 9, 7, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
    {1, 72, 72, 72, 7, 7, {5, 5}, {2, 2}, {2, 2}, {1, 1}, 0},
    {2, 40, 40, 40, 9, 9, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1},
    {1, 20, 20, 20, 9, 9, {7, 7}, {1, 1}, {3, 3}, {1, 1}, 1},
    {2, 8, 8, 8, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {2, 3, 3, 3, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {1, 24, 24, 24, 9, 9, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 0},
    {2, 12, 24, 12, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1}, /* two outputs per group */
    /* Depthwise without oneDNN: windows larger than the map, strides, images for several partial
     * gradients, tails. */
    {10, 40, 40, 40, 8, 15, {5, 5}, {2, 2}, {2, 2}, {1, 1}, 1},
    {9, 20, 20, 20, 4, 4, {7, 7}, {1, 1}, {3, 3}, {1, 1}, 1},
    {17, 12, 12, 12, 1, 1, {7, 7}, {1, 1}, {3, 3}, {1, 1}, 1},
    {2, 24, 24, 24, 1, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {3, 40, 40, 40, 2, 2, {5, 5}, {2, 2}, {2, 2}, {1, 1}, 0},
    {2, 32, 32, 32, 2, 2, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1},
    {2, 20, 20, 20, 5, 11, {6, 4}, {3, 2}, {4, 0}, {1, 1}, 1},
    {1, 24, 24, 24, 4, 3, {3, 2}, {1, 3}, {4, 3}, {1, 1}, 1}, /* outputs from padding only */
    {2,
     24,
     24,
     24,
     6,
     7,
     {3, 3},
     {2, 2},
     {2, 2},
     {1, 1},
     1}, /* the most padding with which all windows reach the map */
    {2, 12, 12, 12, 13, 12, {11, 9}, {1, 1}, {5, 4}, {1, 1}, 0},
    /* Groups of 4 (resnext), 8 and 16 (regnet_y, regnet_x), 24. */
    {2, 128, 128, 32, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {2, 104, 104, 13, 7, 7, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
    {2, 64, 64, 4, 6, 6, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0},
    {1, 72, 72, 3, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {6, 24, 24, 3, 8, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 168, 168, 7, 6, 6, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0},
    /* Groups with different numbers of inputs and outputs; partial blocks. */
    {2, 24, 12, 3, 5, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 30, 50, 10, 5, 5, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0},
    {1, 57, 57, 19, 5, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    /* One group. */
    {2, 16, 32, 1, 9, 9, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 0},
    {1, 20, 24, 1, 11, 9, {3, 3}, {2, 2}, {3, 3}, {3, 3}, 1},
    {2, 32, 16, 1, 8, 9, {1, 3}, {1, 1}, {0, 1}, {1, 1}, 0},
    {2, 12, 20, 1, 8, 9, {3, 1}, {1, 2}, {1, 0}, {1, 1}, 1},
    {2, 16, 24, 1, 9, 12, {2, 5}, {2, 1}, {1, 0}, {3, 2}, 1},
    {1, 24, 24, 24, 9, 12, {2, 5}, {2, 1}, {1, 2}, {1, 1}, 1},
    /* Matrix products: windows so long that pixels are split into several tiles, disjoint
     * windows, outputs of several jobs. */
    {2, 256, 4, 1, 13, 13, {5, 5}, {1, 1}, {4, 4}, {2, 2}, 1},
    {2, 3, 140, 1, 32, 48, {16, 16}, {16, 16}, {0, 0}, {1, 1}, 1},
    {3, 24, 150, 1, 9, 9, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 0},
    /* Few outputs in total: several pieces of channels, of taps, of both sides; one image; many
     * images of one pixel. */
    {3, 272, 200, 1, 2, 3, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {5, 40, 36, 1, 4, 6, {2, 3}, {2, 3}, {0, 0}, {1, 1}, 0},
    {2, 150, 20, 1, 6, 3, {3, 3}, {3, 3}, {0, 0}, {1, 1}, 1},
    {1, 48, 56, 1, 7, 5, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0},
    {70, 12, 20, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {9, 20, 30, 10, 2, 2, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 1},
    /* More outputs: tiles of several images, of unequal length, of part of an image; windows on
     * one pixel. */
    {40, 24, 40, 1, 3, 2, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {1, 600, 24, 1, 13, 13, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0},
    {170, 20, 24, 1, 2, 2, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 1},
    {11, 20, 24, 1, 1, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {3, 16, 24, 1, 5, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 0}, /* no window reads the last row */
    /* Partial weight gradients need more scratch than transposed weights and windows. */
    {16, 8, 64, 1, 20, 15, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    /* Pixel pairs (small_map.c): more images than a tile, several panels and strips, windows
     * larger than the map, outputs from padding only. */
    {8, 16, 40, 1, 2, 2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {33, 150, 40, 1, 2, 2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {37, 16, 24, 1, 1, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {9, 24, 16, 1, 3, 3, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 0},
    {9, 64, 64, 1, 2, 3, {5, 3}, {1, 1}, {4, 2}, {2, 2}, 1},
    {8, 40, 72, 1, 8, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
    {70, 16, 300, 1, 2, 1, {3, 2}, {1, 1}, {1, 3}, {1, 1}, 1},
    /* Data gradient computed as a forward pass: several pieces of outputs, an odd number of them,
     * padded inputs, more padding than the window reaches. */
    {1, 96, 57, 3, 5, 6, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 0},
    {2, 60, 84, 2, 6, 7, {3, 2}, {1, 1}, {1, 0}, {1, 2}, 1},
    {1, 48, 600, 1, 5, 4, {3, 5}, {1, 1}, {0, 2}, {1, 1}, 0},
    {1, 46, 20, 1, 4, 5, {2, 3}, {1, 1}, {2, 1}, {1, 1}, 1},
    /* A line of planes is read in chunks. */
    {1, 3, 5, 1, 4, 700, {3, 5}, {1, 1}, {1, 7}, {1, 1}, 1},
    {1, 2, 5, 1, 3, 1100, {2, 3}, {1, 2}, {1, 0}, {1, 1}, 0},
};
enum { NGROUPED = sizeof grouped / sizeof grouped[0] };

static void grouped_make(struct reference *r, int i)
{
    struct ss_conv_shape s = {
        .x = {grouped[i].n, grouped[i].ci, grouped[i].h, grouped[i].w, 1},
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
    reference_inputs(r, &s);
}

START_TEST(groups_and_dilation)
{
    struct reference r;
    grouped_make(&r, _i);
    walk(&r, 1);
    for (int block = 0; block < NBLOCKS; block++)
        for (int k = 0; k < 2; k++)
            conv_check(&r, test_block(block, r.s.x.c), test_block(block, r.s.y.c),
                       k ? SS_CONV_PRODUCT : SS_CONV_AUTO, 1e-5);
    check_slope("x", reference_loss, &r, r.x, r.dx, r.nx, 0.5, 1e-10);
    check_slope("weight", reference_loss, &r, r.w, r.dw, r.nw, 0.5, 1e-10);
    reference_free(&r);
}
END_TEST

/* Returns 1 if a pass, such as "fwd ", uses starstep's own code instead of oneDNN. */
static int is_own(const struct ss_conv_kernel *conv, const char *pass)
{
    const char *at = strstr(ss_cpu_conv_info(conv), pass) + strlen(pass);
    return !strncmp(at, "depthwise", 9) || !strncmp(at, "columns", 7) ||
           !strncmp(at, "small map", 9);
}

/* starstep's own code is bit-identical for any number of threads; oneDNN's weight gradient is
 * not. Forward and data gradient of depthwise convolutions are bit-identical with both. */
START_TEST(own_bits)
{
    struct reference r;
    grouped_make(&r, _i);
    struct ss_conv_shape s = r.s;
    const int depthwise = s.groups == s.x.c && s.groups == s.y.c && s.dilation[0] == 1;
    for (int run = 0; run < 2 * (NBLOCKS - 1); run++) {
        const int block = run / 2;
        const enum ss_conv_algo algo = run % 2 ? SS_CONV_PRODUCT : SS_CONV_AUTO;
        s.x.block = test_block(block, s.x.c);
        s.y.block = test_block(block, s.y.c);
        struct ss_device *device[2] = {cpu, NULL};
        OK(ss_cpu_open(&(struct ss_device_options){.threads = 1 + 4 * (_i & 1)}, &device[1]));
        float *x = act_pack(&s.x, r.x), *dy = act_pack(&s.y, r.dy), *got[2][4];
        size_t bytes = 0;
        int own[4] = {0};
        for (int i = 0; i < 2; i++) {
            struct ss_conv_kernel *conv;
            OK(ss_cpu_conv_create(device[i], &s, algo, 1, &conv));
            own[0] = is_own(conv, "fwd ");
            own[1] = is_own(conv, "bwd data ");
            own[2] = own[3] = is_own(conv, "bwd weights ");
            bytes = ss_cpu_conv_weight_bytes(conv);
            float *plain = to_floats(r.w, r.nw), *b = to_floats(r.b, (size_t)s.y.c),
                  *w = ss_aligned_alloc(bytes);
            got[i][0] = act_pack(&s.y, NULL);
            got[i][1] = act_pack(&s.x, NULL);
            got[i][2] = ss_aligned_alloc(bytes);
            got[i][3] = to_floats(r.b, (size_t)s.y.c);
            OK(ss_cpu_conv_import(conv, plain, w));
            OK(ss_cpu_conv_forward(conv, x, w, s.bias ? b : NULL, got[i][0]));
            OK(ss_cpu_conv_backward_data(conv, dy, w, got[i][1]));
            OK(ss_cpu_conv_backward_weights(conv, x, dy, got[i][2], s.bias ? got[i][3] : NULL));
            free(plain), free(b), free(w);
            ss_cpu_conv_destroy(conv);
        }
        const size_t size[4] = {ss_act_elements(&s.y) * sizeof(float),
                                ss_act_elements(&s.x) * sizeof(float), bytes,
                                (size_t)s.y.c * sizeof(float)};
        for (int k = 0; k < 4; k++) {
            if (own[k] || (depthwise && k < 2))
                ck_assert_mem_eq(got[0][k], got[1][k], size[k]);
            free(got[0][k]), free(got[1][k]);
        }
        free(x), free(dy);
        ss_cpu_close(device[1]);
    }
    reference_free(&r);
}
END_TEST

/* Matrix products, also with vectors of 8 and 4 floats. */
START_TEST(products_of_every_width)
{
    struct reference r;
    test_open_limited(isas[_i / NGROUPED]);
    grouped_make(&r, _i % NGROUPED);
    walk(&r, 1);
    for (int block = 0; block < NBLOCKS; block++)
        conv_check(&r, test_block(block, r.s.x.c), test_block(block, r.s.y.c), SS_CONV_PRODUCT,
                   1e-5);
    reference_free(&r);
    test_close();
}
END_TEST

/* Matrix products are used if requested, if a shape rule selects them, or without oneDNN. */
START_TEST(choices)
{
    static const struct {
        int n, c, plane, pays;
    } shapes[] = {
        {32, 512, 2, 1}, {64, 512, 2, 1}, {65, 512, 2, 0}, {32, 384, 2, 0}, {32, 388, 2, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct ss_conv_shape s = {
            .x = {shapes[i].n, shapes[i].c, shapes[i].plane, shapes[i].plane, 0},
            .kernel = {1, 1},
            .stride = {1, 1},
            .dilation = {1, 1},
            .groups = 1};
        s.x.block = ss_cpu_preferred_block() ? ss_cpu_preferred_block() : s.x.c;
        s.y = s.x;
        for (int algo = SS_CONV_AUTO; algo <= SS_CONV_PRODUCT; algo++) {
            struct ss_conv_kernel *conv;
            const int pays = shapes[i].pays && ss_product_lanes() == 16 && algo == SS_CONV_AUTO;
            OK(ss_cpu_conv_create(cpu, &s, (enum ss_conv_algo)algo, 1, &conv));
            const int is = is_own(conv, "fwd ");
#ifdef HAVE_DNNL
            ck_assert_msg(is == (pays || algo == SS_CONV_PRODUCT), "%zu %d", i, algo);
#else
            ck_assert_msg(is && pays <= is, "%zu %d", i, algo);
#endif
            ss_cpu_conv_destroy(conv);
        }
    }
}
END_TEST

/* Pixel pairs are used if enough taps lie on padding, or with a stride. The predicted work
 * matches their number. */
START_TEST(small_maps)
{
    static const struct {
        int n, side, stride, kernel, pairs; /* pairs 0: not used */
    } shapes[] = {{8, 2, 1, 3, 16},  {8, 1, 1, 3, 1}, {7, 2, 1, 3, 0}, {8, 4, 2, 3, 25},
                  {8, 8, 2, 3, 121}, {8, 9, 2, 3, 0}, {8, 5, 1, 3, 0}, {8, 4, 2, 2, 0}};
    const int lanes = (int)ss_product_lanes();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int side = shapes[i].side, pad = shapes[i].kernel == 3,
                  out = (side + 2 * pad - shapes[i].kernel) / shapes[i].stride + 1;
        const struct ss_conv_shape s = {.x = {shapes[i].n, lanes, side, side, lanes},
                                        .y = {shapes[i].n, 2 * lanes, out, out, 2 * lanes},
                                        .kernel = {shapes[i].kernel, shapes[i].kernel},
                                        .stride = {shapes[i].stride, shapes[i].stride},
                                        .padding = {pad, pad},
                                        .dilation = {1, 1},
                                        .groups = 1};
        struct ss_conv_kernel *conv;
        OK(ss_cpu_conv_create(cpu, &s, SS_CONV_PRODUCT, 1, &conv));
        ck_assert_msg(!strncmp(ss_cpu_conv_info(conv), "fwd small map", 13) ==
                          (shapes[i].pairs > 0),
                      "%zu: %s", i, ss_cpu_conv_info(conv));
        if (shapes[i].pairs)
            ck_assert_double_eq(ss_cpu_conv_work(&s, SS_DTYPE_F32, SS_CONV_PRODUCT).flop,
                                4.0 * shapes[i].pairs * shapes[i].n * lanes * lanes);
        ss_cpu_conv_destroy(conv);
    }
}
END_TEST

START_TEST(winograd_error)
{
    const int block = ss_cpu_preferred_block() ? ss_cpu_preferred_block() : 64;
    struct reference r;
    reference_make(&r, 2, 64, 64, 16, 16, 3, 1, 1, 0);
    const double winograd = conv_check(&r, block, block, SS_CONV_AUTO, 1e-4);
    const double direct = conv_check(&r, block, block, SS_CONV_DIRECT, 1e-5);
    printf("3x3 convolution of 64 channels: error of Winograd %.2g, direct %.2g\n", winograd,
           direct);
    reference_free(&r);
}
END_TEST

START_TEST(finite_differences)
{
    struct reference r;
    reference_make(&r, 2, 8, 20, 6, 5, 3, _i + 1, 1, 1);
    /* A convolution is linear in each argument: a large step is exact. */
    check_slope("x", reference_loss, &r, r.x, r.dx, r.nx, 0.5, 1e-10);
    check_slope("weight", reference_loss, &r, r.w, r.dw, r.nw, 0.5, 1e-10);
    check_slope("bias", reference_loss, &r, r.b, r.db, (size_t)r.s.y.c, 0.5, 1e-10);
    reference_free(&r);
}
END_TEST

/* The kernels' gradients against finite differences of the kernels' outputs. */
struct kernel_loss {
    struct ss_conv_kernel *conv;
    struct ss_conv_shape s;
    double *x, *w, *cotangent;
    size_t nw;
};

static double kernel_loss(void *ctx)
{
    struct kernel_loss *k = ctx;
    float *x = act_pack(&k->s.x, k->x), *y = act_pack(&k->s.y, NULL),
          *plain = to_floats(k->w, k->nw), *w = ss_aligned_alloc(ss_cpu_conv_weight_bytes(k->conv));
    OK(ss_cpu_conv_import(k->conv, plain, w));
    OK(ss_cpu_conv_forward(k->conv, x, w, NULL, y));
    double *out = act_unpack(&k->s.y, y), loss = dot(out, k->cotangent, plain_count(&k->s.y));
    free(x), free(y), free(plain), free(w), free(out);
    return loss;
}

START_TEST(finite_differences_kernel)
{
    struct kernel_loss k = {.s = {.x = {2, 40, 8, 8, 16},
                                  .y = {2, 56, 8, 8, 16},
                                  .kernel = {3, 3},
                                  .stride = {1, 1},
                                  .padding = {1, 1},
                                  .dilation = {1, 1},
                                  .groups = 1}};
    const size_t nx = plain_count(&k.s.x);
    k.nw = 40 * 56 * 9;
    OK(ss_cpu_conv_create(cpu, &k.s, SS_CONV_AUTO, 1, &k.conv));
    k.x = random_doubles(nx, 1);
    k.w = random_doubles(k.nw, 2);
    k.cotangent = random_doubles(plain_count(&k.s.y), 3);
    const size_t bytes = ss_cpu_conv_weight_bytes(k.conv);
    float *x = act_pack(&k.s.x, k.x), *dy = act_pack(&k.s.y, k.cotangent),
          *dx = act_pack(&k.s.x, NULL), *plain = to_floats(k.w, k.nw), *w = ss_aligned_alloc(bytes),
          *dw = ss_aligned_alloc(bytes);
    OK(ss_cpu_conv_import(k.conv, plain, w));
    OK(ss_cpu_conv_backward_data(k.conv, dy, w, dx));
    OK(ss_cpu_conv_backward_weights(k.conv, x, dy, dw, NULL));
    OK(ss_cpu_conv_export(k.conv, dw, plain));
    double *gx = act_unpack(&k.s.x, dx), *gw = to_doubles(plain, k.nw);
    check_slope("x", kernel_loss, &k, k.x, gx, nx, 0.5, 1e-3);
    check_slope("weight", kernel_loss, &k, k.w, gw, k.nw, 0.5, 1e-3);
    free(x), free(dy), free(dx), free(plain), free(w), free(dw), free(gx), free(gw);
    free(k.x), free(k.w), free(k.cotangent);
    ss_cpu_conv_destroy(k.conv);
}
END_TEST

START_TEST(bad_shapes)
{
    ss_log_set_quiet(1);
    const struct ss_conv_shape good = {.x = {2, 16, 8, 8, 16},
                                       .y = {2, 32, 8, 8, 16},
                                       .kernel = {3, 3},
                                       .stride = {1, 1},
                                       .padding = {1, 1},
                                       .dilation = {1, 1},
                                       .groups = 1};
    struct ss_conv_kernel *conv = NULL;
    struct ss_conv_shape s[] = {good, good, good, good, good, good, good, good, good, good};
    s[0].y.h = 7;
    s[1].y.n = 1;
    s[2].x.c = 0;
    s[3].stride[1] = 0;
    s[4].x.block = 5;
    s[5].padding[0] = -4;
    s[6].groups = 3;
    s[7].groups = 0;
    s[8].dilation[1] = 5;
    s[9].dilation[0] = INT_MAX;
    for (size_t i = 0; i < sizeof s / sizeof s[0]; i++) {
        ck_assert_int_eq(ss_cpu_conv_create(cpu, &s[i], SS_CONV_AUTO, 1, &conv), SS_ERR_SHAPE);
        ck_assert_ptr_null(conv);
    }
    ck_assert_int_eq(ss_cpu_conv_create(cpu, &s[0], SS_CONV_AUTO, 1, &conv), SS_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "(2,32,7,8)"));
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "(2,32,8,8)"));

    OK(ss_cpu_conv_create(cpu, &good, SS_CONV_AUTO, 0, &conv));
    float x[1] = {0};
    ck_assert_int_eq(ss_cpu_conv_backward_data(conv, x, x, x), SS_ERR_INVALID);
    ck_assert_int_eq(ss_cpu_conv_backward_weights(conv, x, x, x, NULL), SS_ERR_INVALID);
    ck_assert_int_eq(ss_cpu_conv_forward(conv, x, x, x, x), SS_ERR_INVALID);
    ss_cpu_conv_destroy(conv);
    ss_cpu_conv_destroy(NULL);

    OK(ss_cpu_conv_create(cpu, &good, SS_CONV_AUTO, 1, &conv));
    ck_assert_int_eq(ss_cpu_conv_backward_weights(conv, x, x, x, x), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "a bias is given, but the layer has none"));
    ss_cpu_conv_destroy(conv);
}
END_TEST

/* Calls the depthwise code directly, also for layouts that use oneDNN on some processors. Weights
 * are in chunks as Goihw8g or Goihw16g. */
START_TEST(depthwise_itself)
{
    struct reference r;
    grouped_make(&r, _i);
    walk(&r, 1);
    for (int block = 0; block < NBLOCKS; block++) {
        struct ss_conv_shape s = r.s;
        s.x.block = s.y.block = test_block(block, s.x.c);
        if (!ss_depthwise_takes(&s))
            continue;
        const size_t width = (size_t)ss_depthwise_width(&s), taps = (size_t)ss_conv_taps(&s),
                     channels = (size_t)s.x.c, chunks = (channels + width - 1) / width,
                     bytes = chunks * taps * width * sizeof(float);
        OK(ss_cpu_reserve(cpu, ss_depthwise_scratch(cpu, &s)));
        float *w = ss_aligned_alloc(bytes), *dw = ss_aligned_alloc(bytes),
              *b = to_floats(r.b, channels), *db = to_floats(r.b, channels),
              *x = act_pack(&s.x, r.x), *dy = act_pack(&s.y, r.dy), *y = act_pack(&s.y, NULL),
              *dx = act_pack(&s.x, NULL);
        double *gradient = zero_doubles(r.nw);
        memset(w, 0, bytes);
        memset(dw, 0x7f, bytes);
        for (size_t i = 0; i < r.nw; i++)
            w[(i / taps / width * taps + i % taps) * width + i / taps % width] = (float)r.w[i];
        ss_depthwise_forward(cpu, &s, x, w, s.bias ? b : NULL, y);
        ss_depthwise_backward_data(cpu, &s, dy, w, dx);
        ss_depthwise_backward_weights(cpu, &s, x, dy, dw, s.bias ? db : NULL);
        for (size_t i = 0; i < r.nw; i++)
            gradient[i] =
                (double)dw[(i / taps / width * taps + i % taps) * width + i / taps % width];
        double *bias_gradient = to_doubles(db, channels);
        check_act("y", &s.y, y, r.y, 1e-5);
        check_act("dx", &s.x, dx, r.dx, 1e-5);
        check_error("dweight", gradient, r.dw, r.nw, 1e-5);
        check_error("dbias", bias_gradient, r.db, s.bias ? channels : 0, 1e-5);
        float *const all[] = {w, dw, b, db, x, dy, y, dx};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]);
        free(gradient);
        free(bias_gradient);
    }
    reference_free(&r);
}
END_TEST

/* Weight gradients with two threads are reproducible. oneDNN's were not for few channels and a
 * strided 1x1 kernel. */
static const struct {
    int channels, outputs, kernel, stride;
} again[] = {{3, 16, 1, 2},  {6, 18, 1, 2}, {6, 64, 1, 3},
             {12, 18, 1, 2}, {6, 18, 1, 1}, {6, 18, 3, 2}};

START_TEST(same_gradient_each_time)
{
    enum { TIMES = 200 };
    const int channels = again[_i].channels, outputs = again[_i].outputs, kernel = again[_i].kernel;
    for (int block = 0; block < NBLOCKS; block++) {
        struct reference r;
        struct ss_conv_kernel *conv;
        reference_make(&r, 4, channels, outputs, 16, 16, kernel, again[_i].stride, kernel / 2, 0);
        struct ss_conv_shape s = r.s;
        s.x.block = test_block(block, channels);
        s.y.block = test_block(block, outputs);
        OK(ss_cpu_conv_create(cpu, &s, SS_CONV_AUTO, 1, &conv));
        const size_t bytes = ss_cpu_conv_weight_bytes(conv);
        float *x = act_pack(&s.x, r.x), *dy = act_pack(&s.y, r.dy),
              *first = ss_aligned_alloc(bytes), *dw = ss_aligned_alloc(bytes);
        OK(ss_cpu_conv_backward_weights(conv, x, dy, first, NULL));
        for (int i = 0; i < TIMES; i++) {
            OK(ss_cpu_conv_backward_weights(conv, x, dy, dw, NULL));
            ck_assert_msg(!memcmp(first, dw, bytes), "run %d, block %d: %s", i, s.x.block,
                          ss_cpu_conv_info(conv));
        }
        float *const all[] = {x, dy, first, dw};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]);
        ss_cpu_conv_destroy(conv);
        reference_free(&r);
    }
}
END_TEST

#ifdef HAVE_DNNL
START_TEST(texts_of_onednn)
{
    ck_assert_str_eq(ss_dnnl_status_text(dnnl_success), "success");
    ck_assert_str_eq(ss_dnnl_status_text(dnnl_out_of_memory), "out of memory");
    ck_assert_str_eq(ss_dnnl_status_text(dnnl_invalid_arguments), "invalid arguments");
    ck_assert_str_eq(ss_dnnl_status_text(dnnl_unimplemented),
                     "not implemented for these shapes and layouts");
    ck_assert_str_eq(ss_dnnl_status_text(dnnl_runtime_error), "runtime error");
    ck_assert_str_eq(ss_dnnl_status_text(dnnl_not_required), "not required");
    ck_assert_str_eq(ss_dnnl_status_text((dnnl_status_t)99), "unknown error");
}
END_TEST
#endif

Suite *conv_suite(void)
{
    Suite *suite = suite_create("convolution");
    TCase *t = tcase_create("convolution");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_loop_test(t, every_layout, 0, NCASES);
    tcase_add_loop_test(t, first_layer, 0, 2);
    tcase_add_loop_test(t, groups_and_dilation, 0, NGROUPED);
    tcase_add_loop_test(t, own_bits, 0, NGROUPED);
    tcase_add_loop_test(t, depthwise_itself, 0, NGROUPED);
    tcase_add_test(t, choices);
    tcase_add_test(t, small_maps);
    tcase_add_test(t, winograd_error);
    tcase_add_loop_test(t, finite_differences, 0, 2);
    tcase_add_test(t, finite_differences_kernel);
    tcase_add_test(t, bad_shapes);
    tcase_add_loop_test(t, same_gradient_each_time, 0, sizeof again / sizeof *again);
#ifdef HAVE_DNNL
    tcase_add_test(t, texts_of_onednn);
#endif
    suite_add_tcase(suite, t);
    t = tcase_create("widths"); /* each test opens its own device */
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, products_of_every_width, NGROUPED, NISAS * NGROUPED);
    suite_add_tcase(suite, t);
    return suite;
}
