/* pool.c: pooling is oneDNN's. */
#include "kernels/cpu/dnnl_op.h"

#include <stdlib.h>

struct ss_pool_kernel {
    struct ss_device *cpu;
    int training;
    ss_md x, y;
    /* Max pooling without a workspace is another primitive. */
    struct ss_dnnl_op inference, forward, backward;
    size_t workspace_bytes;
};

static enum ss_status check_shape(const struct ss_pool_shape *s)
{
    const struct ss_act *x = &s->x, *y = &s->y;
    const int kernel = s->kernel, stride = s->stride, pad = s->pad;
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
    if (y->n != x->n || y->c != x->c || y->block != x->block ||
        y->h != (x->h + 2 * pad - kernel) / stride + 1 ||
        y->w != (x->w + 2 * pad - kernel) / stride + 1)
        return ss_fail(SS_ERR_SHAPE,
                       "pooling: kernel %d, stride %d, padding %d make no (%d,%d,%d,%d) of "
                       "(%d,%d,%d,%d)",
                       kernel, stride, pad, y->n, y->c, y->h, y->w, x->n, x->c, x->h, x->w);
    return SS_OK;
}

static enum ss_status make(struct ss_pool_kernel *p, dnnl_alg_kind_t alg,
                           const struct ss_dnnl_window *win)
{
    struct ss_device *cpu = p->cpu;
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

enum ss_status ss_cpu_pool_create(struct ss_device *cpu, const struct ss_pool_shape *shape,
                                  int training, struct ss_pool_kernel **out)
{
    SS_TRY(check_shape(shape));
    struct ss_pool_kernel *p = calloc(1, sizeof *p);
    if (!p)
        return ss_fail_memory("pooling", sizeof *p);
    p->cpu = cpu;
    p->training = training;
    ss_cpu_enter(cpu);
    const struct ss_dnnl_window win = {.kernel = {shape->kernel, shape->kernel},
                                       .stride = {shape->stride, shape->stride},
                                       .padding = {shape->pad, shape->pad},
                                       .dilation = {1, 1}};
    enum ss_status status = ss_act_md(&shape->x, 0, &p->x);
    if (status == SS_OK)
        status = ss_act_md(&shape->y, 0, &p->y);
    if (status == SS_OK)
        status = make(
            p, shape->kind == SS_POOL_MAX ? dnnl_pooling_max : dnnl_pooling_avg_include_padding,
            &win);
    if (status != SS_OK) {
        ss_cpu_pool_destroy(p);
        return status;
    }
    *out = p;
    return SS_OK;
}

void ss_cpu_pool_destroy(struct ss_pool_kernel *p)
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

size_t ss_cpu_pool_workspace_bytes(const struct ss_pool_kernel *p)
{
    return p->workspace_bytes;
}

enum ss_status ss_cpu_pool_forward(struct ss_pool_kernel *p, const void *x, void *y,
                                   void *workspace)
{
    const void *const pointers[] = {x, y, workspace};
    int keep = p->training && (workspace || p->workspace_bytes == 0);
    return ss_dnnl_op_run(p->cpu, keep ? &p->forward : &p->inference, pointers,
                          ss_cpu_scratch(p->cpu));
}

enum ss_status ss_cpu_pool_backward(struct ss_pool_kernel *p, const void *dy, const void *workspace,
                                    void *dx)
{
    if (!p->training)
        return ss_fail(SS_ERR_INVALID, "pooling: backward pass, but it was made without training");
    if (p->workspace_bytes > 0 && !workspace)
        return ss_fail(SS_ERR_INVALID, "max pooling: backward pass without its workspace");
    const void *const pointers[] = {dy, dx, workspace};
    return ss_dnnl_op_run(p->cpu, &p->backward, pointers, ss_cpu_scratch(p->cpu));
}
