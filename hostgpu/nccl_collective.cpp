/* nccl_collective.cpp: collectives and groups of the emulated NCCL. */
#include "hostgpu/nccl_internal.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <thread>

using namespace hostgpu::nccl;

namespace
{

struct operation {
    comm_ptr comm;
    struct call call;
    const char *send;
    char *recv;
    cudaStream_t stream;
    struct fault fault;
    uint64_t number; /* among the communicator's collectives */
    std::vector<memory_range> memory;
    bool timed = false;              /* see hostgpu::spends */
    std::vector<transfer> transfers; /* of kind::pairs: all of the group */
};

struct group {
    int depth = 0;
    ncclResult_t error = ncclSuccess;
    std::vector<operation> operations;
    std::vector<std::function<ncclResult_t()>> starts;
};
thread_local struct group group;

bool begin(const operation &o)
{
    ncclComm *c = o.comm.get();
    std::lock_guard<std::mutex> lock(c->mutex);
    if (c->board.aborted())
        return false;
    if (c->begun != c->ended || c->begun != o.number)
        hostgpu::die("NCCL: rank %d uses its communicator on two streams without order (%s)",
                     c->rank, describe(o.call).c_str());
    c->begun++;
    return true;
}

void end(const operation &o)
{
    std::lock_guard<std::mutex> lock(o.comm->mutex);
    o.comm->ended++;
    o.comm->under_way.erase(o.number);
    o.comm->changed.notify_all();
}

/* Copies elements [first, first + n) from the caller's memory to this rank's area. */
void hand_in(const operation &o, size_t first, size_t n)
{
    const ncclComm *c = o.comm.get();
    const size_t size = type_bytes(o.call.type);
    char *mine = c->board.coming(c->rank);
    if (o.call.kind == kind::reduce_scatter) {
        for (int r = 0; r < c->nranks; r++)
            memcpy(mine + (size_t)r * n * size, o.send + ((size_t)r * o.call.count + first) * size,
                   n * size);
    } else if (o.call.kind != kind::broadcast || c->rank == o.call.root) {
        memcpy(mine, o.send + first * size, n * size);
    }
}

/* Computes the same elements of the result from all ranks' areas. */
void take_out(const operation &o, size_t first, size_t n)
{
    const ncclComm *c = o.comm.get();
    const size_t size = type_bytes(o.call.type);
    char *recv = o.recv + first * size;
    if (o.call.kind == kind::broadcast) {
        memcpy(recv, c->board.latest(o.call.root), n * size);
        return;
    }
    const size_t own = o.call.kind == kind::reduce_scatter ? (size_t)c->rank * n * size : 0;
    std::vector<const void *> parts;
    for (int r = 0; r < c->nranks; r++)
        parts.push_back(c->board.latest(r) + own);
    if (o.call.kind == kind::all_gather) {
        for (int r = 0; r < c->nranks; r++)
            memcpy(recv + (size_t)r * o.call.count * size, parts[(size_t)r], n * size);
    } else {
        reduce(o.call.type, o.call.op, recv, parts, n);
    }
}

uint64_t now_ns()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Transfers all elements. Without elements the ranks still meet and compare their calls. *begin:
 * when all ranks had arrived. */
bool transfer_all(const operation &o, uint64_t *begin)
{
    *begin = 0;
    const size_t blocks = o.call.kind == kind::reduce_scatter ? (size_t)o.comm->nranks : 1;
    const size_t most = board::AREA / type_bytes(o.call.type) / blocks;
    size_t first = 0;
    do {
        const size_t n = std::min(most, o.call.count - first);
        if (n > 0)
            hand_in(o, first, n);
        if (!o.comm->board.meet(STREAMS, o.call))
            return false;
        if (*begin == 0)
            *begin = now_ns();
        if (n > 0)
            take_out(o, first, n);
        first += n;
    } while (first < o.call.count);
    return true;
}

/* Returns the bytes that a ring sends over each link: every block goes to each rank but one, for
 * an all-reduce twice (reduced and gathered). */
double bytes_on_link(const operation &o)
{
    const double block = (double)o.call.count * (double)type_bytes(o.call.type);
    const double others = o.comm->nranks - 1;
    if (o.call.kind == kind::all_reduce)
        return 2 * others / o.comm->nranks * block;
    if (o.call.kind == kind::pairs) { /* the links have two directions */
        double sent = 0, received = 0;
        for (const struct transfer &t : o.transfers)
            (t.sends ? sent : received) += (double)t.bytes;
        return std::max(sent, received);
    }
    return o.call.kind == kind::broadcast ? block : others * block;
}

/* Executes the collective; ends no sooner than the link would. */
bool move(const operation &o)
{
    uint64_t begin = now_ns();
    std::vector<struct transfer> transfers = o.transfers;
    if (o.call.kind == kind::pairs ? !o.comm->board.pass(transfers) : !transfer_all(o, &begin))
        return false;
    const uint64_t end = begin + (uint64_t)(1e9 * hostgpu::link_seconds(bytes_on_link(o)));
    const timespec t = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);
    return true;
}

