/* attention.c: softmax(q k^T / sqrt(D)) v of each image and head (kernels/list.h): matrix
 * products by cuBLASLt, with softmax.cu between them.
 *
 * Heads are accessed in place: the rows of one head, in x (N,S,3E), are 3E elements apart. A
 * batch of products has one stride, so it covers heads or images, and a loop covers the smaller
 * of the two dimensions. The scratch holds the scores and probabilities of one batch. Between
 * passes only the logarithm of each row's sum is saved, and backward recomputes the probabilities
 * (formulas: cpu/attention.c). Scores are fp32 in every format; probabilities and gradients of
 * scores are rounded to the format for the products that read them.
 *
 * Row-major matrices as column-major ones: matmul.h. */
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/softmax.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    ALIGNMENT = 16,          /* of the tensors */
    SCRATCH_ALIGNMENT = 256, /* of workspaces, required by cuBLASLt */
    LD = 8                   /* rows of scores are padded to a multiple: 16 bytes in every format */
};

struct ss_attention_kernel {
    struct ss_device *gpu;
    struct ss_attention_shape shape;
    int training, s, d;
    int loop, batch;            /* the smaller of images and heads, and the other */
    size_t x_loop, y_loop;      /* elements between iterations of the loop, in x and in y */
    int64_t x_stride, y_stride; /* between elements of the batch */
    size_t saved_loop;          /* between iterations of the loop, in saved */
    struct ss_softmax_shape softmax;
    struct ss_matmul scores, y, dp, dv, dq, dk;
    size_t workspace_bytes, scores_bytes, p_bytes; /* scratch: [workspace | scores | p | dp | ds] */
};

static void arrange(struct ss_attention_kernel *a)
{
    const struct ss_attention_shape *shape = &a->shape;
    const size_t s = (size_t)a->s, e = (size_t)shape->y.c, d = (size_t)a->d;
    const int images = shape->x.n < shape->heads; /* loop over images */
    a->loop = images ? shape->x.n : shape->heads;
    a->batch = images ? shape->heads : shape->x.n;
    a->x_loop = images ? s * 3 * e : d;
    a->y_loop = images ? s * e : d;
    a->x_stride = (int64_t)(images ? d : s * 3 * e);
    a->y_stride = (int64_t)(images ? d : s * e);
    a->saved_loop = images ? (size_t)shape->heads * s : s;
    a->softmax = (struct ss_softmax_shape){
        .batch = a->batch,
        .places = a->s,
        .ld = (a->s + LD - 1) / LD * LD,
        .scale = 1 / sqrtf((float)a->d),
        .saved_stride = images ? s : (size_t)shape->heads * s,
    };
}

/* Location of a matrix of a product: in x, in y, or in the scores. */
enum matrix { IN_X, IN_Y, IN_SCORES };

static int64_t ld_of(const struct ss_attention_kernel *a, enum matrix which)
{
    const int64_t e = a->shape.y.c;
    return which == IN_X ? 3 * e : which == IN_Y ? e : a->softmax.ld;
}

static int64_t stride_of(const struct ss_attention_kernel *a, enum matrix which)
{
    return which == IN_X   ? a->x_stride
           : which == IN_Y ? a->y_stride
                           : (int64_t)a->s * a->softmax.ld;
}

static uint32_t alignment_of(const struct ss_attention_kernel *a)
{
    const uint32_t head = (uint32_t)a->d * (uint32_t)ss_dtype_bytes(a->gpu->options.dtype);
    const uint32_t power = head & (~head + 1);
    return power < ALIGNMENT ? power : ALIGNMENT;
}

