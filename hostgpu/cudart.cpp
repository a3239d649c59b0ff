/* Devices, attributes and errors of the host emulation: the rest of the CUDA runtime. See
 * streams.cpp for streams and events, memory.cpp for memory and copies, device.cpp for
 * kernels. */
#include "hostgpu/hostgpu.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> stuck{cudaSuccess};

/* For SS_HOSTGPU_REPORT. */
std::atomic<unsigned> contexts; /* bit per device */
std::atomic<int> resets;
std::atomic<uint64_t> most_queued, most_given;
struct {
    std::mutex mutex;
    std::set<pid_t> threads;
    int least_cores = CPU_SETSIZE;
    int policy = 0;
} nccl_callers;

bool is_device(int device)
{
    return device >= 0 && device < hostgpu::device_count();
}

struct error_text {
    cudaError_t error;
    const char *name, *text;
};
const struct error_text error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const struct error_text *find_error(cudaError_t error)
{
    for (const struct error_text &e : error_texts)
        if (e.error == error)
            return &e;
    return nullptr;
}

/* Returns the numbers of the devices visible to the process, from CUDA_VISIBLE_DEVICES, parsed as
 * CUDA does: an invalid entry ends the list, and a repeated one leaves no device. */
std::vector<int> find_visible()
{
    const int count = (int)hostgpu::environment("SS_HOSTGPU_DEVICES", 1, 0, 8);
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    std::vector<int> visible;
    if (!list)
        for (int d = 0; d < count; d++)
            visible.push_back(d);
    std::istringstream in(list ? list : "");
    for (std::string name; std::getline(in, name, ',');) {
        if (name.compare(0, 4, "GPU-") == 0 || name.compare(0, 4, "MIG-") == 0)
            hostgpu::die("CUDA_VISIBLE_DEVICES=%s: names are not emulated, only numbers", list);
        char *end = nullptr;
        const long d = strtol(name.c_str(), &end, 10);
        if (end == name.c_str() || *end || d < 0 || d >= count)
            break;
        if (std::find(visible.begin(), visible.end(), (int)d) != visible.end())
            return {};
        visible.push_back((int)d);
    }
    return visible;
}

const std::vector<int> &visible_devices()
{
    static const auto *visible = new std::vector<int>(find_visible()); /* used at exit */
    return *visible;
}

/* Appends one line about this process to the file named by SS_HOSTGPU_REPORT. */
__attribute__((destructor)) void report()
{
    const char *file = getenv("SS_HOSTGPU_REPORT");
    std::ostringstream line;
    const int fd = file ? open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd < 0)
        return;
    line << "contexts:";
    for (size_t d = 0; d < visible_devices().size(); d++)
        if (contexts & (1u << d))
            line << ' ' << visible_devices()[d];
    line << "; resets: " << resets << "; queued: " << most_queued << ", of " << most_given;
    if (hostgpu::emulates_time())
        line << "; behind: " << hostgpu::most_ns_behind() / 1000 << " us";
    if (!nccl_callers.threads.empty())
        line << "; NCCL called by: " << nccl_callers.threads.size() << ", on "
             << nccl_callers.least_cores;
    if (nccl_callers.policy)
        line << "; CTA policy: " << nccl_callers.policy;
    line << '\n';
    if (write(fd, line.str().data(), line.str().size()) < 0)
        perror(file);
    close(fd);
}

} // namespace

namespace hostgpu
{

void die(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "host emulation: %s\n", text);
    abort();
}

long environment(const char *name, long unset, long min, long max)
{
    const char *text = getenv(name);
    if (!text)
        return unset;
    char *end = nullptr;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max)
        die("%s=%s: must be a number from %ld to %ld", name, text, min, max);
    return value;
}

int device_count()
{
    return (int)visible_devices().size();
}

int current_device()
{
    return device_of_thread;
}

const described_gpu &described_device()
{
    static const described_gpu &chosen = []() -> const described_gpu & {
        const char *key = getenv("SS_HOSTGPU_DEVICE");
        for (const described_gpu &gpu : described_gpus)
            if (!key || strcmp(gpu.key, key) == 0)
                return gpu;
        die("SS_HOSTGPU_DEVICE=%s: must be h200, h100 or a100", key);
    }();
    return chosen;
}

void restore_device(int device)
{
    device_of_thread = device;
}

cudaError_t set_last_error(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t standing()
{
    return set_last_error(stuck);
}

cudaError_t begin_call()
{
    if (is_device(device_of_thread))
        contexts |= 1u << device_of_thread;
    return standing();
}

void fault(cudaError_t error)
{
    stuck = error;
}

bool has_fault()
{
    return stuck != cudaSuccess;
}

void note_nccl_caller()
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores))
        return;
    std::lock_guard<std::mutex> lock(nccl_callers.mutex);
    nccl_callers.threads.insert(gettid());
    nccl_callers.least_cores = std::min(nccl_callers.least_cores, CPU_COUNT(&cores));
}

void note_nccl_policy(int policy)
{
    std::lock_guard<std::mutex> lock(nccl_callers.mutex);
    nccl_callers.policy = policy;
}

static void raise(std::atomic<uint64_t> &most, uint64_t to)
{
    uint64_t old = most;
    while (to > old && !most.compare_exchange_weak(old, to))
        ;
}

void note_queued(uint64_t items, uint64_t given)
{
    raise(most_queued, items);
    raise(most_given, given);
}

} // namespace hostgpu