/* Timed emulation: the collective begins when the last rank has arrived, by the device clock,
 * which all devices share. Small ones are executed, because the run depends on their results. */
bool pass_time(const operation &o)
{
    const size_t SMALL = 1 << 12;
    const ncclComm *c = o.comm.get();
    uint64_t begin = hostgpu::begun_at(), met;
    memcpy(c->board.coming(c->rank), &begin, sizeof begin);
    if (!o.comm->board.meet(STREAMS, o.call))
        return false;
    for (int r = 0; r < c->nranks; r++) {
        uint64_t other;
        memcpy(&other, c->board.latest(r), sizeof other);
        begin = std::max(begin, other);
    }
    if (o.call.count * type_bytes(o.call.type) <= SMALL && !transfer_all(o, &met))
        return false;
    hostgpu::ends_at(begin + hostgpu::host_ns_of(hostgpu::link_seconds(bytes_on_link(o))));
    return true;
}

void run(const operation &o)
{
    if (!begin(o))
        return;
    bool arrives = true;
    if (o.fault.kind == fault_kind::async)
        set_error(o.comm.get(), (ncclResult_t)o.fault.value);
    if (o.fault.kind == fault_kind::async || o.fault.kind == fault_kind::hang)
        arrives = o.comm->board.pause(-1);
    else if (o.fault.kind == fault_kind::delay)
        arrives = o.comm->board.pause(o.fault.value);
    if (arrives && (o.timed ? pass_time(o) : move(o)) && o.fault.kind == fault_kind::corrupt)
        flip_bit(o.call.type, o.recv + (size_t)o.fault.value * type_bytes(o.call.type));
    end(o);
}

void enqueue(const operation &o)
{
    const int before = hostgpu::current_device();
    cudaSetDevice(o.comm->device); /* defines the default stream 0 */
    if (hostgpu::stream_device(o.stream) != o.comm->device)
        hostgpu::die("NCCL: %s on a stream of device %d, with a communicator of device %d",
                     describe(o.call).c_str(), hostgpu::stream_device(o.stream), o.comm->device);
    const cudaError_t error = hostgpu::enqueue(o.stream, "a collective of NCCL", [o] { run(o); });
    if (error != cudaSuccess)
        hostgpu::die("NCCL: %s: %s", describe(o.call).c_str(), cudaGetErrorString(error));
    hostgpu::restore_device(before);
}

/* Joins the messages of a group: they are transferred together, in any order. */
std::vector<operation> join_pairs(std::vector<operation> operations)
{
    std::vector<operation> joined;
    for (operation &o : operations) {
        const auto first = std::find_if(joined.begin(), joined.end(), [&o](const operation &other) {
            return o.call.kind == kind::pairs && other.call.kind == kind::pairs &&
                   other.comm == o.comm && other.stream == o.stream;
        });
        if (first == joined.end()) {
            joined.push_back(std::move(o));
            continue;
        }
        first->transfers.insert(first->transfers.end(), o.transfers.begin(), o.transfers.end());
        first->memory.insert(first->memory.end(), o.memory.begin(), o.memory.end());
    }
    return joined;
}

/* A message to the own rank requires both sides in one group. */
bool unmatched(const operation &o)
{
    long sent = 0;
    for (const struct transfer &t : o.transfers)
        sent += t.peer != o.comm->rank ? 0 : t.sends ? 1 : -1;
    return sent != 0;
}

