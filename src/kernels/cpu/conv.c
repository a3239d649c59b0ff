/* conv.c: convolutions are oneDNN's; here is which of its algorithms, in which weight layout.
 *
 * Winograd F(4x4,3x3): Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.
 * It halves the time of a wide 3x3 convolution. Where it pays was measured once (docs/design.md);
 * the rule knows shapes only, since timing would make results differ from run to run. */
#include "kernels/cpu/dnnl_op.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the three passes, and how its weight gets from the native layout into its own. */
struct pass {
    struct ss_dnnl_op op;
    struct ss_dnnl_op reorder; /* not made: the pass reads the native layout */
    size_t weight_bytes;       /* of the reordered weight */
};

struct ss_conv_kernel {
    struct ss_device *cpu;
    struct ss_conv_shape shape;
    int inputs; /* Ci, or the whole block where Ci is less: see make_layouts */
    int training;
    ss_md x, y, bias, any, plain, native;
    struct pass forward, backward_data;
    struct ss_dnnl_op backward_weights, import, export;
    size_t weight_bytes;
    char info[256];
};

static enum ss_status check_shape(const struct ss_conv_shape *s)
{
    SS_TRY(ss_act_check(&s->x, "convolution input"));
    SS_TRY(ss_act_check(&s->y, "convolution output"));
    if (s->kh < 1 || s->kw < 1 || s->stride < 1 || s->pad < 0)
        return ss_fail(SS_ERR_SHAPE,
                       "convolution: kernel %dx%d, stride %d, padding %d make no sense", s->kh,
                       s->kw, s->stride, s->pad);
    int room_h = s->x.h + 2 * s->pad - s->kh, room_w = s->x.w + 2 * s->pad - s->kw;
    if (room_h < 0 || room_w < 0)
        return ss_fail(
            SS_ERR_SHAPE,
            "convolution: a %dx%d kernel does not fit into a %dx%d input with padding %d", s->kh,
            s->kw, s->x.h, s->x.w, s->pad);
    int p = room_h / s->stride + 1, q = room_w / s->stride + 1;
    if (s->y.n != s->x.n || s->y.h != p || s->y.w != q)
        return ss_fail(SS_ERR_SHAPE,
                       "convolution: output (%d,%d,%d,%d), but the input (%d,%d,%d,%d) with kernel "
                       "%dx%d, stride %d, padding %d gives (%d,%d,%d,%d)",
                       s->y.n, s->y.c, s->y.h, s->y.w, s->x.n, s->x.c, s->x.h, s->x.w, s->kh, s->kw,
                       s->stride, s->pad, s->x.n, s->y.c, p, q);
    return SS_OK;
}

/* What a pass costs for each pair of channels, in multiplications. Winograd makes 36 for a tile of
 * 4x4 outputs, a tile that is not full too, and transforms each weight once, which is as long as
 * 2200: many for a small batch of small maps. Direct code leaves out the taps on the padding. */
static int winograd_is_shorter(const struct ss_act *y)
{
    const int64_t n = y->n, tiles = n * ((y->h + 3) / 4) * ((y->w + 3) / 4);
    return n * (3 * y->h - 2) * (3 * y->w - 2) > 2200 + 45 * tiles;
}

/* Measured on Zen 5 at batch 8 to 128: below these widths the transforms cost more than they save,
 * and in the weight gradient, which transforms both activations, a little longer. Its direct code
 * is slow on small maps, so Winograd pays from one full tile on. */
static int winograd_pays(const struct ss_conv_shape *s, int weight_gradient)
{
    int c = s->x.c < s->y.c ? s->x.c : s->y.c;
    if (s->kh != 3 || s->kw != 3 || s->stride != 1 || s->pad != 1)
        return 0;
    if (weight_gradient)
        return (c >= 64 || (c >= 32 && s->x.h <= 16)) && s->y.h >= 4 && s->y.w >= 4;
    return c >= 32 && winograd_is_shorter(&s->y);
}

