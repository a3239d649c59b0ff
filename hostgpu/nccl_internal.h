/* Inside of the emulated NCCL: the memory that the ranks share (nccl_board.cpp), the sums
 * (nccl_all_reduce.cpp), memory and windows (nccl_memory.cpp) and the faults on demand (nccl_fault.cpp),
 * for nccl.cpp. */
#ifndef HOSTGPU_NCCL_INTERNAL_H
#define HOSTGPU_NCCL_INTERNAL_H

#include "hostgpu/hostgpu.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <string>
#include <vector>

namespace hostgpu
{
namespace nccl
{

/* Set the text of ncclGetLastError and return the result. */
ncclResult_t fail(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A detached thread that gets no signals. */
void background(std::function<void()> work);

enum class kind : int {
    all_reduce,
    broadcast,
    reduce_scatter,
    all_gather,
    pairs,
    window,
    finalize
};

/* Where a buffer lies in a symmetric window: on a GPU, ranks find their peers' buffers by it. */
struct spot {
    int window = -1; /* in the order of registration; -1: in none */
    uint64_t offset = 0;
};

/* What must be the same on all ranks. */
struct call {
    nccl::kind kind;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    uint64_t count;
    spot send = {}, recv = {};
};
/* "ncclAllReduce(1000 fp32, sum)" */
std::string describe(const call &c);

size_t type_bytes(ncclDataType_t type); /* 0: there is no such type, or it is not emulated */
bool known_op(ncclRedOp_t op);          /* sum, max, min, average */

/* out[i] = the parts' elements i, from rank 0 on, in double (integers: in their own format), then
 * rounded once. `out` may not be one of the parts. */
void reduce(ncclDataType_t type, ncclRedOp_t op, void *out, const std::vector<const void *> &parts,
            size_t count);
/* Change one bit: of the fraction the highest, of an integer the lowest. */
void flip_bit(ncclDataType_t type, void *element);

/* One rank's side of a message: ncclSend or ncclRecv. */
struct transfer {
    int peer;
    bool sends;
    char *data;
    size_t bytes;
    call what; /* of the type and count */
    size_t moved = 0;
    bool ended = false;
};

/* SS_HOSTGPU_NCCL_FAULT */
enum class at {
    all_reduce,
    id,
    init,
    memory,
    window,
    window_end,
    registration,
    registration_end,
    finalize,
    destroy,
    abort,
    state
};
enum class fault_kind { none, delay, fail, async, hang, corrupt };
struct fault {
    int rank = 0;
    nccl::at at = at::all_reduce;
    long call = 0;   /* of these calls of the rank, from 0; of all-reduces of this size */
    long bytes = -1; /* all-reduces alone: of these bytes; -1: of any */
    fault_kind kind = fault_kind::none;
    long value = 0; /* milliseconds, element, or the error's number */
};
std::vector<fault> parse_faults(); /* anything else in the environment ends the process */
/* bytes: see struct fault. */
fault find_fault(const std::vector<fault> &faults, int rank, at at, long call, long bytes = -1);
/* As errors say it: "ncclMemAlloc". */
const char *name_of(at at);
/* The fault, if any, of a call that has no communicator: it comes late, never returns, or fails. */
ncclResult_t misbehave(int rank, at at, long call);
/* Of one that has: the next such call on it. Ended by ncclCommAbort, but ncclCommAbort itself. */
ncclResult_t misbehave(ncclComm *c, at at);

/* Meetings of the ranks for work on streams, and for calls that wait on the host. */
enum channel { STREAMS, HOSTS, CHANNELS };

/* Where the ranks of one communicator meet: memory that they share.
 *
 * A rank writes its area, then meets the others; after that it may read all areas until it meets
 * them again. Each rank has two areas, for every other meeting, so that no rank writes where others
 * still read. Nothing here is locked: a rank that is killed leaves the others waiting, and nothing
 * else. Only work on streams has areas. */
struct board {
    static constexpr size_t AREA = 1 << 20;
    static constexpr size_t BOX = 1 << 18; /* of a message, at once */
    static constexpr int MAX_RANKS = 64;

    ~board();
    /* Come to the place that an id names, and wait for all ranks. `gpu` identifies the GPU. */
    ncclResult_t join(const ncclUniqueId &id, int nranks, int rank, int64_t gpu);
    /* The area that a rank has in the coming meeting, or in the latest. */
    char *coming(int r) const;
    char *latest(int r) const;
    /* Wait until all ranks have come here. false: aborted. Ends the process when calls differ. */
    bool meet(channel channel, const call &call);
    /* Have all messages pass, those between two ranks in their order. false: aborted. Ends the process
     * when the two sides differ. */
    bool pass(std::vector<transfer> &transfers);
    /* Wait; -1: for ever. false: aborted. */
    bool pause(long ms);
    /* Let everything here return. */
    void abort();
    bool aborted() const;
    /* Tell the other ranks of an abort, as a network does; did one tell it? */
    void tell_abort();
    bool told_of_abort() const;

  private:
    ncclResult_t map(int memory);
    ncclResult_t sign_in(int64_t gpu);
    bool wait(const std::function<bool()> &condition);
    void compare(channel channel, const call &call, unsigned half) const;
    char *area(int r, uint64_t meeting) const;
    bool step(transfer &t);

    std::atomic<struct shared *> shared{nullptr};
    size_t bytes = 0;
    int nranks = 0, rank = 0;
    uint64_t met[CHANNELS] = {};
    std::atomic<bool> stopped{false};
};
ncclResult_t open_place(ncclUniqueId *id);

struct memory_range {
    const char *begin;
    size_t bytes;
};
/* Memory that a communicator knows. */
struct registration {
    memory_range range;
    bool window;
    int number; /* of a symmetric window, else -1 */
};

} // namespace nccl
} // namespace hostgpu

struct ncclComm {
    int rank = 0, nranks = 0, device = 0;
    int min_ctas = NCCL_CONFIG_UNDEF_INT, max_ctas = NCCL_CONFIG_UNDEF_INT;
    bool blocking = true;
    std::vector<hostgpu::nccl::fault> faults;
    hostgpu::nccl::board board;
    std::atomic<int> state{ncclInProgress}; /* ncclCommGetAsyncError's answer */

