/* Internals of the emulated NCCL, used by nccl.cpp: shared memory of the ranks (nccl_board.cpp),
 * reductions (nccl_all_reduce.cpp), memory and windows (nccl_memory.cpp), injected faults
 * (nccl_fault.cpp). */
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

/* Sets the text of ncclGetLastError and returns the result. */
ncclResult_t fail(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs `work` on a detached thread with all signals blocked. */
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

/* Position of a buffer in a symmetric window. On a GPU, ranks find their peers' buffers by it. */
struct spot {
    int window = -1; /* index in order of registration; -1: none */
    uint64_t offset = 0;
};

/* Values that must be the same on all ranks. */
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

size_t type_bytes(ncclDataType_t type); /* 0: no such type, or not emulated */
bool known_op(ncclRedOp_t op);          /* sum, max, min, average */

/* Computes out[i] from element i of all parts, from rank 0 on, in double (integers: in their own
 * type), rounded once. `out` must not be one of the parts. */
void reduce(ncclDataType_t type, ncclRedOp_t op, void *out, const std::vector<const void *> &parts,
            size_t count);
/* Flips one bit: the highest of the fraction, or the lowest of an integer. */
void flip_bit(ncclDataType_t type, void *element);

/* One rank's side of a message: ncclSend or ncclRecv. */
struct transfer {
    int peer;
    bool sends;
    char *data;
    size_t bytes;
    call what; /* type and count */
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
    long call = 0;   /* index from 0 of this rank's calls, or all-reduces of this size */
    long bytes = -1; /* for all-reduces: of this size only; -1: any size */
    fault_kind kind = fault_kind::none;
    long value = 0; /* milliseconds, element, or error number */
};
std::vector<fault> parse_faults(); /* An invalid value ends the process. */
/* bytes: see struct fault. */
fault find_fault(const std::vector<fault> &faults, int rank, at at, long call, long bytes = -1);
/* Returns the name for messages: "ncclMemAlloc". */
const char *name_of(at at);
/* Injects the fault, if any, of a call without a communicator: it is delayed, never returns, or
 * fails. */
ncclResult_t misbehave(int rank, at at, long call);
/* The same for the next such call on a communicator. ncclCommAbort ends the wait, except in
 * itself. */
ncclResult_t misbehave(ncclComm *c, at at);

/* Channels on which the ranks meet: for stream work, and for calls that wait on the host. */
enum channel { STREAMS, HOSTS, CHANNELS };

/* Shared memory in which the ranks of one communicator meet.
 *
 * A rank writes its area, then meets the others; after that it may read all areas until the next
 * meeting. Each rank has two areas, used alternately, so that no rank writes an area that others
 * still read. There are no locks: if a rank is killed, the others wait, without further damage.
 * Only stream work has areas. */
struct board {
    static constexpr size_t AREA = 1 << 20;
    static constexpr size_t BOX = 1 << 18; /* chunk of a message */
    static constexpr int MAX_RANKS = 64;

    ~board();
    /* Connects to the socket that an id names, and waits for all ranks. `gpu` identifies the
     * GPU. */
    ncclResult_t join(const ncclUniqueId &id, int nranks, int rank, int64_t gpu);
    /* The area of a rank in the next meeting, or in the latest. */
    char *coming(int r) const;
    char *latest(int r) const;
    /* Waits until all ranks have arrived. false: aborted. Ends the process if calls differ. */
    bool meet(channel channel, const call &call);
    /* Transfers all messages, those between two ranks in their order. false: aborted. Ends the
     * process if the two sides differ. */
    bool pass(std::vector<transfer> &transfers);
    /* Sleeps; -1: forever. false: aborted. */
    bool pause(long ms);
    /* Makes all waits of this rank return. */
    void abort();
    bool aborted() const;
    /* tell_abort() notifies the other ranks of an abort, as a network does; told_of_abort()
     * returns whether one did. */
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
/* Memory registered with a communicator. */
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
    std::atomic<int> state{ncclInProgress}; /* result of ncclCommGetAsyncError */

    std::mutex mutex; /* protects the following fields */
    std::condition_variable changed;
    uint64_t issued = 0, begun = 0, ended = 0; /* collectives, in call order */
    int jobs = 0;                              /* background threads */
    std::map<hostgpu::nccl::at, long> calls;   /* calls so far that may have faults */
    std::map<long, long> sums;                 /* all-reduces so far, by bytes */
    bool finalized = false;
    int windows = 0;                                                /* total registered so far */
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

/* Finds the communicator of a handle; fails if it is in progress or has an error.
 * ncclCommGetAsyncError, ncclCommAbort and ncclCommDestroy accept others. */
ncclResult_t ready(ncclComm_t handle, comm_ptr *out);
/* Sets the error unless there is one already. */
void set_error(ncclComm *c, ncclResult_t error);
/* Does the work now, or, for non-blocking communicators, in the background after a delay. */
ncclResult_t perform(const std::vector<comm_ptr> &comms, const std::function<ncclResult_t()> &work);

/* Returns the communicators of this process. */
std::vector<comm_ptr> communicators();
/* SS_HOSTGPU_NCCL_VERSION. need_version() ends the process if that version lacks the call. */
int version();
void need_version(int least, const char *call);

/* Returns the position of memory used by a collective. Memory partly inside a window ends the
 * process. */
spot find_spot(ncclComm *c, const struct call &call, const char *p, size_t bytes);
/* Ends the process if there are windows. */
void need_no_windows(ncclComm *c, const char *call);

/* In a group, defers the start of a communicator to the end of the group. false: not in a
 * group. */
bool defer_start(std::function<ncclResult_t()> start);
/* Returns a call's result; an error in a group becomes the group's error. */
ncclResult_t note(ncclResult_t result);

} // namespace nccl
} // namespace hostgpu

#endif