extern "C" {

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = stuck;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    const struct error_text *e = find_error(error);
    return e ? e->text : "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error)
{
    const struct error_text *e = find_error(error);
    return e ? e->name : "unrecognized error code";
}

/* As CUDART_VERSION; 0: no driver. */
static long driver_version()
{
    return hostgpu::environment("SS_HOSTGPU_DRIVER", CUDART_VERSION, 0, 999999);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = (int)driver_version();
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (driver_version() < CUDART_VERSION) {
        *count = 0;
        return hostgpu::set_last_error(cudaErrorInsufficientDriver);
    }
    *count = hostgpu::device_count();
    return *count ? cudaSuccess : hostgpu::set_last_error(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    if (!is_device(device))
        return hostgpu::set_last_error(cudaErrorInvalidDevice);
    device_of_thread = device;
    return hostgpu::begin_call();
}

cudaError_t cudaGetDevice(int *device)
{
    *device = device_of_thread;
    return hostgpu::device_count() ? cudaSuccess : hostgpu::set_last_error(cudaErrorNoDevice);
}

cudaError_t cudaSetDeviceFlags(unsigned int)
{
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    HOSTGPU_BEGIN();
    const cudaError_t error = hostgpu::whole_device_call(device_of_thread);
    if (error != cudaSuccess)
        return error;
    hostgpu::wait_device(device_of_thread);
    return hostgpu::standing();
}

cudaError_t cudaDeviceReset(void)
{
    resets++;
    hostgpu::wait_device(device_of_thread);
    hostgpu::reset_streams(device_of_thread);
    hostgpu::reset_memory(device_of_thread);
    return cudaSuccess;
}

/* Fills in the properties that programs query, as reported by the described GPU. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    if (!is_device(device))
        return hostgpu::set_last_error(cudaErrorInvalidDevice);
    *p = {};
    const described_gpu &gpu = hostgpu::described_device();
    const bool usual = &gpu == &described_gpus[0];
    snprintf(p->name, sizeof p->name, "host emulation%s%s", usual ? "" : " of ",
             usual ? "" : gpu.key);
    const int number = visible_devices()[(size_t)device];
    p->uuid.bytes[15] = (char)number;
    p->totalGlobalMem = hostgpu::memory_limit();
    p->major = gpu.capability / 10;
    p->minor = gpu.capability % 10;
    p->multiProcessorCount = gpu.sms;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = static_cast<size_t>(gpu.shared_optin);
    p->reservedSharedMemPerBlock = 1 << 10;
    p->sharedMemPerMultiprocessor = p->sharedMemPerBlockOptin + p->reservedSharedMemPerBlock;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->totalConstMem = 64 << 10;
    p->memPitch = 0x7fffffff;
    p->textureAlignment = 512;
    p->texturePitchAlignment = 32;
    p->l2CacheSize = gpu.l2_bytes;
    p->memoryBusWidth = 6144;
    p->asyncEngineCount = 3;
    p->concurrentKernels = 1;
    p->streamPrioritiesSupported = 1;
    p->unifiedAddressing = 1;
    p->canMapHostMemory = 1;
    p->hostRegisterSupported = 1;
    p->canUseHostPointerForRegisteredMem = 1;
    p->pciBusID = number + 1;
    p->deviceNumaId = p->hostNumaId = -1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    struct cudaDeviceProp p;
    const cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error != cudaSuccess)
        return error;
    if (!text || bytes < 13)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    snprintf(text, (size_t)bytes, "%04X:%02X:%02X.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp p;
    const cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error != cudaSuccess)
        return error;
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        return cudaSuccess;
    case cudaDevAttrL2CacheSize:
        *value = p.l2CacheSize;
        return cudaSuccess;
    case cudaDevAttrWarpSize:
        *value = p.warpSize;
        return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
        *value = p.maxThreadsPerBlock;
        return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = p.maxThreadsPerMultiProcessor;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)p.sharedMemPerBlock;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)p.sharedMemPerBlockOptin;
        return cudaSuccess;
    case cudaDevAttrAsyncEngineCount:
        *value = p.asyncEngineCount;
        return cudaSuccess;
    case cudaDevAttrUnifiedAddressing:
        *value = p.unifiedAddressing;
        return cudaSuccess;
    case cudaDevAttrCanMapHostMemory:
        *value = p.canMapHostMemory;
        return cudaSuccess;
    case cudaDevAttrComputeMode:
        *value = cudaComputeModeDefault;
        return cudaSuccess;
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrMemoryPoolsSupported:
        *value = 0;
        return cudaSuccess;
    default:
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    }
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (!is_device(device) || !is_device(peer))
        return hostgpu::set_last_error(cudaErrorInvalidDevice);
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int)
{
    HOSTGPU_BEGIN();
    return hostgpu::set_last_error(is_device(peer) ? cudaErrorPeerAccessUnsupported
                                                   : cudaErrorInvalidDevice);
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute, int)
{
    HOSTGPU_BEGIN();
    return function ? cudaSuccess : hostgpu::set_last_error(cudaErrorInvalidValue);
}

/* Limited by the threads only: registers and shared memory are unknown here. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t)
{
    HOSTGPU_BEGIN();
    if (!function || threads < 1 || threads > 1024)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    *blocks = 2048 / threads < 32 ? 2048 / threads : 32;
    return cudaSuccess;
}

} /* extern "C" */
