/* cudnn.cpp: the real cuDNN on the host emulation, except for what requires a GPU.
 *
 * Descriptors, heuristics, engines, workspaces and plans are the library's own. Where a call
 * passes a handle, the library gets a described GPU instead (devices.h), for which it makes plans
 * without having one. The emulation implements handles and the execution of plans. A plan's
 * computation is read from the attributes that were set; a copy of them is stored for each
 * descriptor.
 *
 * The numerical notes of a plan's engine determine how its results are degraded, so that tests
 * detect an engine that should not have been chosen. */
#include "hostgpu/cudnn_internal.h"
#include "hostgpu/devices.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#if CUDNN_VERSION < 90800
#    error "cuDNN before 9.8 makes no plans for a GPU that is only described"
#endif

namespace
{

using namespace hostgpu::dnn;

typedef cudnnBackendDescriptor_t desc;
typedef cudnnBackendAttributeName_t attribute;

template <typename F> F *find_real(const char *name, F *)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol)
        hostgpu::die("cuDNN: the library has no %s", name);
    return reinterpret_cast<F *>(symbol);
}
#define REAL(function) find_real(#function, function)

/* Live objects: handles, and descriptors with the attributes that were set. */
std::mutex lock;
std::set<const void *> handles;
std::map<const void *, std::map<int, std::vector<char>>> descriptors;

cudnnContext *check_handle(cudnnHandle_t handle)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!handles.count(handle))
        hostgpu::die("cuDNN: %p is not a handle, or was destroyed", static_cast<void *>(handle));
    return handle;
}

void check(const void *d)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!descriptors.count(d))
        hostgpu::die("cuDNN: %p is not a backend descriptor, or was destroyed", d);
}

size_t element_bytes(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    default: /* the enumerations, and float */
        return 4;
    }
}

void store(desc d, attribute name, cudnnBackendAttributeType_t type, int64_t n,
           const void *elements)
{
    const char *bytes = static_cast<const char *>(elements);
    std::lock_guard<std::mutex> guard(lock);
    descriptors[d][name].assign(bytes, bytes + static_cast<size_t>(n) * element_bytes(type));
}

/* Returns all values of an attribute; empty if it was not set. */
template <typename T> std::vector<T> values(const void *d, attribute name)
{
    check(d);
    std::lock_guard<std::mutex> guard(lock);
    const std::vector<char> &bytes = descriptors[d][name];
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty())
        memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

template <typename T> T value(const void *d, attribute name, size_t i = 0)
{
    const std::vector<T> all = values<T>(d, name);
    if (i >= all.size())
        hostgpu::die("cuDNN: attribute %d of %p is not set, but execution requires it", name, d);
    return all[i];
}

const described_gpu &described()
{
    return hostgpu::described_device();
}

/* Returns the library's description of the GPU. */
desc device()
{
    static const desc made = [] {
        desc d = nullptr;
        const char *json = described().json;
        if (REAL(cudnnBackendCreateDescriptor)(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d) ||
            REAL(cudnnBackendSetAttribute)(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, static_cast<int64_t>(strlen(json)),
                                           json) ||
            REAL(cudnnBackendFinalize)(d))
            hostgpu::die("cuDNN %zu does not accept this description of a GPU", cudnnGetVersion());
        return d;
    }();
    return made;
}

