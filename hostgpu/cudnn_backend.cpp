/* cudnn_backend.cpp: cuDNN's graph API (backend descriptors) on the host emulation, as far as a
 * graph of one convolution needs it.
 *
 * A table says which attributes a descriptor has, of which type and how many; anything else is
 * refused with the library's status. Where the library is lenient the emulation is not: whatever a
 * descriptor refers to must be final when it is set, and must live while it is used.
 *
 * The engines are made to be chosen wrongly: see `engines`. */
#include "hostgpu/cudnn_internal.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace
{

using namespace hostgpu::dnn;

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool final;
    std::map<int, std::vector<char>> values;
    const void *results;                /* of heuristics: a list */
    std::vector<descriptor *> children; /* that the library made, and destroys with this one */
};

std::mutex lock;
std::set<const void *> alive;

descriptor *check(const void *d)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!alive.count(d))
        hostgpu::die("cuDNN: %p is no backend descriptor, or a destroyed one", d);
    return static_cast<descriptor *>(const_cast<void *>(d));
}

descriptor *create(cudnnBackendDescriptorType_t type)
{
    descriptor *d = new descriptor{type, false, {}, nullptr, {}};
    std::lock_guard<std::mutex> guard(lock);
    alive.insert(d);
    return d;
}

void destroy(descriptor *d)
{
    for (descriptor *c : d->children)
        destroy(c);
    {
        std::lock_guard<std::mutex> guard(lock);
        alive.erase(d);
    }
    delete d;
}

descriptor *child(descriptor *parent, cudnnBackendDescriptorType_t type)
{
    descriptor *d = create(type);
    d->final = true;
    parent->children.push_back(d);
    return d;
}

enum access { MUST, MAY, READ }; /* set before finalize; may be set; only asked for */

struct attribute {
    cudnnBackendDescriptorType_t owner;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t least, most;
    access how;
};

