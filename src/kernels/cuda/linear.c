/* linear.c: three matrix products by cuBLASLt, each D = op(A) op(B) on column-major matrices.
 *
 * A row-major matrix (R,S) is a column-major matrix (S,R) with leading dimension S, its
 * transpose. So with F = H*W*C features, all operands are used in place, without layout
 * conversion:
 *   forward           y^T  (K,N) = W   (K,F) * x^T  (F,N)     A = weight transposed, B = x
 *   backward data     dx^T (F,N) = W^T (F,K) * dy^T (K,N)     A = weight, B = dy
 *   backward weights  dW^T (F,K) = x^T (F,N) * dy   (N,K)     A = x, B = dy transposed
 * The bias runs along the rows of D = y^T, where the epilogue adds it. cuBLASLt requires it in
 * y's format, so for 2-byte formats it is first rounded into the scratch, as PyTorch's autocast
 * does. dW is written as fp32 directly from the accumulators. */
#include "kernels/cuda/matmul.h"

#include <stdint.h>
#include <stdlib.h>

enum {
    ALIGNMENT = 16,         /* of every pointer argument */
    SCRATCH_ALIGNMENT = 256 /* of workspaces, required by cuBLASLt */
};

struct ss_linear_kernel {
    struct ss_device *gpu;
    struct ss_act x, y; /* y as an activation (N,K,1,1) */
    int bias, training, features;
    int epilogue;      /* 1: forward adds the bias; 0: a separate kernel does */
    size_t bias_bytes; /* of the rounded bias, at the start of the scratch; 0: none */
    struct ss_matmul forward, backward_data, backward_weights;
};

/* op(A) is (m,k), op(B) (k,n), D (m,n); all packed. */
static enum ss_status describe(struct ss_linear_kernel *l, struct ss_matmul *p, int m, int n, int k,
                               int transpose_a, int transpose_b, cudaDataType_t d_type)
{
    const struct ss_matmul_shape shape = {.m = m,
                                          .n = n,
                                          .k = k,
                                          .transpose_a = transpose_a,
                                          .transpose_b = transpose_b,
                                          .lda = transpose_a ? k : m,
                                          .ldb = transpose_b ? n : k,
                                          .ldd = m,
                                          .d_type = d_type,
                                          .batch = 1,
                                          .alignment = ALIGNMENT};
    return ss_matmul_describe(l->gpu, p, &shape);
}

static enum ss_status choose_or_fail(struct ss_linear_kernel *l, struct ss_matmul *p,
                                     const char *what)
{
    int found = 0;
    SS_TRY(ss_matmul_choose(l->gpu, p, &found));
    if (!found)
        return ss_fail(SS_ERR_LIBRARY,
                       "cuBLASLt has no algorithm for a linear layer's %s, %d x %d -> %d in %s",
                       what, l->x.n, l->features, l->y.c, ss_dtype_name(l->gpu->options.dtype));
    return SS_OK;
}