enum { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS };

static dnnl_status_t create_pd(const struct ss_conv_kernel *c, int which, dnnl_alg_kind_t alg,
                               ss_md_in weight, const_dnnl_primitive_desc_t fwd,
                               dnnl_primitive_desc_t *pd)
{
    const struct ss_conv_shape *s = &c->shape;
    const struct ss_dnnl_window win = {s->kh, s->kw, s->stride, s->pad};
    dnnl_engine_t engine = c->cpu->engine;
    if (which == FORWARD)
        return ss_dnnl_conv_fwd(pd, engine, alg, c->x, weight, c->bias, c->y, &win, c->cpu->attr);
    if (which == BACKWARD_DATA)
        return ss_dnnl_conv_bwd_data(pd, engine, alg, c->x, weight, c->y, &win, fwd, c->cpu->attr);
    return ss_dnnl_conv_bwd_weights(pd, engine, alg, c->x, weight, c->bias, c->y, &win, fwd,
                                    c->cpu->attr);
}

/* The weight layout is free. Winograd where asked for and possible, else direct. */
static dnnl_status_t create_free(const struct ss_conv_kernel *c, int which, int winograd,
                                 const_dnnl_primitive_desc_t fwd, dnnl_alg_kind_t *alg,
                                 dnnl_primitive_desc_t *pd)
{
    *alg = dnnl_convolution_winograd;
    if (winograd && create_pd(c, which, *alg, c->any, fwd, pd) == dnnl_success) {
        if (which != BACKWARD_WEIGHTS ||
            ss_md_is_blocked(dnnl_primitive_desc_query_md(*pd, dnnl_query_diff_weights_md, 0)))
            return dnnl_success;
        /* A gradient in Winograd's domain is of no use to an optimizer. */
        dnnl_primitive_desc_destroy(*pd);
    }
    *alg = dnnl_convolution_direct;
    return create_pd(c, which, *alg, c->any, fwd, pd);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Scratch of a pass: [the primitive's or the reorder's own | reordered weight] */
static size_t weight_offset(const struct pass *pass)
{
    return ss_align_up(larger(pass->op.scratch_bytes, pass->reorder.scratch_bytes));
}

/* A pass that reads weights, given its descriptor in the layout that it likes best: if the same
 * implementation also takes the native layout, use that; else reorder the weight at each call. */
static enum ss_status make_pass(struct ss_conv_kernel *c, int which, dnnl_alg_kind_t alg,
                                const_dnnl_primitive_desc_t fwd, struct pass *pass)
{
    ss_md_in weight = dnnl_primitive_desc_query_md(pass->op.pd, dnnl_query_weights_md, 0);
    if (!dnnl_memory_desc_equal(weight, c->native)) {
        dnnl_primitive_desc_t same = NULL;
        if (create_pd(c, which, alg, c->native, fwd, &same) == dnnl_success) {
            if (strcmp(ss_dnnl_impl(same), ss_dnnl_impl(pass->op.pd)) == 0) {
                dnnl_primitive_desc_t other = pass->op.pd;
                pass->op.pd = same;
                same = other;
            }
            dnnl_primitive_desc_destroy(same);
        }
        weight = dnnl_primitive_desc_query_md(pass->op.pd, dnnl_query_weights_md, 0);
    }
    if (!dnnl_memory_desc_equal(weight, c->native)) {
        SS_TRY(ss_dnnl_op_make_reorder(c->cpu, &pass->reorder, c->native, weight));
        pass->weight_bytes = dnnl_memory_desc_get_size(weight);
    }
    if (which == FORWARD) {
        const struct ss_dnnl_operand operands[] = {{DNNL_ARG_SRC, c->x},
                                                   {DNNL_ARG_WEIGHTS, weight},
                                                   {DNNL_ARG_DST, c->y},
                                                   {DNNL_ARG_BIAS, c->bias}};
        SS_TRY(ss_dnnl_op_make(c->cpu, &pass->op, operands, 4));
    } else {
        const struct ss_dnnl_operand operands[] = {
            {DNNL_ARG_DIFF_DST, c->y}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DIFF_SRC, c->x}};
        SS_TRY(ss_dnnl_op_make(c->cpu, &pass->op, operands, 3));
    }
    return ss_cpu_reserve(c->cpu, weight_offset(pass) + pass->weight_bytes);
}

