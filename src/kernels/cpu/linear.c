/* linear.c: the product is oneDNN's.
 *
 * It runs on plain (N, C*H*W) rows. Where the activation's layout is something else, x is copied
 * into scratch first: that is a copy of a few hundred kilobytes, and oneDNN has only slow reference
 * code for some products on padded channel blocks. */
#include "kernels/cpu/dnnl_op.h"

#include <stdint.h>
#include <stdlib.h>

struct ss_linear_kernel {
    struct ss_device *cpu;
    int training;
    ss_md act;                            /* x as an activation; NULL: its bytes are plain rows */
    ss_md act_plain;                      /* the same tensor as plain rows */
    ss_md x, y, bias, any, plain, native; /* bias NULL: there is none */
    struct ss_dnnl_op flatten, unflatten; /* made iff act */
    struct ss_dnnl_op forward, backward_data, backward_weights, import, export;
    struct ss_dnnl_op forward_reorder, data_reorder;
    size_t x_bytes, weight_bytes;
    size_t own_bytes; /* scratch: [own_bytes of a primitive | plain x or dx | reordered weight] */
};

static void need(struct ss_linear_kernel *l, const struct ss_dnnl_op *op)
{
    if (op->scratch_bytes > l->own_bytes)
        l->own_bytes = op->scratch_bytes;
}

static enum ss_status make_layouts(struct ss_linear_kernel *l, const struct ss_act *x, int outputs,
                                   int bias)
{
    const int64_t features = (int64_t)x->c * x->h * x->w;
    const dnnl_dims_t xd = {x->n, features}, yd = {x->n, outputs}, wd = {outputs, features},
                      bd = {outputs}, ad = {x->n, x->c, x->h, x->w};
    int is_plain = x->block == 1 || (x->h * x->w == 1 && x->c % x->block == 0);
    if (!is_plain) {
        SS_TRY(ss_act_md(x, 0, &l->act));
        SS_DNNL_TRY(ss_md_create(&l->act_plain, 4, ad, dnnl_nchw));
        l->x_bytes = ss_align_up((size_t)features * (size_t)x->n * sizeof(float));
    }
    SS_DNNL_TRY(ss_md_create(&l->x, 2, xd, dnnl_ab));
    SS_DNNL_TRY(ss_md_create(&l->y, 2, yd, dnnl_ab));
    if (bias)
        SS_DNNL_TRY(ss_md_create(&l->bias, 1, bd, dnnl_x));
    SS_DNNL_TRY(ss_md_create(&l->any, 2, wd, dnnl_format_tag_any));
    SS_DNNL_TRY(ss_md_create(&l->plain, 2, wd, dnnl_ab));
    return SS_OK;
}

/* The weight of op->pd, and a reorder into it where it is not the native layout. */
static enum ss_status make_reorder(struct ss_linear_kernel *l, const struct ss_dnnl_op *op,
                                   struct ss_dnnl_op *reorder, ss_md_in *weight, size_t *bytes)
{
    *weight = dnnl_primitive_desc_query_md(op->pd, dnnl_query_weights_md, 0);
    if (dnnl_memory_desc_equal(*weight, l->native))
        return SS_OK;
    SS_TRY(ss_dnnl_op_make_reorder(l->cpu, reorder, l->native, *weight));
    need(l, reorder);
    size_t size = dnnl_memory_desc_get_size(*weight);
    if (size > *bytes)
        *bytes = size;
    return SS_OK;
}

static enum ss_status make(struct ss_linear_kernel *l)
{
    struct ss_device *cpu = l->cpu;
    ss_md_in weight;
    size_t reordered = 0;
    SS_DNNL_TRY(
        ss_dnnl_linear_fwd(&l->forward.pd, cpu->engine, l->x, l->any, l->bias, l->y, cpu->attr));
    SS_DNNL_TRY(ss_dnnl_linear_bwd_weights(&l->backward_weights.pd, cpu->engine, l->x, l->any,
                                           l->bias, l->y, l->forward.pd, cpu->attr));
    SS_DNNL_TRY(ss_md_copy(&l->native, dnnl_primitive_desc_query_md(
                                           l->backward_weights.pd, dnnl_query_diff_weights_md, 0)));
    l->weight_bytes = dnnl_memory_desc_get_size(l->native);
    SS_TRY(ss_dnnl_op_make_reorder(cpu, &l->import, l->plain, l->native));
    SS_TRY(ss_dnnl_op_make_reorder(cpu, &l->export, l->native, l->plain));
    need(l, &l->import);
    need(l, &l->export);
    if (l->act) {
        SS_TRY(ss_dnnl_op_make_reorder(cpu, &l->flatten, l->act, l->act_plain));
        SS_TRY(ss_dnnl_op_make_reorder(cpu, &l->unflatten, l->act_plain, l->act));
        need(l, &l->flatten);
        need(l, &l->unflatten);
    }
    SS_TRY(make_reorder(l, &l->forward, &l->forward_reorder, &weight, &reordered));
    const struct ss_dnnl_operand fwd[] = {{DNNL_ARG_SRC, l->x},
                                          {DNNL_ARG_WEIGHTS, weight},
                                          {DNNL_ARG_DST, l->y},
                                          {DNNL_ARG_BIAS, l->bias}};
    SS_TRY(ss_dnnl_op_make(cpu, &l->forward, fwd, 4));
    need(l, &l->forward);
    if (l->training) {
        const struct ss_dnnl_operand bww[] = {{DNNL_ARG_SRC, l->x},
                                              {DNNL_ARG_DIFF_DST, l->y},
                                              {DNNL_ARG_DIFF_WEIGHTS, l->native},
                                              {DNNL_ARG_DIFF_BIAS, l->bias}};
        SS_TRY(ss_dnnl_op_make(cpu, &l->backward_weights, bww, 4));
        need(l, &l->backward_weights);
        SS_DNNL_TRY(ss_dnnl_linear_bwd_data(&l->backward_data.pd, cpu->engine, l->x, l->any, l->y,
                                            l->forward.pd, cpu->attr));
        SS_TRY(make_reorder(l, &l->backward_data, &l->data_reorder, &weight, &reordered));
        const struct ss_dnnl_operand bwd[] = {
            {DNNL_ARG_DIFF_DST, l->y}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DIFF_SRC, l->x}};
        SS_TRY(ss_dnnl_op_make(cpu, &l->backward_data, bwd, 3));
        need(l, &l->backward_data);
    }
    l->own_bytes = ss_align_up(l->own_bytes);
    return ss_cpu_reserve(cpu, l->own_bytes + l->x_bytes + reordered);
}

