/* Tests of stream capture and graphs of the emulated GPU: recording, replay and refused calls. */
#include "hostgpu/hostgpu.h"
#include "tests/hostgpu/test_hostgpu.h"

#include <functional>
#include <thread>

namespace
{

constexpr size_t N = 64;

/* The result depends on the order of the calls. */
int next(int x, int v)
{
    return (int)(3 * (unsigned)x + (unsigned)v);
}

__global__ void step_kernel(int *p, int v)
{
    p[threadIdx.x] = next(p[threadIdx.x], v);
}

void step(cudaStream_t s, int *p, int v)
{
    SS_LAUNCH(step_kernel, 1, N, s, p, v);
}

void begin(cudaStream_t s, enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal)
{
    CUDA(cudaStreamBeginCapture(s, mode));
}

cudaGraph_t end(cudaStream_t s)
{
    cudaGraph_t graph = nullptr;
    CUDA(cudaStreamEndCapture(s, &graph));
    CHECK(graph);
    return graph;
}

cudaGraphExec_t end_and_make(cudaStream_t s)
{
    cudaGraph_t graph = end(s);
    cudaGraphExec_t exec = nullptr;
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphUpload(exec, s));
    CUDA(cudaGraphDestroy(graph)); /* the exec does not depend on it */
    return exec;
}

enum cudaStreamCaptureStatus status_of(cudaStream_t s)
{
    enum cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(s, &status));
    return status;
}

/* Kernels, copies, memsets and host functions run in order at each launch, and not during
 * capture. */
void test_replay()
{
    enum { LAUNCHES = 5, NODES = 6 };
    device_array<int> x(N), y(N);
    x.set(std::vector<int>(N, 1));
    y.set(std::vector<int>(N, 9));
    int *pinned = nullptr, calls = 0;
    CUDA(cudaMallocHost((void **)&pinned, sizeof(int)));
    *pinned = 100;
    cudaStream_t s = new_stream();
    const unsigned long before = hostgpu::hostgpu_enqueued();
    CHECK(status_of(s) == cudaStreamCaptureStatusNone);
    begin(s);
    CHECK(status_of(s) == cudaStreamCaptureStatusActive);
    step(s, x.p, 1);
    CUDA(cudaMemcpyAsync(y.p, x.p, N * sizeof(int), cudaMemcpyDeviceToDevice, s));
    step(s, x.p, 2);
    CUDA(cudaMemsetAsync(y.p + 1, 0, sizeof(int), s));
    CUDA(cudaMemcpyAsync(y.p + 2, pinned, sizeof(int), cudaMemcpyHostToDevice, s));
    CUDA(cudaLaunchHostFunc(
        s, [](void *p) { ++*(int *)p; }, &calls));
    cudaGraph_t graph = end(s);
    CHECK(status_of(s) == cudaStreamCaptureStatusNone);
    CHECK(hostgpu::hostgpu_enqueued() == before);
    CUDA(cudaStreamSynchronize(s));
    CHECK(calls == 0 && x.host()[0] == 1 && y.host()[0] == 9);

    size_t nodes = 0;
    CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == NODES);
    cudaGraphExec_t exec = nullptr;
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    int want = 1, copied = 0;
    for (int i = 0; i < LAUNCHES; i++) {
        *pinned = 100 + i; /* read when the copy runs */
        const unsigned long enqueued = hostgpu::hostgpu_enqueued();
        CUDA(cudaGraphLaunch(exec, s));
        CHECK(hostgpu::hostgpu_enqueued() == enqueued + 1);
        CUDA(cudaStreamSynchronize(s));
        copied = next(want, 1);
        want = next(copied, 2);
        const std::vector<int> v = y.host();
        CHECK(x.host()[N - 1] == want && v[0] == copied && v[1] == 0 && v[2] == 100 + i);
        CHECK(calls == i + 1);
    }
    for (int i = 0; i < LAUNCHES; i++) { /* in order with work enqueued directly */
        CUDA(cudaGraphLaunch(exec, s));
        step(s, x.p, 7);
        want = next(next(next(want, 1), 2), 7);
    }
    CUDA(cudaStreamSynchronize(s));
    CHECK(x.host()[0] == want && calls == 2 * LAUNCHES);
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaStreamDestroy(s));
    CUDA(cudaFreeHost(pinned));
}

