/* conv.c: chooses the code and the weight layout of a convolution. 3x3 convolutions with stride 1 are our Winograd
 * (winograd.c) where that is faster. Everything else is oneDNN's direct code, except for passes that it implements in
 * reference code only. Choices follow from shapes, never from timing, so that equal runs give equal bits. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/dnnl_op.h"
#include "kernels/cpu/winograd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the three passes, and how its weight gets from the native layout into its own. */
struct pass {
    struct ss_dnnl_op op;
    struct ss_dnnl_op reorder; /* not made: the pass reads the native layout */
    size_t weight_bytes;       /* of the reordered weight */
};

enum { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS, PASSES };

/* Whose code runs a pass: oneDNN's, but for those of which it has reference code or none. */
enum code { ONEDNN, DEPTHWISE, COLUMNS, WINOGRAD };
static const char *const code_names[] = {
    [DEPTHWISE] = "depthwise", [COLUMNS] = "columns", [WINOGRAD] = "winograd"};

struct ss_conv_kernel {
    struct ss_device *cpu;
    struct ss_conv_shape shape;
    /* The convolution as oneDNN is told, of groups merged into one: see make_layouts. */
    int merge, groups, inputs, outputs;
    int training;
    const struct ss_norm_source *source; /* of x, where that is not stored */
    enum code code[PASSES];
    /* plain: oneDNN's (Co,Ci/G,kernel). native: that of the gradient; of merged groups the plain one
     * without the zeros between them, which each pass puts there; of columns.c the plain one. */
    ss_md x, y, bias, any, plain, native, gradient;
    struct pass forward, backward_data;
    struct ss_dnnl_op backward_weights, import, export;
    size_t weight_bytes;
    char info[256];
};

