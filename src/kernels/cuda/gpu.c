/* gpu.c: one GPU: library handles, streams, events, memory and copies.
 *
 * The runtime's current device is per thread, so every function that creates an object on the
 * device sets it first. Copies and zeroing run on the gpu's stream and wait for that stream only:
 * all streams of this program are non-blocking, and so not ordered with CUDA's default stream. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "kernels/cuda/internal.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { OLDEST_CAPABILITY = 80, MIB = 1 << 20 };

/* Device memory of ss_cuda_alloc: cudaFree does not report sizes, but the total is shown to
 * users. */
struct allocation {
    struct allocation *next;
    struct ss_device *gpu;
    void *data;
    size_t bytes;
};
static struct allocation *allocations;
static pthread_mutex_t allocations_lock = PTHREAD_MUTEX_INITIALIZER;

static int major_of(int version) /* 13010 for CUDA 13.1 */
{
    return version / 1000;
}

static int minor_of(int version)
{
    return version % 1000 / 10;
}

enum ss_status ss_cuda_bus_id(int device, char *text, size_t bytes)
{
    SS_CUDA_TRY(cudaDeviceGetPCIBusId(text, (int)bytes, device));
    for (char *c = text; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return SS_OK;
}

enum ss_status ss_cuda_name(int device, char *text, size_t bytes)
{
    struct cudaDeviceProp prop;
    SS_CUDA_TRY(cudaGetDeviceProperties(&prop, device));
    snprintf(text, bytes, "%s", prop.name);
    return SS_OK;
}

/* Explains a failure of cudaGetDeviceCount or cudaSetDevice. Returns 0 if there is no driver or
 * no device. */
static int explain(cudaError_t error, char *text, size_t bytes)
{
    int driver = 0, runtime = 0;
    cudaGetLastError(); /* else the next launch reports it */
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        snprintf(text, bytes,
                 "no NVIDIA driver found (%s); install one for CUDA %d.%d or newer, or use "
                 "--device cpu",
                 cudaGetErrorString(error), major_of(runtime), minor_of(runtime));
    else if (error == cudaErrorNoDevice)
        snprintf(text, bytes,
                 "the driver reports no device; check CUDA_VISIBLE_DEVICES and nvidia-smi, or use "
                 "--device cpu");
    else if (driver < runtime && error == cudaErrorInsufficientDriver)
        snprintf(text, bytes,
                 "the NVIDIA driver is for CUDA %d.%d and this program for CUDA %d.%d; update the "
                 "driver, or build with an older CUDA",
                 major_of(driver), minor_of(driver), major_of(runtime), minor_of(runtime));
    else
        snprintf(text, bytes, "%s (driver for CUDA %d.%d, program for CUDA %d.%d)",
                 cudaGetErrorString(error), major_of(driver), minor_of(driver), major_of(runtime),
                 minor_of(runtime));
    return driver != 0 && error != cudaErrorNoDevice;
}

static enum ss_status fail_driver(cudaError_t error)
{
    char text[320];
    explain(error, text, sizeof text);
    return ss_fail(SS_ERR_UNSUPPORTED, "GPU: %s", text);
}

int ss_cuda_count(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    int count = 0;
    char text[320];
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess)
        return count;
    if (explain(error, text, sizeof text) && !atomic_flag_test_and_set(&warned))
        ss_warn("no GPU is used: %s", text);
    return 0;
}

static enum ss_status select_device(struct ss_device *gpu)
{
    const int device = gpu->options.device;
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0)
        return fail_driver(error == cudaSuccess ? cudaErrorNoDevice : error);
    if (device < 0 || device >= count)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "GPU %d: this process may use %d device(s), counted from 0", device, count);
    struct cudaDeviceProp prop;
    SS_CUDA_TRY(cudaGetDeviceProperties(&prop, device));
    gpu->capability = prop.major * 10 + prop.minor;
    if (gpu->capability < OLDEST_CAPABILITY)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "GPU %d (%s): compute capability %d.%d; 8.0 (A100) or newer is required",
                       device, prop.name, prop.major, prop.minor);
    error = cudaSetDevice(device); /* creates the context */
    if (error != cudaSuccess)
        return fail_driver(error);
    gpu->sms = prop.multiProcessorCount;
    gpu->l2_bytes = (size_t)prop.l2CacheSize;
    gpu->device_bytes = prop.totalGlobalMem;
    int driver = 0, runtime = 0;
    SS_CUDA_TRY(cudaDriverGetVersion(&driver));
    SS_CUDA_TRY(cudaRuntimeGetVersion(&runtime));
    const int cudnn = (int)cudnnGetVersion(); /* 91900 for 9.19.0 */
    snprintf(gpu->info, sizeof gpu->info, "%.80s (sm_%d), CUDA %d.%d, driver %d.%d, cuDNN %d.%d.%d",
             prop.name, gpu->capability, major_of(runtime), minor_of(runtime), major_of(driver),
             minor_of(driver), cudnn / 10000, cudnn / 100 % 100, cudnn % 100);
    return SS_OK;
}