/* Launches of one graph on two streams are serialized without other synchronization. */
void test_launches_follow_each_other()
{
    enum { ROUNDS = 4, LAUNCHES = 16 };
    device_array<int> x(N), y(N);
    cudaStream_t s[2] = {new_stream(), new_stream()};
    begin(s[0]);
    CUDA(cudaMemcpyAsync(y.p, x.p, N * sizeof(int), cudaMemcpyDeviceToDevice, s[0]));
    step(s[0], y.p, 1);
    CUDA(cudaMemcpyAsync(x.p, y.p, N * sizeof(int), cudaMemcpyDeviceToDevice, s[0]));
    cudaGraphExec_t exec = end_and_make(s[0]);
    for (int round = 0; round < ROUNDS; round++) {
        int want = 0;
        x.set(std::vector<int>(N, 0));
        for (int i = 0; i < LAUNCHES; i++) {
            CUDA(cudaGraphLaunch(exec, s[i % 2]));
            want = next(want, 1);
        }
        CUDA(cudaDeviceSynchronize());
        CHECK(x.host()[0] == want);
    }
    CUDA(cudaGraphExecDestroy(exec));
    for (cudaStream_t stream : s)
        CUDA(cudaStreamDestroy(stream));
}

void test_graph_in_a_capture()
{
    device_array<int> x(N);
    x.set(std::vector<int>(N, 0));
    cudaStream_t s = new_stream();
    begin(s);
    step(s, x.p, 1);
    cudaGraphExec_t inner = end_and_make(s);
    begin(s);
    CUDA(cudaGraphLaunch(inner, s));
    step(s, x.p, 2);
    CUDA(cudaGraphLaunch(inner, s));
    cudaGraphExec_t outer = end_and_make(s);
    CUDA(cudaGraphExecDestroy(inner));
    CUDA(cudaStreamSynchronize(s));
    CHECK(x.host()[0] == 0);
    CUDA(cudaGraphLaunch(outer, s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(x.host()[0] == 3 * (3 * 1 + 2) + 1);
    CUDA(cudaGraphExecDestroy(outer));
    CUDA(cudaStreamDestroy(s));
}

void test_destroyed_while_it_runs()
{
    device_array<int> x(N);
    x.set(std::vector<int>(N, 0));
    cudaStream_t s = new_stream();
    int go = 0;
    begin(s);
    CUDA(cudaLaunchHostFunc(s, hold, &go));
    step(s, x.p, 5);
    cudaGraphExec_t exec = end_and_make(s);
    CUDA(cudaGraphLaunch(exec, s));
    CUDA(cudaGraphLaunch(exec, s));
    CUDA(cudaGraphExecDestroy(exec));
    release(&go);
    CUDA(cudaStreamSynchronize(s));
    CHECK(x.host()[0] == 3 * 5 + 5);
    CUDA(cudaStreamDestroy(s));
}

/* Arguments of refused calls: a capturing stream, another stream, memory, and events recorded in
 * the capture, in another capture, before the capture, and never. */
struct scene {
    cudaStream_t s, other;
    int *p, *host;
    cudaEvent_t inside, elsewhere, outside, unused;
};
struct refusal {
    const char *what;
    cudaError_t error;
    std::function<cudaError_t(struct scene &)> call;
};

const struct refusal refusals[] = {
    {"synchronize", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaStreamSynchronize(c.s); }},
    {"query", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaStreamQuery(c.s); }},
    {"destroy", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaStreamDestroy(c.s); }},
    {"synchronize another stream", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaStreamSynchronize(c.other); }},
    {"query another stream", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaStreamQuery(c.other); }},
    {"synchronize the device", cudaErrorStreamCaptureUnsupported,
     [](struct scene &) { return cudaDeviceSynchronize(); }},
    {"malloc", cudaErrorStreamCaptureUnsupported,
     [](struct scene &) {
         void *p;
         return cudaMalloc(&p, 64);
     }},
    {"free", cudaErrorStreamCaptureUnsupported, [](struct scene &c) { return cudaFree(c.p); }},
    {"malloc on the host", cudaErrorStreamCaptureUnsupported,
     [](struct scene &) {
         void *p;
         return cudaMallocHost(&p, 64);
     }},
    {"free on the host", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaFreeHost(c.host); }},
    {"copy", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaMemcpy(c.host, c.p, 4, cudaMemcpyDeviceToHost); }},
    {"query a captured event", cudaErrorCapturedEvent,
     [](struct scene &c) { return cudaEventQuery(c.inside); }},
    {"wait for a captured event", cudaErrorCapturedEvent,
     [](struct scene &c) { return cudaEventSynchronize(c.inside); }},
    {"query an event", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaEventQuery(c.outside); }},
    {"wait for an event", cudaErrorStreamCaptureUnsupported,
     [](struct scene &c) { return cudaEventSynchronize(c.outside); }},
    {"depend on work outside", cudaErrorStreamCaptureIsolation,
     [](struct scene &c) { return cudaStreamWaitEvent(c.s, c.outside, 0); }},
    {"depend on no work", cudaErrorStreamCaptureIsolation,
     [](struct scene &c) { return cudaStreamWaitEvent(c.s, c.unused, 0); }},
    {"depend on another capture", cudaErrorStreamCaptureMerge,
     [](struct scene &c) { return cudaStreamWaitEvent(c.s, c.elsewhere, 0); }},
};

