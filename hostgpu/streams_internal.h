/* Internals of streams.cpp and graphs.cpp. The mutex of streams.cpp protects all of this. */
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

/* An item captured by a stream; runs once per launch of its graph. */
struct node {
    const char *what;
    std::function<void(struct draw)> work;
    bool kernel; /* uses its argument */
};

struct capture {
    enum cudaStreamCaptureMode mode;
    std::thread::id thread; /* that began it */
    bool invalid = false, ended = false;
    std::vector<struct node> nodes;
};

} // namespace streams
} // namespace hostgpu

struct CUstream_st {
    int device = 0, priority = 0;
    bool legacy = false;   /* the default stream: synchronizes with blocking streams */
    bool blocking = false; /* not created with cudaStreamNonBlocking */
    bool started = false, closing = false;
    uint64_t submitted = 0, completed = 0;
    std::deque<struct hostgpu::streams::item> queue;
    std::condition_variable arrived, done;
    uint64_t random = 0; /* state of the jitter */
    /* [ENDS]: when items ended, item n at n % ENDS; empty without timed emulation. */
    std::vector<uint64_t> ended;
    std::shared_ptr<struct hostgpu::streams::capture> capture; /* null: not capturing */
};

struct CUevent_st {
    int device = 0;
    bool timing = false, recorded = false;
    struct hostgpu::streams::point point;
    std::shared_ptr<struct timespec> time;
    std::shared_ptr<struct hostgpu::streams::capture>
        capture; /* in which it was last recorded, or null */
};

namespace hostgpu
{
namespace streams
{

struct state {
    std::mutex mutex;
    std::map<CUstream_st *, std::shared_ptr<CUstream_st>> streams; /* including closing ones */
    std::map<int, std::shared_ptr<CUstream_st>> legacy;            /* by device */
    std::set<CUevent_st *> events;
    std::set<struct CUgraph_st *> graphs;
    std::set<struct CUgraphExec_st *> execs;
    uint64_t created = 0;
};
struct state &all(); /* never destroyed: stream threads run until the process ends */

/* Returns the stream of a handle. 0 and cudaStreamLegacy: the current device's default stream. */
std::shared_ptr<CUstream_st> find(cudaStream_t handle);
/* Returns the point after all items submitted so far. */
struct point now(const std::shared_ptr<CUstream_st> &s);
/* Submits a new item to a stream that does not capture. */
void submit(std::unique_lock<std::mutex> &lock, const std::shared_ptr<CUstream_st> &s,
            const char *what, std::function<void()> work, const struct point &after = {});
/* The same, counted for hostgpu_enqueued. */
void submit_counted(std::unique_lock<std::mutex> &lock, const std::shared_ptr<CUstream_st> &s,
                    const char *what, std::function<void()> work, const struct point &after = {});
/* Inside an item: runs its next node, which begins when the previous one has ended. */
void run_part(const char *what, const std::function<void()> &work);

/* Captures (graphs.cpp): return the error with which CUDA refuses a call, or cudaSuccess. A
 * refused call invalidates the captures that it conflicts with. */
cudaError_t refuse_work(const CUstream_st &s);     /* enqueuing on s */
cudaError_t refuse_question(const CUstream_st &s); /* waiting for it or querying it */
cudaError_t refuse_question(const CUevent_st &e);
cudaError_t refuse_wait(const CUstream_st &s, const CUevent_st &e); /* s waits for e */

} // namespace streams
} // namespace hostgpu

#endif
