/* pool.c: pooling is oneDNN's. */
#include <stdlib.h>

#include "kernels/cpu/dnnl_op.h"
#include "kernels/cpu/pool.h"

struct ss_pool_cpu {
    struct ss_cpu *cpu;
    int training;
    ss_md x, y;
    /* Max pooling without a workspace is another primitive. */
    struct ss_dnnl_op inference, forward, backward;
    size_t workspace_bytes;
};

static enum ss_status output_shape(const struct ss_act *x, int kernel, int stride, int pad,
                                   struct ss_act *y)
{
    SS_TRY(ss_act_check(x, "pooling input"));
    if (kernel < 1 || stride < 1 || pad < 0 || pad > kernel / 2)
        return ss_fail(
            SS_ERR_SHAPE,
            "pooling: kernel %d, stride %d, padding %d make no sense (padding is at most "
            "half the kernel)",
            kernel, stride, pad);
    if (x->h + 2 * pad < kernel || x->w + 2 * pad < kernel)
        return ss_fail(SS_ERR_SHAPE,
                       "pooling: a %dx%d window does not fit into a %dx%d input with padding %d",
                       kernel, kernel, x->h, x->w, pad);
    *y = *x;
    y->h = (x->h + 2 * pad - kernel) / stride + 1;
    y->w = (x->w + 2 * pad - kernel) / stride + 1;
    return SS_OK;
}

static enum ss_status make(struct ss_pool_cpu *p, dnnl_alg_kind_t alg,
                           const struct ss_dnnl_window *win)
{
    struct ss_cpu *cpu = p->cpu;
    const struct ss_dnnl_operand in_out[] = {{DNNL_ARG_SRC, p->x}, {DNNL_ARG_DST, p->y}};
    SS_DNNL_TRY(ss_dnnl_pool_fwd(&p->inference.pd, cpu->engine, dnnl_forward_inference, alg, p->x,
                                 p->y, win, cpu->attr));
    SS_TRY(ss_dnnl_op_make(cpu, &p->inference, in_out, 2));
    SS_TRY(ss_cpu_reserve(cpu, p->inference.scratch_bytes));
    if (!p->training)
        return SS_OK;

    SS_DNNL_TRY(ss_dnnl_pool_fwd(&p->forward.pd, cpu->engine, dnnl_forward_training, alg, p->x,
                                 p->y, win, cpu->attr));
    ss_md_in ws = NULL;
    if (alg == dnnl_pooling_max) {
        ws = dnnl_primitive_desc_query_md(p->forward.pd, dnnl_query_workspace_md, 0);
        p->workspace_bytes = dnnl_memory_desc_get_size(ws);
    }
    const struct ss_dnnl_operand fwd[] = {
        {DNNL_ARG_SRC, p->x}, {DNNL_ARG_DST, p->y}, {DNNL_ARG_WORKSPACE, ws}};
    SS_TRY(ss_dnnl_op_make(cpu, &p->forward, fwd, 3));
    SS_TRY(ss_cpu_reserve(cpu, p->forward.scratch_bytes));

    SS_DNNL_TRY(ss_dnnl_pool_bwd(&p->backward.pd, cpu->engine, alg, p->x, p->y, win, p->forward.pd,
                                 cpu->attr));
    const struct ss_dnnl_operand bwd[] = {
        {DNNL_ARG_DIFF_DST, p->y}, {DNNL_ARG_DIFF_SRC, p->x}, {DNNL_ARG_WORKSPACE, ws}};
    SS_TRY(ss_dnnl_op_make(cpu, &p->backward, bwd, 3));
    return ss_cpu_reserve(cpu, p->backward.scratch_bytes);
}

enum ss_status ss_pool_cpu_create(struct ss_cpu *cpu, enum ss_pool_kind kind,
                                  const struct ss_act *x, int kernel, int stride, int pad,
                                  int training, struct ss_pool_cpu **out)
{
    struct ss_act y;
    SS_TRY(output_shape(x, kernel, stride, pad, &y));
    struct ss_pool_cpu *p = calloc(1, sizeof(*p));
    if (!p)
        return ss_fail_memory("pooling", sizeof(*p));
    p->cpu = cpu;
    p->training = training;
    ss_cpu_enter(cpu);
    const struct ss_dnnl_window win = {kernel, kernel, stride, pad};
    enum ss_status status = ss_act_md(x, 0, &p->x);
    if (status == SS_OK)
        status = ss_act_md(&y, 0, &p->y);
    if (status == SS_OK)
        status = make(p, kind == SS_POOL_MAX ? dnnl_pooling_max : dnnl_pooling_avg_include_padding,
                      &win);
    if (status != SS_OK) {
        ss_pool_cpu_destroy(p);
        return status;
    }
    *out = p;
    return SS_OK;
}

void ss_pool_cpu_destroy(struct ss_pool_cpu *p)
{
    if (!p)
        return;
    ss_dnnl_op_destroy(&p->inference);
    ss_dnnl_op_destroy(&p->forward);
    ss_dnnl_op_destroy(&p->backward);
    ss_md_destroy(p->x);
    ss_md_destroy(p->y);
    free(p);
}

size_t ss_pool_cpu_workspace_bytes(const struct ss_pool_cpu *p)
{
    return p->workspace_bytes;
}

enum ss_status ss_pool_cpu_forward(struct ss_pool_cpu *p, const float *x, float *y, void *workspace)
{
    const void *const pointers[] = {x, y, workspace};
    int keep = p->training && (workspace || p->workspace_bytes == 0);
    return ss_dnnl_op_run(p->cpu, keep ? &p->forward : &p->inference, pointers,
                          ss_cpu_scratch(p->cpu));
}

enum ss_status ss_pool_cpu_backward(struct ss_pool_cpu *p, const float *dy, const void *workspace,
                                    float *dx)
{
    if (!p->training)
        return ss_fail(SS_ERR_INVALID, "pooling: backward pass, but it was made without training");
    if (p->workspace_bytes > 0 && !workspace)
        return ss_fail(SS_ERR_INVALID, "max pooling: backward pass without its workspace");
    const void *const pointers[] = {dy, dx, workspace};
    return ss_dnnl_op_run(p->cpu, &p->backward, pointers, ss_cpu_scratch(p->cpu));
}
