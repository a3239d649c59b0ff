/* Captures and graphs of the host emulation.
 *
 * Work enqueued on a capturing stream becomes a node. A graph is a list of nodes in capture
 * order; each launch is one stream item, which runs the nodes one after another. Calls that CUDA
 * refuses during capture are refused with CUDA's error, and the capture is invalid until it is
 * ended. A capture consists of one stream: where CUDA would let another one join, the process
 * ends. */
#include "hostgpu/streams_internal.h"

using namespace hostgpu::streams;

typedef std::shared_ptr<const std::vector<struct node>> nodes_ptr;

struct CUgraph_st {
    nodes_ptr nodes;
};

struct CUgraphExec_st {
    nodes_ptr nodes;
    struct point last; /* the next launch waits for it, on any stream */
};

namespace
{

CUgraph_st *check(cudaGraph_t graph)
{
    if (!all().graphs.count(graph))
        hostgpu::die("graph %p is not, or no longer, a graph", (void *)graph);
    return graph;
}

CUgraphExec_st *check(cudaGraphExec_t exec)
{
    if (!all().execs.count(exec))
        hostgpu::die("graph %p is not, or no longer, an instantiated graph", (void *)exec);
    return exec;
}

/* Invalidates the captures selected by `conflicts`. Returns `error` if there are any. */
template <typename F> cudaError_t spoil_all(F conflicts, cudaError_t error)
{
    cudaError_t result = cudaSuccess;
    for (const auto &e : all().streams)
        if (e.second->capture && conflicts(*e.second)) {
            e.second->capture->invalid = true;
            result = error;
        }
    return result;
}

/* The default stream would have to wait for each blocking stream. */
cudaError_t refuse_legacy(const CUstream_st &s)
{
    if (!s.legacy)
        return cudaSuccess;
    return spoil_all([&s](const CUstream_st &o) { return o.blocking && o.device == s.device; },
                     cudaErrorStreamCaptureImplicit);
}

/* Invalidates captures of the calling thread; those of other threads are unaffected, in every
 * mode. */
cudaError_t refuse_unsafe()
{
    return spoil_all(
        [](const CUstream_st &o) {
            return o.capture->mode != cudaStreamCaptureModeRelaxed &&
                   o.capture->thread == std::this_thread::get_id();
        },
        cudaErrorStreamCaptureUnsupported);
}

/* Invalidates a capture. Returns `error`, or cudaErrorStreamCaptureInvalidated if it was already
 * invalid. */
cudaError_t spoil(struct capture &c, cudaError_t error)
{
    if (c.invalid)
        return cudaErrorStreamCaptureInvalidated;
    c.invalid = true;
    return error;
}

void run_nodes(const std::vector<struct node> &nodes, const std::vector<hostgpu::draw> &draws)
{
    auto draw = draws.begin();
    for (const struct node &n : nodes) {
        const hostgpu::draw d = n.kernel ? *draw++ : hostgpu::draw{};
        run_part(n.what, [&n, d] { n.work(d); });
    }
}

} // namespace

namespace hostgpu
{

namespace streams
{

cudaError_t refuse_work(const CUstream_st &s)
{
    if (s.capture)
        return s.capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    return refuse_legacy(s);
}

cudaError_t refuse_question(const CUstream_st &s)
{
    if (s.capture)
        return spoil(*s.capture, cudaErrorStreamCaptureUnsupported);
    const cudaError_t error = refuse_legacy(s);
    return error != cudaSuccess ? error : refuse_unsafe();
}

cudaError_t refuse_question(const CUevent_st &e)
{
    if (!e.capture)
        return refuse_unsafe();
    e.capture->invalid = true;
    return cudaErrorCapturedEvent;
}

cudaError_t refuse_wait(const CUstream_st &s, const CUevent_st &e)
{
    const cudaError_t error = refuse_work(s);
    if (error != cudaSuccess || s.capture == e.capture)
        return error;
    const bool under_way = e.capture && !e.capture->ended;
    if (!s.capture && under_way)
        die("cudaStreamWaitEvent: a second stream would join a capture: not emulated");
    if (!s.capture)
        return cudaErrorCapturedEvent;
    if (under_way)
        e.capture->invalid = true;
    return spoil(*s.capture,
                 under_way ? cudaErrorStreamCaptureMerge : cudaErrorStreamCaptureIsolation);
}

} // namespace streams

cudaError_t unsafe_call()
{
    std::lock_guard<std::mutex> lock(all().mutex);
    return set_last_error(refuse_unsafe());
}

cudaError_t whole_device_call(int device)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    return set_last_error(spoil_all([device](const CUstream_st &o) { return o.device == device; },
                                    cudaErrorStreamCaptureUnsupported));
}

