/* nccl_memory.cpp: memory, registrations and windows of the emulated NCCL.
 *
 * The checks are stricter than NCCL's, which does not report errors after which a GPU reads wrong
 * memory: windows require memory of ncclMemAlloc; a collective is inside one window or outside
 * all, at the same offset on every rank; registered memory and memory in use are not freed. */
#include "hostgpu/nccl_internal.h"

#include <atomic>
#include <cstring>
#include <sstream>

using namespace hostgpu::nccl;

namespace
{

constexpr size_t PAGE = NCCL_WIN_REQUIRED_ALIGNMENT;

/* Never destroyed: stream threads run until the process ends. */
struct memory {
    std::mutex mutex;
    std::map<const char *, size_t> allocated; /* after one page of each cudaMalloc */
};
struct memory &all()
{
    static struct memory *m = new struct memory;
    return *m;
}

/* Returns whether SS_HOSTGPU_NCCL_LACKS lists `what`. */
bool has_no(const char *what)
{
    std::istringstream in(getenv("SS_HOSTGPU_NCCL_LACKS") ? getenv("SS_HOSTGPU_NCCL_LACKS") : "");
    bool found = false;
    for (std::string word; std::getline(in, word, ',');) {
        if (word != "memory" && word != "window" && word != "registration")
            hostgpu::die("SS_HOSTGPU_NCCL_LACKS: \"%s\" is not memory, window or registration",
                         word.c_str());
        found = found || word == what;
    }
    return found;
}

bool inside(const memory_range &a, const memory_range &b)
{
    return a.begin >= b.begin && a.begin + a.bytes <= b.begin + b.bytes;
}

bool touch(const memory_range &a, const memory_range &b)
{
    return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

/* Returns whether the range is inside one allocation of ncclMemAlloc. */
bool is_allocated(const memory_range &range)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    auto it = all().allocated.upper_bound(range.begin);
    return it != all().allocated.begin() &&
           inside(range, {std::prev(it)->first, std::prev(it)->second});
}

/* Ends the process if the memory is registered or in use. */
void check_free(const memory_range &range)
{
    for (const comm_ptr &c : communicators()) {
        std::lock_guard<std::mutex> lock(c->mutex);
        for (const auto &r : c->registered)
            if (touch(r.second.range, range))
                hostgpu::die("NCCL: rank %d frees memory that is still registered%s", c->rank,
                             r.second.window ? " as a window" : "");
        for (const auto &u : c->under_way)
            if (touch(u.second, range))
                hostgpu::die("NCCL: rank %d frees memory that a collective still uses", c->rank);
    }
}

/* When a process allocates memory it has at most one rank. */
ncclResult_t memory_fault()
{
    static std::atomic<long> calls{0};
    const std::vector<comm_ptr> comms = communicators();
    const long call = calls++;
    if (!comms.empty())
        return misbehave(comms[0]->rank, at::memory, call);
    for (const fault &f : parse_faults())
        if (f.at == at::memory)
            hostgpu::die("SS_HOSTGPU_NCCL_FAULT: ncclMemAlloc without a communicator: "
                         "the rank is unknown");
    return ncclSuccess;
}

void *enlist(ncclComm *c, const registration &r)
{
    std::lock_guard<std::mutex> lock(c->mutex);
    void *handle = new char;
    c->registered[handle] = r;
    return handle;
}

ncclResult_t delist(ncclComm *c, void *handle, bool window)
{
    std::lock_guard<std::mutex> lock(c->mutex);
    auto it = c->registered.find(handle);
    if (it == c->registered.end())
        return fail(ncclInvalidArgument, "%p is not registered memory", handle);
    if (it->second.window != window)
        hostgpu::die("NCCL: rank %d deregisters a %s as a %s", c->rank,
                     window ? "buffer" : "window", window ? "window" : "buffer");
    for (const auto &u : c->under_way)
        if (touch(u.second, it->second.range))
            hostgpu::die("NCCL: rank %d deregisters memory that a collective still uses", c->rank);
    c->registered.erase(it);
    delete (char *)handle;
    return ncclSuccess;
}

/* Windows must not overlap. */
void check_window(ncclComm *c, const memory_range &range)
{
    if (!is_allocated(range))
        hostgpu::die("NCCL: rank %d: a window of %zu bytes not allocated by ncclMemAlloc", c->rank,
                     range.bytes);
    std::lock_guard<std::mutex> lock(c->mutex);
    for (const auto &r : c->registered)
        if (r.second.window && touch(r.second.range, range))
            hostgpu::die("NCCL: rank %d: two windows overlap", c->rank);
}

} // namespace