void test_refusals()
{
    device_array<int> x(N);
    struct scene c = {new_stream(), new_stream(), x.p, nullptr, nullptr, nullptr, nullptr, nullptr};
    CUDA(cudaMallocHost((void **)&c.host, 64));
    for (cudaEvent_t *e : {&c.inside, &c.elsewhere, &c.outside, &c.unused})
        CUDA(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    for (const struct refusal &r : refusals) {
        cudaGraph_t graph = (cudaGraph_t)&c;
        const bool two = r.error == cudaErrorStreamCaptureMerge;
        x.set(std::vector<int>(N, 1));
        CUDA(cudaEventRecord(c.outside, c.other));
        if (two) {
            begin(c.other, cudaStreamCaptureModeRelaxed);
            CUDA(cudaEventRecord(c.elsewhere, c.other));
        }
        begin(c.s);
        step(c.s, x.p, 1);
        CUDA(cudaEventRecord(c.inside, c.s));
        const cudaError_t error = r.call(c);
        if (error != r.error)
            fprintf(stderr, "%s: %s\n", r.what, cudaGetErrorName(error));
        CHECK(error == r.error && cudaGetLastError() == r.error);
        CHECK(status_of(c.s) == cudaStreamCaptureStatusInvalidated);
        CHECK(cudaMemsetAsync(x.p, 0, 4, c.s) == cudaErrorStreamCaptureInvalidated);
        (void)cudaGetLastError();
        step(c.s, x.p, 1);
        CHECK(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
        CHECK(cudaStreamEndCapture(c.s, &graph) == cudaErrorStreamCaptureInvalidated);
        CHECK(graph == nullptr);
        if (two)
            CHECK(cudaStreamEndCapture(c.other, &graph) == cudaErrorStreamCaptureInvalidated);
        (void)cudaGetLastError();
        step(c.s, x.p, 5);
        CUDA(cudaStreamSynchronize(c.s)); /* the stream is usable again */
        CHECK(x.host()[0] == 8);
    }
    for (cudaEvent_t e : {c.inside, c.elsewhere, c.outside, c.unused})
        CUDA(cudaEventDestroy(e));
    CUDA(cudaFreeHost(c.host));
    CUDA(cudaStreamDestroy(c.s));
    CUDA(cudaStreamDestroy(c.other));
}

/* A relaxed capture, and one of another thread, restrict only calls on their own stream. */
void test_allowed()
{
    device_array<int> x(N);
    x.set(std::vector<int>(N, 1));
    cudaStream_t s = new_stream(), other = new_stream();
    cudaEvent_t event;
    CUDA(cudaEventCreate(&event));
    CUDA(cudaEventRecord(event, other));
    const auto work = [&] {
        void *p = nullptr;
        CUDA(cudaMalloc(&p, 64));
        step(other, x.p, 1);
        CUDA(cudaEventSynchronize(event));
        CUDA(cudaEventQuery(event));
        CUDA(cudaStreamSynchronize(other));
        CUDA(cudaMemsetAsync(x.p + 1, 0, 4, nullptr)); /* the capturing stream is non-blocking */
        CUDA(cudaFree(p));
    };
    for (enum cudaStreamCaptureMode mode :
         {cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeThreadLocal}) {
        begin(s, mode);
        step(s, x.p, 2);
        if (mode == cudaStreamCaptureModeRelaxed)
            work();
        else
            std::thread(work).join();
        CHECK(status_of(s) == cudaStreamCaptureStatusActive);
        CUDA(cudaGraphDestroy(end(s)));
    }
    CHECK(x.host()[0] == 3 * (3 * 1 + 1) + 1);

    /* Only the thread that began a capture can end it. Other threads cannot wait for its stream. */
    begin(s);
    std::thread([s] {
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureWrongThread);
    }).join();
    CHECK(status_of(s) == cudaStreamCaptureStatusActive);
    std::thread([s] {
        CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
    }).join();
    CHECK(status_of(s) == cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    begin(s, cudaStreamCaptureModeRelaxed);
    std::thread([s] { CUDA(cudaGraphDestroy(end(s))); }).join();
    (void)cudaGetLastError();
    CUDA(cudaEventDestroy(event));
    CUDA(cudaStreamDestroy(s));
    CUDA(cudaStreamDestroy(other));
}

void test_begin_and_end()
{
    cudaStream_t s = new_stream();
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) ==
          cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamBeginCapture(s, (enum cudaStreamCaptureMode)7) == cudaErrorInvalidValue);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorIllegalState);
    begin(s, cudaStreamCaptureModeGlobal);
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaErrorIllegalState);
    cudaGetLastError();
    cudaGraphExec_t exec = end_and_make(s); /* an empty graph */
    CUDA(cudaGraphLaunch(exec, s));
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaStreamDestroy(s));
}

