/* cublaslt.cpp: the cuBLASLt calls used for matrix products, on the host emulation.
 *
 * A product is computed by fp32 additions in order of k. The checks are stricter than the
 * library's, because a GPU would return wrong numbers: descriptors are alive; an algorithm is
 * used only for the product, the alignments and the device that it was chosen for; all memory is
 * device memory; D overlaps no input. An algorithm requests a workspace where a GPU would split a
 * long sum; it is overwritten before the product begins.
 *
 * If SS_HOSTGPU_NO_BIAS_EPILOGUE is set, no algorithm adds a bias. */
#include "hostgpu/hostgpu.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mutex>
#include <set>
#include <vector>

struct cublasLtContext {
    int device;
};

namespace
{

struct layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
    int32_t batch;
    int64_t stride;
};

struct description {
    cublasComputeType_t compute;
    cublasOperation_t op_a, op_b;
    cublasLtEpilogue_t epilogue;
    int32_t bias_type;
    const void *bias;
};

struct preference {
    uint64_t workspace;
    uint32_t reduction;
    uint32_t alignment[4]; /* A, B, C, D */
};

/* Content of a cublasLtMatmulAlgo_t. */
struct algorithm {
    uint64_t magic, problem, workspace;
    uint32_t alignment[4];
    uint32_t bias_alignment;
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "algorithm is too large");
const uint64_t MAGIC = 0x6c742d616c676fULL;

/* Objects created and not yet destroyed. */
std::mutex lock;
std::set<const void *> alive;

template <typename T> T *created(T *object)
{
    std::lock_guard<std::mutex> guard(lock);
    alive.insert(object);
    return object;
}

template <typename T> T *check(const void *object, const char *what)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!alive.count(object))
        hostgpu::die("cuBLASLt: %p is not a %s, or was destroyed", object, what);
    return static_cast<T *>(const_cast<void *>(object));
}

