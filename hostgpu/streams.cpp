/* Streams and events of the host emulation.
 *
 * A stream is a thread that runs the items of a queue in order. It starts with the first item.
 * Each stream counts the items `submitted` and `completed`; a point in a stream is a pair of the
 * stream and a count. Events and the legacy default stream are implemented by points: an item
 * waits for its points before it runs. Points refer to items already submitted, so waits cannot
 * form a cycle.
 *
 * One mutex protects everything here; nothing is computed while holding it. Streams and their
 * threads live until they are destroyed or the process ends. */
#include "hostgpu/streams_internal.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

using namespace hostgpu::streams;

namespace
{

/* Number of items per stream whose end on the device clock is stored: more than a queue holds. */
const uint64_t ENDS = 4096;

thread_local CUstream_st *own_stream; /* set on a stream's thread */

/* Begin and end of the running item, or of its current node, on the device clock. */
thread_local struct {
    uint64_t begin, end;
} turn;

std::atomic<uint64_t> most_behind; /* ns that the host lagged behind the device clock */

uint64_t host_ns()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct timespec timespec_of(uint64_t ns)
{
    return {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

bool reached(const struct point &p)
{
    return !p.stream || p.stream->completed >= p.count;
}

void wait_for(std::unique_lock<std::mutex> &lock, const struct point &p)
{
    if (p.stream)
        p.stream->done.wait(lock, [&p] { return reached(p); });
}

/* StarPU's workers poll for completion in a loop. Each query waits briefly, to leave the cores to
 * the streams. */
const std::chrono::microseconds QUERY_WAIT(50);

bool reached_soon(std::unique_lock<std::mutex> &lock, const struct point &p)
{
    return reached(p) || p.stream->done.wait_for(lock, QUERY_WAIT, [&p] { return reached(p); });
}

/* CUDA forbids calls from host functions; the libraries emulated here do not need any. */
void not_on_stream(const char *what)
{
    if (own_stream)
        hostgpu::die("%s: a function that runs on a stream must not call CUDA", what);
}

/* Sleeps for a pseudo-random 0..SS_HOSTGPU_JITTER microseconds, so that the order of unordered
 * work varies. */
void jitter(struct CUstream_st *s)
{
    static const long most = hostgpu::environment("SS_HOSTGPU_JITTER", 0, 0, 1000000);
    if (most == 0)
        return;
    s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t us = (s->random >> 33) % (uint64_t)(most + 1);
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&t, nullptr);
}

/* Returns when an item ended on the device clock; 0: long ago. */
uint64_t end_of(const struct CUstream_st &s, uint64_t count)
{
    const bool known = !s.ended.empty() && count > 0 && s.completed < count + ENDS;
    return known ? s.ended[count % ENDS] : 0;
}

uint64_t begin_of(const struct CUstream_st &s, const struct item &it)
{
    uint64_t begin = std::max(end_of(s, s.completed), it.enqueued);
    for (const struct point &p : it.after)
        if (p.stream)
            begin = std::max(begin, end_of(*p.stream, p.count));
    return begin;
}

/* Blocks signals, which belong to the program's threads, and resets the affinity inherited from a
 * worker. */
void prepare_thread(CUstream_st *s)
{
    own_stream = s;
    sigset_t set;
    sigfillset(&set);
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        sigdelset(&set, s);
    pthread_sigmask(SIG_SETMASK, &set, nullptr);
    cpu_set_t cpus;
    for (int i = 0; i < CPU_SETSIZE; i++)
        CPU_SET(i, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    if (hostgpu::emulates_time())
        (void)prctl(PR_SET_TIMERSLACK, 1);
}

void run(const char *what, const std::function<void()> &work)
{
    if (hostgpu::has_fault())
        return;
    try {
        work();
    } catch (const std::exception &e) {
        hostgpu::die("%s: %s", what, e.what());
    }
}

/* StarPU's idle workers poll, and on few cores they would take most of the time of the working
 * thread. So the process lowers its priority at start, and streams restore the original one; a
 * priority above other programs would starve kernel threads. Without permission (only root may
 * raise the priority) everything is just slower. */
const int STEP_BACK = 10;
int own_priority;

__attribute__((constructor)) void step_back()
{
    own_priority = getpriority(PRIO_PROCESS, 0);
    (void)setpriority(PRIO_PROCESS, 0, own_priority + STEP_BACK);
}

void prefer_this_thread()
{
    (void)setpriority(PRIO_PROCESS, 0, own_priority);
}

void stream_main(std::shared_ptr<CUstream_st> s)
{
    prepare_thread(s.get());
    prefer_this_thread();
    std::unique_lock<std::mutex> lock(all().mutex);
    for (;;) {
        s->arrived.wait(lock, [&s] { return !s->queue.empty() || s->closing; });
        if (s->queue.empty())
            break;
        {
            struct item it = std::move(s->queue.front());
            s->queue.pop_front();
            for (const struct point &p : it.after)
                wait_for(lock, p);
            turn.begin = turn.end = begin_of(*s, it);
            lock.unlock();
            jitter(s.get());
            run(it.what, it.work);
        } /* destroys the item before it counts as completed */
        lock.lock();
        s->completed++;
        if (!s->ended.empty())
            s->ended[s->completed % ENDS] = turn.end;
        s->done.notify_all();
    }
    all().streams.erase(s.get());
}

std::shared_ptr<CUstream_st> make_stream(int device, bool blocking, int priority)
{
    auto s = std::make_shared<CUstream_st>();
    s->device = device;
    s->blocking = blocking;
    s->priority = priority;
    s->random = ++all().created + (uint64_t)hostgpu::environment("SS_HOSTGPU_SEED", 1, 0, 1L << 30);
    if (hostgpu::emulates_time())
        s->ended.resize(ENDS);
    all().streams[s.get()] = s;
    return s;
}

/* Returns the points that a new item of s waits for because of the legacy default stream. */
std::vector<struct point> implied(const std::shared_ptr<CUstream_st> &s)
{
    std::vector<struct point> after;
    for (const auto &e : all().streams) {
        const std::shared_ptr<CUstream_st> &o = e.second;
        const bool ordered = (s->legacy && o->blocking) || (s->blocking && o->legacy);
        if (ordered && o->device == s->device && o->completed < o->submitted)
            after.push_back(now(o));
    }
    return after;
}

/* Pending items of a stream; a call that enqueues another one waits. About the same as CUDA's. */
const uint64_t QUEUE_ITEMS = 1024;

void close_stream(const std::shared_ptr<CUstream_st> &s)
{
    s->closing = true;
    if (s->started)
        s->arrived.notify_one();
    else
        all().streams.erase(s.get());
}

CUevent_st *check(cudaEvent_t event)
{
    if (!all().events.count(event))
        hostgpu::die("event %p is not, or no longer, an event", (void *)event);
    return event;
}

} // namespace

namespace hostgpu
{

static thread_local unsigned long items;

namespace streams
{

struct state &all()
{
    static struct state *s = new struct state;
    return *s;
}

std::shared_ptr<CUstream_st> find(cudaStream_t handle)
{
    if (handle == nullptr || handle == cudaStreamLegacy) {
        std::shared_ptr<CUstream_st> &s = all().legacy[hostgpu::current_device()];
        if (!s) {
            s = make_stream(hostgpu::current_device(), false, 0);
            s->legacy = true;
        }
        return s;
    }
    auto it = all().streams.find(handle);
    if (it == all().streams.end() || it->second->closing)
        hostgpu::die("stream %p is not, or no longer, a stream", (void *)handle);
    return it->second;
}

struct point now(const std::shared_ptr<CUstream_st> &s)
{
    struct point p;
    p.stream = s;
    p.count = s->submitted;
    return p;
}

void submit(std::unique_lock<std::mutex> &lock, const std::shared_ptr<CUstream_st> &s,
            const char *what, std::function<void()> work, const struct point &after)
{
    not_on_stream(what);
    if (s->submitted >= QUEUE_ITEMS)
        wait_for(lock, {s, s->submitted - QUEUE_ITEMS + 1});
    hostgpu::note_queued(s->submitted + 1 - s->completed, s->submitted + 1);
    struct item it = {what, std::move(work), implied(s), hostgpu::emulates_time() ? host_ns() : 0};
    if (!reached(after))
        it.after.push_back(after);
    s->queue.push_back(std::move(it));
    s->submitted++;
    if (!s->started) {
        s->started = true;
        std::thread(stream_main, s).detach();
    }
    s->arrived.notify_one();
}

void submit_counted(std::unique_lock<std::mutex> &lock, const std::shared_ptr<CUstream_st> &s,
                    const char *what, std::function<void()> work, const struct point &after)
{
    items++;
    submit(lock, s, what, std::move(work), after);
}

void run_part(const char *what, const std::function<void()> &work)
{
    turn.begin = turn.end;
    jitter(own_stream);
    run(what, work);
}

} // namespace streams

/* kernel: `work` gets the drawn values. */
static cudaError_t give(cudaStream_t stream, const char *what,
                        std::function<void(struct draw)> work, bool kernel)
{
    std::unique_lock<std::mutex> lock(all().mutex);
    const std::shared_ptr<CUstream_st> s = find(stream);
    const cudaError_t error = refuse_work(*s);
    if (error != cudaSuccess)
        return set_last_error(error);
    if (s->capture) {
        s->capture->nodes.push_back({what, std::move(work), kernel});
        return cudaSuccess;
    }
    const struct draw d = kernel ? draw_kernel() : draw{};
    submit_counted(lock, s, what, [work = std::move(work), d] { work(d); });
    return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, const char *what, std::function<void()> work)
{
    return give(
        stream, what, [work = std::move(work)](struct draw) { work(); }, false);
}

cudaError_t enqueue_work(cudaStream_t stream, const char *what, std::function<void()> work)
{
    return emulates_time() ? enqueue(stream, what, [] {}) : enqueue(stream, what, std::move(work));
}

cudaError_t enqueue_kernel(cudaStream_t stream, const char *what,
                           std::function<void(struct draw)> work)
{
    return emulates_time() ? enqueue(stream, what, [] {})
                           : give(stream, what, std::move(work), true);
}

static void sleep_until(uint64_t end)
{
    const struct timespec until = timespec_of(end);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR)
        ;
}

uint64_t begun_at()
{
    return turn.begin;
}

void ends_at(uint64_t end)
{
    const uint64_t now = host_ns(), behind = now > turn.begin ? now - turn.begin : 0;
    uint64_t most = most_behind;
    while (behind > most && !most_behind.compare_exchange_weak(most, behind))
        ;
    turn.end = end;
    sleep_until(end);
}

void take(double seconds, const std::function<void()> &work)
{
    const uint64_t begin = host_ns();
    work();
    if (seconds <= 0)
        return;
    if (emulates_time())
        ends_at(turn.begin + host_ns_of(seconds));
    else
        sleep_until(begin + (uint64_t)(1e9 * seconds));
}

uint64_t most_ns_behind()
{
    return most_behind;
}

extern "C" unsigned long hostgpu_enqueued(void)
{
    return items;
}

void wait_stream(cudaStream_t stream)
{
    not_on_stream("waiting for a stream");
    std::unique_lock<std::mutex> lock(all().mutex);
    std::shared_ptr<CUstream_st> s = find(stream);
    /* An empty item of the default stream would wait for the others, so the caller waits for them
     * too. */
    for (const struct point &p : implied(s))
        if (s->legacy)
            wait_for(lock, p);
    wait_for(lock, now(s));
}

void wait_device(int device)
{
    not_on_stream("waiting for a device");
    std::unique_lock<std::mutex> lock(all().mutex);
    std::vector<struct point> points;
    for (const auto &e : all().streams)
        if (e.second->device == device)
            points.push_back(now(e.second));
    for (const struct point &p : points)
        wait_for(lock, p);
}

int stream_device(cudaStream_t stream)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    return find(stream)->device;
}

void reset_streams(int device)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    all().legacy.erase(device);
    std::vector<std::shared_ptr<CUstream_st>> streams;
    for (const auto &e : all().streams)
        if (e.second->device == device)
            streams.push_back(e.second);
    for (const auto &s : streams) {
        s->capture = nullptr;
        close_stream(s);
    }
}

} // namespace hostgpu

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    HOSTGPU_BEGIN();
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority)
{
    HOSTGPU_BEGIN();
    if (!out || (flags != cudaStreamDefault && flags != cudaStreamNonBlocking))
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(all().mutex);
    *out = make_stream(hostgpu::current_device(), !(flags & cudaStreamNonBlocking), priority).get();
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
    HOSTGPU_BEGIN();
    return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    HOSTGPU_BEGIN();
    return cudaStreamCreateWithPriority(out, cudaStreamDefault, 0);
}

