/* Memory and copies of the host emulation.
 *
 * Device memory is host memory filled with 0xFF bytes (NaN in every format); with timed emulation
 * it is zero, and uses host memory only once touched. It ends at an inaccessible page (or
 * AddressSanitizer's red zone). cudaFree detects writes between the end and that page. A copy
 * between host and device memory must have the right direction and stay inside allocations.
 *
 * Copies run on a stream. Asynchronous copies access pinned host memory when they run. As CUDA
 * documents, copies from pageable memory read the bytes immediately, and copies to pageable
 * memory block. A graph would copy from or to pageable memory at each launch; this ends the
 * process. */
#include "hostgpu/hostgpu.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#    define HOSTGPU_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define HOSTGPU_ASAN 1
#    endif
#endif

namespace
{

constexpr size_t ALIGNMENT = 256;
constexpr int POISON = 0xff;

enum kind { PAGEABLE, PINNED, REGISTERED, DEVICE, MANAGED, OUTSIDE };

struct allocation {
    enum kind kind;
    size_t bytes;
    int device;
    void *mapping; /* to free; NULL for registered memory */
    size_t mapping_bytes;
};

struct state {
    std::mutex mutex;
    std::map<char *, struct allocation> allocations;
    std::map<int, size_t> used; /* by device */
};

struct state &all()
{
    static struct state *s = new struct state;
    return *s;
}

size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Maps memory whose end, rounded up to ALIGNMENT, is at an inaccessible page. Returns NULL on
 * failure. */
char *map_memory(size_t bytes, struct allocation *a)
{
#ifdef HOSTGPU_ASAN
    if (posix_memalign(&a->mapping, ALIGNMENT, bytes))
        return nullptr;
    a->mapping_bytes = bytes;
    memset(a->mapping, POISON, bytes);
    return (char *)a->mapping;
#else
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), capacity = round_up(bytes, page);
    void *m = mmap(nullptr, capacity + page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED)
        return nullptr;
    if (mprotect((char *)m + capacity, page, PROT_NONE)) {
        munmap(m, capacity + page);
        return nullptr;
    }
    a->mapping = m;
    a->mapping_bytes = capacity + page;
    char *p = (char *)m + capacity - round_up(bytes, ALIGNMENT);
    if (hostgpu::emulates_time())
        memset(p + bytes, POISON, round_up(bytes, ALIGNMENT) - bytes);
    else
        memset(m, POISON, capacity);
    return p;
#endif
}

void unmap_memory(const char *p, const struct allocation &a)
{
#ifdef HOSTGPU_ASAN
    (void)p;
    free(a.mapping);
#else
    for (size_t i = a.bytes; i < round_up(a.bytes, ALIGNMENT); i++)
        if ((unsigned char)p[i] != POISON)
            hostgpu::die("something wrote at byte %zu of an allocation of %zu bytes", i, a.bytes);
    munmap(a.mapping, a.mapping_bytes);
#endif
}

bool counted(enum kind kind)
{
    return kind == DEVICE || kind == MANAGED;
}

cudaError_t allocate(enum kind kind, size_t bytes, void **out)
{
    if (!out)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    *out = nullptr;
    if (hostgpu::device_count() == 0)
        return hostgpu::set_last_error(cudaErrorNoDevice);
    if (bytes == 0)
        return cudaSuccess;
    std::lock_guard<std::mutex> lock(all().mutex);
    struct allocation a = {kind, bytes, hostgpu::current_device(), nullptr, 0};
    size_t &used = all().used[a.device];
    if (counted(kind) && bytes > hostgpu::memory_limit() - used)
        return hostgpu::set_last_error(cudaErrorMemoryAllocation);
    char *p = map_memory(bytes, &a);
    if (!p)
        return hostgpu::set_last_error(cudaErrorMemoryAllocation);
    if (counted(kind))
        used += bytes;
    all().allocations[p] = a;
    *out = p;
    return cudaSuccess;
}

/* Requires the mutex. */
void release(std::map<char *, struct allocation>::iterator it)
{
    if (counted(it->second.kind))
        all().used[it->second.device] -= it->second.bytes;
    unmap_memory(it->first, it->second);
    all().allocations.erase(it);
}