cudnnStatus_t set_device(desc d, attribute name)
{
    desc value = device();
    return REAL(cudnnBackendSetAttribute)(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

desc engine_of(desc plan)
{
    return value<desc>(value<desc>(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                       CUDNN_ATTR_ENGINECFG_ENGINE);
}

/* Returns whether SS_HOSTGPU_CUDNN_FAULT lists KIND, or KIND:ENGINE with the plan's engine. */
bool fault(const char *kind, desc plan)
{
    const char *list = getenv("SS_HOSTGPU_CUDNN_FAULT");
    if (!list)
        return false;
    std::string wanted = kind;
    if (plan)
        wanted +=
            ":" + std::to_string(value<int64_t>(engine_of(plan), CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
    return ("," + std::string(list) + ",").find("," + wanted + ",") != std::string::npos;
}

numbers numbers_of(desc engine, cudnnDataType_t type)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    if (REAL(cudnnBackendGetAttribute)(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                       CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                       &count, notes))
        hostgpu::die("cuDNN: an executing engine reports no numerical notes");
    const bool fp32 = type == CUDNN_DATA_FLOAT;
    numbers worst = numbers::exact;
    for (int64_t i = 0; i < count; i++) {
        numbers of = numbers::exact;
        switch (notes[i]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
            of = numbers::unordered;
            break;
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
            of = numbers::coarse;
            break;
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
            of = fp32 ? numbers::tf32 : numbers::exact;
            break;
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
            of = fp32 ? numbers::half : numbers::coarse;
            break;
        case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
            break;
        default: /* input transforms within their type; notes of later versions */
            of = fp32 ? numbers::exact : numbers::coarse;
        }
        worst = of > worst ? of : worst;
    }
    return worst;
}

struct operation {
    pass kind;
    attribute x, w, y, conv, alpha, beta;
};
#define OPERATION(kind, x, w, y, prefix)                                                           \
    {                                                                                              \
        kind, prefix##_##x, prefix##_##w, prefix##_##y, prefix##_CONV_DESC, prefix##_ALPHA,        \
            prefix##_BETA                                                                          \
    }
const operation operations[] = {
    OPERATION(pass::forward, X, W, Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD),
    OPERATION(pass::backward_data, DX, W, DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA),
    OPERATION(pass::backward_filter, X, DW, DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER),
};

const operation *find_operation(desc d)
{
    for (const operation &o : operations)
        if (!values<desc>(d, o.x).empty())
            return &o;
    return nullptr;
}

convolution convolution_of(desc x, desc w, desc y, desc conv)
{
    for (desc tensor : {x, w, y}) {
        const auto n = values<int64_t>(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS),
                   s = values<int64_t>(tensor, CUDNN_ATTR_TENSOR_STRIDES);
        if (n.size() != 4 || s[1] != 1 || s[3] != n[1] || s[2] != n[3] * n[1] ||
            s[0] != n[2] * n[3] * n[1])
            hostgpu::die("cuDNN: only packed NHWC tensors are emulated");
    }
    const auto size = [](desc d, size_t i) {
        return static_cast<int>(value<int64_t>(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i));
    };
    const auto of = [conv](attribute name, size_t i) {
        return static_cast<int>(value<int64_t>(conv, name, i));
    };
    for (size_t i = 0; i < 2; i++)
        if (of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) !=
            of(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i))
            hostgpu::die("cuDNN: asymmetric padding is not emulated");
    if (size(x, 1) % size(w, 1) || size(y, 1) % (size(x, 1) / size(w, 1)))
        hostgpu::die("cuDNN: channels are not a multiple of the groups");
    return {size(x, 0),
            size(x, 1),
            size(x, 2),
            size(x, 3),
            size(w, 0),
            size(w, 2),
            size(w, 3),
            size(y, 2),
            size(y, 3),
            of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0),
            of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 1),
            of(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 0),
            of(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1),
            of(CUDNN_ATTR_CONVOLUTION_DILATIONS, 0),
            of(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1),
            size(x, 1) / size(w, 1),
            value<cudnnDataType_t>(x, CUDNN_ATTR_TENSOR_DATA_TYPE)};
}

/* Returns the caller's array for a tensor. */
void *array_of(desc pack, desc tensor)
{
    const auto id = value<int64_t>(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto ids = values<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (size_t i = 0; i < ids.size(); i++)
        if (ids[i] == id) {
            void *array = value<void *>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
            if (reinterpret_cast<intptr_t>(array) %
                value<int64_t>(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT))
                hostgpu::die("cuDNN: array %p does not have the alignment of its tensor", array);
            return array;
        }
    hostgpu::die("cuDNN: tensor %ld has no array in the variant pack", static_cast<long>(id));
}

cudaError_t execute(const cudnnContext *handle, desc plan, desc pack)
{
    const desc engine = engine_of(plan);
    const desc graph = value<desc>(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    const operation *o = nullptr;
    desc conv = nullptr, stats = nullptr;
    for (desc d : values<desc>(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS))
        if (const operation *found = find_operation(d)) {
            o = found;
            conv = d;
        } else {
            stats = d;
        }
    if (!o)
        hostgpu::die("cuDNN: a graph without a convolution is not emulated");
    const desc x = value<desc>(conv, o->x), w = value<desc>(conv, o->w),
               y = value<desc>(conv, o->y);
    operands all = {
        array_of(pack, x), array_of(pack, w), array_of(pack, y), nullptr, 0, nullptr, nullptr};
    if (stats) {
        if (value<desc>(stats, CUDNN_ATTR_OPERATION_GENSTATS_XDESC) != y)
            hostgpu::die("cuDNN: statistics are emulated of a convolution's result only");
        all.sum = static_cast<float *>(
            array_of(pack, value<desc>(stats, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC)));
        all.squares = static_cast<float *>(
            array_of(pack, value<desc>(stats, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC)));
    }
    int64_t count = 0, workspace = 0;
    REAL(cudnnBackendGetAttribute)
    (plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &workspace);
    all.workspace_bytes = static_cast<size_t>(workspace);
    if (workspace)
        all.workspace = value<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    const convolution c = convolution_of(x, w, y, value<desc>(conv, o->conv));
    return run(handle, c, o->kind, numbers_of(engine, c.type), value<float>(conv, o->alpha),
               value<float>(conv, o->beta), all);
}

} // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = new cudnnContext{hostgpu::current_device(), nullptr};
    std::lock_guard<std::mutex> guard(lock);
    handles.insert(*handle);
    return CUDNN_STATUS_SUCCESS;
}

/* The real call may wait for its stream. */
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    if (check_handle(handle)->stream)
        (void)hostgpu::stream_device(handle->stream);
    {
        std::lock_guard<std::mutex> guard(lock);
        handles.erase(handle);
    }
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    cudnnContext *context = check_handle(handle);
    if (stream && hostgpu::stream_device(stream) != context->device)
        return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
    context->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, desc *out)
{
    const cudnnStatus_t status = REAL(cudnnBackendCreateDescriptor)(type, out);
    std::lock_guard<std::mutex> guard(lock);
    if (status == CUDNN_STATUS_SUCCESS)
        descriptors[*out].clear();
    return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(desc d)
{
    check(d);
    {
        std::lock_guard<std::mutex> guard(lock);
        descriptors.erase(d);
    }
    return REAL(cudnnBackendDestroyDescriptor)(d);
}

cudnnStatus_t cudnnBackendSetAttribute(desc d, attribute name, cudnnBackendAttributeType_t type,
                                       int64_t n, const void *elements)
{
    check(d);
    if (type == CUDNN_TYPE_HANDLE)
        check_handle(*static_cast<const cudnnHandle_t *>(elements));
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < n; i++)
            check(static_cast<const desc *>(elements)[i]);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        return set_device(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
        return status;
    if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
        status = set_device(d, CUDNN_ATTR_ENGINE_DEVICEPROP);
    if (name == CUDNN_ATTR_ENGINEHEUR_MODE)
        status = set_device(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    if (status == CUDNN_STATUS_SUCCESS)
        status = REAL(cudnnBackendSetAttribute)(d, name, type, n, elements);
    if (status == CUDNN_STATUS_SUCCESS)
        store(d, name, type, n, elements);
    return status;
}

cudnnStatus_t cudnnBackendFinalize(desc d)
{
    check(d);
    if (!values<desc>(d, CUDNN_ATTR_OPERATIONGRAPH_OPS).empty() && fault("graph", nullptr))
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    if (!values<desc>(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).empty() && fault("plan", d))
        return CUDNN_STATUS_NOT_SUPPORTED;
    return REAL(cudnnBackendFinalize)(d);
}

cudnnStatus_t cudnnBackendGetAttribute(desc const d, attribute name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t *told, void *out)
{
    check(d);
    const cudnnStatus_t status =
        REAL(cudnnBackendGetAttribute)(d, name, type, requested, told, out);
    if (status == CUDNN_STATUS_SUCCESS && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE &&
        fault("workspace", d))
        *static_cast<int64_t *>(out) = int64_t{1} << 40;
    return status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, desc plan, desc pack)
{
    const cudnnContext *context = check_handle(handle);
    if (fault("run", plan))
        return CUDNN_STATUS_EXECUTION_FAILED;
    return execute(context, plan, pack) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                       : CUDNN_STATUS_EXECUTION_FAILED;
}

} // extern "C"
