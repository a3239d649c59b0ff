/* cudnn.cpp: cuDNN's handle and its numbered convolution algorithms, on the host emulation.
 *
 * The rankings hold what a caller must cope with: algorithms that are nondeterministic, that do not
 * support the problem, that want a gigabyte, that come twice, and, where inputs are rounded
 * (Winograd for 2-byte formats, tensor cores for fp32), results that show it.
 *
 * SS_HOSTGPU_CUDNN_REFUSE=1 in the environment: the graph API supports nothing; 2: nor do these
 * algorithms. */
#include "hostgpu/cudnn_internal.h"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

/* NHWC; a filter's n, c, h, w are K, C, kh, kw. */
struct cudnnTensorStruct {
    bool set;
    cudnnDataType_t type;
    int n, c, h, w;
};
struct cudnnFilterStruct : cudnnTensorStruct {
};
struct cudnnConvolutionStruct {
    bool set;
    int pad_h, pad_w, stride_h, stride_w;
    cudnnMathType_t math;
};

namespace
{

using namespace hostgpu::dnn;

thread_local char last_error[256];

/* Objects that were created and not destroyed. */
std::mutex lock;
std::set<const void *> alive;

template <typename T> cudnnStatus_t create(T **out)
{
    T *object = new T();
    std::lock_guard<std::mutex> guard(lock);
    alive.insert(object);
    *out = object;
    return CUDNN_STATUS_SUCCESS;
}

void check_alive(const void *object, const char *what)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!alive.count(object))
        hostgpu::die("cuDNN: %p is no %s, or a destroyed one", object, what);
}

template <typename T> cudnnStatus_t destroy(T *object, const char *what)
{
    check_alive(object, what);
    {
        std::lock_guard<std::mutex> guard(lock);
        alive.erase(object);
    }
    delete object;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_tensor(cudnnTensorStruct *d, cudnnTensorFormat_t format, cudnnDataType_t type,
                         int n, int c, int h, int w)
{
    if (n < 1 || c < 1 || h < 1 || w < 1)
        return fail(CUDNN_STATUS_BAD_PARAM, "a size of a tensor is not positive");
    if (format != CUDNN_TENSOR_NHWC || !known_type(type))
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "only NHWC in fp32, fp16 and bf16 is emulated");
    d->set = true;
    d->type = type;
    d->n = n;
    d->c = c;
    d->h = h;
    d->w = w;
    return CUDNN_STATUS_SUCCESS;
}

/* The problem of three descriptors that fit together. */
cudnnStatus_t make(const cudnnTensorStruct *x, const cudnnFilterStruct *w,
                   const cudnnConvolutionStruct *conv, const cudnnTensorStruct *y, convolution *out)
{
    check_alive(x, "tensor descriptor");
    check_alive(w, "filter descriptor");
    check_alive(conv, "convolution descriptor");
    check_alive(y, "tensor descriptor");
    if (!x->set || !w->set || !conv->set || !y->set)
        return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor is not set");
    if (x->type != w->type || x->type != y->type || x->c != w->c || x->n != y->n || w->n != y->c)
        return fail(CUDNN_STATUS_BAD_PARAM, "tensors do not fit together");
    if (y->h != (x->h + 2 * conv->pad_h - w->h) / conv->stride_h + 1 ||
        y->w != (x->w + 2 * conv->pad_w - w->w) / conv->stride_w + 1)
        return fail(CUDNN_STATUS_BAD_PARAM, "y is not as large as the convolution says");
    *out = {x->n, x->c, x->h,        x->w,        w->n,           w->h,           w->w,
            y->h, y->w, conv->pad_h, conv->pad_w, conv->stride_h, conv->stride_w, x->type};
    if (refuse() >= 2)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "SS_HOSTGPU_CUDNN_REFUSE");
    return CUDNN_STATUS_SUCCESS;
}

/* What an algorithm of a pass is like. */
struct algorithm {
    int number;
    bool supported, ordered, transforms;
    size_t workspace;
};
const size_t GIB = (size_t)1 << 30;

const algorithm forward_algorithms[] = {
    {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, false, true, false, 0},
    {CUDNN_CONVOLUTION_FWD_ALGO_FFT, true, true, true, GIB},
    {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, true, true, true, 0},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, true, true, false, 8192},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, true, true, false, 0},
};
const algorithm data_algorithms[] = {
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, true, false, false, 0},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, true, true, true, 2048},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, true, true, false, 4096},
};
const algorithm filter_algorithms[] = {
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, true, false, false, 0},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, true, false, false, 0},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, true, true, true, GIB},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, true, true, false, 16384},
};