/* Returns the allocation that contains p. */
std::map<char *, struct allocation>::iterator find(const void *p)
{
    auto it = all().allocations.upper_bound((char *)p);
    if (it == all().allocations.begin())
        return all().allocations.end();
    --it;
    return (char *)p < it->first + it->second.bytes ? it : all().allocations.end();
}

/* Returns the kind of [p, p + bytes); OUTSIDE if it begins in an allocation and ends past it. */
enum kind kind_of(const void *p, size_t bytes)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    auto it = find(p);
    if (it == all().allocations.end())
        return PAGEABLE;
    if (bytes <= it->second.bytes - (size_t)((char *)p - it->first))
        return it->second.kind;
    return it->second.kind == REGISTERED ? PAGEABLE : OUTSIDE;
}

bool is_host(enum kind kind)
{
    return kind == PAGEABLE || kind == PINNED || kind == REGISTERED;
}

/* A copy of depth slices of height rows of width bytes; pitches and slices in bytes. */
struct region {
    char *dst;
    size_t dst_pitch, dst_slice;
    const char *src;
    size_t src_pitch, src_slice;
    size_t width, height, depth;
};

size_t span(const struct region &r, size_t pitch, size_t slice)
{
    return (r.depth - 1) * slice + (r.height - 1) * pitch + r.width;
}

void copy_now(const struct region &r)
{
    for (size_t z = 0; z < r.depth; z++)
        for (size_t y = 0; y < r.height; y++)
            memcpy(r.dst + z * r.dst_slice + y * r.dst_pitch,
                   r.src + z * r.src_slice + y * r.src_pitch, r.width);
}

/* Copies between a device and the host. */
void copy_over_link(const struct region &r)
{
    const double bytes = (double)r.width * (double)r.height * (double)r.depth;
    hostgpu::take(hostgpu::host_link_seconds(bytes), [&r] { copy_now(r); });
}

bool direction_fits(enum cudaMemcpyKind direction, enum kind dst, enum kind src)
{
    switch (direction) {
    case cudaMemcpyHostToHost:
        return dst != DEVICE && src != DEVICE;
    case cudaMemcpyHostToDevice:
        return !is_host(dst) && src != DEVICE;
    case cudaMemcpyDeviceToHost:
        return dst != DEVICE && !is_host(src);
    case cudaMemcpyDeviceToDevice:
        return !is_host(dst) && !is_host(src);
    default:
        return direction == cudaMemcpyDefault;
    }
}

/* Reads the bytes of pageable memory now, and enqueues the copy. */
cudaError_t enqueue_staged(const struct region &r, cudaStream_t stream, const char *what)
{
    auto bytes = std::vector<char>(r.width * r.height * r.depth);
    struct region now = r, later = r;
    now.dst = bytes.data();
    now.dst_pitch = later.src_pitch = r.width;
    now.dst_slice = later.src_slice = r.width * r.height;
    copy_now(now);
    return hostgpu::enqueue(stream, what, [later, bytes = std::move(bytes)]() mutable {
        later.src = bytes.data();
        copy_over_link(later);
    });
}

/* Implements every copy. `async` false: the blocking functions; they do not block for copies
 * between two places in device memory. */