/* oneDNN has only reference code for 3x3 kernels on fewer channels than a block. The padding
 * channels hold zeros, so they may as well be called channels, with zeros for their weights. */
static enum ss_status make_layouts(struct ss_conv_kernel *c)
{
    struct ss_act x = c->shape.x;
    const struct ss_act *y = &c->shape.y;
    if (x.c < x.block)
        x.c = x.block;
    c->inputs = x.c;
    const dnnl_dims_t w = {y->c, x.c, c->shape.kh, c->shape.kw}, b = {y->c};
    /* A tensor of 8 or 16 channels in one block is NHWC as well: then call both sides the same. */
    const int nhwc = x.block == x.c && y->block == y->c && x.block != y->block;
    SS_TRY(ss_act_md(&x, nhwc, &c->x));
    SS_TRY(ss_act_md(y, nhwc, &c->y));
    SS_DNNL_TRY(ss_md_create(&c->any, 4, w, dnnl_format_tag_any));
    SS_DNNL_TRY(ss_md_create(&c->plain, 4, w, dnnl_oihw));
    if (c->shape.bias)
        SS_DNNL_TRY(ss_md_create(&c->bias, 1, b, dnnl_x));
    return SS_OK;
}

/* Scratch of import and export: [the reorder's own | plain weight with c->inputs channels] */
static size_t plain_offset(const struct ss_conv_kernel *c)
{
    return ss_align_up(larger(c->import.scratch_bytes, c->export.scratch_bytes));
}

static enum ss_status make_passes(struct ss_conv_kernel *c, enum ss_conv_algo algo)
{
    int winograd = algo == SS_CONV_AUTO && winograd_pays(&c->shape, 0);
    int winograd_bw = algo == SS_CONV_AUTO && winograd_pays(&c->shape, 1);
    dnnl_alg_kind_t fwd_alg, alg;
    dnnl_primitive_desc_t fwd;

    SS_DNNL_TRY(create_free(c, FORWARD, winograd, NULL, &fwd_alg, &c->forward.op.pd));
    fwd = c->forward.op.pd;
    /* Also without training: the gradient's layout is the native one. */
    SS_DNNL_TRY(create_free(c, BACKWARD_WEIGHTS, winograd_bw, fwd, &alg, &c->backward_weights.pd));
    ss_md_in gradient =
        dnnl_primitive_desc_query_md(c->backward_weights.pd, dnnl_query_diff_weights_md, 0);
    SS_DNNL_TRY(ss_md_copy(&c->native, gradient));
    c->weight_bytes = dnnl_memory_desc_get_size(c->native);
    SS_TRY(ss_dnnl_op_make_reorder(c->cpu, &c->import, c->plain, c->native));
    SS_TRY(ss_dnnl_op_make_reorder(c->cpu, &c->export, c->native, c->plain));
    SS_TRY(ss_cpu_reserve(c->cpu, plain_offset(c) + dnnl_memory_desc_get_size(c->plain)));