/* Describes d (m,S) = op(a) op(b), column-major; k: the reduced dimension. */
static enum ss_status make(struct ss_attention_kernel *at, struct ss_matmul *p, int m, int k,
                           enum matrix a, int transpose_a, enum matrix b, int transpose_b,
                           enum matrix d)
{
    const struct ss_matmul_shape shape = {
        .m = m,
        .n = at->s,
        .k = k,
        .transpose_a = transpose_a,
        .transpose_b = transpose_b,
        .lda = ld_of(at, a),
        .ldb = ld_of(at, b),
        .ldd = ld_of(at, d),
        .d_type = d == IN_SCORES ? CUDA_R_32F : ss_cuda_data_type(at->gpu->options.dtype),
        .batch = at->batch,
        .stride_a = stride_of(at, a),
        .stride_b = stride_of(at, b),
        .stride_d = stride_of(at, d),
        .alignment = alignment_of(at),
    };
    int found = 0;
    SS_TRY(ss_matmul_describe(at->gpu, p, &shape));
    SS_TRY(ss_matmul_choose(at->gpu, p, &found));
    if (!found)
        return ss_fail(SS_ERR_LIBRARY,
                       "cuBLASLt has no algorithm for attention's product of %d x %d x %d in %s", m,
                       at->s, k, ss_dtype_name(at->gpu->options.dtype));
    if (p->workspace_bytes > at->workspace_bytes)
        at->workspace_bytes = p->workspace_bytes;
    return SS_OK;
}

static enum ss_status make_products(struct ss_attention_kernel *a)
{
    SS_TRY(make(a, &a->scores, a->s, a->d, IN_X, 1, IN_X, 0, IN_SCORES));
    SS_TRY(make(a, &a->y, a->d, a->s, IN_X, 0, IN_SCORES, 0, IN_Y));
    if (!a->training)
        return SS_OK;
    SS_TRY(make(a, &a->dp, a->s, a->d, IN_X, 1, IN_Y, 0, IN_SCORES));
    SS_TRY(make(a, &a->dv, a->d, a->s, IN_Y, 0, IN_SCORES, 1, IN_X));
    SS_TRY(make(a, &a->dq, a->d, a->s, IN_X, 0, IN_SCORES, 0, IN_X));
    return make(a, &a->dk, a->d, a->s, IN_X, 0, IN_SCORES, 1, IN_X);
}