struct family {
    const algorithm *first;
    int count;
};
family family_of(pass pass)
{
    switch (pass) {
    case pass::forward:
        return {forward_algorithms, sizeof forward_algorithms / sizeof(algorithm)};
    case pass::backward_data:
        return {data_algorithms, sizeof data_algorithms / sizeof(algorithm)};
    default:
        return {filter_algorithms, sizeof filter_algorithms / sizeof(algorithm)};
    }
}

const algorithm *find(pass pass, int number)
{
    const family f = family_of(pass);
    for (int i = 0; i < f.count; i++)
        if (f.first[i].number == number && f.first[i].supported)
            return &f.first[i];
    return nullptr;
}

numbers numbers_of(const algorithm &a, cudnnDataType_t type, cudnnMathType_t math)
{
    if (!a.ordered)
        return numbers::unordered;
    if (type != CUDNN_DATA_FLOAT)
        return a.transforms ? numbers::coarse : numbers::exact;
    if (math == CUDNN_FMA_MATH)
        return numbers::exact;
    return math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ? numbers::half : numbers::tf32;
}

/* Perf: one of cuDNN's three structures. Each algorithm comes once more without tensor cores. */
template <typename Perf, typename Algo>
cudnnStatus_t rank(cudnnHandle_t handle, pass pass, const cudnnTensorStruct *x,
                   const cudnnFilterStruct *w, const cudnnConvolutionStruct *conv,
                   const cudnnTensorStruct *y, int requested, int *returned, Perf *results)
{
    check_handle(handle);
    convolution c;
    const cudnnStatus_t status = make(x, w, conv, y, &c);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (requested < 1)
        return fail(CUDNN_STATUS_BAD_PARAM, "no results are requested");
    const family f = family_of(pass);
    *returned = 0;
    for (int i = 0; i < 2 * f.count && *returned < requested; i++) {
        const algorithm &a = f.first[i % f.count];
        Perf perf = {};
        perf.algo = static_cast<Algo>(a.number);
        perf.status = a.supported ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
        perf.time = -1;
        perf.memory = a.workspace;
        perf.determinism = a.ordered ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
        perf.mathType = i < f.count ? conv->math : CUDNN_FMA_MATH;
        results[(*returned)++] = perf;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_size(cudnnHandle_t handle, pass pass, const cudnnTensorStruct *x,
                             const cudnnFilterStruct *w, const cudnnConvolutionStruct *conv,
                             const cudnnTensorStruct *y, int number, size_t *bytes)
{
    check_handle(handle);
    convolution c;
    const cudnnStatus_t status = make(x, w, conv, y, &c);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    const algorithm *a = find(pass, number);
    if (!a)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "the algorithm does not support the problem");
    *bytes = a->workspace;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t convolve(cudnnHandle_t handle, pass pass, const void *alpha, const void *beta,
                       const cudnnTensorStruct *x, const cudnnFilterStruct *w,
                       const cudnnConvolutionStruct *conv, const cudnnTensorStruct *y, int number,
                       const operands &o)
{
    const cudnnContext *context = check_handle(handle);
    convolution c;
    const cudnnStatus_t status = make(x, w, conv, y, &c);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    const algorithm *a = find(pass, number);
    if (!a)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "the algorithm does not support the problem");
    if (o.workspace_bytes < a->workspace || (a->workspace && !o.workspace))
        return fail(CUDNN_STATUS_BAD_PARAM, "the workspace is too small");
    run(context, c, pass, numbers_of(*a, c.type, conv->math), *static_cast<const float *>(alpha),
        *static_cast<const float *>(beta), o);
    return CUDNN_STATUS_SUCCESS;
}

} // namespace

namespace hostgpu
{
namespace dnn
{

cudnnContext *check_handle(cudnnHandle_t handle)
{
    check_alive(handle, "handle");
    return handle;
}

cudnnStatus_t fail(cudnnStatus_t status, const char *text)
{
    snprintf(last_error, sizeof last_error, "%s", text);
    return status;
}

long refuse()
{
    return environment("SS_HOSTGPU_CUDNN_REFUSE", 0, 0, 2);
}

} // namespace dnn
} // namespace hostgpu

