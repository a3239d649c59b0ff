/* pool.c: pooling is oneDNN's, but for averages that it has not. */
#include "kernels/cpu/dnnl_op.h"

#include <stdlib.h>
#include <string.h>

struct ss_pool_kernel {
    struct ss_device *cpu;
    struct ss_pool_shape shape;
    int training;
    ss_md x, y;
    /* Max pooling without a workspace is another primitive. */
    struct ss_dnnl_op inference, forward, backward;
    size_t workspace_bytes;
};

static enum ss_status check_shape(const struct ss_pool_shape *s)
{
    const struct ss_act *x = &s->x, *y = &s->y;
    SS_TRY(ss_act_check(x, "pooling input"));
    if (ss_pool_follows(s))
        return SS_OK;
    return ss_fail(SS_ERR_SHAPE,
                   "pooling: kernel %dx%d, stride %dx%d, padding %dx%d (at most half the kernel) make "
                   "no (%d,%d,%d,%d) of (%d,%d,%d,%d)",
                   s->kernel[0], s->kernel[1], s->stride[0], s->stride[1], s->pad[0], s->pad[1],
                   y->n, y->c, y->h, y->w, x->n, x->c, x->h, x->w);
}

/* Averages that oneDNN has not: adaptive ones, and over padding that windows reach beyond. */
static int is_own(const struct ss_pool_shape *s)
{
    return s->kind == SS_POOL_ADAPTIVE ||
           (s->kind == SS_POOL_AVG && s->count_pad &&
            (ss_pool_beyond(s, 0) > 0 || ss_pool_beyond(s, 1) > 0));
}

/* The windows of a slice, one after the other: y from x, or with `back` x's gradient from y's. Each
 * element's sum has one order. */
static void own_slice(const struct ss_pool_shape *s, const float *from, float *to, int back)
{
    const size_t block = (size_t)s->x.block;
    memset(to, 0, (size_t)(back ? s->x.h * s->x.w : s->y.h * s->y.w) * block * sizeof *to);
    for (int p = 0; p < s->y.h; p++)
        for (int q = 0; q < s->y.w; q++) {
            int top, bottom, left, right;
            const int rows = ss_pool_window(s, 0, p, &top, &bottom),
                      columns = ss_pool_window(s, 1, q, &left, &right);
            const float share = 1 / ((float)rows * (float)columns);
            const size_t o = (size_t)(p * s->y.w + q) * block;
            for (int h = top; h < bottom; h++)
                for (int w = left; w < right; w++) {
                    const size_t i = (size_t)(h * s->x.w + w) * block;
                    const float *add = from + (back ? o : i);
                    float *sum = to + (back ? i : o);
#pragma omp simd
                    for (size_t c = 0; c < block; c++)
                        sum[c] += add[c] * share;
                }
        }
}

static void own_run(const struct ss_pool_kernel *pool, const float *from, float *to, int back)
{
    const struct ss_pool_shape *s = &pool->shape;
    const size_t x = (size_t)s->x.h * (size_t)s->x.w * (size_t)s->x.block,
                 y = (size_t)s->y.h * (size_t)s->y.w * (size_t)s->y.block;
    const size_t slices = (size_t)s->x.n * (size_t)ss_act_blocks(&s->x);
#pragma omp parallel for schedule(static) num_threads(pool->cpu->threads)
    for (size_t i = 0; i < slices; i++)
        own_slice(s, from + i * (back ? y : x), to + i * (back ? x : y), back);
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
    const struct ss_pool_shape s = ss_pool_simplest(*shape);
    SS_TRY(check_shape(&s));
    struct ss_pool_kernel *p = calloc(1, sizeof *p);
    if (!p)
        return ss_fail_memory("pooling", sizeof *p);
    p->cpu = cpu;
    p->training = training;
    p->shape = s;
    *out = p;
    if (is_own(&s))
        return SS_OK;
    ss_cpu_enter(cpu);
    struct ss_dnnl_window win = {.dilation = {1, 1}};
    for (int a = 0; a < 2; a++) {
        const int beyond = ss_pool_beyond(&s, a);
        win.kernel[a] = s.kernel[a];
        win.stride[a] = s.stride[a];
        win.padding[a] = s.pad[a];
        win.more[a] = beyond > 0 ? beyond : 0;
    }
    enum ss_status status = ss_act_md(&s.x, 0, &p->x);
    if (status == SS_OK)
        status = ss_act_md(&s.y, 0, &p->y);
    if (status == SS_OK)
        status = make(p,
                      s.kind == SS_POOL_MAX ? dnnl_pooling_max
                      : s.count_pad         ? dnnl_pooling_avg_include_padding
                                            : dnnl_pooling_avg_exclude_padding,
                      &win);
    if (status != SS_OK) {
        ss_cpu_pool_destroy(p);
        *out = NULL;
    }
    return status;
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
    if (is_own(&p->shape)) {
        own_run(p, x, y, 0);
        return SS_OK;
    }
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
    if (is_own(&p->shape)) {
        own_run(p, dy, dx, 1);
        return SS_OK;
    }
    const void *const pointers[] = {dy, dx, workspace};
    return ss_dnnl_op_run(p->cpu, &p->backward, pointers, ss_cpu_scratch(p->cpu));
}
