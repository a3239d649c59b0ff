/* Inside of streams.cpp, whose mutex guards all of this, and graphs.cpp. */
#ifndef HOSTGPU_STREAMS_INTERNAL_H
#define HOSTGPU_STREAMS_INTERNAL_H

#include "hostgpu/hostgpu.h"

#include <condition_variable>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace hostgpu
{
namespace streams
{

struct point {
    std::shared_ptr<CUstream_st> stream;
    uint64_t count = 0;
};

struct item {
    const char *what;
    std::function<void()> work;
    std::vector<struct point> after;
    uint64_t enqueued; /* ns */
};

/* What a stream was given while it captured; runs once for each launch of its graph. */
struct node {
    const char *what;
    std::function<void(struct draw)> work;
    bool kernel; /* is told something: else anything will do */
};

struct capture {
    enum cudaStreamCaptureMode mode;
    std::thread::id thread; /* which began it */
    bool invalid = false, ended = false;
    std::vector<struct node> nodes;
};

} // namespace streams
} // namespace hostgpu

struct CUstream_st {
    int device = 0, priority = 0;
    bool legacy = false;   /* the default stream: waits for blocking streams, and they for it */
    bool blocking = false; /* not created with cudaStreamNonBlocking */
    bool started = false, closing = false;
    uint64_t submitted = 0, completed = 0;
    std::deque<struct hostgpu::streams::item> queue;
    std::condition_variable arrived, done;
    uint64_t random = 0; /* state of the jitter */
    /* When items ended: [ENDS], of item n at n % ENDS; empty: the device does not emulate time. */
    std::vector<uint64_t> ended;
    std::shared_ptr<struct hostgpu::streams::capture> capture; /* null: it does not capture */
};

struct CUevent_st {
    int device = 0;
    bool timing = false, recorded = false;
    struct hostgpu::streams::point point;
    std::shared_ptr<struct timespec> time;
    std::shared_ptr<struct hostgpu::streams::capture>
        capture; /* it was recorded last in, or null */
};

namespace hostgpu
{
namespace streams
{

struct state {
    std::mutex mutex;
    std::map<CUstream_st *, std::shared_ptr<CUstream_st>> streams; /* closing ones too */
    std::map<int, std::shared_ptr<CUstream_st>> legacy;            /* by device */
    std::set<CUevent_st *> events;
    std::set<struct CUgraph_st *> graphs;
    std::set<struct CUgraphExec_st *> execs;
    uint64_t created = 0;
};
struct state &all(); /* never destroyed: threads of streams run until the very end */

/* The stream of a handle. 0 and cudaStreamLegacy: the current device's default stream. */
std::shared_ptr<CUstream_st> find(cudaStream_t handle);
/* After what the stream was given so far. */
struct point now(const std::shared_ptr<CUstream_st> &s);
/* A new item, on a stream that does not capture. */
void submit(std::unique_lock<std::mutex> &lock, const std::shared_ptr<CUstream_st> &s,
            const char *what, std::function<void()> work, const struct point &after = {});
/* The same for whom counts what it enqueues. */
void submit_counted(std::unique_lock<std::mutex> &lock, const std::shared_ptr<CUstream_st> &s,
                    const char *what, std::function<void()> work, const struct point &after = {});
/* Inside of an item: its next part, which begins when the last has ended. */
void run_part(const char *what, const std::function<void()> &work);

/* Captures (graphs.cpp): why CUDA refuses a call, or cudaSuccess. A call that it refuses makes the
 * captures invalid that it conflicts with. */
cudaError_t refuse_work(const CUstream_st &s);     /* to be enqueued */
cudaError_t refuse_question(const CUstream_st &s); /* what waits for it or asks */
cudaError_t refuse_question(const CUevent_st &e);
cudaError_t refuse_wait(const CUstream_st &s, const CUevent_st &e); /* of s for e */

} // namespace streams
} // namespace hostgpu

#endif