template <typename T> cublasStatus_t destroyed(const void *object, const char *what)
{
    T *p = check<T>(object, what);
    {
        std::lock_guard<std::mutex> guard(lock);
        alive.erase(object);
    }
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> cublasStatus_t assign(T *to, const void *from, size_t bytes)
{
    if (!from || bytes != sizeof(T))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

size_t type_bytes(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

bool known_type(cudaDataType type)
{
    return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

size_t layout_bytes(const layout &l)
{
    return (static_cast<size_t>(l.batch - 1) * static_cast<size_t>(l.stride) +
            (l.cols - 1) * static_cast<size_t>(l.ld) + l.rows) *
           type_bytes(l.type);
}

float load(const void *base, cudaDataType type, size_t i)
{
    if (type == CUDA_R_16F)
        return __half2float(static_cast<const __half *>(base)[i]);
    if (type == CUDA_R_16BF)
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(base)[i]);
    return static_cast<const float *>(base)[i];
}

void store(void *base, cudaDataType type, size_t i, float value)
{
    if (type == CUDA_R_16F)
        static_cast<__half *>(base)[i] = __float2half_rn(value);
    else if (type == CUDA_R_16BF)
        static_cast<__nv_bfloat16 *>(base)[i] = __float2bfloat16_rn(value);
    else
        static_cast<float *>(base)[i] = value;
}

/* Rounds to the nearest number with 10 fraction bits. NaN and infinity are unchanged. */
float round_tf32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((u & 0x7F800000) != 0x7F800000)
        u = (u + 0xFFF + (u >> 13 & 1)) & ~0x1FFFU;
    memcpy(&x, &u, sizeof x);
    return x;
}

struct product {
    description desc;
    layout a, b, c, d;
    uint64_t m, n, k;
};

/* Checks that the shapes fit and that the types are a row of the library's table. */
cublasStatus_t make_product(const description &desc, const layout &a, const layout &b,
                            const layout &c, const layout &d, product *out)
{
    const uint64_t m = desc.op_a == CUBLAS_OP_N ? a.rows : a.cols;
    const uint64_t k = desc.op_a == CUBLAS_OP_N ? a.cols : a.rows;
    const uint64_t bk = desc.op_b == CUBLAS_OP_N ? b.rows : b.cols;
    const uint64_t n = desc.op_b == CUBLAS_OP_N ? b.cols : b.rows;
    if (a.batch != b.batch || a.batch != c.batch || a.batch != d.batch || k != bk || d.rows != m ||
        d.cols != n || c.rows != m || c.cols != n || c.type != d.type)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (a.type != b.type || (d.type != a.type && d.type != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS &&
        ((desc.bias_type != -1 && desc.bias_type != static_cast<int32_t>(d.type)) ||
         getenv("SS_HOSTGPU_NO_BIAS_EPILOGUE")))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = {desc, a, b, c, d, m, n, k};
    return CUBLAS_STATUS_SUCCESS;
}

/* Hash of everything that an algorithm depends on. The bias pointer may change. */
uint64_t signature(const product &p)
{
    const uint64_t values[] = {static_cast<uint64_t>(p.desc.compute),
                               static_cast<uint64_t>(p.desc.op_a),
                               static_cast<uint64_t>(p.desc.op_b),
                               static_cast<uint64_t>(p.desc.epilogue),
                               static_cast<uint64_t>(p.a.type),
                               static_cast<uint64_t>(p.d.type),
                               static_cast<uint64_t>(p.a.ld),
                               static_cast<uint64_t>(p.b.ld),
                               static_cast<uint64_t>(p.c.ld),
                               static_cast<uint64_t>(p.d.ld),
                               static_cast<uint64_t>(p.a.batch),
                               static_cast<uint64_t>(p.a.stride),
                               static_cast<uint64_t>(p.b.stride),
                               static_cast<uint64_t>(p.c.stride),
                               static_cast<uint64_t>(p.d.stride),
                               p.m,
                               p.n,
                               p.k};
    uint64_t hash = 0xcbf29ce484222325ULL; /* FNV-1a over 64-bit words */
    for (uint64_t v : values)
        hash = (hash ^ v) * 0x100000001b3ULL;
    return hash;
}

uint32_t alignment_of(const void *p)
{
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    return a == 0 ? 256 : static_cast<uint32_t>(std::min<uintptr_t>(a & (~a + 1), 256));
}

void check_operand(const char *name, const void *p, const layout &l, uint32_t alignment)
{
    if (!hostgpu::is_device_memory(p, layout_bytes(l)))
        hostgpu::die("cublasLtMatmul: %s at %p, %zu bytes, is not device memory", name, p,
                     layout_bytes(l));
    if (alignment_of(p) < alignment)
        hostgpu::die("cublasLtMatmul: %s at %p; the algorithm was chosen for addresses that are "
                     "multiples of %u",
                     name, p, alignment);
}

void check_apart(const char *name, const void *p, size_t bytes, const void *d, size_t d_bytes)
{
    const char *x = static_cast<const char *>(p), *y = static_cast<const char *>(d);
    if (x < y + d_bytes && y < x + bytes)
        hostgpu::die("cublasLtMatmul: D overlaps %s", name);
}

/* Returns op(X) as fp32 (rows,cols), column-major and packed. */
std::vector<float> unpack(const void *data, const layout &l, bool transpose, bool tf32)
{
    std::vector<float> out(l.rows * l.cols);
    for (uint64_t j = 0; j < l.cols; j++)
        for (uint64_t i = 0; i < l.rows; i++) {
            const float v = load(data, l.type, j * static_cast<uint64_t>(l.ld) + i);
            out[transpose ? i * l.cols + j : j * l.rows + i] = tf32 ? round_tf32(v) : v;
        }
    return out;
}

void multiply(const product &p, float alpha, float beta, const void *a, const void *b,
              const void *c, void *d)
{
    const bool tf32 = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    const std::vector<float> x = unpack(a, p.a, p.desc.op_a == CUBLAS_OP_T, tf32);
    const std::vector<float> y = unpack(b, p.b, p.desc.op_b == CUBLAS_OP_T, tf32);
    std::vector<float> column(p.m);
    for (uint64_t j = 0; j < p.n; j++) {
        std::fill(column.begin(), column.end(), 0.0f);
        for (uint64_t k = 0; k < p.k; k++) {
            const float factor = y[j * p.k + k];
            const float *from = &x[k * p.m];
            for (uint64_t i = 0; i < p.m; i++)
                column[i] += from[i] * factor;
        }
        for (uint64_t i = 0; i < p.m; i++) {
            float value = alpha * column[i];
            if (beta != 0)
                value += beta * load(c, p.c.type, j * static_cast<uint64_t>(p.c.ld) + i);
            if (p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
                value += load(p.desc.bias, p.d.type, i);
            store(d, p.d.type, j * static_cast<uint64_t>(p.d.ld) + i, value);
        }
    }
}

const void *matrix_of(const void *data, const layout &l, int32_t i)
{
    return static_cast<const char *>(data) +
           i * l.stride * static_cast<int64_t>(type_bytes(l.type));
}

description *desc_of(cublasLtMatmulDesc_t p)
{
    return check<description>(p, "product descriptor");
}
layout *layout_of(cublasLtMatrixLayout_t p)
{
    return check<layout>(p, "matrix layout");
}
preference *preference_of(cublasLtMatmulPreference_t p)
{
    return check<preference>(p, "preference");
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = created(new cublasLtContext{hostgpu::current_device()});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroyed<cublasLtContext>(handle, "handle");
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    if (!known_type(type) || rows == 0 || cols == 0 || ld < static_cast<int64_t>(rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    *out =
        reinterpret_cast<cublasLtMatrixLayout_t>(created(new layout{type, rows, cols, ld, 1, 0}));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t p,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *buf, size_t bytes)
{
    layout *l = layout_of(p);
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return assign(&l->batch, buf, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return assign(&l->stride, buf, bytes);
    default:
        hostgpu::die("cuBLASLt: layout attribute %d is not emulated", attribute);
    }
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t p)
{
    return destroyed<layout>(p, "matrix layout");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
        scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = reinterpret_cast<cublasLtMatmulDesc_t>(created(new description{
        compute, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, -1, nullptr}));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t p)
{
    return destroyed<description>(p, "product descriptor");
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *buf, size_t bytes)
{
    description *d = desc_of(p);
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return assign(&d->op_a, buf, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return assign(&d->op_b, buf, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return assign(&d->epilogue, buf, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return assign(&d->bias_type, buf, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return assign(&d->bias, buf, bytes);
    default:
        hostgpu::die("cuBLASLt: product attribute %d is not emulated", attribute);
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = reinterpret_cast<cublasLtMatmulPreference_t>(
        created(new preference{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}}));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return destroyed<preference>(p, "preference");
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *buf, size_t bytes)
{
    preference *pref = preference_of(p);
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return assign(&pref->workspace, buf, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return assign(&pref->reduction, buf, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return assign(&pref->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], buf,
                      bytes);
    default:
        hostgpu::die("cuBLASLt: preference %d is not emulated", attribute);
    }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int *count)
{
    check<cublasLtContext>(handle, "handle");
    const preference *wish = preference_of(pref);
    product p;
    if (requested < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    const cublasStatus_t status = make_product(*desc_of(desc), *layout_of(a), *layout_of(b),
                                               *layout_of(c), *layout_of(d), &p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    algorithm chosen = {MAGIC, signature(p), 0, {}, 0};
    memcpy(chosen.alignment, wish->alignment, sizeof chosen.alignment);
    if (p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
        chosen.bias_alignment = alignment_of(p.desc.bias);
    const uint64_t partial = p.m * p.n * static_cast<uint64_t>(p.d.batch) * sizeof(float) * 2;
    if (p.k >= 16 && (wish->reduction & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) &&
        partial <= wish->workspace)
        chosen.workspace = partial;
    memset(&results[0], 0, sizeof results[0]);
    memcpy(&results[0].algo, &chosen, sizeof chosen);
    results[0].workspaceSize = chosen.workspace;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    const int device = check<cublasLtContext>(handle, "handle")->device;
    product p;
    const cublasStatus_t status =
        make_product(*desc_of(desc), *layout_of(a_layout), *layout_of(b_layout),
                     *layout_of(c_layout), *layout_of(d_layout), &p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (hostgpu::current_device() != device || hostgpu::stream_device(stream) != device)
        hostgpu::die("cublasLtMatmul: handle of device %d, stream of %d, current device %d", device,
                     hostgpu::stream_device(stream), hostgpu::current_device());
    algorithm chosen;
    memcpy(&chosen, algo, sizeof chosen);
    if (chosen.magic != MAGIC || chosen.problem != signature(p))
        hostgpu::die("cublasLtMatmul: the algorithm was chosen for another product");
    if (workspace_bytes < chosen.workspace)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!hostgpu::is_device_memory(workspace, workspace_bytes) || alignment_of(workspace) < 256)
        hostgpu::die("cublasLtMatmul: workspace at %p, %zu bytes, is not 256-byte aligned device "
                     "memory",
                     workspace, workspace_bytes);
    check_operand("A", a, p.a, chosen.alignment[0]);
    check_operand("B", b, p.b, chosen.alignment[1]);
    check_operand("C", c, p.c, chosen.alignment[2]);
    check_operand("D", d, p.d, chosen.alignment[3]);
    const size_t d_bytes = layout_bytes(p.d), bias_bytes = p.m * type_bytes(p.d.type);
    check_apart("A", a, layout_bytes(p.a), d, d_bytes);
    check_apart("B", b, layout_bytes(p.b), d, d_bytes);
    check_apart("the workspace", workspace, workspace_bytes, d, d_bytes);
    if (c != d)
        check_apart("C", c, layout_bytes(p.c), d, d_bytes);
    if (p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS) {
        check_operand("the bias", p.desc.bias, {p.d.type, p.m, 1, static_cast<int64_t>(p.m), 1, 0},
                      chosen.bias_alignment);
        check_apart("the bias", p.desc.bias, bias_bytes, d, d_bytes);
    }
    const float scale = *static_cast<const float *>(alpha);
    const float keep = *static_cast<const float *>(beta);
    const cudaError_t error = hostgpu::enqueue_work(stream, "cublasLtMatmul", [=] {
        if (workspace_bytes > 0)
            memset(workspace, 0xFF, workspace_bytes);
        for (int32_t i = 0; i < p.d.batch; i++)
            multiply(p, scale, keep, matrix_of(a, p.a, i), matrix_of(b, p.b, i),
                     matrix_of(c, p.c, i), const_cast<void *>(matrix_of(d, p.d, i)));
    });
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