    std::mutex mutex; /* of what follows */
    std::condition_variable changed;
    uint64_t issued = 0, begun = 0, ended = 0; /* collectives, in the order of the calls */
    int jobs = 0;                              /* threads in the background */
    std::map<hostgpu::nccl::at, long> calls;   /* those with faults, so far */
    std::map<long, long> sums;                 /* all-reduces so far, by bytes */
    bool finalized = false;
    int windows = 0;                                                /* ever registered */
    std::map<void *, hostgpu::nccl::registration> registered;       /* by handle */
    std::multimap<uint64_t, hostgpu::nccl::memory_range> under_way; /* by collective */

    ~ncclComm()
    {
        for (const auto &r : registered)
            delete (char *)r.first;
    }
};

namespace hostgpu
{
namespace nccl
{

typedef std::shared_ptr<ncclComm> comm_ptr;

/* The communicator of a handle, if it is at rest; ncclCommGetAsyncError, ncclCommAbort and
 * ncclCommDestroy alone take others. */
ncclResult_t ready(ncclComm_t handle, comm_ptr *out);
/* The first error stays. */
void set_error(ncclComm *c, ncclResult_t error);
/* Do it now, or, where communicators do not block, a moment later in the background. */
ncclResult_t perform(const std::vector<comm_ptr> &comms, const std::function<ncclResult_t()> &work);

/* Those of this process. */
std::vector<comm_ptr> communicators();
/* SS_HOSTGPU_NCCL_VERSION; a call that this version has not got ends the process. */
int version();
void need_version(int least, const char *call);

/* Where memory that a collective uses lies. Partly inside a window: ends the process. */
spot find_spot(ncclComm *c, const struct call &call, const char *p, size_t bytes);
/* Ends the process if there are windows. */
void need_no_windows(ncclComm *c, const char *call);

/* In a group, keep the start of a communicator for its end. false: there is no group. */
bool defer_start(std::function<ncclResult_t()> start);
/* A call's result: an error in a group is the group's. */
ncclResult_t note(ncclResult_t result);

} // namespace nccl
} // namespace hostgpu

#endif