/* Work on the default stream is refused while a blocking stream captures. */
void test_default_stream()
{
    device_array<int> x(N);
    cudaStream_t s = new_stream(cudaStreamDefault);
    const std::function<cudaError_t()> calls[] = {
        [&] { return cudaMemsetAsync(x.p, 0, 4, nullptr); },
        [&] { return cudaMemset(x.p, 0, 4); },
        [] { return cudaStreamSynchronize(nullptr); },
        [&] {
            step(nullptr, x.p, 1);
            return cudaPeekAtLastError();
        },
    };
    for (const auto &call : calls) {
        enum cudaStreamCaptureStatus status;
        cudaGraph_t graph;
        begin(s, cudaStreamCaptureModeRelaxed);
        CHECK(cudaStreamIsCapturing(nullptr, &status) == cudaErrorStreamCaptureImplicit);
        CHECK(status_of(s) == cudaStreamCaptureStatusActive);
        CHECK(call() == cudaErrorStreamCaptureImplicit);
        CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
        cudaGetLastError();
    }
    CUDA(cudaMemsetAsync(x.p, 0, 4, nullptr));
    CUDA(cudaStreamDestroy(s));
}

/* A captured event orders work inside the capture, and is invalid outside until it is recorded
 * again. */
void test_events()
{
    device_array<int> x(N);
    x.set(std::vector<int>(N, 0));
    cudaStream_t s = new_stream(), other = new_stream();
    cudaEvent_t event, begun;
    float ms;
    CUDA(cudaEventCreate(&event));
    CUDA(cudaEventCreate(&begun));
    CUDA(cudaEventRecord(begun, s));
    CUDA(cudaEventRecord(event, s));
    begin(s);
    step(s, x.p, 1);
    CUDA(cudaEventRecord(event, s));
    CUDA(cudaStreamWaitEvent(s, event, 0));
    step(s, x.p, 2);
    cudaGraph_t graph = end(s);
    size_t nodes = 0;
    CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == 2);
    CUDA(cudaGraphDestroy(graph));
    CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
    CHECK(cudaStreamWaitEvent(other, event, 0) == cudaErrorCapturedEvent);
    CHECK(cudaEventElapsedTime(&ms, begun, event) == cudaErrorCapturedEvent);
    cudaGetLastError();
    CUDA(cudaEventRecord(event, s));
    CUDA(cudaStreamWaitEvent(other, event, 0));
    CUDA(cudaEventSynchronize(event));
    CUDA(cudaEventElapsedTime(&ms, begun, event));
    CUDA(cudaEventDestroy(event));
    CUDA(cudaEventDestroy(begun));
    CUDA(cudaStreamDestroy(s));
    CUDA(cudaStreamDestroy(other));
}

cudaGraphExec_t two_steps(cudaStream_t s, int *p)
{
    begin(s);
    SS_LAUNCH(step_kernel, 1, 32, s, p, 1);
    SS_LAUNCH(step_kernel, 1, 32, s, p, 2);
    return end_and_make(s);
}

/* Kernels in a graph count at each launch of the graph: the fifth is the first of the third
 * launch. */