/* Loads NVRTC and never unloads it. Otherwise cuDNN loads and unloads it for each plan, which
 * takes most of the startup time. A failure is harmless. */
static void retain_nvrtc(void)
{
    char name[32];
    snprintf(name, sizeof name, "libnvrtc.so.%d", CUDART_VERSION / 1000);
    (void)dlopen(name, RTLD_LAZY);
}

static enum ss_status open_gpu(struct ss_device *gpu)
{
    retain_nvrtc();
    SS_TRY(select_device(gpu));
    SS_CUDA_TRY(cudaStreamCreateWithFlags(&gpu->own_stream, cudaStreamNonBlocking));
    SS_CUDNN_TRY(cudnnCreate(&gpu->cudnn));
    SS_CUBLASLT_TRY(cublasLtCreate(&gpu->cublaslt));
    return ss_cuda_set_stream(gpu, gpu->own_stream);
}

enum ss_status ss_cuda_open(const struct ss_device_options *options, struct ss_device **out)
{
    struct ss_device *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return ss_fail_memory("GPU", sizeof *gpu);
    gpu->options = *options;
    enum ss_status status = open_gpu(gpu);
    if (status != SS_OK) {
        ss_cuda_close(gpu);
        return status;
    }
    *out = gpu;
    return SS_OK;
}

void ss_cuda_close(struct ss_device *gpu)
{
    if (!gpu)
        return;
    if (gpu->own_stream)
        cudaSetDevice(gpu->options.device);
    if (gpu->cudnn)
        cudnnDestroy(gpu->cudnn);
    if (gpu->cublaslt)
        cublasLtDestroy(gpu->cublaslt);
    if (gpu->scratch.data)
        cudaFree(gpu->scratch.data);
    if (gpu->update_scratch.data)
        cudaFree(gpu->update_scratch.data);
    if (gpu->done)
        cudaFree(gpu->done);
    if (gpu->own_stream)
        cudaStreamDestroy(gpu->own_stream);
    pthread_mutex_lock(&allocations_lock);
    for (struct allocation *a = allocations; a; a = a->next)
        if (a->gpu == gpu)
            a->gpu = NULL; /* still to be freed by the caller */
    pthread_mutex_unlock(&allocations_lock);
    free(gpu);
}

enum ss_dtype ss_cuda_dtype(const struct ss_device *gpu)
{
    return gpu->options.dtype;
}

uint64_t ss_cuda_fingerprint(const struct ss_device *gpu)
{
    return (uint64_t)gpu->options.dtype;
}

const char *ss_cuda_info(const struct ss_device *gpu)
{
    return gpu->info;
}

enum ss_status ss_cuda_set_stream(struct ss_device *gpu, ss_stream stream)
{
    if (gpu->stream == stream)
        return SS_OK;
    SS_CUDNN_TRY(cudnnSetStream(gpu->cudnn, stream));
    gpu->stream = stream;
    return SS_OK;
}

ss_stream ss_cuda_stream(const struct ss_device *gpu)
{
    return gpu->stream;
}

enum ss_status ss_cuda_stream_create(struct ss_device *gpu, int priority, ss_stream *out)
{
    int least = 0, greatest = 0;
    SS_CUDA_TRY(cudaSetDevice(gpu->options.device));
    SS_CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    SS_CUDA_TRY(
        cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, priority > 0 ? greatest : least));
    return SS_OK;
}

void ss_cuda_stream_destroy(ss_stream stream)
{
    if (stream)
        cudaStreamDestroy(stream);
}

enum ss_status ss_cuda_event_create(struct ss_device *gpu, int timing, ss_event *out)
{
    SS_CUDA_TRY(cudaSetDevice(gpu->options.device));
    SS_CUDA_TRY(cudaEventCreateWithFlags(out, timing ? cudaEventDefault : cudaEventDisableTiming));
    return SS_OK;
}

void ss_cuda_event_destroy(ss_event event)
{
    if (event)
        cudaEventDestroy(event);
}

