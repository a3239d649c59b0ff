/* described_gpu.c: redirects cuDNN calls that take a handle to a described GPU. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "tests/gpu/described_gpu.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

int described_executions;
struct described_plans described_plans;

#if CUDNN_VERSION < 90800
int describe_gpu(const char *key)
{
    printf("cuDNN before 9.8 cannot make plans for a described GPU (%s): skipped\n", key);
    return 0;
}
#else

static desc device;

typedef cudnnStatus_t set_function(desc, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                                   int64_t, const void *);

typedef cudnnStatus_t get_function(desc, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                                   int64_t, int64_t *, void *);

/* Sets *function to the library's function of this name. Uses memcpy because ISO C has no cast from
 * object pointers to function pointers. */
static void find(const char *name, void *function)
{
    void *const symbol = dlsym(RTLD_NEXT, name);
    memcpy(function, &symbol, sizeof symbol);
}

static set_function *library_set(void)
{
    set_function *f;
    find("cudnnBackendSetAttribute", &f);
    return f;
}

static cudnnStatus_t set_device(desc d, cudnnBackendAttributeName_t name)
{
    return library_set()(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
}

/* Counts a plan of this configuration, which is about to be finalized. */
static cudnnStatus_t count_plan(const desc *config)
{
    struct described_plans *const counted = &described_plans, before = *counted;
    desc engine = NULL;
    int64_t count = 0;
    int compiles = 0;
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    cudnnStatus_t status = cudnnBackendGetAttribute(
        *config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = ss_conv_engine_compiles(engine, &compiles);
    drop(&engine);
    *counted = before; /* exclude the queries made here */
    counted->all++;
    counted->compiled += compiles;
    return status;
}

static void count_proposed(desc engine, int64_t count, const cudnnBackendBehaviorNote_t *notes)
{
    int64_t index = 0;
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) {
            described_plans.proposed++;
            if (get_int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &index) == CUDNN_STATUS_SUCCESS)
                described_plans.engines |= (uint64_t)1 << (index & 63);
        }
}

/* Overrides the library's function. */
cudnnStatus_t cudnnBackendGetAttribute(desc d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t capacity,
                                       int64_t *count, void *values)
{
    get_function *library_get;
    find("cudnnBackendGetAttribute", &library_get);
    TRY(library_get(d, name, type, capacity, count, values));
    if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)
        count_proposed(d, *count < capacity ? *count : capacity, values);
    return CUDNN_STATUS_SUCCESS;
}

/* Overrides the library's function. */
cudnnStatus_t cudnnBackendSetAttribute(desc d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
        return CUDNN_STATUS_SUCCESS;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        return set_device(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
        TRY(count_plan(values));
    if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
        TRY(set_device(d, CUDNN_ATTR_ENGINE_DEVICEPROP));
    if (name == CUDNN_ATTR_ENGINEHEUR_MODE)
        TRY(set_device(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP));
    return library_set()(d, name, type, count, values);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, desc plan, desc pack)
{
    (void)handle;
    described_executions += plan && pack;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t make_device(const char *json)
{
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device));
    TRY(library_set()(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                      (int64_t)strlen(json), json));
    return cudnnBackendFinalize(device);
}

int describe_driver(void)
{
    char name[32], path[4096];
    struct link_map *map;
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL))
        return 1;
    snprintf(name, sizeof name, "libnvrtc.so.%d", CUDART_VERSION / 1000);
    void *nvrtc = dlopen(name, RTLD_LAZY);
    if (!nvrtc || dlinfo(nvrtc, RTLD_DI_LINKMAP, &map))
        return 0;
    const char *slash = strrchr(map->l_name, '/');
    snprintf(path, sizeof path, "%.*s/stubs/libcuda.so", slash ? (int)(slash - map->l_name) : 0,
             map->l_name);
    return dlopen(path, RTLD_LAZY | RTLD_GLOBAL) != NULL;
}

int describe_gpu(const char *key)
{
    for (int i = 0; i < DESCRIBED_GPUS; i++)
        if (strcmp(described_gpus[i].key, key) == 0) {
            drop(&device);
            if (make_device(described_gpus[i].json) == CUDNN_STATUS_SUCCESS)
                return 1;
        }
    printf("cuDNN %zu does not accept the description of the GPU %s: skipped\n", cudnnGetVersion(),
           key);
    return 0;
}

#endif