bool captures(cudaStream_t stream)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    return find(stream)->capture != nullptr;
}

} // namespace hostgpu

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    HOSTGPU_BEGIN();
    if (mode != cudaStreamCaptureModeGlobal && mode != cudaStreamCaptureModeThreadLocal &&
        mode != cudaStreamCaptureModeRelaxed)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(all().mutex);
    const std::shared_ptr<CUstream_st> s = find(stream);
    if (s->legacy)
        return hostgpu::set_last_error(cudaErrorStreamCaptureUnsupported);
    if (s->capture)
        return hostgpu::set_last_error(cudaErrorIllegalState);
    s->capture = std::make_shared<struct capture>();
    s->capture->mode = mode;
    s->capture->thread = std::this_thread::get_id();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    HOSTGPU_BEGIN();
    if (!out)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    *out = nullptr;
    std::lock_guard<std::mutex> lock(all().mutex);
    const std::shared_ptr<CUstream_st> s = find(stream);
    const std::shared_ptr<struct capture> c = s->capture;
    if (!c)
        return hostgpu::set_last_error(cudaErrorIllegalState);
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
        return hostgpu::set_last_error(cudaErrorStreamCaptureWrongThread);
    s->capture = nullptr;
    c->ended = true;
    if (c->invalid)
        return hostgpu::set_last_error(cudaErrorStreamCaptureInvalidated);
    *out = new CUgraph_st{std::make_shared<const std::vector<struct node>>(std::move(c->nodes))};
    all().graphs.insert(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    HOSTGPU_BEGIN();
    if (!status)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(all().mutex);
    const std::shared_ptr<CUstream_st> s = find(stream);
    for (const auto &e : all().streams) /* the only call that invalidates no capture */
        if (s->legacy && e.second->capture && e.second->blocking && e.second->device == s->device)
            return hostgpu::set_last_error(cudaErrorStreamCaptureImplicit);
    *status = !s->capture           ? cudaStreamCaptureStatusNone
              : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    HOSTGPU_BEGIN();
    if (!count)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    if (nodes)
        hostgpu::die("cudaGraphGetNodes: only the number of nodes is emulated");
    std::lock_guard<std::mutex> lock(all().mutex);
    *count = check(graph)->nodes->size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    HOSTGPU_BEGIN();
    if (!out)
        return hostgpu::set_last_error(cudaErrorInvalidValue);
    if (flags != 0)
        hostgpu::die("cudaGraphInstantiate: flags %#llx are not emulated", flags);
    std::lock_guard<std::mutex> lock(all().mutex);
    *out = new CUgraphExec_st{check(graph)->nodes, {}};
    all().execs.insert(*out);
    return cudaSuccess;
}

/* The device is the host: nothing to move. */
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    std::lock_guard<std::mutex> lock(all().mutex);
    check(exec);
    return hostgpu::set_last_error(refuse_work(*find(stream)));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    HOSTGPU_BEGIN();
    std::unique_lock<std::mutex> lock(all().mutex);
    CUgraphExec_st *exec = check(graph);
    const std::shared_ptr<CUstream_st> s = find(stream);
    const cudaError_t error = refuse_work(*s);
    if (error != cudaSuccess)
        return hostgpu::set_last_error(error);
    const nodes_ptr nodes = exec->nodes; /* outlives the graph until the item runs */
    if (s->capture) {
        s->capture->nodes.insert(s->capture->nodes.end(), nodes->begin(), nodes->end());
        return cudaSuccess;
    }
    std::vector<hostgpu::draw> draws;
    for (const struct node &n : *nodes)
        if (n.kernel)
            draws.push_back(hostgpu::draw_kernel());
    submit_counted(
        lock, s, "a graph", [nodes, draws = std::move(draws)] { run_nodes(*nodes, draws); },
        exec->last);
    exec->last = now(s);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    HOSTGPU_BEGIN();
    std::lock_guard<std::mutex> lock(all().mutex);
    all().execs.erase(check(exec));
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    HOSTGPU_BEGIN();
    std::lock_guard<std::mutex> lock(all().mutex);
    all().graphs.erase(check(graph));
    delete graph;
    return cudaSuccess;
}

} /* extern "C" */