enum ss_status ss_cuda_record(ss_event event, ss_stream stream)
{
    SS_CUDA_TRY(cudaEventRecord(event, stream));
    return SS_OK;
}

enum ss_status ss_cuda_wait(ss_stream stream, ss_event event)
{
    SS_CUDA_TRY(cudaStreamWaitEvent(stream, event, 0));
    return SS_OK;
}

enum ss_status ss_cuda_finish(ss_event event)
{
    SS_CUDA_TRY(cudaEventSynchronize(event));
    return SS_OK;
}

/* Sets the device first: else, on a thread without one, the call would create a context on device
 * 0. */
enum ss_status ss_cuda_elapsed(struct ss_device *gpu, ss_event begin, ss_event end, float *ms)
{
    SS_CUDA_TRY(cudaSetDevice(gpu->options.device));
    SS_CUDA_TRY(cudaEventElapsedTime(ms, begin, end));
    return SS_OK;
}

#ifdef SS_HOSTGPU
void hostgpu_emulate_time(void);
void hostgpu_spend(cudaStream_t stream, double seconds);
#endif

enum ss_status ss_cuda_emulate_time(void)
{
#ifdef SS_HOSTGPU
    hostgpu_emulate_time();
    return SS_OK;
#else
    return ss_fail(SS_ERR_UNSUPPORTED, "timed emulation requires an emulated GPU; this build, "
                                       "without --enable-hostgpu, is for real GPUs");
#endif
}

enum ss_status ss_cuda_spend(ss_stream stream, double seconds)
{
#ifdef SS_HOSTGPU
    hostgpu_spend(stream, seconds);
    return SS_OK;
#else
    (void)stream;
    (void)seconds;
    return ss_cuda_emulate_time();
#endif
}

void ss_cuda_clear_errors(void)
{
    cudaGetLastError();
}

enum ss_status ss_cuda_synchronize(struct ss_device *gpu)
{
    SS_CUDA_TRY(cudaSetDevice(gpu->options.device));
    SS_CUDA_TRY(cudaDeviceSynchronize());
    return SS_OK;
}

/* Calls cudaMalloc; an error reports the purpose and size. */
static enum ss_status device_malloc(struct ss_device *gpu, size_t bytes, const char *what,
                                    void **out)
{
    SS_CUDA_TRY(cudaSetDevice(gpu->options.device));
    cudaError_t error = cudaMalloc(out, bytes);
    if (error == cudaSuccess) {
        gpu->used_bytes += bytes;
        return SS_OK;
    }
    cudaGetLastError(); /* else the next launch reports it */
    if (error != cudaErrorMemoryAllocation)
        return ss_fail(SS_ERR_LIBRARY, "CUDA: cudaMalloc of %zu bytes for %s: %s", bytes, what,
                       cudaGetErrorString(error));
    return ss_fail(SS_ERR_MEMORY,
                   "GPU %d: out of memory: %s needs %zu bytes in addition to %zu MiB that this "
                   "process already holds of the device's %zu MiB; use a smaller --batch-size, or "
                   "free the GPU of other programs",
                   gpu->options.device, what, bytes, gpu->used_bytes / MIB,
                   gpu->device_bytes / MIB);
}

static enum ss_status zero(struct ss_device *gpu, void *data, size_t bytes)
{
    SS_CUDA_TRY(cudaMemsetAsync(data, 0, bytes, gpu->stream));
    SS_CUDA_TRY(cudaStreamSynchronize(gpu->stream));
    return SS_OK;
}

/* Zeroes the memory and adds it to the list of allocations. */
static enum ss_status enter(struct ss_device *gpu, void *data, size_t bytes, const char *what)
{
    struct allocation *a = malloc(sizeof *a);
    if (!a)
        return ss_fail_memory(what, sizeof *a);
    *a = (struct allocation){.gpu = gpu, .data = data, .bytes = bytes};
    enum ss_status status = zero(gpu, data, bytes);
    if (status != SS_OK) {
        free(a);
        return status;
    }
    pthread_mutex_lock(&allocations_lock);
    a->next = allocations;
    allocations = a;
    pthread_mutex_unlock(&allocations_lock);
    return SS_OK;
}

enum ss_status ss_cuda_alloc(struct ss_device *gpu, size_t bytes, const char *what, void **out)
{
    void *data;
    bytes = bytes > 0 ? bytes : 1;
    SS_TRY(device_malloc(gpu, bytes, what, &data));
    enum ss_status status = enter(gpu, data, bytes, what);
    if (status != SS_OK)
        cudaFree(data);
    else
        *out = data;
    return status;
}