static dnnl_status_t create_pd(const struct ss_conv_kernel *c, int which, ss_md_in weight,
                               const_dnnl_primitive_desc_t fwd, dnnl_primitive_desc_t *pd)
{
    const struct ss_conv_shape *s = &c->shape;
    const struct ss_dnnl_window win = {.kernel = {s->kernel[0], s->kernel[1]},
                                       .stride = {s->stride[0], s->stride[1]},
                                       .padding = {s->padding[0], s->padding[1]},
                                       .dilation = {s->dilation[0], s->dilation[1]}};
    dnnl_engine_t engine = c->cpu->engine;
    if (which == FORWARD)
        return ss_dnnl_conv_fwd(pd, engine, c->x, weight, c->bias, c->y, &win, c->cpu->attr);
    if (which == BACKWARD_DATA)
        return ss_dnnl_conv_bwd_data(pd, engine, c->x, weight, c->y, &win, fwd, c->cpu->attr);
    return ss_dnnl_conv_bwd_weights(pd, engine, c->x, weight, c->bias, c->y, &win, fwd,
                                    c->cpu->attr);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Does columns.c have a pass? */
static int has_columns(const struct ss_conv_kernel *c)
{
    return c->code[FORWARD] == COLUMNS || c->code[BACKWARD_DATA] == COLUMNS ||
           c->code[BACKWARD_WEIGHTS] == COLUMNS;
}

/* Is the native layout the plain one, which oneDNN's passes get in theirs at each call? */
static int is_compact(const struct ss_conv_kernel *c)
{
    return c->merge > 1 || has_columns(c);
}

/* Scratch of a pass: [the primitive's or the reorder's own | reordered weight], and of a compact
 * weight [wide weight | bias] behind it. */
static size_t weight_offset(const struct pass *pass)
{
    return ss_align_up(larger(pass->op.scratch_bytes, pass->reorder.scratch_bytes));
}
static size_t wide_offset(const struct pass *pass)
{
    return weight_offset(pass) + ss_align_up(pass->weight_bytes);
}
/* Of the pass that makes a compact one: [own | gradient | wide gradient | bias]. */
static size_t gradient_offset(const struct ss_conv_kernel *c)
{
    return ss_align_up(larger(c->backward_weights.scratch_bytes, c->export.scratch_bytes));
}
static size_t wide_gradient_offset(const struct ss_conv_kernel *c)
{
    return gradient_offset(c) + ss_align_up(dnnl_memory_desc_get_size(c->gradient));
}
static size_t bias_offset(const struct ss_conv_kernel *c, size_t wide)
{
    return wide + ss_align_up(dnnl_memory_desc_get_size(c->plain));
}
static size_t compact_bytes(const struct ss_conv_kernel *c, size_t wide)
{
    return bias_offset(c, wide) + (size_t)c->outputs * sizeof(float);
}

/* A pass that reads weights, given its descriptor in the layout that it likes best: if the same
 * implementation also takes the native layout, use that; else reorder the weight at each call. */
static enum ss_status make_pass(struct ss_conv_kernel *c, int which,
                                const_dnnl_primitive_desc_t fwd, struct pass *pass)
{
    ss_md_in weight = dnnl_primitive_desc_query_md(pass->op.pd, dnnl_query_weights_md, 0);
    if (!dnnl_memory_desc_equal(weight, c->native)) {
        dnnl_primitive_desc_t same = NULL;
        if (create_pd(c, which, c->native, fwd, &same) == dnnl_success) {
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
    return ss_cpu_reserve(c->cpu, is_compact(c) ? compact_bytes(c, wide_offset(pass))
                                                : weight_offset(pass) + pass->weight_bytes);
}

static void drop_layouts(struct ss_conv_kernel *c)
{
    ss_md *const all[] = {&c->x, &c->y, &c->bias, &c->any, &c->plain};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ss_md_destroy(*all[i]);
        *all[i] = NULL;
    }
}

/* The layouts of the convolution with `merge` groups as one, whose weight is zero between what were
 * different groups; the last one may have fewer, or none of its own: padding channels hold zeros, so
 * they may as well be called channels, with zeros for their weights. That is also done where there
 * are fewer channels than a block, for which oneDNN has only reference code with 3x3 kernels. */
static enum ss_status make_layouts(struct ss_conv_kernel *c, int merge)
{
    const struct ss_conv_shape *s = &c->shape;
    struct ss_act x = s->x, y = s->y;
    c->merge = merge;
    c->groups = (s->groups + merge - 1) / merge;
    if (c->groups > 1) {
        x.c = c->groups * merge * ss_conv_inputs(s);
        y.c = c->groups * merge * ss_conv_outputs(s);
    } else if (x.c < x.block) {
        x.c = x.block;
    }
    c->inputs = x.c;
    c->outputs = y.c;
    const dnnl_dims_t w = {y.c, x.c, s->kernel[0], s->kernel[1]}, b = {y.c},
                      grouped = {c->groups, y.c / c->groups, x.c / c->groups, s->kernel[0],
                                 s->kernel[1]};
    const int ndims = c->groups > 1 ? 5 : 4;
    const int64_t *dims = c->groups > 1 ? grouped : w;
    /* A tensor of 8 or 16 channels in one block is NHWC as well: then call both sides the same. */
    const int nhwc = x.block == x.c && y.block == y.c && x.block != y.block;
    drop_layouts(c);
    SS_TRY(ss_act_md(&x, nhwc, &c->x));
    SS_TRY(ss_act_md(&y, nhwc, &c->y));
    SS_DNNL_TRY(ss_md_create(&c->any, ndims, dims, dnnl_format_tag_any));
    SS_DNNL_TRY(ss_md_create(&c->plain, ndims, dims, c->groups > 1 ? dnnl_goihw : dnnl_oihw));
    if (s->bias)
        SS_DNNL_TRY(ss_md_create(&c->bias, 1, b, dnnl_x));
    return SS_OK;
}

/* Must some pass take the reference code, or can it not be made at all? */
static int needs_reference(const struct ss_conv_kernel *c)
{
    dnnl_primitive_desc_t pd[PASSES] = {NULL};
    int needs = 0;
    for (int which = FORWARD; which <= BACKWARD_WEIGHTS && !needs; which++)
        needs = create_pd(c, which, c->any, pd[FORWARD], &pd[which]) != dnnl_success ||
                ss_dnnl_is_ref(pd[which]);
    for (int which = FORWARD; which <= BACKWARD_WEIGHTS; which++)
        if (pd[which])
            dnnl_primitive_desc_destroy(pd[which]);
    return needs;
}

/* The fewest groups whose channels fill whole blocks on both sides, or all. */
static int fill_blocks(const struct ss_conv_shape *s)
{
    const int in = ss_conv_inputs(s), out = ss_conv_outputs(s);
    int merge = 1;
    while (merge < s->groups && (merge * in % s->x.block || merge * out % s->y.block))
        merge++;
    return merge;
}

/* Do the merged groups have room in the tensors? */
static int fits(const struct ss_conv_shape *s, int merge)
{
    const int padded = (s->groups + merge - 1) / merge * merge;
    return merge == s->groups || (padded * ss_conv_inputs(s) <= ss_act_blocks(&s->x) * s->x.block &&
                                  padded * ss_conv_outputs(s) <= ss_act_blocks(&s->y) * s->y.block);
}

/* oneDNN has fast code for groups that fill blocks, and for depthwise ones; what passes of these it
 * lacks are own code. Others are merged until it has: products with zeros, but fewer passes over
 * memory than columns.c makes, which has what is left. own: whose are the passes that oneDNN lacks. */
static enum ss_status choose_layouts(struct ss_conv_kernel *c, enum code *own)
{
    const struct ss_conv_shape *s = &c->shape;
    const int merges[] = {1, fill_blocks(s), s->groups};
    for (int i = 0; i < 3 && s->groups > 1; i++) {
        if (!fits(s, merges[i]))
            continue;
        SS_TRY(make_layouts(c, merges[i]));
        if (!needs_reference(c))
            return SS_OK;
        if (ss_depthwise_takes(s)) {
            *own = DEPTHWISE;
            return SS_OK;
        }
    }
    return make_layouts(c, 1);
}

/* The plain weight (Co,Ci/G,kernel), one row for each output, in the one that oneDNN is told of. */
static size_t row_of(const struct ss_conv_kernel *c)
{
    return (size_t)ss_conv_inputs(&c->shape) * (size_t)ss_conv_taps(&c->shape);
}
static size_t wide_row_of(const struct ss_conv_kernel *c)
{
    return (size_t)(c->inputs / c->groups) * (size_t)ss_conv_taps(&c->shape);
}
static int is_wide(const struct ss_conv_kernel *c)
{
    return wide_row_of(c) != row_of(c) || c->outputs != c->shape.y.c;
}
static size_t wide_place(const struct ss_conv_kernel *c, size_t k)
{
    const size_t group = k / (size_t)ss_conv_outputs(&c->shape);
    return k * wide_row_of(c) + group % (size_t)c->merge * row_of(c);
}

static void widen(const struct ss_conv_kernel *c, const float *plain, float *wide)
{
    const size_t row = row_of(c);
    memset(wide, 0, (size_t)c->outputs * wide_row_of(c) * sizeof(float));
    for (size_t k = 0; k < (size_t)c->shape.y.c; k++)
        memcpy(wide + wide_place(c, k), plain + k * row, row * sizeof(float));
}

static void narrow(const struct ss_conv_kernel *c, const float *wide, float *plain)
{
    const size_t row = row_of(c);
    for (size_t k = 0; k < (size_t)c->shape.y.c; k++)
        memcpy(plain + k * row, wide + wide_place(c, k), row * sizeof(float));
}

/* Scratch of import and export: [the reorder's own | weight as oneDNN's plain one] */
static size_t plain_offset(const struct ss_conv_kernel *c)
{
    return ss_align_up(larger(c->import.scratch_bytes, c->export.scratch_bytes));
}

static enum ss_status make_backward_weights(struct ss_conv_kernel *c, ss_md_in gradient)
{
    const struct ss_dnnl_operand operands[] = {{DNNL_ARG_SRC, c->x},
                                               {DNNL_ARG_DIFF_DST, c->y},
                                               {DNNL_ARG_DIFF_WEIGHTS, gradient},
                                               {DNNL_ARG_DIFF_BIAS, c->bias}};
    SS_TRY(ss_dnnl_op_make(c->cpu, &c->backward_weights, operands, 4));
    return ss_cpu_reserve(c->cpu, is_compact(c) ? compact_bytes(c, wide_gradient_offset(c))
                                                : c->backward_weights.scratch_bytes);
}

/* Whatever weight layout oneDNN likes best, its passes take depthwise.c's. */
static void create_depthwise(struct ss_conv_kernel *c, int which, dnnl_primitive_desc_t *pd)
{
    const dnnl_status_t status = create_pd(c, which, c->native, c->forward.op.pd, pd);
    c->code[which] = status != dnnl_success || ss_dnnl_is_ref(*pd) ? DEPTHWISE : ONEDNN;
}

static void drop_pd(dnnl_primitive_desc_t *pd)
{
    if (*pd)
        dnnl_primitive_desc_destroy(*pd);
    *pd = NULL;
}

static enum ss_status make_depthwise(struct ss_conv_kernel *c)
{
    const struct ss_conv_shape *s = &c->shape;
    const dnnl_dims_t dims = {s->groups, 1, 1, s->kernel[0], s->kernel[1]};
    SS_DNNL_TRY(ss_md_create(&c->native, 5, dims,
                             ss_depthwise_width(s) == 16 ? dnnl_Goihw16g : dnnl_Goihw8g));
    SS_TRY(ss_dnnl_op_make_reorder(c->cpu, &c->import, c->plain, c->native));
    SS_TRY(ss_dnnl_op_make_reorder(c->cpu, &c->export, c->native, c->plain));
    SS_TRY(ss_cpu_reserve(c->cpu, plain_offset(c)));
    SS_TRY(ss_cpu_reserve(c->cpu, ss_depthwise_scratch(c->cpu, s)));
    c->weight_bytes = dnnl_memory_desc_get_size(c->native);

    create_depthwise(c, FORWARD, &c->forward.op.pd);
    if (c->training) {
        create_depthwise(c, BACKWARD_DATA, &c->backward_data.op.pd);
        create_depthwise(c, BACKWARD_WEIGHTS, &c->backward_weights.pd);
        if (c->code[BACKWARD_DATA] != ONEDNN)
            drop_pd(&c->backward_data.op.pd);
        else
            SS_TRY(make_pass(c, BACKWARD_DATA, c->forward.op.pd, &c->backward_data));
        if (c->code[BACKWARD_WEIGHTS] != ONEDNN)
            drop_pd(&c->backward_weights.pd);
        else
            SS_TRY(make_backward_weights(c, c->native));
    }
    if (c->code[FORWARD] == ONEDNN)
        return make_pass(c, FORWARD, NULL, &c->forward);
    drop_pd(&c->forward.op.pd);
    return SS_OK;
}

/* With several threads oneDNN 2.6.3 (jit_1x1:avx2) makes another gradient now and then, in every third call on a busy
 * machine: of 3 or 6 channels in NHWC and a strided 1x1 kernel. It was right with 12 and more, and in blocks; where
 * channels do not fill its vectors it is not asked. */
static int is_unsafe(const struct ss_conv_shape *s, int which)
{
    return which == BACKWARD_WEIGHTS && ss_conv_taps(s) == 1 &&
           (s->stride[0] > 1 || s->stride[1] > 1) && s->x.block != 8 && s->x.block != 16 &&
           s->x.c % 8 != 0;
}

/* oneDNN's descriptor, but the pass is ours where that is reference code, unsafe, or none. */
static void create_or_own(struct ss_conv_kernel *c, int which, dnnl_primitive_desc_t *pd)
{
    const dnnl_status_t status = create_pd(c, which, c->any, c->forward.op.pd, pd);
    c->code[which] = status != dnnl_success || ss_dnnl_is_ref(*pd) || is_unsafe(&c->shape, which)
                         ? COLUMNS
                         : ONEDNN;
}

static enum ss_status make_gradient(struct ss_conv_kernel *c)
{
    if (c->code[BACKWARD_WEIGHTS] != ONEDNN) {
        drop_pd(&c->backward_weights.pd);
        SS_DNNL_TRY(ss_md_copy(&c->gradient, c->plain));
        return SS_OK;
    }
    ss_md_in gradient =
        dnnl_primitive_desc_query_md(c->backward_weights.pd, dnnl_query_diff_weights_md, 0);
    SS_DNNL_TRY(ss_md_copy(&c->gradient, gradient));
    SS_TRY(ss_dnnl_op_make_reorder(c->cpu, &c->import, c->plain, gradient));
    return ss_dnnl_op_make_reorder(c->cpu, &c->export, gradient, c->plain);
}

static enum ss_status make_passes(struct ss_conv_kernel *c)
{
    /* Also without training: the native layout depends on all three. */
    create_or_own(c, FORWARD, &c->forward.op.pd);
    create_or_own(c, BACKWARD_WEIGHTS, &c->backward_weights.pd);
    create_or_own(c, BACKWARD_DATA, &c->backward_data.op.pd);
    SS_TRY(make_gradient(c));
    SS_TRY(ss_cpu_reserve(c->cpu, plain_offset(c) + dnnl_memory_desc_get_size(c->plain)));
    if (has_columns(c))
        SS_TRY(ss_cpu_reserve(c->cpu, ss_columns_scratch(c->cpu, &c->shape)));

    SS_DNNL_TRY(ss_md_copy(&c->native, is_compact(c) ? c->plain : c->gradient));
    c->weight_bytes = is_compact(c) ? (size_t)c->shape.y.c * row_of(c) * sizeof(float)
                                    : dnnl_memory_desc_get_size(c->native);
    if (c->training && c->code[BACKWARD_WEIGHTS] == ONEDNN)
        SS_TRY(make_backward_weights(c, c->gradient));
    if (c->training && c->code[BACKWARD_DATA] == ONEDNN)
        SS_TRY(make_pass(c, BACKWARD_DATA, c->forward.op.pd, &c->backward_data));
    else
        drop_pd(&c->backward_data.op.pd);
    if (c->code[FORWARD] == ONEDNN)
        return make_pass(c, FORWARD, NULL, &c->forward);
    drop_pd(&c->forward.op.pd);
    return SS_OK;
}

static const char *code_of(const struct ss_conv_kernel *c, int which,
                           const_dnnl_primitive_desc_t pd)
{
    return c->code[which] == ONEDNN ? ss_dnnl_impl(pd) : code_names[c->code[which]];
}

static void describe(struct ss_conv_kernel *c)
{
    int n = snprintf(c->info, sizeof c->info, "fwd %s%s", code_of(c, FORWARD, c->forward.op.pd),
                     c->forward.reorder.primitive ? " + weight reorder" : "");
    if (c->training)
        snprintf(c->info + n, sizeof c->info - (size_t)n, ", bwd data %s%s, bwd weights %s",
                 code_of(c, BACKWARD_DATA, c->backward_data.op.pd),
                 c->backward_data.reorder.primitive ? " + weight reorder" : "",
                 code_of(c, BACKWARD_WEIGHTS, c->backward_weights.pd));
    n = (int)strlen(c->info);
    if (c->merge > 1)
        snprintf(c->info + n, sizeof c->info - (size_t)n, ", %d groups as %d", c->shape.groups,
                 c->groups);
}

static int is_winograd(const struct ss_conv_shape *s, enum ss_conv_algo algo)
{
    return algo != SS_CONV_DIRECT && ss_winograd_takes(s) &&
           (algo == SS_CONV_WINOGRAD || ss_winograd_pays(s));
}

int ss_cpu_conv_makes_x(const struct ss_conv_shape *shape, enum ss_conv_algo algo)
{
    return is_winograd(shape, algo) && ss_winograd_makes_x(shape);
}

enum ss_status ss_cpu_conv_source(struct ss_conv_kernel *c, const struct ss_norm_source *source)
{
    if (!c->shape.makes_x)
        return ss_fail(SS_ERR_INVALID, "convolution: it reads an x that is stored");
    c->source = source;
    return SS_OK;
}

/* All three passes, because they share the weight's layout. */
static enum ss_status make_winograd(struct ss_conv_kernel *c)
{
    for (int which = FORWARD; which <= BACKWARD_WEIGHTS; which++)
        c->code[which] = WINOGRAD;
    c->merge = 1;
    c->weight_bytes = ss_winograd_weight_bytes(&c->shape);
    return ss_cpu_reserve(c->cpu, ss_winograd_scratch(c->cpu, &c->shape, c->training));
}

enum ss_status ss_cpu_conv_create(struct ss_device *cpu, const struct ss_conv_shape *shape,
                                  enum ss_conv_algo algo, int training, struct ss_conv_kernel **out)
{
    SS_TRY(ss_act_check(&shape->x, "convolution input"));
    SS_TRY(ss_act_check(&shape->y, "convolution output"));
    SS_TRY(ss_conv_check(shape));
    struct ss_conv_kernel *c = calloc(1, sizeof *c);
    if (!c)
        return ss_fail_memory("convolution", sizeof *c);
    c->cpu = cpu;
    c->shape = *shape;
    c->training = training;
    ss_cpu_enter(cpu);
    enum code own = COLUMNS;
    const int winograd = is_winograd(shape, algo);
    enum ss_status status = SS_OK;
    if (shape->makes_x && !ss_cpu_conv_makes_x(shape, algo))
        status = ss_fail(SS_ERR_INVALID, "convolution: it cannot make x while it reads it");
    else
        status = winograd ? make_winograd(c) : choose_layouts(c, &own);
    if (status == SS_OK && !winograd)
        status = own == DEPTHWISE ? make_depthwise(c) : make_passes(c);
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
    drop_layouts(c);
    ss_md_destroy(c->native);
    ss_md_destroy(c->gradient);
    free(c);
}

size_t ss_cpu_conv_weight_bytes(const struct ss_conv_kernel *c)
{
    return c->weight_bytes;
}

enum ss_status ss_cpu_conv_import(struct ss_conv_kernel *c, const float *plain, float *native)
{
    if (c->code[FORWARD] == WINOGRAD) {
        ss_winograd_import(&c->shape, plain, native);
        return SS_OK;
    }
    if (is_compact(c)) {
        memcpy(native, plain, c->weight_bytes);
        return SS_OK;
    }
    char *scratch = ss_cpu_scratch(c->cpu);
    if (is_wide(c)) {
        float *wide = (float *)(scratch + plain_offset(c));
        widen(c, plain, wide);
        plain = wide;
    }
    const void *const pointers[] = {plain, native};
    return ss_dnnl_op_run(c->cpu, &c->import, pointers, scratch);
}

enum ss_status ss_cpu_conv_export(struct ss_conv_kernel *c, const float *native, float *plain)
{
    if (c->code[FORWARD] == WINOGRAD) {
        ss_winograd_export(&c->shape, native, plain);
        return SS_OK;
    }
    if (is_compact(c)) {
        memcpy(plain, native, c->weight_bytes);
        return SS_OK;
    }
    char *scratch = ss_cpu_scratch(c->cpu);
    float *wide = is_wide(c) ? (float *)(scratch + plain_offset(c)) : plain;
    const void *const pointers[] = {native, wide};
    SS_TRY(ss_dnnl_op_run(c->cpu, &c->export, pointers, scratch));
    if (is_wide(c))
        narrow(c, wide, plain);
    return SS_OK;
}

static enum ss_status run_pass(struct ss_conv_kernel *c, struct pass *pass, const void *in,
                               const void *weight, const float *bias, void *out)
{
    char *scratch = ss_cpu_scratch(c->cpu);
    if (is_compact(c)) {
        float *wide = (float *)(scratch + wide_offset(pass));
        widen(c, weight, wide);
        weight = wide;
    }
    if (pass->reorder.primitive) {
        char *reordered = scratch + weight_offset(pass);
        const void *const pointers[] = {weight, reordered};
        SS_TRY(ss_dnnl_op_run(c->cpu, &pass->reorder, pointers, scratch));
        weight = reordered;
    }
    if (bias && c->outputs != c->shape.y.c) {
        float *padded = (float *)(scratch + bias_offset(c, wide_offset(pass)));
        memset(padded, 0, (size_t)c->outputs * sizeof(float));
        memcpy(padded, bias, (size_t)c->shape.y.c * sizeof(float));
        bias = padded;
    }
    const void *const pointers[] = {in, weight, out, bias};
    return ss_dnnl_op_run(c->cpu, &pass->op, pointers, scratch);
}

static enum ss_status check_source(const struct ss_conv_kernel *c)
{
    if (c->shape.makes_x && !c->source)
        return ss_fail(SS_ERR_INVALID,
                       "convolution: x is not stored, and nobody said of what it is made");
    return SS_OK;
}

int ss_cpu_conv_has_sums(const struct ss_conv_kernel *c)
{
    return c->code[FORWARD] == WINOGRAD && ss_winograd_has_sums(&c->shape);
}

static enum ss_status forward(struct ss_conv_kernel *c, const void *x, const void *weight,
                              const float *bias, void *y, float *sums)
{
    const struct ss_winograd_ends ends = {c->source, sums};
    SS_TRY(ss_bias_check("convolution", c->shape.bias, bias));
    SS_TRY(check_source(c));
    switch (c->code[FORWARD]) {
    case DEPTHWISE:
        ss_depthwise_forward(c->cpu, &c->shape, x, weight, bias, y);
        return SS_OK;
    case WINOGRAD:
        ss_winograd_forward(c->cpu, &c->shape, &ends, x, weight, bias, y);
        return SS_OK;
    case COLUMNS:
        ss_columns_forward(c->cpu, &c->shape, x, weight, bias, y);
        return SS_OK;
    case ONEDNN:
        break;
    }
    return run_pass(c, &c->forward, x, weight, bias, y);
}

enum ss_status ss_cpu_conv_forward(struct ss_conv_kernel *c, const void *x, const void *weight,
                                   const float *bias, void *y)
{
    return forward(c, x, weight, bias, y, NULL);
}

enum ss_status ss_cpu_conv_forward_sums(struct ss_conv_kernel *c, const void *x, const void *weight,
                                        const float *bias, void *y, float *sums)
{
    if (!ss_cpu_conv_has_sums(c))
        return ss_fail(SS_ERR_INVALID, "convolution: it leaves no sums for BatchNorm");
    return forward(c, x, weight, bias, y, sums);
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
    switch (c->code[BACKWARD_DATA]) {
    case DEPTHWISE:
        ss_depthwise_backward_data(c->cpu, &c->shape, dy, weight, dx);
        return SS_OK;
    case WINOGRAD:
        ss_winograd_backward_data(c->cpu, &c->shape, dy, weight, dx);
        return SS_OK;
    case COLUMNS:
        ss_columns_backward_data(c->cpu, &c->shape, dy, weight, dx);
        return SS_OK;
    case ONEDNN:
        break;
    }
    return run_pass(c, &c->backward_data, dy, weight, NULL, dx);
}

/* The gradient of merged groups, of which the parts between them are left out. */
static enum ss_status backward_compact(struct ss_conv_kernel *c, const void *x, const void *dy,
                                       float *dweight, float *dbias)
{
    char *scratch = ss_cpu_scratch(c->cpu), *gradient = scratch + gradient_offset(c);
    float *wide = (float *)(scratch + wide_gradient_offset(c)),
          *padded = (float *)(scratch + bias_offset(c, wide_gradient_offset(c)));
    const void *const pointers[] = {x, dy, gradient, padded}, *const reorder[] = {gradient, wide};
    SS_TRY(ss_dnnl_op_run(c->cpu, &c->backward_weights, pointers, scratch));
    SS_TRY(ss_dnnl_op_run(c->cpu, &c->export, reorder, scratch));
    narrow(c, wide, dweight);
    if (dbias)
        memcpy(dbias, padded, (size_t)c->shape.y.c * sizeof(float));
    return SS_OK;
}

enum ss_status ss_cpu_conv_backward_weights(struct ss_conv_kernel *c, const void *x, const void *dy,
                                            float *dweight, float *dbias)
{
    SS_TRY(check_training(c, "backward weights"));
    SS_TRY(ss_bias_check("convolution", c->shape.bias, dbias));
    SS_TRY(check_source(c));
    switch (c->code[BACKWARD_WEIGHTS]) {
    case DEPTHWISE:
        ss_depthwise_backward_weights(c->cpu, &c->shape, x, dy, dweight, dbias);
        return SS_OK;
    case WINOGRAD:
        ss_winograd_backward_weights(c->cpu, &c->shape, c->source, x, dy, dweight, dbias);
        return SS_OK;
    case COLUMNS:
        ss_columns_backward_weights(c->cpu, &c->shape, x, dy, dweight, dbias);
        return SS_OK;
    case ONEDNN:
        break;
    }
    if (is_compact(c))
        return backward_compact(c, x, dy, dweight, dbias);
    const void *const pointers[] = {x, dy, dweight, dbias};
    return ss_dnnl_op_run(c->cpu, &c->backward_weights, pointers, ss_cpu_scratch(c->cpu));
}

const char *ss_cpu_conv_info(const struct ss_conv_kernel *c)
{
    return c->info;
}
