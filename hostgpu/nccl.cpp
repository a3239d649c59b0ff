/* nccl.cpp: communicators of NCCL on the host emulation.
 *
 * Ranks are processes (or threads) of one machine. A collective is one item of the caller's
 * stream: the stream's thread meets those of the other ranks (nccl_board.cpp) and computes the
 * whole result itself, in the same order on all ranks (nccl_all_reduce.cpp). Streams block as on
 * a GPU, until all ranks have arrived or until ncclCommAbort. If a process dies, the others wait
 * forever. Cases that NCCL leaves undefined end the process: calls that differ between ranks, one
 * communicator on two streams simultaneously, invalid memory.
 *
 * On a non-blocking communicator, every call that may return ncclInProgress does, and takes
 * effect after a delay. This exposes callers that do not poll. */
#include "hostgpu/nccl_internal.h"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <ctime>
#include <map>
#include <pthread.h>
#include <thread>

using namespace hostgpu::nccl;

namespace
{

/* Never destroyed: stream threads run until the process ends. */
struct state {
    std::mutex mutex;
    std::map<ncclComm *, comm_ptr> comms;
    char last_error[512] = "";
};
struct state &all()
{
    static struct state *s = new struct state;
    return *s;
}

/* Returns the communicator of a non-NULL handle. */
comm_ptr find(ncclComm_t handle)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    auto it = all().comms.find(handle);
    if (it == all().comms.end())
        hostgpu::die("NCCL: %p is not a communicator, or was destroyed", (void *)handle);
    return it->second;
}

void deregister(const comm_ptr &c)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    all().comms.erase(c.get());
}

ncclResult_t busy()
{
    return fail(ncclInvalidArgument, "a call on this communicator is still in progress: poll "
                                     "ncclCommGetAsyncError until it returns ncclSuccess");
}

/* Sleeps before background work. */
void nap()
{
    static const long us = hostgpu::environment("SS_HOSTGPU_NCCL_LATENCY", 300, 0, 10000000);
    const timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, nullptr);
}

/* Ends the state "in progress". An error that occurred meanwhile remains. */
void settle(ncclComm *c, ncclResult_t result)
{
    int in_progress = ncclInProgress;
    if (result == ncclSuccess)
        c->state.compare_exchange_strong(in_progress, ncclSuccess);
    else
        set_error(c, result);
}

/* As 2.29.2 to 2.29.7, which leave the affinity of their own threads on the caller. */
void leave_one_core()
{
    static const long leaves = hostgpu::environment("SS_HOSTGPU_NCCL_LEAVES_ONE_CORE", 0, 0, 1);
    cpu_set_t cores, one;
    if (!leaves || sched_getaffinity(0, sizeof cores, &cores))
        return;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &cores))
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
}

bool undefined(int value)
{
    return value == NCCL_CONFIG_UNDEF_INT;
}

ncclResult_t configure(ncclComm *c, const ncclConfig_t *config)
{
    if (!config)
        return ncclSuccess;
    if (config->magic != 0xcafebeef || config->size != sizeof *config)
        return fail(ncclInvalidArgument,
                    "the configuration was not initialized with NCCL_CONFIG_INITIALIZER");
    if (!undefined(config->blocking) && config->blocking != 0 && config->blocking != 1)
        return fail(ncclInvalidArgument, "blocking is %d", config->blocking);
    c->blocking = config->blocking != 0;
    c->min_ctas = config->minCTAs;
    c->max_ctas = config->maxCTAs;
    if ((!undefined(c->min_ctas) && c->min_ctas < 1) ||
        (!undefined(c->max_ctas) && c->max_ctas < 1) ||
        (!undefined(c->max_ctas) && c->min_ctas > c->max_ctas))
        return fail(ncclInvalidArgument, "from %d to %d CTAs", c->min_ctas, c->max_ctas);
#if NCCL_VERSION_CODE >= 22700
    const int policy = config->CTAPolicy;
    if (!undefined(policy) && (policy < 0 || policy > 2))
        return fail(ncclInvalidArgument, "CTA policy %d", policy);
    if (!undefined(policy))
        hostgpu::note_nccl_policy(policy);
#endif
    return ncclSuccess;
}

int64_t gpu_identity(int device)
{
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, device);
    return ((int64_t)p.pciDomainID << 32) | ((int64_t)p.pciBusID << 16) | p.pciDeviceID;
}

