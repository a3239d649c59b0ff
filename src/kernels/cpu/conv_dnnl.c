/* conv_dnnl.c: selects oneDNN's implementation of a convolution, and the weight layout. */
#include "kernels/cpu/conv_dnnl.h"

#include "core/round.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/dnnl_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pass that reads weights, and the reorder of its weight from the native layout. */
struct pass {
    struct ss_dnnl_op op;
    struct ss_dnnl_op reorder; /* not created: the pass reads the native layout */
    size_t weight_bytes;       /* of the reordered weight */
};

struct ss_dnnl_conv {
    struct ss_device *cpu;
    struct ss_conv_shape shape;
    /* The convolution as passed to oneDNN, with groups merged: see make_layouts. */
    int merge, groups, inputs, outputs;
    int training;
    int has[SS_CONV_PASSES];
    /* plain: oneDNN's (Co,Ci/G,kernel). native: the layout of the gradient; with merged groups
     * the plain one without the zeros between them, which each pass inserts; or depthwise.c's. */
    ss_md x, y, bias, any, plain, native, gradient;
    struct pass forward, backward_data;
    struct ss_dnnl_op backward_weights, import, export;
    size_t weight_bytes;
};

static dnnl_status_t create_pd(const struct ss_dnnl_conv *c, int which, ss_md_in weight,
                               const_dnnl_primitive_desc_t fwd, dnnl_primitive_desc_t *pd)
{
    const struct ss_conv_shape *s = &c->shape;
    dnnl_engine_t engine = c->cpu->engine;
    if (which == SS_CONV_FORWARD)
        return ss_dnnl_conv_fwd(pd, engine, c->x, weight, c->bias, c->y, s, c->cpu->attr);
    if (which == SS_CONV_BACKWARD_DATA)
        return ss_dnnl_conv_bwd_data(pd, engine, c->x, weight, c->y, s, fwd, c->cpu->attr);
    return ss_dnnl_conv_bwd_weights(pd, engine, c->x, weight, c->bias, c->y, s, fwd, c->cpu->attr);
}

/* Create a primitive descriptor. Returns 0 if oneDNN has no implementation, or only reference
 * code. */
static int make_pd(const struct ss_dnnl_conv *c, int which, ss_md_in weight,
                   const_dnnl_primitive_desc_t fwd, dnnl_primitive_desc_t *pd)
{
    return create_pd(c, which, weight, fwd, pd) == dnnl_success && !ss_dnnl_is_ref(*pd);
}

/* Return whether the native layout is the plain one, which each call converts to oneDNN's. */
static int is_compact(const struct ss_dnnl_conv *c)
{
    return c->merge > 1;
}

/* Scratch of a pass: [the primitive's or the reorder's own | reordered weight], followed, for a
 * compact weight, by [wide weight | bias]. */
static size_t weight_offset(const struct pass *pass)
{
    return ss_align_up(ss_max(pass->op.scratch_bytes, pass->reorder.scratch_bytes));
}
static size_t wide_offset(const struct pass *pass)
{
    return weight_offset(pass) + ss_align_up(pass->weight_bytes);
}
/* Scratch of the weight gradient for a compact weight: [own | gradient | wide gradient | bias]. */
static size_t gradient_offset(const struct ss_dnnl_conv *c)
{
    return ss_align_up(ss_max(c->backward_weights.scratch_bytes, c->export.scratch_bytes));
}
static size_t wide_gradient_offset(const struct ss_dnnl_conv *c)
{
    return gradient_offset(c) + ss_align_up(dnnl_memory_desc_get_size(c->gradient));
}
static size_t bias_offset(const struct ss_dnnl_conv *c, size_t wide)
{
    return wide + ss_align_up(dnnl_memory_desc_get_size(c->plain));
}
static size_t compact_bytes(const struct ss_dnnl_conv *c, size_t wide)
{
    return bias_offset(c, wide) + (size_t)c->outputs * sizeof(float);
}

/* Create a pass that reads weights. pass->op.pd is its descriptor with oneDNN's preferred weight
 * layout. If the same implementation also supports the native layout, use that; else reorder the
 * weight in each call. */
static enum ss_status make_pass(struct ss_dnnl_conv *c, int which, const_dnnl_primitive_desc_t fwd,
                                struct pass *pass)
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
    if (which == SS_CONV_FORWARD) {
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

static void drop_layouts(struct ss_dnnl_conv *c)
{
    ss_md *const all[] = {&c->x, &c->y, &c->bias, &c->any, &c->plain};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ss_md_destroy(*all[i]);
        *all[i] = NULL;
    }
}