/* Returns immediately; the stream ends when its work is done. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    std::lock_guard<std::mutex> lock(all().mutex);
    std::shared_ptr<CUstream_st> s = find(stream);
    if (s->legacy)
        return hostgpu::set_last_error(cudaErrorInvalidResourceHandle);
    if (s->capture)
        return hostgpu::set_last_error(refuse_question(*s));
    close_stream(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    {
        std::lock_guard<std::mutex> lock(all().mutex);
        const cudaError_t error = refuse_question(*find(stream));
        if (error != cudaSuccess)
            return hostgpu::set_last_error(error);
    }
    hostgpu::wait_stream(stream);
    return hostgpu::standing();
}

/* fault.c defines cudaStreamQuery and cudaEventQuery, which call these. */
cudaError_t hostgpu_stream_query(cudaStream_t stream);
cudaError_t hostgpu_event_query(cudaEvent_t event);

cudaError_t hostgpu_stream_query(cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    std::unique_lock<std::mutex> lock(all().mutex);
    std::shared_ptr<CUstream_st> s = find(stream);
    const cudaError_t error = refuse_question(*s);
    if (error != cudaSuccess)
        return hostgpu::set_last_error(error);
    const bool done = reached_soon(lock, now(s)) && (!s->legacy || implied(s).empty());
    return done ? cudaSuccess : hostgpu::set_last_error(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    HOSTGPU_BEGIN();
    if (flags != 0)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    std::unique_lock<std::mutex> lock(all().mutex);
    CUevent_st *e = check(event);
    const std::shared_ptr<CUstream_st> s = find(stream);
    const cudaError_t error = refuse_wait(*s, *e);
    if (error != cudaSuccess)
        return hostgpu::set_last_error(error);
    if (e->recorded && !s->capture) /* a capture has the order of its nodes */
        submit(
            lock, s, "cudaStreamWaitEvent", [] {}, e->point);
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
    HOSTGPU_BEGIN();
    if (!fn)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    return hostgpu::enqueue(stream, "cudaLaunchHostFunc", [fn, data] { fn(data); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
    HOSTGPU_BEGIN();
    if (!out || (flags & ~(unsigned)(cudaEventBlockingSync | cudaEventDisableTiming)))
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(all().mutex);
    CUevent_st *e = new CUevent_st;
    e->device = hostgpu::current_device();
    e->timing = !(flags & cudaEventDisableTiming);
    all().events.insert(e);
    *out = e;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    HOSTGPU_BEGIN();
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    HOSTGPU_BEGIN();
    std::lock_guard<std::mutex> lock(all().mutex);
    all().events.erase(check(event));
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    std::unique_lock<std::mutex> lock(all().mutex);
    CUevent_st *e = check(event);
    std::shared_ptr<CUstream_st> s = find(stream);
    if (s->device != e->device)
        return hostgpu::set_last_error(cudaErrorInvalidResourceHandle);
    const cudaError_t error = refuse_work(*s);
    if (error != cudaSuccess)
        return hostgpu::set_last_error(error);
    e->capture = s->capture;
    if (s->capture)
        return cudaSuccess;
    auto time = std::make_shared<struct timespec>();
    submit(lock, s, "cudaEventRecord",
           [time] { *time = timespec_of(hostgpu::emulates_time() ? turn.begin : host_ns()); });
    e->recorded = true;
    e->point = now(s);
    e->time = time;
    return cudaSuccess;
}

cudaError_t hostgpu_event_query(cudaEvent_t event)
{
    HOSTGPU_BEGIN();
    std::unique_lock<std::mutex> lock(all().mutex);
    const cudaError_t error = refuse_question(*check(event));
    if (error != cudaSuccess)
        return hostgpu::set_last_error(error);
    const struct point p = event->point; /* the event may be recorded again meanwhile */
    return reached_soon(lock, p) ? cudaSuccess : hostgpu::set_last_error(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    HOSTGPU_BEGIN();
    std::unique_lock<std::mutex> lock(all().mutex);
    const cudaError_t error = refuse_question(*check(event));
    if (error != cudaSuccess)
        return hostgpu::set_last_error(error);
    const struct point p = event->point; /* the event may be recorded again meanwhile */
    wait_for(lock, p);
    return hostgpu::standing();
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    HOSTGPU_BEGIN();
    if (!ms)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(all().mutex);
    CUevent_st *b = check(begin), *e = check(end);
    if (b->capture || e->capture)
        return hostgpu::set_last_error(cudaErrorCapturedEvent);
    if (!b->timing || !e->timing || !b->recorded || !e->recorded || b->device != e->device)
        return hostgpu::set_last_error(cudaErrorInvalidResourceHandle);
    if (!reached(b->point) || !reached(e->point))
        return hostgpu::set_last_error(cudaErrorNotReady);
    *ms = (float)((double)(e->time->tv_sec - b->time->tv_sec) * 1e3 +
                  (double)(e->time->tv_nsec - b->time->tv_nsec) * 1e-6);
    return cudaSuccess;
}

} /* extern "C" */