static size_t up(size_t bytes)
{
    return (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
}

/* In fp32 the probabilities overwrite the scores. */
static enum ss_status reserve(struct ss_attention_kernel *a)
{
    const size_t count = (size_t)a->batch * (size_t)a->s * (size_t)a->softmax.ld;
    const size_t each = ss_dtype_bytes(a->gpu->options.dtype);
    a->workspace_bytes = up(a->workspace_bytes);
    a->scores_bytes = up(count * sizeof(float));
    a->p_bytes = each == sizeof(float) ? 0 : up(count * each);
    return ss_cuda_reserve(a->gpu, a->workspace_bytes +
                                       (a->training ? 2 : 1) * (a->scores_bytes + a->p_bytes));
}

static enum ss_status check(const struct ss_attention_shape *s)
{
    SS_TRY(ss_attention_check(s));
    if (s->x.n < 1 || s->y.c < 1 || s->x.h < 1 || s->x.w < 1 || s->x.block != s->x.c ||
        s->y.block != s->y.c || ss_act_elements(&s->x) >> 31)
        return ss_fail(
            SS_ERR_SHAPE,
            "attention: (%d,%d,%d,%d) -> (%d,%d,%d,%d) in blocks of %d and %d; sizes are at least "
            "1, blocks all channels, and elements fewer than 2^31",
            s->x.n, s->x.c, s->x.h, s->x.w, s->y.n, s->y.c, s->y.h, s->y.w, s->x.block, s->y.block);
    return SS_OK;
}

enum ss_status ss_cuda_attention_create(struct ss_device *gpu,
                                        const struct ss_attention_shape *shape, int training,
                                        struct ss_attention_kernel **out)
{
    SS_TRY(check(shape));
    struct ss_attention_kernel *a = calloc(1, sizeof *a);
    if (!a)
        return ss_fail_memory("attention", sizeof *a);
    a->gpu = gpu;
    a->shape = *shape;
    a->training = training;
    a->s = shape->x.h * shape->x.w;
    a->d = shape->y.c / shape->heads;
    arrange(a);
    enum ss_status status = make_products(a);
    if (status == SS_OK)
        status = reserve(a);
    if (status != SS_OK) {
        ss_cuda_attention_destroy(a);
        return status;
    }
    *out = a;
    return SS_OK;
}

void ss_cuda_attention_destroy(struct ss_attention_kernel *a)
{
    if (!a)
        return;
    struct ss_matmul *const made[] = {&a->scores, &a->y, &a->dp, &a->dv, &a->dq, &a->dk};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        ss_matmul_destroy(made[i]);
    free(a);
}

/* The scratch of a run. */
struct buffers {
    void *workspace, *p, *ds;
    float *scores, *dp;
};

static struct buffers buffers_of(const struct ss_attention_kernel *a)
{
    char *base = ss_cuda_scratch(a->gpu), *scores = base + a->workspace_bytes;
    char *dp = scores + a->scores_bytes + a->p_bytes;
    return (struct buffers){.workspace = base,
                            .scores = (float *)scores,
                            .p = a->p_bytes ? scores + a->scores_bytes : scores,
                            .dp = (float *)dp,
                            .ds = a->p_bytes ? dp + a->scores_bytes : dp};
}

/* Returns q, k or v (part 0, 1, 2), or their gradients, of iteration i of the loop. */
static char *in_x(const struct ss_attention_kernel *a, const void *x, int i, int part)
{
    return (char *)(uintptr_t)x + ((size_t)i * a->x_loop + (size_t)part * (size_t)a->shape.y.c) *
                                      ss_dtype_bytes(a->gpu->options.dtype);
}

static char *in_y(const struct ss_attention_kernel *a, const void *y, int i)
{
    return (char *)(uintptr_t)y + (size_t)i * a->y_loop * ss_dtype_bytes(a->gpu->options.dtype);
}

static enum ss_status check_alignment(const void *x, const void *y)
{
    if (((uintptr_t)x | (uintptr_t)y) % ALIGNMENT)
        return ss_fail(SS_ERR_INVALID,
                       "attention: tensors at %p, %p; addresses must be multiples of %d", x, y,
                       ALIGNMENT);
    return SS_OK;
}

enum ss_status ss_cuda_attention_forward(struct ss_attention_kernel *a, const void *x, float *saved,
                                         void *y)
{
    struct ss_device *gpu = a->gpu;
    const struct buffers r = buffers_of(a);
    SS_TRY(check_alignment(x, y));
    for (int i = 0; i < a->loop; i++) {
        SS_TRY(ss_matmul_run(gpu, &a->scores, in_x(a, x, i, 1), in_x(a, x, i, 0), r.scores,
                             r.workspace));
        SS_TRY(ss_cuda_softmax(gpu, &a->softmax, r.scores, r.p, saved + (size_t)i * a->saved_loop));
        SS_TRY(ss_matmul_run(gpu, &a->y, in_x(a, x, i, 2), r.p, in_y(a, y, i), r.workspace));
    }
    return SS_OK;
}

enum ss_status ss_cuda_attention_backward(struct ss_attention_kernel *a, const void *x,
                                          const void *dy, const float *saved, void *dx)
{
    struct ss_device *gpu = a->gpu;
    const struct buffers r = buffers_of(a);
    if (!a->training)
        return ss_fail(SS_ERR_INVALID,
                       "attention: backward pass, but it was made without training");
    SS_TRY(check_alignment(x, dy));
    SS_TRY(check_alignment(dx, NULL));
    for (int i = 0; i < a->loop; i++) {
        const void *q = in_x(a, x, i, 0), *k = in_x(a, x, i, 1), *v = in_x(a, x, i, 2);
        const void *dy_i = in_y(a, dy, i);
        SS_TRY(ss_matmul_run(gpu, &a->scores, k, q, r.scores, r.workspace));
        SS_TRY(ss_matmul_run(gpu, &a->dp, v, dy_i, r.dp, r.workspace));
        SS_TRY(ss_cuda_softmax_gradient(gpu, &a->softmax, r.scores, r.dp,
                                        saved + (size_t)i * a->saved_loop, r.p, r.ds));
        SS_TRY(ss_matmul_run(gpu, &a->dv, dy_i, r.p, in_x(a, dx, i, 2), r.workspace));
        SS_TRY(ss_matmul_run(gpu, &a->dq, k, r.ds, in_x(a, dx, i, 0), r.workspace));
        SS_TRY(ss_matmul_run(gpu, &a->dk, q, r.ds, in_x(a, dx, i, 1), r.workspace));
    }
    return SS_OK;
}