/* Set the layouts of the convolution with `merge` groups merged into one, whose weight is zero
 * between different groups. The last one may have fewer groups, or no real ones: padding channels
 * hold zeros, and are passed as channels with zero weights. The same is done if there are fewer
 * channels than a block, for which oneDNN has only reference code with 3x3 kernels. */
static enum ss_status make_layouts(struct ss_dnnl_conv *c, int merge)
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
    /* A tensor of 8 or 16 channels in one block is NHWC as well: pass both sides as NHWC. */
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

/* Rows of the plain weight (Co,Ci/G,kernel), one per output, and their place in the weight that
 * is passed to oneDNN. */
static size_t row_of(const struct ss_dnnl_conv *c)
{
    return (size_t)ss_conv_inputs(&c->shape) * (size_t)ss_conv_taps(&c->shape);
}
static size_t wide_row_of(const struct ss_dnnl_conv *c)
{
    return (size_t)(c->inputs / c->groups) * (size_t)ss_conv_taps(&c->shape);
}
static int is_wide(const struct ss_dnnl_conv *c)
{
    return wide_row_of(c) != row_of(c) || c->outputs != c->shape.y.c;
}
static size_t wide_place(const struct ss_dnnl_conv *c, size_t k)
{
    const size_t group = k / (size_t)ss_conv_outputs(&c->shape);
    return k * wide_row_of(c) + group % (size_t)c->merge * row_of(c);
}

static void widen(const struct ss_dnnl_conv *c, const float *plain, float *wide)
{
    const size_t row = row_of(c);
    memset(wide, 0, (size_t)c->outputs * wide_row_of(c) * sizeof(float));
    for (size_t k = 0; k < (size_t)c->shape.y.c; k++)
        memcpy(wide + wide_place(c, k), plain + k * row, row * sizeof(float));
}

static void narrow(const struct ss_dnnl_conv *c, const float *wide, float *plain)
{
    const size_t row = row_of(c);
    for (size_t k = 0; k < (size_t)c->shape.y.c; k++)
        memcpy(plain + k * row, wide + wide_place(c, k), row * sizeof(float));
}

/* With several threads, oneDNN 2.6.3 (jit_1x1:avx2) sometimes computes a different gradient (in
 * every third call on a busy machine) for 3 or 6 channels in NHWC and a strided 1x1 kernel. It
 * was correct with 12 and more, and in blocks. It is not used if channels do not fill its
 * vectors. */
static int is_unsafe(const struct ss_conv_shape *s)
{
    return ss_conv_taps(s) == 1 && (s->stride[0] > 1 || s->stride[1] > 1) && s->x.block != 8 &&
           s->x.block != 16 && s->x.c % 8 != 0;
}

/* Return whether some pass has only reference code, no code, or is unsafe. Without groups the
 * data gradient may be missing: oneDNN has none for planes, and images need none. */
static int needs_reference(const struct ss_dnnl_conv *c)
{
    dnnl_primitive_desc_t pd[SS_CONV_PASSES] = {NULL};
    int needs = is_unsafe(&c->shape);
    for (int which = SS_CONV_FORWARD; which <= SS_CONV_BACKWARD_WEIGHTS && !needs; which++)
        needs = !make_pd(c, which, c->any, pd[SS_CONV_FORWARD], &pd[which]) &&
                (which != SS_CONV_BACKWARD_DATA || c->groups > 1 || is_wide(c));
    for (int which = SS_CONV_FORWARD; which <= SS_CONV_BACKWARD_WEIGHTS; which++)
        if (pd[which])
            dnnl_primitive_desc_destroy(pd[which]);
    return needs;
}

/* Return the fewest groups whose channels fill whole blocks on both sides, or all groups. */
static int fill_blocks(const struct ss_conv_shape *s)
{
    const int in = ss_conv_inputs(s), out = ss_conv_outputs(s);
    int merge = 1;
    while (merge < s->groups && (merge * in % s->x.block || merge * out % s->y.block))
        merge++;
    return merge;
}

/* Return whether the merged groups fit into the tensors. */
static int fits(const struct ss_conv_shape *s, int merge)
{
    const int padded = (s->groups + merge - 1) / merge * merge;
    return merge == s->groups || (padded * ss_conv_inputs(s) <= ss_act_blocks(&s->x) * s->x.block &&
                                  padded * ss_conv_outputs(s) <= ss_act_blocks(&s->y) * s->y.block);
}

enum kind { NONE, DEPTHWISE, ALL };

/* oneDNN has fast code for groups that fill blocks, and for all or some passes of depthwise ones.
 * Other groups are merged until they fill blocks: this multiplies zeros, but makes fewer passes
 * over memory than columns.c. */