cudaError_t copy(const struct region &r, enum cudaMemcpyKind direction, cudaStream_t stream,
                 bool async, const char *what)
{
    if (r.width == 0 || r.height == 0 || r.depth == 0)
        return cudaSuccess;
    if (r.height > 1 && (r.width > r.dst_pitch || r.width > r.src_pitch))
        return hostgpu::set_last_error(cudaErrorInvalidPitchValue);
    const enum kind dst = kind_of(r.dst, span(r, r.dst_pitch, r.dst_slice));
    const enum kind src = kind_of(r.src, span(r, r.src_pitch, r.src_slice));
    if (!r.dst || !r.src || dst == OUTSIDE || src == OUTSIDE ||
        !direction_fits(direction, dst, src))
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    if (!async && hostgpu::unsafe_call() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    if ((dst == PAGEABLE || src == PAGEABLE) && hostgpu::captures(stream))
        return hostgpu::enqueue(stream, what, [] {
            hostgpu::die("a graph copies from or to pageable memory, which may be freed");
        });
    if (async && src == PAGEABLE && !is_host(dst))
        return enqueue_staged(r, stream, what);
    const bool between_devices = dst == DEVICE && src == DEVICE;
    const cudaError_t error = between_devices
                                  ? hostgpu::enqueue_work(stream, what, [r] { copy_now(r); })
                                  : hostgpu::enqueue(stream, what, [r] { copy_over_link(r); });
    if (error != cudaSuccess)
        return error;
    if ((!async && !between_devices) || dst == PAGEABLE)
        hostgpu::wait_stream(stream);
    return hostgpu::standing();
}

struct region flat(void *dst, const void *src, size_t bytes)
{
    return {(char *)dst, bytes, bytes, (const char *)src, bytes, bytes, bytes, 1, 1};
}

/* Returns the corner of a 3-D copy in dst or src. Arrays (textures) are not emulated. */
char *corner(const struct cudaPitchedPtr &p, const struct cudaPos &pos)
{
    return (char *)p.ptr + (pos.z * p.ysize + pos.y) * p.pitch + pos.x;
}

template <typename P> struct region volume(const P *p)
{
    return {corner(p->dstPtr, p->dstPos),
            p->dstPtr.pitch,
            p->dstPtr.pitch * p->dstPtr.ysize,
            corner(p->srcPtr, p->srcPos),
            p->srcPtr.pitch,
            p->srcPtr.pitch * p->srcPtr.ysize,
            p->extent.width,
            p->extent.height,
            p->extent.depth};
}

cudaError_t copy_3d(const struct cudaMemcpy3DParms *p, cudaStream_t stream, bool async)
{
    if (!p || p->srcArray || p->dstArray)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    return copy(volume(p), p->kind, stream, async, "cudaMemcpy3D");
}

cudaError_t copy_3d_peer(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream, bool async)
{
    if (!p || p->srcArray || p->dstArray)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    return copy(volume(p), cudaMemcpyDefault, stream, async, "cudaMemcpy3DPeer");
}

cudaError_t set(void *dst, size_t pitch, int value, size_t width, size_t height,
                cudaStream_t stream)
{
    if (width == 0 || height == 0)
        return cudaSuccess;
    if (height > 1 && width > pitch)
        return hostgpu::set_last_error(cudaErrorInvalidPitchValue);
    const enum kind kind = kind_of(dst, (height - 1) * pitch + width);
    if (kind == PAGEABLE || kind == OUTSIDE)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    return hostgpu::enqueue_work(stream, "cudaMemset", [=] {
        for (size_t y = 0; y < height; y++)
            memset((char *)dst + y * pitch, value, width);
    });
}

void wait_all_devices()
{
    for (int i = 0; i < hostgpu::device_count(); i++)
        hostgpu::wait_device(i);
}

/* Frees memory of a kind accepted by `good`, after waiting for all work that may use it. */
cudaError_t give_back(void *p, bool (*good)(enum kind), cudaError_t wrong)
{
    if (!p)
        return cudaSuccess;
    wait_all_devices();
    std::lock_guard<std::mutex> lock(all().mutex);
    auto it = all().allocations.find((char *)p);
    if (it == all().allocations.end() || !good(it->second.kind))
        return hostgpu::set_last_error(wrong);
    release(it);
    return cudaSuccess;
}

} // namespace

namespace hostgpu
{

size_t memory_limit()
{
    static const long mb = environment("SS_HOSTGPU_MEMORY_MB", 4096, 1, 1 << 20);
    return (size_t)mb << 20;
}

bool is_device_memory(const void *p, size_t bytes)
{
    const enum kind kind = bytes ? kind_of(p, bytes) : DEVICE;
    return kind == DEVICE || kind == MANAGED;
}

void reset_memory(int device)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    for (auto it = all().allocations.begin(); it != all().allocations.end();) {
        auto next = std::next(it);
        if (counted(it->second.kind) && it->second.device == device)
            release(it);
        it = next;
    }
}

} // namespace hostgpu

extern "C" {

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    HOSTGPU_BEGIN_UNSAFE();
    return allocate(DEVICE, bytes, out);
}

cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned int)
{
    HOSTGPU_BEGIN_UNSAFE();
    return allocate(MANAGED, bytes, out);
}

cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
    HOSTGPU_BEGIN_UNSAFE();
    *pitch = round_up(width, 512);
    return allocate(DEVICE, *pitch * height, out);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    HOSTGPU_BEGIN_UNSAFE();
    return allocate(PINNED, bytes, out);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int)
{
    HOSTGPU_BEGIN_UNSAFE();
    return allocate(PINNED, bytes, out);
}