#define OPERATION(type, x, w, y, prefix)                                                           \
    {type, prefix##_##x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},                               \
        {type, prefix##_##w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},                           \
        {type, prefix##_##y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},                           \
        {type, prefix##_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},                     \
        {type, prefix##_ALPHA, CUDNN_TYPE_FLOAT, 1, 1, MUST},                                      \
    {                                                                                              \
        type, prefix##_BETA, CUDNN_TYPE_FLOAT, 1, 1, MUST                                          \
    }

const cudnnBackendDescriptorType_t
    TENSOR = CUDNN_BACKEND_TENSOR_DESCRIPTOR,
    CONV = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
    FORWARD = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    DATA = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    FILTER = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    GRAPH = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
    HEURISTICS = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, ENGINE = CUDNN_BACKEND_ENGINE_DESCRIPTOR,
    CONFIG = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, KNOB = CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
    PLAN = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, PACK = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;

const attribute attributes[] = {
    {TENSOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, MUST},
    {TENSOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4, MUST},
    {TENSOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4, MUST},
    {TENSOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1, MUST},
    {TENSOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1, MUST},
    {CONV, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, MUST},
    {CONV, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1, MUST},
    {CONV, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1, MUST},
    {CONV, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, 2, MUST},
    {CONV, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, 2, MUST},
    {CONV, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, 2, MUST},
    {CONV, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, 2, MUST},
    OPERATION(FORWARD, X, W, Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD),
    OPERATION(DATA, DX, W, DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA),
    OPERATION(FILTER, X, DW, DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER),
    {GRAPH, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, MUST},
    {GRAPH, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},
    {HEURISTICS, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},
    {HEURISTICS, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1, MUST},
    {HEURISTICS, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, 1000, READ},
    {ENGINE, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},
    {ENGINE, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, 1, MUST},
    {ENGINE, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 0, 1000, READ},
    {KNOB, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, 1, MUST},
    {KNOB, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, 1, MUST},
    {CONFIG, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},
    {CONFIG, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 100, MAY},
    {PLAN, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, MUST},
    {PLAN, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST},
    {PLAN, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, 1, READ},
    {PACK, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, 100, MUST},
    {PACK, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 100, MUST},
    {PACK, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1, MAY},
};

size_t element_bytes(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default: /* the enumerations, and float */
        return 4;
    }
}

const attribute *find(const descriptor *d, cudnnBackendAttributeName_t name)
{
    for (const attribute &a : attributes)
        if (a.owner == d->type && a.name == name)
            return &a;
    return nullptr;
}

/* The values of an attribute that is known to be set. */
template <typename T> const T *values(const descriptor *d, cudnnBackendAttributeName_t name)
{
    return reinterpret_cast<const T *>(d->values.at(name).data());
}
template <typename T> T value(const descriptor *d, cudnnBackendAttributeName_t name)
{
    return *values<T>(d, name);
}
template <typename T> size_t count(const descriptor *d, cudnnBackendAttributeName_t name)
{
    const auto at = d->values.find(name);
    return at == d->values.end() ? 0 : at->second.size() / sizeof(T);
}
descriptor *reference(const descriptor *d, cudnnBackendAttributeName_t name)
{
    return check(value<void *>(d, name));
}
template <typename T>
void put(descriptor *d, cudnnBackendAttributeName_t name, const T *from, size_t n)
{
    const char *bytes = reinterpret_cast<const char *>(from);
    d->values[name].assign(bytes, bytes + n * sizeof(T));
}

struct knob {
    int type;
    int64_t value;
};

/* Number 8 wants a gigabyte, 2 is refused when a plan is made of it and 3 when it runs, 4 adds in
 * no fixed order; 5 to 7 round. 9 and 0 do nothing wrong; 1 is the one with knobs. */
enum { ENGINES = 10 };
struct engine {
    std::vector<cudnnBackendNumericalNote_t> notes;
    std::vector<knob> knobs; /* the largest value of each */
    numbers fp32, narrow;
    int64_t workspace;
};
const engine engines[ENGINES] = {
    {{CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, {}, numbers::exact, numbers::exact, 0},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
     {{CUDNN_KNOB_TYPE_TILE_SIZE, 7}, {CUDNN_KNOB_TYPE_SPLIT_K_BUF, 1}},
     numbers::tf32,
     numbers::exact,
     1000},
    {{}, {}, numbers::exact, numbers::exact, 0},
    {{}, {}, numbers::exact, numbers::exact, 0},
    {{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}, numbers::unordered, numbers::unordered, 0},
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS},
     {},
     numbers::half,
     numbers::coarse,
     0},
    {{CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, {}, numbers::coarse, numbers::coarse, 0},
    {{CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4},
     {},
     numbers::exact,
     numbers::coarse,
     5000},
    {{}, {}, numbers::exact, numbers::exact, (int64_t)1 << 30},
    {{}, {}, numbers::exact, numbers::exact, 4096},
};

struct proposal {
    int64_t engine;
    std::vector<knob> knobs;
};
typedef std::vector<proposal> list;
const list mode_a = {{4, {}},
                     {2, {}},
                     {3, {}},
                     {8, {}},
                     {5, {}},
                     {6, {}},
                     {7, {}},
                     {1, {{CUDNN_KNOB_TYPE_TILE_SIZE, 3}, {CUDNN_KNOB_TYPE_SPLIT_K_BUF, 1}}},
                     {1, {{CUDNN_KNOB_TYPE_TILE_SIZE, 0}, {CUDNN_KNOB_TYPE_SPLIT_K_BUF, 0}}},
                     {9, {}}};
const list mode_fallback = {{9, {}}, {0, {}}};

cudnnStatus_t finalize_tensor(const descriptor *d)
{
    const int64_t *n = values<int64_t>(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
                  *s = values<int64_t>(d, CUDNN_ATTR_TENSOR_STRIDES);
    const cudnnDataType_t type = value<cudnnDataType_t>(d, CUDNN_ATTR_TENSOR_DATA_TYPE);
    for (int i = 0; i < 4; i++)
        if (n[i] < 1)
            return fail(CUDNN_STATUS_BAD_PARAM, "a size of a tensor is not positive");
    if (!known_type(type))
        return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "only fp32, fp16, bf16 are emulated");
    if (s[1] != 1 || s[3] != n[1] || s[2] != n[3] * n[1] || s[0] != n[2] * n[3] * n[1])
        return fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "only packed NHWC is emulated");
    const int64_t alignment = value<int64_t>(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (alignment <= 0 || alignment % static_cast<int64_t>(type_bytes(type)) != 0)
        return fail(CUDNN_STATUS_BAD_PARAM, "an alignment that is no multiple of the type's size");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_conv(const descriptor *d)
{
    const int64_t *pre = values<int64_t>(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                  *post = values<int64_t>(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
                  *dilation = values<int64_t>(d, CUDNN_ATTR_CONVOLUTION_DILATIONS),
                  *stride = values<int64_t>(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    if (value<int64_t>(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2)
        return fail(CUDNN_STATUS_BAD_PARAM, "two values of an attribute, but not two dimensions");
    for (int i = 0; i < 2; i++) {
        if (pre[i] < 0 || stride[i] < 1)
            return fail(CUDNN_STATUS_BAD_PARAM, "padding or stride out of range");
        if (pre[i] != post[i] || dilation[i] != 1)
            return fail(CUDNN_STATUS_NOT_SUPPORTED, "paddings that differ, or dilation");
    }
    if (value<cudnnDataType_t>(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT ||
        value<cudnnConvolutionMode_t>(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE) !=
            CUDNN_CROSS_CORRELATION)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "this kind of convolution is not emulated");
    return CUDNN_STATUS_SUCCESS;
}

/* An operation's attributes are numbered from x on as the forward ones are. */
struct operation {
    pass kind;
    const descriptor *x, *w, *y, *conv;
    float alpha, beta;
};

operation operation_of(const descriptor *d)
{
#define READ_OPERATION(kind, x, w, y, prefix)                                                      \
    operation                                                                                      \
    {                                                                                              \
        kind, reference(d, prefix##_##x), reference(d, prefix##_##w), reference(d, prefix##_##y),  \
            reference(d, prefix##_CONV_DESC), value<float>(d, prefix##_ALPHA),                     \
            value<float>(d, prefix##_BETA)                                                         \
    }
    if (d->type == FORWARD)
        return READ_OPERATION(pass::forward, X, W, Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD);
    if (d->type == DATA)
        return READ_OPERATION(pass::backward_data, DX, W, DY,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA);
    return READ_OPERATION(pass::backward_filter, X, DW, DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER);
}

convolution convolution_of(const operation &o)
{
    const int64_t *x = values<int64_t>(o.x, CUDNN_ATTR_TENSOR_DIMENSIONS),
                  *w = values<int64_t>(o.w, CUDNN_ATTR_TENSOR_DIMENSIONS),
                  *y = values<int64_t>(o.y, CUDNN_ATTR_TENSOR_DIMENSIONS),
                  *pad = values<int64_t>(o.conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                  *stride = values<int64_t>(o.conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    convolution c = {};
    c.n = static_cast<int>(x[0]);
    c.c = static_cast<int>(x[1]);
    c.h = static_cast<int>(x[2]);
    c.w = static_cast<int>(x[3]);
    c.k = static_cast<int>(w[0]);
    c.kh = static_cast<int>(w[2]);
    c.kw = static_cast<int>(w[3]);
    c.p = static_cast<int>(y[2]);
    c.q = static_cast<int>(y[3]);
    c.pad_h = static_cast<int>(pad[0]);
    c.pad_w = static_cast<int>(pad[1]);
    c.stride_h = static_cast<int>(stride[0]);
    c.stride_w = static_cast<int>(stride[1]);
    c.type = value<cudnnDataType_t>(o.x, CUDNN_ATTR_TENSOR_DATA_TYPE);
    return c;
}

cudnnStatus_t finalize_operation(const descriptor *d)
{
    const operation o = operation_of(d);
    if (o.x->type != TENSOR || o.w->type != TENSOR || o.y->type != TENSOR || o.conv->type != CONV)
        return fail(CUDNN_STATUS_BAD_PARAM, "an operand is a descriptor of another kind");
    const convolution c = convolution_of(o);
    const int64_t *w = values<int64_t>(o.w, CUDNN_ATTR_TENSOR_DIMENSIONS),
                  *y = values<int64_t>(o.y, CUDNN_ATTR_TENSOR_DIMENSIONS);
    if (w[1] != c.c || y[0] != c.n || y[1] != c.k ||
        c.p != (c.h + 2 * c.pad_h - c.kh) / c.stride_h + 1 ||
        c.q != (c.w + 2 * c.pad_w - c.kw) / c.stride_w + 1)
        return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "tensors do not fit together");
    if (value<cudnnDataType_t>(o.w, CUDNN_ATTR_TENSOR_DATA_TYPE) != c.type ||
        value<cudnnDataType_t>(o.y, CUDNN_ATTR_TENSOR_DATA_TYPE) != c.type)
        return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "types that differ are not emulated");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_graph(const descriptor *d)
{
    check_handle(value<cudnnHandle_t>(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
    const descriptor *op = reference(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (op->type != FORWARD && op->type != DATA && op->type != FILTER)
        return fail(CUDNN_STATUS_BAD_PARAM, "a graph of something that is no operation");
    if (refuse() >= 1)
        return fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "SS_HOSTGPU_CUDNN_REFUSE");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_heuristics(descriptor *d)
{
    if (reference(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->type != GRAPH)
        return fail(CUDNN_STATUS_BAD_PARAM, "heuristics of something that is no graph");
    switch (value<cudnnBackendHeurMode_t>(d, CUDNN_ATTR_ENGINEHEUR_MODE)) {
    case CUDNN_HEUR_MODE_A:
    case CUDNN_HEUR_MODE_B:
    case CUDNN_HEUR_MODE_INSTANT:
        d->results = &mode_a;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_HEUR_MODE_FALLBACK:
        d->results = &mode_fallback;
        return CUDNN_STATUS_SUCCESS;
    default:
        return fail(CUDNN_STATUS_BAD_PARAM, "no such mode of heuristics");
    }
}

cudnnStatus_t finalize_engine(const descriptor *d)
{
    const int64_t index = value<int64_t>(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    if (reference(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->type != GRAPH)
        return fail(CUDNN_STATUS_BAD_PARAM, "an engine for something that is no graph");
    if (index < 0 || index >= ENGINES)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "no engine of this index");
    return CUDNN_STATUS_SUCCESS;
}

const engine &engine_of(const descriptor *config, int64_t *index)
{
    *index = value<int64_t>(reference(config, CUDNN_ATTR_ENGINECFG_ENGINE),
                            CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    return engines[*index];
}

cudnnStatus_t finalize_config(const descriptor *d)
{
    if (reference(d, CUDNN_ATTR_ENGINECFG_ENGINE)->type != ENGINE)
        return fail(CUDNN_STATUS_BAD_PARAM, "a configuration of something that is no engine");
    int64_t index;
    const engine &e = engine_of(d, &index);
    const size_t n = count<void *>(d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
    for (size_t i = 0; i < n; i++) {
        const descriptor *choice = check(values<void *>(d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)[i]);
        if (choice->type != KNOB)
            return fail(CUDNN_STATUS_BAD_PARAM, "a knob that is none");
        const int type = value<int>(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
        const int64_t v = value<int64_t>(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
        bool known = false;
        for (const knob &k : e.knobs)
            known = known || (k.type == type && v >= 0 && v <= k.value);
        if (!known)
            return fail(CUDNN_STATUS_BAD_PARAM, "a knob or a value that the engine has not");
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_plan(const descriptor *d)
{
    check_handle(value<cudnnHandle_t>(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
    const descriptor *config = reference(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (config->type != CONFIG)
        return fail(CUDNN_STATUS_BAD_PARAM, "a plan of something that is no configuration");
    int64_t index;
    engine_of(config, &index);
    if (index == 2)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "engine 2 is refused when a plan is made");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_pack(const descriptor *d)
{
    const size_t n = count<int64_t>(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const int64_t *ids = values<int64_t>(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    if (count<void *>(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) != n)
        return fail(CUDNN_STATUS_BAD_PARAM, "not as many pointers as identifiers");
    if (std::set<int64_t>(ids, ids + n).size() != n)
        return fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "an identifier comes twice");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize(descriptor *d)
{
    switch (static_cast<int>(d->type)) {
    case TENSOR:
        return finalize_tensor(d);
    case CONV:
        return finalize_conv(d);
    case FORWARD:
    case DATA:
    case FILTER:
        return finalize_operation(d);
    case GRAPH:
        return finalize_graph(d);
    case HEURISTICS:
        return finalize_heuristics(d);
    case ENGINE:
        return finalize_engine(d);
    case CONFIG:
        return finalize_config(d);
    case PLAN:
        return finalize_plan(d);
    case PACK:
        return finalize_pack(d);
    default: /* KNOB */
        return CUDNN_STATUS_SUCCESS;
    }
}

/* The caller's descriptor becomes a final one with these values; it must be fresh. */
cudnnStatus_t fill(void *target, cudnnBackendDescriptorType_t type,
                   const std::map<int, std::vector<char>> &from)
{
    descriptor *d = check(target);
    if (d->type != type || d->final)
        return fail(CUDNN_STATUS_BAD_PARAM, "an output that is no fresh descriptor of the kind");
    d->values = from;
    d->final = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t fill_config(void *target, const descriptor *graph, const proposal &p)
{
    descriptor *config = check(target);
    if (config->type != CONFIG || config->final)
        return fail(CUDNN_STATUS_BAD_PARAM, "a result that is no fresh configuration");
    descriptor *e = child(config, ENGINE);
    put(e, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &graph, 1);
    put(e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &p.engine, 1);
    put(config, CUDNN_ATTR_ENGINECFG_ENGINE, &e, 1);
    std::vector<void *> knobs;
    for (const knob &k : p.knobs) {
        descriptor *choice = child(config, KNOB);
        put(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &k.type, 1);
        put(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &k.value, 1);
        knobs.push_back(choice);
    }
    put(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs.data(), knobs.size());
    config->final = true;
    return CUDNN_STATUS_SUCCESS;
}

/* How many of `available` values go to the caller. */
int64_t deliver(int64_t available, int64_t requested, int64_t *told)
{
    if (told)
        *told = requested > 0 && requested < available ? requested : available;
    return requested < available ? requested : available;
}

cudnnStatus_t get_results(const descriptor *d, int64_t requested, int64_t *told, void **out)
{
    const list &results = *static_cast<const list *>(d->results);
    const descriptor *graph = reference(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const int64_t n = deliver(static_cast<int64_t>(results.size()), requested, told);
    for (int64_t i = 0; i < n; i++) {
        const cudnnStatus_t status = fill_config(out[i], graph, results[static_cast<size_t>(i)]);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_notes(const descriptor *d, int64_t requested, int64_t *told,
                        cudnnBackendNumericalNote_t *out)
{
    const auto &notes = engines[value<int64_t>(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX)].notes;
    const int64_t n = deliver(static_cast<int64_t>(notes.size()), requested, told);
    for (int64_t i = 0; i < n; i++)
        out[i] = notes[static_cast<size_t>(i)];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_workspace(const descriptor *d, int64_t requested, int64_t *told, int64_t *out)
{
    int64_t index;
    const engine &e = engine_of(reference(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), &index);
    if (deliver(1, requested, told) > 0)
        *out = e.workspace;
    return CUDNN_STATUS_SUCCESS;
}

/* What was set, or put there by fill. */
cudnnStatus_t get_stored(const descriptor *d, const attribute &a, int64_t requested, int64_t *told,
                         void *out)
{
    const auto at = d->values.find(a.name);
    const size_t size = element_bytes(a.type);
    const int64_t available =
        at == d->values.end() ? 0 : static_cast<int64_t>(at->second.size() / size);
    const int64_t n = deliver(available, requested, told);
    if (a.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        if (n > 0)
            memcpy(out, at->second.data(), static_cast<size_t>(n) * size);
        return CUDNN_STATUS_SUCCESS;
    }
    for (int64_t i = 0; i < n; i++) {
        const descriptor *from = check(values<void *>(d, a.name)[i]);
        const cudnnStatus_t status = fill(static_cast<void **>(out)[i], from->type, from->values);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* The caller's array that stands for a tensor. */
cudnnStatus_t array_of(const descriptor *pack, const descriptor *tensor, void **out)
{
    const int64_t id = value<int64_t>(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID),
                  alignment = value<int64_t>(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    const size_t n = count<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (size_t i = 0; i < n; i++)
        if (values<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)[i] == id) {
            *out = values<void *>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[i];
            if (reinterpret_cast<uintptr_t>(*out) % static_cast<uintptr_t>(alignment) != 0)
                return fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a misaligned array");
            return CUDNN_STATUS_SUCCESS;
        }
    return fail(CUDNN_STATUS_BAD_PARAM, "a tensor has no array in the variant pack");
}

cudnnStatus_t execute(const cudnnContext *handle, const descriptor *plan, const descriptor *pack)
{
    const descriptor *config = reference(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    int64_t index;
    const engine &e = engine_of(config, &index);
    const descriptor *graph = reference(reference(config, CUDNN_ATTR_ENGINECFG_ENGINE),
                                        CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    const operation o = operation_of(reference(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS));
    const convolution c = convolution_of(o);
    const descriptor *const tensors[3] = {o.x, o.w, o.y};
    void *arrays[3], *workspace = nullptr;
    for (int i = 0; i < 3; i++) {
        const cudnnStatus_t status = array_of(pack, tensors[i], &arrays[i]);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
    }
    if (count<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE))
        workspace = value<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (e.workspace && !workspace)
        return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace");
    if (index == 3)
        return fail(CUDNN_STATUS_EXECUTION_FAILED, "engine 3 fails whenever it runs");
    run(handle, c, o.kind, c.type == CUDNN_DATA_FLOAT ? e.fp32 : e.narrow, o.alpha, o.beta,
        {arrays[0], arrays[1], arrays[2], workspace, static_cast<size_t>(e.workspace)});
    return CUDNN_STATUS_SUCCESS;
}

} // namespace

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    bool known = false;
    for (const attribute &a : attributes)
        known = known || a.owner == type;
    if (!known)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "this kind of descriptor is not emulated");
    *out = create(type);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t p)
{
    destroy(check(p));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *elements)
{
    descriptor *d = check(p);
    const attribute *a = find(d, name);
    if (d->final || !a || a->how == READ)
        return fail(CUDNN_STATUS_BAD_PARAM, "a final descriptor, or one without this attribute");
    if (type != a->type)
        return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "an attribute of another type");
    if (n < a->least || n > a->most || !elements)
        return fail(CUDNN_STATUS_BAD_PARAM, "not as many values as the attribute has");
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < n; i++)
            if (!check(static_cast<void *const *>(elements)[i])->final)
                return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor is not final");
    const char *bytes = static_cast<const char *>(elements);
    d->values[name].assign(bytes, bytes + static_cast<size_t>(n) * element_bytes(type));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p)
{
    descriptor *d = check(p);
    if (d->final)
        return fail(CUDNN_STATUS_BAD_PARAM, "a final descriptor is finalized again");
    for (const attribute &a : attributes)
        if (a.owner == d->type && a.how == MUST && !d->values.count(a.name))
            return fail(CUDNN_STATUS_BAD_PARAM, "an attribute is not set");
    const cudnnStatus_t status = finalize(d);
    d->final = status == CUDNN_STATUS_SUCCESS;
    return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const p,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t *told, void *out)
{
    const descriptor *d = check(p);
    const attribute *a = find(d, name);
    if (!d->final)
        return fail(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not final");
    if (!a)
        return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor without this attribute");
    if (type != a->type)
        return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "an attribute of another type");
    if (requested < 0 || (requested > 0 && !out))
        return fail(CUDNN_STATUS_BAD_PARAM, "no room for values");
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return get_results(d, requested, told, static_cast<void **>(out));
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
        return get_notes(d, requested, told, static_cast<cudnnBackendNumericalNote_t *>(out));
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        return get_workspace(d, requested, told, static_cast<int64_t *>(out));
    return get_stored(d, *a, requested, told, out);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    const cudnnContext *context = check_handle(handle);
    const descriptor *a = check(plan), *b = check(pack);
    if (a->type != PLAN || b->type != PACK || !a->final || !b->final)
        return fail(CUDNN_STATUS_BAD_PARAM, "a plan and a variant pack, both final, are wanted");
    return execute(context, a, b);
}

} // extern "C"
