/* matmul.c: see matmul.h. */
#include "kernels/cuda/matmul.h"

#include <string.h>

enum { MAX_WORKSPACE = 32 << 20 /* as NVIDIA recommends for Hopper */ };

cudaDataType_t ss_cuda_data_type(enum ss_dtype dtype)
{
    return dtype == SS_DTYPE_F16 ? CUDA_R_16F : dtype == SS_DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

enum ss_status ss_matmul_set(struct ss_matmul *p, cublasLtMatmulDescAttributes_t attribute,
                             const void *value, size_t bytes)
{
    SS_CUBLASLT_TRY(cublasLtMatmulDescSetAttribute(p->desc, attribute, value, bytes));
    return SS_OK;
}

static enum ss_status make_layout(cublasLtMatrixLayout_t *out, cudaDataType_t type, int rows,
                                  int cols, int64_t ld, int batch, int64_t stride)
{
    const int32_t count = batch;
    SS_CUBLASLT_TRY(cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)cols, ld));
    if (batch == 1)
        return SS_OK;
    SS_CUBLASLT_TRY(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                     &count, sizeof count));
    SS_CUBLASLT_TRY(cublasLtMatrixLayoutSetAttribute(
        *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return SS_OK;
}

enum ss_status ss_matmul_describe(struct ss_device *gpu, struct ss_matmul *p,
                                  const struct ss_matmul_shape *s)
{
    const struct ss_device_options *o = &gpu->options;
    const cudaDataType_t type = ss_cuda_data_type(o->dtype);
    const cublasOperation_t op_a = s->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                            op_b = s->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int tf32 = o->dtype == SS_DTYPE_F32 && o->tf32;
    p->alignment = s->alignment;
    SS_CUBLASLT_TRY(cublasLtMatmulDescCreate(
        &p->desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SS_TRY(ss_matmul_set(p, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
    SS_TRY(ss_matmul_set(p, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b));
    SS_TRY(make_layout(&p->a, type, s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k,
                       s->lda, s->batch, s->stride_a));
    SS_TRY(make_layout(&p->b, type, s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n,
                       s->ldb, s->batch, s->stride_b));
    return make_layout(&p->d, s->d_type, s->m, s->n, s->ldd, s->batch, s->stride_d);
}

static enum ss_status prefer(cublasLtMatmulPreference_t preference, uint32_t alignment)
{
    const uint64_t workspace = MAX_WORKSPACE;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    SS_CUBLASLT_TRY(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    SS_CUBLASLT_TRY(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction));
    for (size_t i = 0; i < sizeof aligned / sizeof aligned[0]; i++)
        SS_CUBLASLT_TRY(cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &alignment,
                                                             sizeof alignment));
    return SS_OK;
}

enum ss_status ss_matmul_choose(struct ss_device *gpu, struct ss_matmul *p, int *found)
{
    cublasLtMatmulPreference_t preference;
    SS_CUBLASLT_TRY(cublasLtMatmulPreferenceCreate(&preference));
    cublasLtMatmulHeuristicResult_t best;
    memset(&best, 0, sizeof best);
    cublasStatus_t answer = CUBLAS_STATUS_NOT_SUPPORTED;
    int count = 0;
    enum ss_status status = prefer(preference, p->alignment);
    if (status == SS_OK)
        answer = cublasLtMatmulAlgoGetHeuristic(gpu->cublaslt, p->desc, p->a, p->b, p->d, p->d,
                                                preference, 1, &best, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    SS_TRY(status);
    if (answer != CUBLAS_STATUS_NOT_SUPPORTED)
        SS_CUBLASLT_TRY(answer);
    *found = answer == CUBLAS_STATUS_SUCCESS && count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    p->algorithm = best.algo;
    p->workspace_bytes = best.workspaceSize;
    return SS_OK;
}

enum ss_status ss_matmul_run(struct ss_device *gpu, const struct ss_matmul *p, const void *a,
                             const void *b, void *d, void *workspace)
{
    const float one = 1, zero = 0;
    SS_CUBLASLT_TRY(cublasLtMatmul(gpu->cublaslt, p->desc, &one, a, p->a, b, p->b, &zero, d, p->d,
                                   d, p->d, &p->algorithm, workspace, p->workspace_bytes,
                                   gpu->stream));
    return SS_OK;
}

void ss_matmul_destroy(struct ss_matmul *p)
{
    const cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->d};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i])
            cublasLtMatrixLayoutDestroy(layouts[i]);
    if (p->desc)
        cublasLtMatmulDescDestroy(p->desc);
}