static enum ss_status choose_layouts(struct ss_dnnl_conv *c, enum kind *kind)
{
    const struct ss_conv_shape *s = &c->shape;
    const int merges[] = {1, fill_blocks(s), s->groups}, count = s->groups > 1 ? 3 : 1;
    *kind = NONE;
    for (int i = 0; i < count && *kind == NONE; i++) {
        if (s->groups > 1 && !fits(s, merges[i]))
            continue;
        SS_TRY(make_layouts(c, merges[i]));
        *kind = !needs_reference(c) ? ALL : ss_depthwise_takes(s) ? DEPTHWISE : NONE;
    }
    return SS_OK;
}

/* Scratch of import and export: [the reorder's own | weight in oneDNN's plain layout]. */
static size_t plain_offset(const struct ss_dnnl_conv *c)
{
    return ss_align_up(ss_max(c->import.scratch_bytes, c->export.scratch_bytes));
}

static enum ss_status make_backward_weights(struct ss_dnnl_conv *c, ss_md_in gradient)
{
    const struct ss_dnnl_operand operands[] = {{DNNL_ARG_SRC, c->x},
                                               {DNNL_ARG_DIFF_DST, c->y},
                                               {DNNL_ARG_DIFF_WEIGHTS, gradient},
                                               {DNNL_ARG_DIFF_BIAS, c->bias}};
    SS_TRY(ss_dnnl_op_make(c->cpu, &c->backward_weights, operands, 4));
    return ss_cpu_reserve(c->cpu, is_compact(c) ? compact_bytes(c, wide_gradient_offset(c))
                                                : c->backward_weights.scratch_bytes);
}

static void drop_pd(dnnl_primitive_desc_t *pd)
{
    if (*pd)
        dnnl_primitive_desc_destroy(*pd);
    *pd = NULL;
}

/* All passes use depthwise.c's weight layout, whichever oneDNN prefers. */
static enum ss_status make_depthwise(struct ss_dnnl_conv *c)
{
    const struct ss_conv_shape *s = &c->shape;
    const dnnl_dims_t dims = {s->groups, 1, 1, s->kernel[0], s->kernel[1]};
    SS_DNNL_TRY(ss_md_create(&c->native, 5, dims,
                             ss_depthwise_width(s) == 16 ? dnnl_Goihw16g : dnnl_Goihw8g));

    c->has[SS_CONV_FORWARD] =
        make_pd(c, SS_CONV_FORWARD, c->native, c->forward.op.pd, &c->forward.op.pd);
    if (c->training) {
        c->has[SS_CONV_BACKWARD_DATA] =
            make_pd(c, SS_CONV_BACKWARD_DATA, c->native, c->forward.op.pd, &c->backward_data.op.pd);
        c->has[SS_CONV_BACKWARD_WEIGHTS] = make_pd(c, SS_CONV_BACKWARD_WEIGHTS, c->native,
                                                   c->forward.op.pd, &c->backward_weights.pd);
        if (!c->has[SS_CONV_BACKWARD_DATA])
            drop_pd(&c->backward_data.op.pd);
        else
            SS_TRY(make_pass(c, SS_CONV_BACKWARD_DATA, c->forward.op.pd, &c->backward_data));
        if (!c->has[SS_CONV_BACKWARD_WEIGHTS])
            drop_pd(&c->backward_weights.pd);
        else
            SS_TRY(make_backward_weights(c, c->native));
    }
    if (c->has[SS_CONV_FORWARD])
        return make_pass(c, SS_CONV_FORWARD, NULL, &c->forward);
    drop_pd(&c->forward.op.pd);
    return SS_OK;
}

static enum ss_status make_passes(struct ss_dnnl_conv *c)
{
    dnnl_primitive_desc_t *const pd[] = {&c->forward.op.pd, &c->backward_data.op.pd,
                                         &c->backward_weights.pd};
    /* Also without training, because the native layout depends on all three. */
    for (int which = SS_CONV_FORWARD; which < SS_CONV_PASSES; which++)
        c->has[which] = make_pd(c, which, c->any, c->forward.op.pd, pd[which]);
    ss_md_in gradient =
        dnnl_primitive_desc_query_md(c->backward_weights.pd, dnnl_query_diff_weights_md, 0);
    SS_DNNL_TRY(ss_md_copy(&c->gradient, gradient));
    SS_TRY(ss_dnnl_op_make_reorder(c->cpu, &c->import, c->plain, gradient));
    SS_TRY(ss_dnnl_op_make_reorder(c->cpu, &c->export, gradient, c->plain));
    SS_TRY(ss_cpu_reserve(c->cpu, plain_offset(c) + dnnl_memory_desc_get_size(c->plain)));