enum ss_status ss_cuda_adopt(struct ss_device *gpu, void *data, size_t bytes, const char *what)
{
    SS_TRY(enter(gpu, data, bytes, what));
    gpu->used_bytes += bytes;
    return SS_OK;
}

void ss_cuda_disown(void *data)
{
    pthread_mutex_lock(&allocations_lock);
    struct allocation **at = &allocations;
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    struct allocation *a = *at;
    if (a) {
        *at = a->next;
        if (a->gpu)
            a->gpu->used_bytes -= a->bytes;
    }
    pthread_mutex_unlock(&allocations_lock);
    free(a);
}

void ss_cuda_free(void *data)
{
    if (!data)
        return;
    ss_cuda_disown(data);
    cudaFree(data);
}

enum ss_status ss_cuda_alloc_host(struct ss_device *gpu, size_t bytes, const char *what, void **out)
{
    SS_CUDA_TRY(cudaSetDevice(gpu->options.device));
    cudaError_t error = cudaMallocHost(out, bytes > 0 ? bytes : 1);
    if (error == cudaSuccess)
        return SS_OK;
    cudaGetLastError();
    return ss_fail(error == cudaErrorMemoryAllocation ? SS_ERR_MEMORY : SS_ERR_LIBRARY,
                   "CUDA: pinned host memory for %s, %zu bytes: %s; free memory of the host, or "
                   "raise the limit of locked memory (ulimit -l)",
                   what, bytes, cudaGetErrorString(error));
}

void ss_cuda_free_host(void *data)
{
    if (data)
        cudaFreeHost(data);
}

void ss_cuda_memory(const struct ss_device *gpu, size_t *used, size_t *whole)
{
    *used = gpu->used_bytes;
    *whole = gpu->device_bytes;
}

enum ss_status ss_cuda_copy(struct ss_device *gpu, void *dst, const void *src, size_t bytes)
{
    SS_CUDA_TRY(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, gpu->stream));
    SS_CUDA_TRY(cudaStreamSynchronize(gpu->stream));
    return SS_OK;
}

enum ss_status ss_cuda_copy_async(void *dst, const void *src, size_t bytes, ss_stream stream)
{
    SS_CUDA_TRY(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
    return SS_OK;
}

enum ss_status ss_cuda_zero_async(void *dst, size_t bytes, ss_stream stream)
{
    SS_CUDA_TRY(cudaMemsetAsync(dst, 0, bytes, stream));
    return SS_OK;
}

static enum ss_status reserve(struct ss_device *gpu, struct ss_scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->bytes)
        return SS_OK;
    SS_TRY(ss_cuda_synchronize(gpu)); /* kernels may still use the old memory */
    if (scratch->data) {
        SS_CUDA_TRY(cudaFree(scratch->data));
        gpu->used_bytes -= scratch->bytes;
        *scratch = (struct ss_scratch){NULL, 0};
    }
    void *data = NULL;
    SS_TRY(device_malloc(gpu, bytes, "the kernels' scratch", &data));
    *scratch = (struct ss_scratch){data, bytes};
    return SS_OK;
}

enum ss_status ss_cuda_reserve(struct ss_device *gpu, size_t bytes)
{
    return reserve(gpu, &gpu->scratch, bytes);
}

enum ss_status ss_cuda_reserve_update(struct ss_device *gpu, size_t bytes)
{
    return reserve(gpu, &gpu->update_scratch, bytes);
}

enum ss_status ss_cuda_reserve_done(struct ss_device *gpu, size_t n)
{
    if (n <= gpu->ndone)
        return SS_OK;
    SS_TRY(ss_cuda_synchronize(gpu)); /* as above */
    if (gpu->done)
        SS_CUDA_TRY(cudaFree(gpu->done));
    gpu->used_bytes -= gpu->ndone * sizeof *gpu->done;
    gpu->done = NULL;
    gpu->ndone = 0;
    void *done = NULL;
    SS_TRY(device_malloc(gpu, n * sizeof *gpu->done, "the kernels' counters", &done));
    gpu->done = done;
    gpu->ndone = n;
    SS_CUDA_TRY(cudaMemsetAsync(done, 0, n * sizeof *gpu->done, gpu->stream));
    return ss_cuda_synchronize(gpu);
}

void *ss_cuda_scratch(const struct ss_device *gpu)
{
    return gpu->scratch.data;
}