extern "C" {

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (static_cast<int>(status)) {
    case CUDNN_STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
        return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE:
        return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case CUDNN_STATUS_NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
        return "CUDNN_STATUS of another kind";
    }
}

/* As the library's: telling it forgets it. */
void cudnnGetLastErrorString(char *message, size_t size)
{
    if (size > 0)
        snprintf(message, size, "%s", last_error);
    last_error[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    const cudnnStatus_t status = create(handle);
    (*handle)->device = hostgpu::current_device();
    return status;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    return destroy(handle, "handle");
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    cudnnContext *context = check_handle(handle);
    if (stream && hostgpu::stream_device(stream) != context->device)
        return fail(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "a stream of another device");
    context->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream)
{
    *stream = check_handle(handle)->stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *d)
{
    return create(d);
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d)
{
    return destroy(d, "tensor descriptor");
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w)
{
    check_alive(d, "tensor descriptor");
    return set_tensor(d, format, type, n, c, h, w);
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *d)
{
    return create(d);
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d)
{
    return destroy(d, "filter descriptor");
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w)
{
    check_alive(d, "filter descriptor");
    return set_tensor(d, format, type, k, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *d)
{
    return create(d);
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d)
{
    return destroy(d, "convolution descriptor");
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute)
{
    check_alive(d, "convolution descriptor");
    if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1)
        return fail(CUDNN_STATUS_BAD_PARAM, "padding or stride out of range");
    if (dilation_h != 1 || dilation_w != 1 || mode != CUDNN_CROSS_CORRELATION ||
        compute != CUDNN_DATA_FLOAT)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "this kind of convolution is not emulated");
    *d = {true, pad_h, pad_w, stride_h, stride_w, d->math};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math)
{
    check_alive(d, "convolution descriptor");
    d->math = math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t y, const int requested,
    int *returned, cudnnConvolutionFwdAlgoPerf_t *results)
{
    return rank<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(
        handle, pass::forward, x, w, conv, y, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx, const int requested,
    int *returned, cudnnConvolutionBwdDataAlgoPerf_t *results)
{
    return rank<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(
        handle, pass::backward_data, dx, w, conv, dy, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw, const int requested,
    int *returned, cudnnConvolutionBwdFilterAlgoPerf_t *results)
{
    return rank<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(
        handle, pass::backward_filter, x, dw, conv, dy, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle,
                                                      const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w,
                                                      const cudnnConvolutionDescriptor_t conv,
                                                      const cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algo, size_t *bytes)
{
    return workspace_size(handle, pass::forward, x, w, conv, y, algo, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes)
{
    return workspace_size(handle, pass::backward_data, dx, w, conv, dy, algo, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes)
{
    return workspace_size(handle, pass::backward_filter, x, dw, conv, dy, algo, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t x_desc, const void *x,
                                      const cudnnFilterDescriptor_t w_desc, const void *w,
                                      const cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algo, void *workspace,
                                      size_t workspace_bytes, const void *beta,
                                      const cudnnTensorDescriptor_t y_desc, void *y)
{
    return convolve(handle, pass::forward, alpha, beta, x_desc, w_desc, conv, y_desc, algo,
                    {x, w, y, workspace, workspace_bytes});
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           const cudnnFilterDescriptor_t w_desc, const void *w,
                                           const cudnnTensorDescriptor_t dy_desc, const void *dy,
                                           const cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workspace,
                                           size_t workspace_bytes, const void *beta,
                                           const cudnnTensorDescriptor_t dx_desc, void *dx)
{
    return convolve(handle, pass::backward_data, alpha, beta, dx_desc, w_desc, conv, dy_desc, algo,
                    {dx, w, dy, workspace, workspace_bytes});
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             const cudnnTensorDescriptor_t x_desc, const void *x,
                                             const cudnnTensorDescriptor_t dy_desc, const void *dy,
                                             const cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *workspace,
                                             size_t workspace_bytes, const void *beta,
                                             const cudnnFilterDescriptor_t dw_desc, void *dw)
{
    return convolve(handle, pass::backward_filter, alpha, beta, x_desc, dw_desc, conv, dy_desc,
                    algo, {x, dw, dy, workspace, workspace_bytes});
}

} // extern "C"