cudaError_t cudaFree(void *p)
{
    HOSTGPU_BEGIN_UNSAFE();
    return give_back(p, counted, cudaErrorInvalidValue);
}

cudaError_t cudaFreeHost(void *p)
{
    HOSTGPU_BEGIN_UNSAFE();
    return give_back(
        p, [](enum kind k) { return k == PINNED; }, cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int)
{
    HOSTGPU_BEGIN_UNSAFE();
    if (!p || bytes == 0)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(all().mutex);
    auto behind = all().allocations.lower_bound((char *)p);
    if (find(p) != all().allocations.end() ||
        (behind != all().allocations.end() && behind->first < (char *)p + bytes))
        return hostgpu::set_last_error(cudaErrorHostMemoryAlreadyRegistered);
    all().allocations[(char *)p] = {REGISTERED, bytes, hostgpu::current_device(), nullptr, 0};
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    HOSTGPU_BEGIN_UNSAFE();
    wait_all_devices();
    std::lock_guard<std::mutex> lock(all().mutex);
    auto it = all().allocations.find((char *)p);
    if (it == all().allocations.end() || it->second.kind != REGISTERED)
        return hostgpu::set_last_error(cudaErrorHostMemoryNotRegistered);
    all().allocations.erase(it);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned int)
{
    HOSTGPU_BEGIN();
    const enum kind kind = kind_of(p, 1);
    if (kind != PINNED && kind != REGISTERED)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    *out = p;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    HOSTGPU_BEGIN();
    if (!a)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(all().mutex);
    auto it = find(p);
    *a = {};
    if (it == all().allocations.end()) {
        a->type = cudaMemoryTypeUnregistered;
        a->device = -1;
        a->hostPointer = (void *)p;
        return cudaSuccess;
    }
    const enum kind kind = it->second.kind;
    a->type = kind == DEVICE    ? cudaMemoryTypeDevice
              : kind == MANAGED ? cudaMemoryTypeManaged
                                : cudaMemoryTypeHost;
    a->device = it->second.device;
    a->devicePointer = (void *)p;
    a->hostPointer = kind == DEVICE ? nullptr : (void *)p;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    HOSTGPU_BEGIN();
    std::lock_guard<std::mutex> lock(all().mutex);
    *total = hostgpu::memory_limit();
    *free_bytes = *total - all().used[hostgpu::current_device()];
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    HOSTGPU_BEGIN();
    return copy(flat(dst, src, bytes), kind, nullptr, false, "cudaMemcpy");
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    return copy(flat(dst, src, bytes), kind, stream, true, "cudaMemcpyAsync");
}

cudaError_t cudaMemcpyPeer(void *dst, int, const void *src, int, size_t bytes)
{
    HOSTGPU_BEGIN();
    return copy(flat(dst, src, bytes), cudaMemcpyDeviceToDevice, nullptr, false, "cudaMemcpyPeer");
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int, const void *src, int, size_t bytes,
                                cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    return copy(flat(dst, src, bytes), cudaMemcpyDeviceToDevice, stream, true,
                "cudaMemcpyPeerAsync");
}

cudaError_t cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    HOSTGPU_BEGIN();
    const struct region r = {(char *)dst, dst_pitch, 0, (const char *)src, src_pitch, 0,
                             width,       height,    1};
    return copy(r, kind, nullptr, false, "cudaMemcpy2D");
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    const struct region r = {(char *)dst, dst_pitch, 0, (const char *)src, src_pitch, 0,
                             width,       height,    1};
    return copy(r, kind, stream, true, "cudaMemcpy2DAsync");
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    HOSTGPU_BEGIN();
    return copy_3d(p, nullptr, false);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    return copy_3d(p, stream, true);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    HOSTGPU_BEGIN();
    return copy_3d_peer(p, nullptr, false);
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    return copy_3d_peer(p, stream, true);
}

cudaError_t cudaMemset(void *dst, int value, size_t bytes)
{
    HOSTGPU_BEGIN();
    return set(dst, bytes, value, bytes, 1, nullptr);
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    return set(dst, bytes, value, bytes, 1, stream);
}

cudaError_t cudaMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height)
{
    HOSTGPU_BEGIN();
    return set(dst, pitch, value, width, height, nullptr);
}

cudaError_t cudaMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    return set(dst, pitch, value, width, height, stream);
}

} /* extern "C" */