ncclResult_t start(ncclComm *c, const ncclUniqueId &id)
{
    const struct fault f = find_fault(c->faults, c->rank, at::init, 0);
    if (f.kind == fault_kind::fail)
        return fail(ncclInternalError, "SS_HOSTGPU_NCCL_FAULT: initialization fails");
    if ((f.kind == fault_kind::hang && !c->board.pause(-1)) ||
        (f.kind == fault_kind::delay && !c->board.pause(f.value)))
        return fail(ncclInternalError, "the communicator was aborted during initialization");
    const ncclResult_t result = c->board.join(id, c->nranks, c->rank, gpu_identity(c->device));
    if (result == ncclSuccess && f.kind == fault_kind::async)
        set_error(c, (ncclResult_t)f.value);
    return result;
}

/* Only a non-blocking communicator is published before it has started. */
ncclResult_t start_and_publish(const comm_ptr &c, const ncclUniqueId &id, ncclComm_t *out)
{
    const ncclResult_t result = perform({c}, [c, id] { return start(c.get(), id); });
    if (!c->blocking)
        return result;
    settle(c.get(), result);
    if (result == ncclSuccess)
        *out = c.get();
    else
        deregister(c);
    return result;
}

ncclResult_t init(ncclComm_t *out, int nranks, const ncclUniqueId &id, int rank,
                  const ncclConfig_t *config)
{
    if (!out || nranks < 1 || nranks > board::MAX_RANKS || rank < 0 || rank >= nranks)
        return fail(ncclInvalidArgument, "rank %d of %d (of at most %d)", rank, nranks,
                    board::MAX_RANKS);
    *out = nullptr;
    if (hostgpu::device_count() == 0)
        return fail(ncclUnhandledCudaError, "there is no GPU");
    auto c = std::make_shared<ncclComm>();
    const ncclResult_t s = configure(c.get(), config);
    if (s != ncclSuccess)
        return s;
    c->rank = rank;
    c->nranks = nranks;
    c->device = hostgpu::current_device();
    c->faults = parse_faults();
    {
        std::lock_guard<std::mutex> lock(all().mutex);
        all().comms[c.get()] = c;
    }
    if (!c->blocking)
        *out = c.get();
    const auto start = [c, id, out] { return start_and_publish(c, id, out); };
    return defer_start(start) ? ncclSuccess : start();
}

/* Waits for this rank's collectives, then for the other ranks. */
ncclResult_t finalize(ncclComm *c)
{
    const ncclResult_t s = misbehave(c, at::finalize);
    if (s != ncclSuccess)
        return s;
    {
        std::unique_lock<std::mutex> lock(c->mutex);
        c->changed.wait(lock, [c] { return c->ended == c->issued || c->board.aborted(); });
    }
    const struct call call = {kind::finalize, ncclNumTypes, ncclSum, 0, 0};
    if (!c->board.meet(HOSTS, call))
        return fail(ncclInternalError, "the communicator was aborted");
    c->finalized = true;
    return ncclSuccess;
}

void abort_and_deregister(const comm_ptr &c)
{
    c->board.abort();
    {
        std::unique_lock<std::mutex> lock(c->mutex);
        c->changed.notify_all();
        c->changed.wait(lock, [&c] { return c->begun == c->ended && c->jobs == 0; });
    }
    deregister(c);
}

} // namespace