    if (c->training) {
        const struct ss_dnnl_operand operands[] = {{DNNL_ARG_SRC, c->x},
                                                   {DNNL_ARG_DIFF_DST, c->y},
                                                   {DNNL_ARG_DIFF_WEIGHTS, c->native},
                                                   {DNNL_ARG_DIFF_BIAS, c->bias}};
        SS_TRY(ss_dnnl_op_make(c->cpu, &c->backward_weights, operands, 4));
        SS_TRY(ss_cpu_reserve(c->cpu, c->backward_weights.scratch_bytes));
        SS_DNNL_TRY(create_free(c, BACKWARD_DATA, winograd, fwd, &alg, &c->backward_data.op.pd));
        SS_TRY(make_pass(c, BACKWARD_DATA, alg, fwd, &c->backward_data));
    }
    return make_pass(c, FORWARD, fwd_alg, NULL, &c->forward);
}

static void describe(struct ss_conv_kernel *c)
{
    int n = snprintf(c->info, sizeof c->info, "fwd %s%s", ss_dnnl_impl(c->forward.op.pd),
                     c->forward.reorder.primitive ? " + weight reorder" : "");
    if (c->training)
        snprintf(c->info + n, sizeof c->info - (size_t)n, ", bwd data %s%s, bwd weights %s",
                 ss_dnnl_impl(c->backward_data.op.pd),
                 c->backward_data.reorder.primitive ? " + weight reorder" : "",
                 ss_dnnl_impl(c->backward_weights.pd));
}

enum ss_status ss_cpu_conv_create(struct ss_device *cpu, const struct ss_conv_shape *shape,
                                  enum ss_conv_algo algo, int training, struct ss_conv_kernel **out)
{
    SS_TRY(check_shape(shape));
    struct ss_conv_kernel *c = calloc(1, sizeof *c);
    if (!c)
        return ss_fail_memory("convolution", sizeof *c);
    c->cpu = cpu;
    c->shape = *shape;
    c->training = training;
    ss_cpu_enter(cpu);
    enum ss_status status = make_layouts(c);
    if (status == SS_OK)
        status = make_passes(c, algo);
    if (status != SS_OK) {
        ss_cpu_conv_destroy(c);
        return status;
    }
    describe(c);
    *out = c;
    return SS_OK;
}

void ss_cpu_conv_destroy(struct ss_conv_kernel *c)
{
    if (!c)
        return;
    ss_dnnl_op_destroy(&c->forward.op);
    ss_dnnl_op_destroy(&c->forward.reorder);
    ss_dnnl_op_destroy(&c->backward_data.op);
    ss_dnnl_op_destroy(&c->backward_data.reorder);
    ss_dnnl_op_destroy(&c->backward_weights);
    ss_dnnl_op_destroy(&c->import);
    ss_dnnl_op_destroy(&c->export);
    ss_md_destroy(c->x);
    ss_md_destroy(c->y);
    ss_md_destroy(c->bias);
    ss_md_destroy(c->any);
    ss_md_destroy(c->plain);
    ss_md_destroy(c->native);
    free(c);
}

size_t ss_cpu_conv_weight_bytes(const struct ss_conv_kernel *c)
{
    return c->weight_bytes;
}

enum ss_status ss_cpu_conv_import(struct ss_conv_kernel *c, const float *plain, float *native)
{
    char *scratch = ss_cpu_scratch(c->cpu);
    const size_t taps = (size_t)c->shape.kh * (size_t)c->shape.kw, co = (size_t)c->shape.y.c,
                 row = (size_t)c->shape.x.c * taps, padded = (size_t)c->inputs * taps;
    if (padded != row) {
        float *wide = (float *)(scratch + plain_offset(c));
        memset(wide, 0, co * padded * sizeof(float));
        for (size_t k = 0; k < co; k++)
            memcpy(wide + k * padded, plain + k * row, row * sizeof(float));
        plain = wide;
    }
    const void *const pointers[] = {plain, native};
    return ss_dnnl_op_run(c->cpu, &c->import, pointers, scratch);
}