ncclResult_t launch(std::vector<operation> given)
{
    std::vector<operation> operations = join_pairs(std::move(given));
    std::vector<comm_ptr> comms;
    for (const operation &o : operations) {
        if (unmatched(o))
            return fail(ncclInvalidUsage, "rank %d sends to itself without a matching receive",
                        o.comm->rank);
        if (o.call.kind == kind::pairs && o.timed)
            hostgpu::die("NCCL: messages between two ranks in timed emulation: not emulated");
    }
    for (operation &o : operations) {
        for (const operation &other : operations)
            if (o.comm == other.comm && o.stream != other.stream)
                hostgpu::die("NCCL: a group with two streams for one communicator: not emulated");
        if (hostgpu::captures(o.stream))
            hostgpu::die("NCCL: %s on a stream that captures: not emulated",
                         describe(o.call).c_str());
        if (o.comm->blocking != operations[0].comm->blocking)
            return fail(ncclInvalidArgument,
                        "a group mixes blocking and non-blocking communicators");
        if (std::find(comms.begin(), comms.end(), o.comm) == comms.end())
            comms.push_back(o.comm);
        std::lock_guard<std::mutex> lock(o.comm->mutex);
        o.number = o.comm->issued++;
        for (const memory_range &m : o.memory)
            o.comm->under_way.insert({o.number, m});
    }
    return perform(comms, [operations = std::move(operations)] {
        for (const operation &o : operations)
            enqueue(o);
        return ncclSuccess;
    });
}

void check_memory(operation &o, const char *name, const char *p, size_t blocks, spot *spot)
{
    const size_t size = type_bytes(o.call.type), bytes = blocks * o.call.count * size;
    if (!hostgpu::is_device_memory(p, bytes))
        hostgpu::die("NCCL: %s: %s is not in one piece of device memory", describe(o.call).c_str(),
                     name);
    if ((uintptr_t)p % size)
        hostgpu::die("NCCL: %s: %s is not aligned", describe(o.call).c_str(), name);
    *spot = find_spot(o.comm.get(), o.call, p, bytes);
    o.memory.push_back({p, bytes});
}

/* Checks that the send and receive buffers are device memory and do not overlap, except in
 * place. */
void check_buffers(operation &o)
{
    const ncclComm *c = o.comm.get();
    const size_t all_ranks = (size_t)c->nranks, block = o.call.count * type_bytes(o.call.type);
    const size_t sent = o.call.kind == kind::reduce_scatter ? all_ranks : 1;
    const size_t received = o.call.kind == kind::all_gather ? all_ranks : 1;
    check_memory(o, "the receive buffer", o.recv, received, &o.call.recv);
    if (o.call.kind == kind::broadcast && c->rank != o.call.root)
        return;
    check_memory(o, "the send buffer", o.send, sent, &o.call.send);
    const size_t own = (size_t)c->rank * block;
    const bool in_place = o.send + (sent > 1 ? own : 0) == o.recv + (received > 1 ? own : 0);
    if (!in_place && o.send < o.recv + received * block && o.recv < o.send + sent * block)
        hostgpu::die("NCCL: %s: send and receive buffer overlap", describe(o.call).c_str());
}

/* Returns the fault to inject into this call. */
struct fault next_fault(ncclComm *c, const struct call &call)
{
    if (call.kind != kind::all_reduce)
        return {};
    std::lock_guard<std::mutex> lock(c->mutex);
    const long bytes = (long)(call.count * type_bytes(call.type));
    const struct fault by_size =
        find_fault(c->faults, c->rank, at::all_reduce, c->sums[bytes]++, bytes);
    const struct fault by_call =
        find_fault(c->faults, c->rank, at::all_reduce, c->calls[at::all_reduce]++);
    const struct fault f = by_size.kind != fault_kind::none ? by_size : by_call;
    if (f.kind == fault_kind::corrupt && (uint64_t)f.value >= call.count)
        hostgpu::die("SS_HOSTGPU_NCCL_FAULT: %s has no element %ld", describe(call).c_str(),
                     f.value);
    return f;
}