void fifth_kernel_faults(int *)
{
    setenv("SS_HOSTGPU_FAULT", "5", 1);
    int *p = nullptr;
    cudaStream_t s = new_stream();
    CUDA(cudaMalloc((void **)&p, 32 * sizeof(int)));
    CUDA(cudaMemsetAsync(p, 0, 32 * sizeof(int), s));
    cudaGraphExec_t exec = two_steps(s, p);
    for (int i = 0; i < 2; i++) {
        CUDA(cudaGraphLaunch(exec, s));
        CUDA(cudaStreamSynchronize(s));
    }
    CUDA(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
    CHECK(p[31] == 3 * (3 * (3 * 1 + 2) + 1) + 2);
}

void blocking_launches(int *)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    int *p = nullptr;
    cudaStream_t s = new_stream();
    CUDA(cudaMalloc((void **)&p, 32 * sizeof(int)));
    CUDA(cudaMemsetAsync(p, 0, 32 * sizeof(int), s));
    cudaGraphExec_t exec = two_steps(s, p);
    CUDA(cudaGraphLaunch(exec, s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(p[0] == 5);
}

/* The memory of a node is freed before it runs. */
void freed_memory(int *)
{
    int *p = nullptr;
    cudaStream_t s = new_stream();
    CUDA(cudaMalloc((void **)&p, 32 * sizeof(int)));
    cudaGraphExec_t exec = two_steps(s, p);
    CUDA(cudaFree(p));
    CUDA(cudaGraphLaunch(exec, s));
    CUDA(cudaStreamSynchronize(s));
}

void check_clean(const char *what, void (*run)(int *))
{
    const struct ending e = in_child(run);
    if (e.status == 0)
        return;
    fprintf(stderr, "%s: status %#x: %s\n", what, e.status, e.words.c_str());
    failures++;
}

const struct misuse misuses[] = {
    {"a second stream would join a capture",
     [](int *) {
         cudaStream_t s = new_stream();
         cudaEvent_t e;
         cudaEventCreate(&e);
         begin(s);
         cudaEventRecord(e, s);
         cudaStreamWaitEvent(new_stream(), e, 0);
     }},
    {"a graph copies from or to pageable memory",
     [](int *p) {
         cudaStream_t s = new_stream();
         int host = 1;
         begin(s);
         CUDA(cudaMemcpyAsync(p, &host, 4, cudaMemcpyHostToDevice, s)); /* as in CUDA */
         CUDA(cudaGraphLaunch(end_and_make(s), s));
         cudaStreamSynchronize(s);
     }},
    {"a graph copies from or to pageable memory",
     [](int *p) {
         cudaStream_t s = new_stream();
         int host = 1;
         begin(s);
         CUDA(cudaMemcpyAsync(&host, p, 4, cudaMemcpyDeviceToHost, s));
         CUDA(cudaGraphLaunch(end_and_make(s), s));
         cudaStreamSynchronize(s);
     }},
    {"is not, or no longer, an instantiated graph",
     [](int *p) {
         cudaStream_t s = new_stream();
         cudaGraphExec_t exec = two_steps(s, p);
         cudaGraphExecDestroy(exec);
         cudaGraphLaunch(exec, s);
     }},
    {"is not, or no longer, a graph",
     [](int *) {
         cudaStream_t s = new_stream();
         begin(s);
         cudaGraph_t graph = end(s);
         cudaGraphDestroy(graph);
         cudaGraphDestroy(graph);
     }},
    {"must not call CUDA",
     [](int *p) {
         struct {
             cudaGraphExec_t exec;
             cudaStream_t s;
         } launch = {nullptr, new_stream()};
         launch.exec = two_steps(launch.s, p);
         cudaLaunchHostFunc(
             launch.s,
             [](void *l) {
                 cudaGraphLaunch(((decltype(launch) *)l)->exec, ((decltype(launch) *)l)->s);
             },
             &launch);
         cudaStreamSynchronize(launch.s);
     }},
};

} // namespace

int main()
{
    setenv("SS_HOSTGPU_JITTER", "300", 1);
    for (const struct misuse &m : misuses) /* forks: before threads are created */
        check_misuse(m);
    check_clean("the fifth kernel faults", fifth_kernel_faults);
    check_clean("CUDA_LAUNCH_BLOCKING", blocking_launches);
    CHECK(in_child(freed_memory).status != 0);
    test_replay();
    test_launches_follow_each_other();
    test_graph_in_a_capture();
    test_destroyed_while_it_runs();
    test_refusals();
    test_allowed();
    test_begin_and_end();
    test_default_stream();
    test_events();
    if (failures)
        fprintf(stderr, "%d checks failed\n", failures);
    return failures != 0;
}