enum ss_status ss_cpu_conv_export(struct ss_conv_kernel *c, const float *native, float *plain)
{
    char *scratch = ss_cpu_scratch(c->cpu);
    const size_t taps = (size_t)c->shape.kh * (size_t)c->shape.kw, co = (size_t)c->shape.y.c,
                 row = (size_t)c->shape.x.c * taps, padded = (size_t)c->inputs * taps;
    float *wide = padded == row ? plain : (float *)(scratch + plain_offset(c));
    const void *const pointers[] = {native, wide};
    SS_TRY(ss_dnnl_op_run(c->cpu, &c->export, pointers, scratch));
    if (padded != row)
        for (size_t k = 0; k < co; k++)
            memcpy(plain + k * row, wide + k * padded, row * sizeof(float));
    return SS_OK;
}

/* Once: a network has many layers of a kind. */
static void warn_slow(const struct ss_conv_kernel *c, const char *pass,
                      const_dnnl_primitive_desc_t pd)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const struct ss_conv_shape *s = &c->shape;
    if (!ss_dnnl_is_ref(pd) || atomic_flag_test_and_set(&warned))
        return;
    ss_warn(
        "convolution (%d,%d,%d,%d) to %d channels, kernel %dx%d, channel blocks %d and %d: oneDNN "
        "has only its slow reference code for the %s pass",
        s->x.n, s->x.c, s->x.h, s->x.w, s->y.c, s->kh, s->kw, s->x.block, s->y.block, pass);
}

static enum ss_status run_pass(struct ss_conv_kernel *c, struct pass *pass, const void *in,
                               const void *weight, const float *bias, void *out)
{
    char *scratch = ss_cpu_scratch(c->cpu);
    if (pass->reorder.primitive) {
        char *reordered = scratch + weight_offset(pass);
        const void *const pointers[] = {weight, reordered};
        SS_TRY(ss_dnnl_op_run(c->cpu, &pass->reorder, pointers, scratch));
        weight = reordered;
    }
    const void *const pointers[] = {in, weight, out, bias};
    return ss_dnnl_op_run(c->cpu, &pass->op, pointers, scratch);
}

enum ss_status ss_cpu_conv_forward(struct ss_conv_kernel *c, const void *x, const void *weight,
                                   const float *bias, void *y)
{
    if (c->shape.bias != (bias != NULL))
        return ss_fail(SS_ERR_INVALID, "convolution forward: bias %s, but the layer has %s",
                       bias ? "given" : "missing", c->shape.bias ? "one" : "none");
    warn_slow(c, "forward", c->forward.op.pd);
    return run_pass(c, &c->forward, x, weight, bias, y);
}

static enum ss_status check_training(const struct ss_conv_kernel *c, const char *pass)
{
    if (!c->training)
        return ss_fail(SS_ERR_INVALID, "convolution: %s pass, but it was made without training",
                       pass);
    return SS_OK;
}

enum ss_status ss_cpu_conv_backward_data(struct ss_conv_kernel *c, const void *dy,
                                         const void *weight, void *dx)
{
    SS_TRY(check_training(c, "backward data"));
    warn_slow(c, "backward data", c->backward_data.op.pd);
    return run_pass(c, &c->backward_data, dy, weight, NULL, dx);
}

enum ss_status ss_cpu_conv_backward_weights(struct ss_conv_kernel *c, const void *x, const void *dy,
                                            float *dweight, float *dbias)
{
    SS_TRY(check_training(c, "backward weights"));
    if (c->shape.bias != (dbias != NULL))
        return ss_fail(SS_ERR_INVALID,
                       "convolution backward weights: dbias %s, but the layer has %s",
                       dbias ? "given" : "missing", c->shape.bias ? "one" : "none");
    warn_slow(c, "backward weights", c->backward_weights.pd);
    const void *const pointers[] = {x, dy, dweight, dbias};
    return ss_dnnl_op_run(c->cpu, &c->backward_weights, pointers, ss_cpu_scratch(c->cpu));
}

const char *ss_cpu_conv_info(const struct ss_conv_kernel *c)
{
    return c->info;
}
