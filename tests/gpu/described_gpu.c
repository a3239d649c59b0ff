/* described_gpu.c: calls of cuDNN that name a handle, made for a described GPU. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "tests/gpu/described_gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int described_executions;

#if CUDNN_VERSION < 90800
int describe_gpu(const char *key)
{
    printf("cuDNN before 9.8 needs a GPU to make plans, not only an %s described: skipped\n", key);
    return 0;
}
#else

static desc device;

typedef cudnnStatus_t set_function(desc, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                                   int64_t, const void *);

static set_function *library_set(void)
{
    set_function *f;
    void *symbol = dlsym(RTLD_NEXT, "cudnnBackendSetAttribute");
    memcpy(&f, &symbol, sizeof f); /* ISO C has no cast between the two */
    return f;
}

static cudnnStatus_t set_device(desc d, cudnnBackendAttributeName_t name)
{
    return library_set()(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
}

/* Instead of the library's. */
cudnnStatus_t cudnnBackendSetAttribute(desc d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
        return CUDNN_STATUS_SUCCESS;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        return set_device(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
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

int describe_gpu(const char *key)
{
    for (int i = 0; i < DESCRIBED_GPUS; i++)
        if (strcmp(described_gpus[i].key, key) == 0) {
            drop(&device);
            if (make_device(described_gpus[i].json) == CUDNN_STATUS_SUCCESS)
                return 1;
        }
    printf("cuDNN %zu takes no description of an %s in this form: skipped\n", cudnnGetVersion(),
           key);
    return 0;
}

#endif