    SS_DNNL_TRY(ss_md_copy(&c->native, is_compact(c) ? c->plain : c->gradient));
    c->weight_bytes = is_compact(c) ? (size_t)c->shape.y.c * row_of(c) * sizeof(float)
                                    : dnnl_memory_desc_get_size(c->native);
    if (c->training)
        SS_TRY(make_backward_weights(c, c->gradient));
    if (c->training && c->has[SS_CONV_BACKWARD_DATA])
        SS_TRY(make_pass(c, SS_CONV_BACKWARD_DATA, c->forward.op.pd, &c->backward_data));
    else
        drop_pd(&c->backward_data.op.pd);
    return make_pass(c, SS_CONV_FORWARD, NULL, &c->forward);
}

static void destroy(struct ss_dnnl_conv *c)
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

static enum ss_status create(struct ss_device *cpu, const struct ss_conv_shape *s, int training,
                             struct ss_dnnl_conv **out)
{
    enum kind kind;
    struct ss_dnnl_conv *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return ss_fail_memory("convolution", sizeof *c);
    c->cpu = cpu;
    c->shape = *s;
    c->training = training;
    enum ss_status status = choose_layouts(c, &kind);
    if (status == SS_OK && kind != NONE)
        status = kind == ALL ? make_passes(c) : make_depthwise(c);
    if (status != SS_OK || kind == NONE) {
        destroy(c);
        return status;
    }
    *out = c;
    return SS_OK;
}

static int has(const struct ss_dnnl_conv *c, enum ss_conv_pass pass)
{
    return c->has[pass];
}

static void describe(const struct ss_dnnl_conv *c, enum ss_conv_pass pass, char *text, size_t size)
{
    const struct pass *p = pass == SS_CONV_FORWARD ? &c->forward : &c->backward_data;
    const size_t n = strlen(text);
    const int weights = pass == SS_CONV_BACKWARD_WEIGHTS;
    snprintf(text + n, size - n, "%s%s", ss_dnnl_impl(weights ? c->backward_weights.pd : p->op.pd),
             !weights && p->reorder.primitive ? " + weight reorder" : "");
    if (weights && c->merge > 1)
        snprintf(text + strlen(text), size - strlen(text), ", %d groups as %d", c->shape.groups,
                 c->groups);
}

static size_t weight_bytes(const struct ss_dnnl_conv *c)
{
    return c->weight_bytes;
}

static size_t export_scratch(const struct ss_dnnl_conv *c)
{
    return plain_offset(c) + (is_wide(c) ? dnnl_memory_desc_get_size(c->plain) : 0);
}

static enum ss_status import(struct ss_dnnl_conv *c, const float *plain, float *native)
{
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

static enum ss_status export(struct ss_dnnl_conv *c, const float *native, float *plain) {
    if (is_compact(c)){memcpy(plain, native, c->weight_bytes); return SS_OK;}
char *scratch = ss_cpu_scratch(c->cpu);
float *wide = is_wide(c) ? (float *)(scratch + plain_offset(c)) : plain;
const void *const pointers[] = {native, wide};
SS_TRY(ss_dnnl_op_run(c->cpu, &c->export, pointers, scratch));
if (is_wide(c))
    narrow(c, wide, plain);
return SS_OK;
}

static enum ss_status run_pass(struct ss_dnnl_conv *c, struct pass *pass, const void *in,
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

static enum ss_status forward(struct ss_dnnl_conv *c, const void *x, const void *weight,
                              const float *bias, void *y)
{
    return run_pass(c, &c->forward, x, weight, bias, y);
}

static enum ss_status backward_data(struct ss_dnnl_conv *c, const void *dy, const void *weight,
                                    void *dx)
{
    return run_pass(c, &c->backward_data, dy, weight, NULL, dx);
}

/* Compute the weight gradient of merged groups, and drop the elements between them. */
static enum ss_status backward_compact(struct ss_dnnl_conv *c, const void *x, const void *dy,
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

static enum ss_status backward_weights(struct ss_dnnl_conv *c, const void *x, const void *dy,
                                       float *dweight, float *dbias)
{
    if (is_compact(c))
        return backward_compact(c, x, dy, dweight, dbias);
    const void *const pointers[] = {x, dy, dweight, dbias};
    return ss_dnnl_op_run(c->cpu, &c->backward_weights, pointers, ss_cpu_scratch(c->cpu));
}

static const struct ss_conv_library onednn = {
    create, destroy, has,     describe,      weight_bytes,     export_scratch,
    import, export,  forward, backward_data, backward_weights,
};
const struct ss_conv_library *const ss_conv_library = &onednn;