namespace hostgpu
{
namespace nccl
{

spot find_spot(ncclComm *c, const struct call &call, const char *p, size_t bytes)
{
    std::lock_guard<std::mutex> lock(c->mutex);
    const memory_range range = {p, bytes};
    for (const auto &entry : c->registered) {
        const registration &r = entry.second;
        if (!r.window || !touch(range, r.range))
            continue;
        if (!inside(range, r.range))
            die("NCCL: %s exceeds its window of %zu bytes", describe(call).c_str(), r.range.bytes);
        if (r.number >= 0)
            return {r.number, (uint64_t)(p - r.range.begin)};
    }
    return {};
}

void need_no_windows(ncclComm *c, const char *call)
{
    std::lock_guard<std::mutex> lock(c->mutex);
    size_t windows = 0;
    for (const auto &r : c->registered)
        windows += r.second.window;
    if (windows)
        die("NCCL: rank %d calls %s with %zu windows still registered", c->rank, call, windows);
}

} // namespace nccl
} // namespace hostgpu

extern "C" {

/* Allocates whole pages. The result is not a pointer of cudaMalloc, so cudaFree refuses it, as it
 * refuses NCCL's. */
ncclResult_t ncclMemAlloc(void **out, size_t size)
{
    need_version(21900, "ncclMemAlloc");
    if (!out || size == 0)
        return fail(ncclInvalidArgument, "%zu bytes of memory", size);
    const ncclResult_t s = memory_fault();
    if (s != ncclSuccess)
        return s;
    if (has_no("memory"))
        return fail(ncclUnhandledCudaError, "SS_HOSTGPU_NCCL_LACKS: ncclMemAlloc is disabled");
    const size_t bytes = (size + PAGE - 1) / PAGE * PAGE;
    char *base = nullptr;
    if (cudaMalloc((void **)&base, bytes + 2 * PAGE) != cudaSuccess)
        return fail(ncclUnhandledCudaError, "cannot allocate %zu bytes", bytes);
    char *p = base + (2 * PAGE - (uintptr_t)base % PAGE);
    memcpy(p - sizeof base, &base, sizeof base);
    *out = p;
    std::lock_guard<std::mutex> lock(all().mutex);
    all().allocated[p] = bytes;
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *p)
{
    need_version(21900, "ncclMemFree");
    if (!p)
        return ncclSuccess;
    size_t bytes = 0;
    {
        std::lock_guard<std::mutex> lock(all().mutex);
        auto it = all().allocated.find((char *)p);
        bytes = it == all().allocated.end() ? 0 : it->second;
        if (bytes)
            all().allocated.erase(it);
    }
    if (!bytes)
        return fail(ncclInvalidArgument, "%p is not from ncclMemAlloc, or was freed", p);
    check_free({(char *)p, bytes});
    char *base;
    memcpy(&base, (char *)p - sizeof base, sizeof base);
    return cudaFree(base) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* Affects this rank only, and completes before it returns. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *p, size_t size, void **handle)
{
    need_version(21900, "ncclCommRegister");
    comm_ptr c;
    ncclResult_t s = ready(comm, &c);
    if (s == ncclSuccess)
        s = misbehave(c.get(), at::registration);
    if (s != ncclSuccess)
        return s;
    if (!handle || !p || !hostgpu::is_device_memory(p, size))
        return fail(ncclInvalidArgument, "%zu bytes at %p are not device memory", size, p);
    *handle = has_no("registration") ? nullptr : enlist(c.get(), {{(char *)p, size}, false, -1});
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    need_version(21900, "ncclCommDeregister");
    comm_ptr c;
    ncclResult_t s = ready(comm, &c);
    if (s == ncclSuccess)
        s = misbehave(c.get(), at::registration_end);
    return s == ncclSuccess ? delist(c.get(), handle, false) : s;
}

/* All ranks register windows of the same size in the same order. If windows are unsupported, the
 * call succeeds and returns a NULL window, as NCCL's does. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t size, ncclWindow_t *window,
                                    int flags)
{
    need_version(22700, "ncclCommWindowRegister");
    comm_ptr c;
    const ncclResult_t s = ready(comm, &c);
    if (s != ncclSuccess)
        return s;
    if (!window || !p || size == 0 || (uintptr_t)p % PAGE)
        return fail(ncclInvalidArgument, "a window of %zu bytes at %p; it must begin on a page",
                    size, p);
    if (flags & ~NCCL_WIN_COLL_SYMMETRIC)
        return fail(ncclInvalidArgument, "windows with flags %d are not emulated", flags);
    check_window(c.get(), {(char *)p, size});
    *window = nullptr;
    return perform({c}, [=] {
        const ncclResult_t fault = misbehave(c.get(), at::window);
        if (fault != ncclSuccess)
            return fault;
        const struct call call = {kind::window, ncclNumTypes, ncclSum, flags, size};
        if (!c->board.meet(HOSTS, call))
            return fail(ncclInternalError, "the communicator was aborted");
        const int number = flags & NCCL_WIN_COLL_SYMMETRIC ? c->windows++ : -1;
        if (!has_no("window"))
            *window = (ncclWindow_t)enlist(c.get(), {{(char *)p, size}, true, number});
        return ncclSuccess;
    });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    need_version(22700, "ncclCommWindowDeregister");
    comm_ptr c;
    ncclResult_t s = ready(comm, &c);
    if (s == ncclSuccess)
        s = misbehave(c.get(), at::window_end);
    return s == ncclSuccess ? delist(c.get(), window, true) : s;
}

} /* extern "C" */