ncclResult_t make_operation(ncclComm_t handle, operation *o)
{
    const ncclResult_t s = ready(handle, &o->comm);
    if (s != ncclSuccess)
        return s;
    if (o->comm->finalized)
        return fail(ncclInvalidUsage, "a collective after ncclCommFinalize");
    if (!type_bytes(o->call.type))
        hostgpu::die("NCCL: type %d is not emulated", (int)o->call.type);
    if (!known_op(o->call.op))
        hostgpu::die("NCCL: operation %d is not emulated", (int)o->call.op);
    if (o->call.root < 0 || o->call.root >= o->comm->nranks)
        return fail(ncclInvalidArgument, "no rank %d", o->call.root);
    check_buffers(*o);
    o->fault = next_fault(o->comm.get(), o->call);
    if (o->fault.kind == fault_kind::fail) {
        fail(ncclInternalError, "SS_HOSTGPU_NCCL_FAULT: %s fails", describe(o->call).c_str());
        set_error(o->comm.get(), ncclInternalError); /* with the text of ncclGetLastError */
        return ncclInternalError;
    }
    return ncclSuccess;
}

ncclResult_t collective(ncclComm_t handle, const struct call &call, const void *send, void *recv,
                        cudaStream_t stream)
{
    hostgpu::note_nccl_caller();
    operation o = {nullptr,           call, (const char *)send, (char *)recv, stream, {}, 0, {},
                   hostgpu::spends(), {}};
    const ncclResult_t s = make_operation(handle, &o);
    if (s != ncclSuccess)
        return note(s);
    if (group.depth == 0)
        return launch({o});
    group.operations.push_back(o);
    return ncclSuccess;
}

ncclResult_t message(ncclComm_t handle, bool sends, int peer, char *data, size_t count,
                     ncclDataType_t type, cudaStream_t stream)
{
    hostgpu::note_nccl_caller();
    need_version(20700, "ncclSend");
    const struct call call = {kind::pairs, type, ncclSum, 0, count};
    operation o = {nullptr, call, data, data, stream, {}, 0, {}, hostgpu::spends(), {}};
    const ncclResult_t s = ready(handle, &o.comm);
    if (s != ncclSuccess)
        return note(s);
    if (o.comm->finalized)
        return note(fail(ncclInvalidUsage, "a message after ncclCommFinalize"));
    if (!type_bytes(type))
        hostgpu::die("NCCL: type %d is not emulated", (int)type);
    if (peer < 0 || peer >= o.comm->nranks)
        return note(fail(ncclInvalidArgument, "no rank %d", peer));
    spot unused;
    check_memory(o, sends ? "the send buffer" : "the receive buffer", data, 1, &unused);
    o.transfers.push_back({peer, sends, data, count * type_bytes(type), o.call});
    if (group.depth == 0)
        return launch({o});
    group.operations.push_back(o);
    return ncclSuccess;
}

/* Runs all concurrently, because each waits for the others. */
ncclResult_t start_all(const std::vector<std::function<ncclResult_t()>> &starts)
{
    std::vector<ncclResult_t> results(starts.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < starts.size(); i++)
        threads.emplace_back([&, i] { results[i] = starts[i](); });
    for (std::thread &t : threads)
        t.join();
    ncclResult_t worst = ncclSuccess;
    for (ncclResult_t r : results)
        if (r != ncclSuccess && (worst == ncclSuccess || worst == ncclInProgress))
            worst = r;
    return worst;
}

} // namespace

namespace hostgpu
{
namespace nccl
{

bool defer_start(std::function<ncclResult_t()> start)
{
    if (group.depth > 0)
        group.starts.push_back(std::move(start));
    return group.depth > 0;
}

ncclResult_t note(ncclResult_t result)
{
    const bool error = result != ncclSuccess && result != ncclInProgress;
    if (error && group.depth > 0 && group.error == ncclSuccess)
        group.error = result;
    return result;
}

} // namespace nccl
} // namespace hostgpu

extern "C" {

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, {kind::all_reduce, type, op, 0, count}, send, recv, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, {kind::broadcast, type, ncclSum, root, count}, send, recv, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, {kind::reduce_scatter, type, op, 0, count}, send, recv, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, {kind::all_gather, type, ncclSum, 0, count}, send, recv, stream);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return message(comm, true, peer, (char *)send, count, type, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return message(comm, false, peer, (char *)recv, count, type, stream);
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group.depth == 0)
        return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth > 0)
        return ncclSuccess;
    struct group g;
    std::swap(g, group);
    if (g.error != ncclSuccess)
        return g.error;
    if (!g.starts.empty() && !g.operations.empty())
        return fail(ncclInvalidUsage, "a group both initializes communicators and uses others");
    if (!g.starts.empty())
        return start_all(g.starts);
    return g.operations.empty() ? ncclSuccess : launch(std::move(g.operations));
}

} /* extern "C" */
