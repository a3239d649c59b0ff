/* NVTX injection library for tests, which NVTX's header loads from NVTX_INJECTION64_PATH. Writes
 * the events to the file $NVTX_RECORD.PID, one per line, fields separated by tabs:
 *
 *   domain NAME | category NUMBER NAME
 *   push THREAD CATEGORY PAYLOAD NAME | pop THREAD
 *   start RANGE CATEGORY PAYLOAD NAME | end RANGE */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static nvtxRangeId_t last_range;
static _Thread_local long thread, depth;
static long threads;

/* Registered names are copies that serve as their own handles. */
static const char *text_of(const nvtxEventAttributes_t *a)
{
    return a->messageType == NVTX_MESSAGE_TYPE_REGISTERED ? (const char *)a->message.registered
                                                          : a->message.ascii;
}

static unsigned long long payload_of(const nvtxEventAttributes_t *a)
{
    return a->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 ? a->payload.ullValue : 0;
}

static long this_thread(void)
{
    if (!thread)
        thread = ++threads;
    return thread;
}

static nvtxDomainHandle_t NVTX_API create(const char *name)
{
    pthread_mutex_lock(&lock);
    fprintf(out, "domain\t%s\n", name);
    pthread_mutex_unlock(&lock);
    return (nvtxDomainHandle_t)strdup(name);
}

static void NVTX_API destroy(nvtxDomainHandle_t domain)
{
    free(domain);
    fflush(out);
}

static void NVTX_API category(nvtxDomainHandle_t domain, uint32_t number, const char *name)
{
    (void)domain;
    pthread_mutex_lock(&lock);
    fprintf(out, "category\t%u\t%s\n", number, name);
    pthread_mutex_unlock(&lock);
}

static nvtxStringHandle_t NVTX_API name_handle(nvtxDomainHandle_t domain, const char *name)
{
    (void)domain;
    return (nvtxStringHandle_t)strdup(name);
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
    pthread_mutex_lock(&lock);
    fprintf(out, "push\t%ld\t%u\t%llu\t%s\n", this_thread(), a->category, payload_of(a),
            text_of(a));
    pthread_mutex_unlock(&lock);
    return domain ? (int)depth++ : -1;
}

static int NVTX_API pop(nvtxDomainHandle_t domain)
{
    pthread_mutex_lock(&lock);
    fprintf(out, "pop\t%ld\n", this_thread());
    pthread_mutex_unlock(&lock);
    return domain ? (int)--depth : -1;
}

static nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
    pthread_mutex_lock(&lock);
    nvtxRangeId_t id = domain ? ++last_range : 0;
    fprintf(out, "start\t%llu\t%u\t%llu\t%s\n", (unsigned long long)id, a->category, payload_of(a),
            text_of(a));
    pthread_mutex_unlock(&lock);
    return id;
}

static void NVTX_API end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
    (void)domain;
    pthread_mutex_lock(&lock);
    fprintf(out, "end\t%llu\n", (unsigned long long)id);
    pthread_mutex_unlock(&lock);
}

static void set(NvtxFunctionTable table, unsigned int size, unsigned int which,
                NvtxFunctionPointer f)
{
    if (which < size)
        *table[which] = f;
}

int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    char path[4096];
    const char *base = getenv("NVTX_RECORD");
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size;
    if (!base || !callbacks ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    snprintf(path, sizeof path, "%s.%ld", base, (long)getpid());
    out = fopen(path, "a");
    if (!out)
        return 0;
    set(table, size, NVTX_CBID_CORE2_DomainCreateA, (NvtxFunctionPointer)create);
    set(table, size, NVTX_CBID_CORE2_DomainDestroy, (NvtxFunctionPointer)destroy);
    set(table, size, NVTX_CBID_CORE2_DomainNameCategoryA, (NvtxFunctionPointer)category);
    set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, (NvtxFunctionPointer)name_handle);
    set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, (NvtxFunctionPointer)push);
    set(table, size, NVTX_CBID_CORE2_DomainRangePop, (NvtxFunctionPointer)pop);
    set(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, (NvtxFunctionPointer)start);
    set(table, size, NVTX_CBID_CORE2_DomainRangeEnd, (NvtxFunctionPointer)end);
    return 1;
}