enum ss_status ss_cpu_linear_create(struct ss_device *cpu, const struct ss_act *x, int outputs,
                                    int bias, int training, struct ss_linear_kernel **out)
{
    SS_TRY(ss_act_check(x, "linear layer's input"));
    if (outputs < 1)
        return ss_fail(SS_ERR_SHAPE, "linear layer: %d outputs; at least 1 is needed", outputs);
    struct ss_linear_kernel *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("linear layer", sizeof *l);
    l->cpu = cpu;
    l->training = training;
    ss_cpu_enter(cpu);
    enum ss_status status = make_layouts(l, x, outputs, bias);
    if (status == SS_OK)
        status = make(l);
    if (status != SS_OK) {
        ss_cpu_linear_destroy(l);
        return status;
    }
    *out = l;
    return SS_OK;
}

void ss_cpu_linear_destroy(struct ss_linear_kernel *l)
{
    if (!l)
        return;
    struct ss_dnnl_op *const ops[] = {
        &l->flatten, &l->unflatten, &l->forward,         &l->backward_data, &l->backward_weights,
        &l->import,  &l->export,    &l->forward_reorder, &l->data_reorder,
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        ss_dnnl_op_destroy(ops[i]);
    const ss_md layouts[] = {l->act,  l->act_plain, l->x,     l->y,
                             l->bias, l->any,       l->plain, l->native};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        ss_md_destroy(layouts[i]);
    free(l);
}

size_t ss_cpu_linear_weight_bytes(const struct ss_linear_kernel *l)
{
    return l->weight_bytes;
}

static enum ss_status copy(struct ss_linear_kernel *l, struct ss_dnnl_op *op, const void *from,
                           void *to)
{
    const void *const pointers[] = {from, to};
    return ss_dnnl_op_run(l->cpu, op, pointers, ss_cpu_scratch(l->cpu));
}

enum ss_status ss_cpu_linear_import(struct ss_linear_kernel *l, const float *plain, float *native)
{
    return copy(l, &l->import, plain, native);
}

enum ss_status ss_cpu_linear_export(struct ss_linear_kernel *l, const float *native, float *plain)
{
    return copy(l, &l->export, native, plain);
}

static float *plain_x(struct ss_linear_kernel *l)
{
    return (float *)((char *)ss_cpu_scratch(l->cpu) + l->own_bytes);
}

static enum ss_status reorder_weight(struct ss_linear_kernel *l, struct ss_dnnl_op *reorder,
                                     const void **weight)
{
    if (!reorder->primitive)
        return SS_OK;
    char *reordered = (char *)ss_cpu_scratch(l->cpu) + l->own_bytes + l->x_bytes;
    SS_TRY(copy(l, reorder, *weight, reordered));
    *weight = reordered;
    return SS_OK;
}

enum ss_status ss_cpu_linear_forward(struct ss_linear_kernel *l, const void *x, const void *weight,
                                     const float *bias, void *y)
{
    SS_TRY(ss_bias_check("linear layer", l->bias != NULL, bias));
    if (l->act) {
        SS_TRY(copy(l, &l->flatten, x, plain_x(l)));
        x = plain_x(l);
    }
    SS_TRY(reorder_weight(l, &l->forward_reorder, &weight));
    const void *const pointers[] = {x, weight, y, bias};
    return ss_dnnl_op_run(l->cpu, &l->forward, pointers, ss_cpu_scratch(l->cpu));
}

static enum ss_status check_training(const struct ss_linear_kernel *l)
{
    if (!l->training)
        return ss_fail(SS_ERR_INVALID,
                       "linear layer: backward pass, but it was made without training");
    return SS_OK;
}

enum ss_status ss_cpu_linear_backward_data(struct ss_linear_kernel *l, const void *dy,
                                           const void *weight, void *dx)
{
    SS_TRY(check_training(l));
    SS_TRY(reorder_weight(l, &l->data_reorder, &weight));
    const void *const pointers[] = {dy, weight, l->act ? plain_x(l) : dx};
    SS_TRY(ss_dnnl_op_run(l->cpu, &l->backward_data, pointers, ss_cpu_scratch(l->cpu)));
    return l->act ? copy(l, &l->unflatten, plain_x(l), dx) : SS_OK;
}

enum ss_status ss_cpu_linear_backward_weights(struct ss_linear_kernel *l, const void *x,
                                              const void *dy, float *dweight, float *dbias)
{
    SS_TRY(check_training(l));
    SS_TRY(ss_bias_check("linear layer", l->bias != NULL, dbias));
    if (l->act) {
        SS_TRY(copy(l, &l->flatten, x, plain_x(l)));
        x = plain_x(l);
    }
    const void *const pointers[] = {x, dy, dweight, dbias};
    return ss_dnnl_op_run(l->cpu, &l->backward_weights, pointers, ss_cpu_scratch(l->cpu));
}