static enum ss_status set_epilogue(struct ss_matmul *p, cublasLtEpilogue_t epilogue,
                                   const void *bias)
{
    SS_TRY(ss_matmul_set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return ss_matmul_set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

/* Describes the forward product, with the bias in the epilogue if supported. */
static enum ss_status make_forward(struct ss_linear_kernel *l)
{
    struct ss_matmul *p = &l->forward;
    const cudaDataType_t type = ss_cuda_data_type(l->gpu->options.dtype);
    const int32_t bias_type = (int32_t)type;
    /* Only its alignment matters until the product runs. */
    const void *const some_bias = (const void *)(uintptr_t)ALIGNMENT;
    SS_TRY(describe(l, p, l->y.c, l->x.n, l->features, 1, 0, type));
    if (!l->bias)
        return choose_or_fail(l, p, "forward pass");
    SS_TRY(ss_matmul_set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type));
    SS_TRY(set_epilogue(p, CUBLASLT_EPILOGUE_BIAS, some_bias));
    SS_TRY(ss_matmul_choose(l->gpu, p, &l->epilogue));
    if (!l->epilogue) {
        SS_TRY(set_epilogue(p, CUBLASLT_EPILOGUE_DEFAULT, NULL));
        return choose_or_fail(l, p, "forward pass");
    }
    if (l->gpu->options.dtype != SS_DTYPE_F32)
        l->bias_bytes =
            ((size_t)l->y.c * ss_dtype_bytes(l->gpu->options.dtype) + SCRATCH_ALIGNMENT - 1) /
            SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    return SS_OK;
}

static enum ss_status make(struct ss_linear_kernel *l)
{
    SS_TRY(make_forward(l));
    SS_TRY(ss_cuda_reserve(l->gpu, l->bias_bytes + l->forward.workspace_bytes));
    if (!l->training)
        return SS_OK;
    SS_TRY(describe(l, &l->backward_data, l->features, l->x.n, l->y.c, 0, 0,
                    ss_cuda_data_type(l->gpu->options.dtype)));
    SS_TRY(choose_or_fail(l, &l->backward_data, "backward pass"));
    SS_TRY(describe(l, &l->backward_weights, l->features, l->y.c, l->x.n, 0, 1, CUDA_R_32F));
    SS_TRY(choose_or_fail(l, &l->backward_weights, "gradient"));
    SS_TRY(ss_cuda_reserve(l->gpu, l->backward_data.workspace_bytes));
    SS_TRY(ss_cuda_reserve(l->gpu, l->backward_weights.workspace_bytes));
    return l->bias ? ss_cuda_bias_reserve(l->gpu, &l->y) : SS_OK;
}

static enum ss_status check_shape(const struct ss_act *x, int outputs)
{
    if (x->n < 1 || x->c < 1 || x->h < 1 || x->w < 1 || x->block != x->c)
        return ss_fail(SS_ERR_SHAPE,
                       "linear layer's input: shape (%d,%d,%d,%d) in blocks of %d channels; sizes "
                       "are at least 1 and the block is all channels",
                       x->n, x->c, x->h, x->w, x->block);
    if ((int64_t)x->c * x->h > INT32_MAX / x->w)
        return ss_fail(SS_ERR_SHAPE, "linear layer's input: (%d,%d,%d) are too many features", x->c,
                       x->h, x->w);
    if (outputs < 1)
        return ss_fail(SS_ERR_SHAPE, "linear layer: %d outputs; at least 1 is required", outputs);
    return SS_OK;
}

enum ss_status ss_cuda_linear_create(struct ss_device *gpu, const struct ss_act *x, int outputs,
                                     int bias, int training, struct ss_linear_kernel **out)
{
    SS_TRY(check_shape(x, outputs));
    struct ss_linear_kernel *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("linear layer", sizeof *l);
    l->gpu = gpu;
    l->x = *x;
    l->y = (struct ss_act){.n = x->n, .c = outputs, .h = 1, .w = 1, .block = outputs};
    l->features = x->c * x->h * x->w;
    l->bias = bias;
    l->training = training;
    enum ss_status status = make(l);
    if (status != SS_OK) {
        ss_cuda_linear_destroy(l);
        return status;
    }
    *out = l;
    return SS_OK;
}

void ss_cuda_linear_destroy(struct ss_linear_kernel *l)
{
    if (!l)
        return;
    ss_matmul_destroy(&l->forward);
    ss_matmul_destroy(&l->backward_data);
    ss_matmul_destroy(&l->backward_weights);
    free(l);
}

size_t ss_cuda_linear_weight_bytes(const struct ss_linear_kernel *l)
{
    return (size_t)l->y.c * (size_t)l->features * sizeof(float);
}

/* Returns the plain column (c,h,w) of the weight's column `native` = (h,w,c). */
static size_t plain_column(const struct ss_linear_kernel *l, size_t native)
{
    const size_t c = (size_t)l->x.c, pixels = (size_t)l->x.h * (size_t)l->x.w;
    return native % c * pixels + native / c;
}

enum ss_status ss_cuda_linear_import(struct ss_linear_kernel *l, const float *plain, float *native)
{
    const size_t features = (size_t)l->features;
    for (size_t k = 0; k < (size_t)l->y.c; k++)
        for (size_t i = 0; i < features; i++)
            native[k * features + i] = plain[k * features + plain_column(l, i)];
    return SS_OK;
}

enum ss_status ss_cuda_linear_export(struct ss_linear_kernel *l, const float *native, float *plain)
{
    const size_t features = (size_t)l->features;
    for (size_t k = 0; k < (size_t)l->y.c; k++)
        for (size_t i = 0; i < features; i++)
            plain[k * features + plain_column(l, i)] = native[k * features + i];
    return SS_OK;
}

/* The algorithm was chosen for this alignment; the error of a misaligned access would appear much
 * later. */
static enum ss_status check_alignment(const void *a, const void *b, const void *d)
{
    if (((uintptr_t)a | (uintptr_t)b | (uintptr_t)d) % ALIGNMENT)
        return ss_fail(SS_ERR_INVALID,
                       "linear layer: operands at %p, %p, %p; addresses must be multiples of %d", a,
                       b, d, ALIGNMENT);
    return SS_OK;
}

static enum ss_status run(struct ss_linear_kernel *l, const struct ss_matmul *p, const void *a,
                          const void *b, void *d)
{
    char *workspace = (char *)ss_cuda_scratch(l->gpu) + (p == &l->forward ? l->bias_bytes : 0);
    SS_TRY(check_alignment(a, b, d));
    return ss_matmul_run(l->gpu, p, a, b, d, workspace);
}

enum ss_status ss_cuda_linear_forward(struct ss_linear_kernel *l, const void *x, const void *weight,
                                      const float *bias, void *y)
{
    SS_TRY(ss_bias_check("linear layer", l->bias, bias));
    if (!l->epilogue) {
        SS_TRY(run(l, &l->forward, weight, x, y));
        return bias ? ss_cuda_bias_forward(l->gpu, &l->y, y, bias) : SS_OK;
    }
    const void *added = bias;
    if (l->bias_bytes) {
        added = ss_cuda_scratch(l->gpu);
        SS_TRY(ss_cuda_cast(l->gpu, bias, ss_cuda_scratch(l->gpu), (size_t)l->y.c));
    }
    SS_TRY(check_alignment(added, NULL, NULL));
    SS_TRY(ss_matmul_set(&l->forward, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &added, sizeof added));
    return run(l, &l->forward, weight, x, y);
}

static enum ss_status check_training(const struct ss_linear_kernel *l)
{
    if (!l->training)
        return ss_fail(SS_ERR_INVALID,
                       "linear layer: backward pass, but it was made without training");
    return SS_OK;
}

enum ss_status ss_cuda_linear_backward_data(struct ss_linear_kernel *l, const void *dy,
                                            const void *weight, void *dx)
{
    SS_TRY(check_training(l));
    return run(l, &l->backward_data, weight, dy, dx);
}

enum ss_status ss_cuda_linear_backward_weights(struct ss_linear_kernel *l, const void *x,
                                               const void *dy, float *dweight, float *dbias)
{
    SS_TRY(check_training(l));
    SS_TRY(ss_bias_check("linear layer", l->bias, dbias));
    SS_TRY(run(l, &l->backward_weights, x, dy, dweight));
    if (l->gpu->scaler)
        SS_TRY(ss_cuda_scaler_check(l->gpu, (size_t)l->y.c * (size_t)l->features, dweight,
                                    l->gpu->scaler));
    return dbias ? ss_cuda_bias_backward(l->gpu, &l->y, dy, dbias) : SS_OK;
}