namespace hostgpu
{
namespace nccl
{

ncclResult_t fail(ncclResult_t result, const char *format, ...)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    va_list args;
    va_start(args, format);
    vsnprintf(all().last_error, sizeof(all().last_error), format, args);
    va_end(args);
    return result;
}

void background(std::function<void()> work)
{
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    std::thread(std::move(work)).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void set_error(ncclComm *c, ncclResult_t error)
{
    for (int s : {ncclSuccess, ncclInProgress})
        c->state.compare_exchange_strong(s, error);
}

std::vector<comm_ptr> communicators()
{
    std::lock_guard<std::mutex> lock(all().mutex);
    std::vector<comm_ptr> v;
    for (const auto &c : all().comms)
        v.push_back(c.second);
    return v;
}

int version()
{
    static const int v =
        (int)hostgpu::environment("SS_HOSTGPU_NCCL_VERSION", NCCL_VERSION_CODE, 20000, 99999);
    return v;
}

void need_version(int least, const char *call)
{
    if (version() < least)
        hostgpu::die("NCCL %d.%d.%d has no %s", version() / 10000, version() / 100 % 100,
                     version() % 100, call);
}

ncclResult_t ready(ncclComm_t handle, comm_ptr *out)
{
    if (!handle)
        return fail(ncclInvalidArgument, "the communicator is NULL");
    *out = find(handle);
    const ncclResult_t s = (ncclResult_t)(*out)->state.load();
    return s == ncclInProgress ? busy() : s;
}

ncclResult_t perform(const std::vector<comm_ptr> &comms, const std::function<ncclResult_t()> &work)
{
    if (comms[0]->blocking)
        return work();
    for (const comm_ptr &c : comms) {
        int success = ncclSuccess;
        c->state.compare_exchange_strong(success, ncclInProgress);
        std::lock_guard<std::mutex> lock(c->mutex);
        c->jobs++;
    }
    background([comms, work] {
        nap();
        const ncclResult_t result = work();
        for (const comm_ptr &c : comms) {
            settle(c.get(), result);
            std::lock_guard<std::mutex> lock(c->mutex);
            c->jobs--;
            c->changed.notify_all();
        }
    });
    return ncclInProgress;
}

} // namespace nccl
} // namespace hostgpu

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return fail(ncclInvalidArgument, "NULL for the version");
    *version = hostgpu::nccl::version();
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {"success",
                                                      "a CUDA call failed",
                                                      "a system call failed",
                                                      "internal error",
                                                      "invalid argument",
                                                      "invalid usage",
                                                      "a remote process ended, or a network error",
                                                      "in progress"};
    return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result";
}

const char *ncclGetLastError(ncclComm_t)
{
    thread_local char text[sizeof(state::last_error)];
    std::lock_guard<std::mutex> lock(all().mutex);
    memcpy(text, all().last_error, sizeof text);
    return text;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static std::atomic<long> calls{0};
    if (!id)
        return fail(ncclInvalidArgument, "NULL for the id");
    const ncclResult_t s = misbehave(0, at::id, calls++);
    return s == ncclSuccess ? open_place(id) : s;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    need_version(21400, "ncclCommInitRankConfig");
    hostgpu::note_nccl_caller();
    const ncclResult_t result = note(init(comm, nranks, id, rank, config));
    leave_one_core();
    return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm_ptr c;
    const ncclResult_t s = ready(comm, &c);
    if (s != ncclSuccess)
        return s;
    if (c->finalized)
        return fail(ncclInvalidArgument, "ncclCommFinalize for the second time");
    need_no_windows(c.get(), "ncclCommFinalize");
    return perform({c}, [c] { return finalize(c.get()); });
}

/* Waits even if the communicator is non-blocking, unless it was finalized or has failed. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    const comm_ptr c = find(comm);
    const int s = c->state;
    if (s == ncclInProgress)
        return busy();
    if (s == ncclSuccess)
        need_no_windows(c.get(), "ncclCommDestroy");
    const ncclResult_t fault = misbehave(c.get(), at::destroy);
    if (s == ncclSuccess && !c->finalized && fault == ncclSuccess)
        finalize(c.get());
    abort_and_deregister(c);
    return fault;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    const comm_ptr c = find(comm);
    const ncclResult_t fault = misbehave(c.get(), at::abort);
    c->board.tell_abort();
    abort_and_deregister(c);
    return fault;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!comm || !error)
        return fail(ncclInvalidArgument, "NULL for the communicator or the error");
    const comm_ptr c = find(comm);
    const ncclResult_t fault = misbehave(c.get(), at::state);
    if (c->board.told_of_abort())
        set_error(c.get(), ncclRemoteError);
    *error = (ncclResult_t)c->state.load();
    return fault;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    comm_ptr c;
    const ncclResult_t s = ready(comm, &c);
    if (s == ncclSuccess)
        *count = c->nranks;
    return s;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    comm_ptr c;
    const ncclResult_t s = ready(comm, &c);
    if (s == ncclSuccess)
        *device = c->device;
    return s;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    comm_ptr c;
    const ncclResult_t s = ready(comm, &c);
    if (s == ncclSuccess)
        *rank = c->rank;
    return s;
}

/* For tests: returns the configured numbers; NCCL_CONFIG_UNDEF_INT if not configured. */
void ss_hostgpu_nccl_ctas(ncclComm_t comm, int *min, int *max)
{
    const comm_ptr c = find(comm);
    *min = c->min_ctas;
    *max = c->max_ctas;
}

} /* extern "C" */
