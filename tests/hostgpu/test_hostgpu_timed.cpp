/* Tests of timed emulation (hostgpu.h): work takes its given time on the device clock, even if host
 * threads are late; streams and events order it; kernels are not computed. */
#include "hostgpu/hostgpu.h"
#include "tests/hostgpu/check.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace
{

cudaEvent_t event()
{
    cudaEvent_t e = nullptr;
    CHECK(cudaEventCreate(&e) == cudaSuccess);
    return e;
}

cudaStream_t stream()
{
    cudaStream_t s = nullptr;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
    return s;
}

double elapsed(cudaEvent_t from, cudaEvent_t to)
{
    float ms = NAN;
    CHECK(cudaEventElapsedTime(&ms, from, to) == cudaSuccess);
    return (double)ms;
}

double host_ms()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

bool near(double ms, double expected)
{
    return fabs(ms - expected) <= 1e-5 * expected;
}

/* A chain that alternates between two streams takes the sum of its items' times, to microseconds.
 * The first item blocks the device until all items are enqueued. */
void test_chain()
{
    enum { LINKS = 200 };
    cudaStream_t s[2] = {stream(), stream()};
    cudaEvent_t begin = event(), end = event(), hand = event();
    const double from = host_ms();
    hostgpu::hostgpu_spend(s[0], 0.1);
    CHECK(cudaEventRecord(begin, s[0]) == cudaSuccess);
    for (int i = 0; i < LINKS; i++) {
        hostgpu::hostgpu_spend(s[i % 2], 0.0007);
        CHECK(cudaEventRecord(hand, s[i % 2]) == cudaSuccess);
        CHECK(cudaStreamWaitEvent(s[(i + 1) % 2], hand, 0) == cudaSuccess);
    }
    CHECK(cudaEventRecord(end, s[LINKS % 2]) == cudaSuccess);
    CHECK(cudaEventSynchronize(end) == cudaSuccess);
    const double host = host_ms() - from;
    CHECK(near(elapsed(begin, end), LINKS * 2 * 0.7)); /* SS_HOSTGPU_TIME_SCALE is 2 */
    CHECK(host >= LINKS * 2 * 0.7 + 2 * 100);
    printf("a chain of %d sleeps: %.4f ms by the device's clock for %.4f; %.2f ms by the host's\n",
           (int)LINKS, elapsed(begin, end), LINKS * 2 * 0.7, host - 2 * 100);
}

/* Streams run concurrently; a waiting item starts when the later stream has finished. */
void test_beside()
{
    cudaStream_t a = stream(), b = stream(), first = stream();
    cudaEvent_t begin = event(), short_end = event(), long_end = event(), end = event();
    hostgpu::hostgpu_spend(first, 0.05);
    CHECK(cudaEventRecord(begin, first) == cudaSuccess);
    for (cudaStream_t s : {a, b})
        CHECK(cudaStreamWaitEvent(s, begin, 0) == cudaSuccess);
    hostgpu::hostgpu_spend(a, 0.010);
    hostgpu::hostgpu_spend(b, 0.025);
    CHECK(cudaEventRecord(short_end, a) == cudaSuccess);
    CHECK(cudaEventRecord(long_end, b) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(a, long_end, 0) == cudaSuccess);
    hostgpu::hostgpu_spend(a, 0.001);
    CHECK(cudaEventRecord(end, a) == cudaSuccess);
    CHECK(cudaEventSynchronize(end) == cudaSuccess);
    CHECK(near(elapsed(begin, short_end), 20));
    CHECK(near(elapsed(begin, long_end), 50));
    CHECK(near(elapsed(begin, end), 52));
}

/* Work that is enqueued late starts late. */
void test_late()
{
    cudaStream_t s = stream();
    cudaEvent_t begin = event(), end = event();
    CHECK(cudaEventRecord(begin, s) == cudaSuccess);
    const double from = host_ms();
    while (host_ms() < from + 30)
        ;
    hostgpu::hostgpu_spend(s, 0.002);
    CHECK(cudaEventRecord(end, s) == cudaSuccess);
    CHECK(cudaEventSynchronize(end) == cudaSuccess);
    CHECK(elapsed(begin, end) >= 34);
}

/* Copies to and from the host are executed. Copies on the device and memsets are not. Memory is
 * initially zero. */
void test_nothing_is_computed()
{
    int *p = nullptr, *q = nullptr, host = 7, back = -1;
    CHECK(cudaMalloc((void **)&p, sizeof *p) == cudaSuccess &&
          cudaMalloc((void **)&q, sizeof *q) == cudaSuccess);
    CHECK(cudaMemcpy(&back, p, sizeof back, cudaMemcpyDeviceToHost) == cudaSuccess && back == 0);
    CHECK(cudaMemcpy(p, &host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(cudaMemset(p, 0, sizeof *p) == cudaSuccess);
    CHECK(cudaMemcpy(q, p, sizeof *q, cudaMemcpyDeviceToDevice) == cudaSuccess);
    CHECK(cudaMemcpy(&back, p, sizeof back, cudaMemcpyDeviceToHost) == cudaSuccess && back == 7);
    CHECK(cudaMemcpy(&back, q, sizeof back, cudaMemcpyDeviceToHost) == cudaSuccess && back == 0);
    /* Large allocations do not use memory until it is accessed. */
    void *huge = nullptr;
    CHECK(cudaMalloc(&huge, (size_t)512 << 30) == cudaSuccess);
    for (void *m : {(void *)p, (void *)q, huge})
        CHECK(cudaFree(m) == cudaSuccess);
}

/* A copy from the host and one back: SS_HOSTGPU_HOST_LINK is 0.5 GB/s and 3 ms. */
void test_host_link()
{
    const size_t BYTES = 1000000;
    void *there = nullptr, *here = nullptr;
    cudaStream_t s = stream();
    cudaEvent_t begin = event(), end = event();
    CHECK(cudaMalloc(&there, BYTES) == cudaSuccess && cudaMallocHost(&here, BYTES) == cudaSuccess);
    hostgpu::hostgpu_spend(s, 0.05);
    CHECK(cudaEventRecord(begin, s) == cudaSuccess);
    CHECK(cudaMemcpyAsync(there, here, BYTES, cudaMemcpyHostToDevice, s) == cudaSuccess);
    CHECK(cudaMemcpyAsync(here, there, BYTES, cudaMemcpyDeviceToHost, s) == cudaSuccess);
    CHECK(cudaEventRecord(end, s) == cudaSuccess);
    CHECK(cudaEventSynchronize(end) == cudaSuccess);
    CHECK(near(elapsed(begin, end), 2 * 2 * (3 + 2)));
    CHECK(cudaFreeHost(here) == cudaSuccess && cudaFree(there) == cudaSuccess);
}

/* The nodes of a graph take their times one after the other; so do its launches. */
void test_graph()
{
    enum { LAUNCHES = 5 };
    cudaStream_t s = stream();
    cudaEvent_t begin = event(), end = event();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    hostgpu::hostgpu_spend(s, 0.001);
    hostgpu::hostgpu_spend(s, 0.0015);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    hostgpu::hostgpu_spend(s, 0.05);
    CHECK(cudaEventRecord(begin, s) == cudaSuccess);
    for (int i = 0; i < LAUNCHES; i++)
        CHECK(cudaGraphLaunch(exec, s) == cudaSuccess);
    CHECK(cudaEventRecord(end, s) == cudaSuccess);
    CHECK(cudaEventSynchronize(end) == cudaSuccess);
    CHECK(near(elapsed(begin, end), LAUNCHES * 2 * 2.5));
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}

} // namespace

int main()
{
    setenv("SS_HOSTGPU_TIME_SCALE", "2", 1);
    setenv("SS_HOSTGPU_MEMORY_MB", "1048576", 1);
    setenv("SS_HOSTGPU_HOST_LINK", "0.5:3000", 1);
    hostgpu::hostgpu_emulate_time();
    CHECK(hostgpu::emulates_time() && !hostgpu::spends());
    test_chain();
    CHECK(hostgpu::spends());
    test_beside();
    test_late();
    test_nothing_is_computed();
    test_host_link();
    test_graph();
    if (failures)
        fprintf(stderr, "%d checks failed\n", failures);
    return failures != 0;
}
