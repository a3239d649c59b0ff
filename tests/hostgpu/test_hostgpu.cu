/* Tests of the emulated GPU (hostgpu): results as specified by CUDA, and detection of misuse.
 * Compiled as C++ only. */
#include "tests/hostgpu/test_hostgpu.h"

#include <csignal>
#include <ctime>

namespace
{

constexpr unsigned ALL = 0xffffffffu;

/* out[block] = sum of the block's share of x. */
template <typename T> __global__ void sum_kernel(const T *__restrict__ x, T *out, size_t n)
{
    __shared__ T part[32];
    T v = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (size_t)blockDim.x)
        v += __ldg(x + i);
    for (int d = 16; d > 0; d /= 2)
        v += __shfl_xor_sync(ALL, v, d);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : T(0);
    for (int d = 16; d > 0; d /= 2)
        v += __shfl_down_sync(ALL, v, d);
    if (threadIdx.x == 0)
        out[blockIdx.x] = v;
}

template <typename T> void test_sum()
{
    const size_t n = 10007;
    device_array<T> x(n), out(3);
    std::vector<T> values(n);
    T want = 0;
    for (size_t i = 0; i < n; i++)
        want += values[i] = (T)(i % 29); /* exact in all formats and orders */
    x.set(values);
    cudaStream_t s = new_stream();
    for (unsigned threads : {32u, 96u, 256u, 1024u}) {
        CUDA(cudaMemset(out.p, 0, out.n * sizeof(T)));
        CUDA(cudaDeviceSynchronize());
        SS_LAUNCH(sum_kernel<T>, out.n, threads, s, x.p, out.p, n);
        CUDA(cudaStreamSynchronize(s));
        const std::vector<T> sums = out.host();
        CHECK(sums[0] + sums[1] + sums[2] == want);
    }
    CUDA(cudaStreamDestroy(s));
}

struct warp_results {
    int down, up, exclusive_or, xor_groups, from, from_groups, any, all;
    unsigned ballot;
    double wide;
};

__global__ void warp_kernel(struct warp_results *out)
{
    const int t = (int)threadIdx.x, lane = t % 32;
    struct warp_results r;
    r.down = __shfl_down_sync(ALL, t, 3);
    r.up = __shfl_up_sync(ALL, t, 5, 8);
    r.exclusive_or = __shfl_xor_sync(ALL, t, 9);
    r.xor_groups = __shfl_xor_sync(ALL, t, 8, 8);
    r.from = __shfl_sync(ALL, t, 7);
    r.from_groups = __shfl_sync(ALL, t, 2, 16);
    r.any = __any_sync(ALL, t == 40);
    r.all = __all_sync(ALL, t < 33);
    r.ballot = __ballot_sync(ALL, lane % 3 == 0);
    r.wide = __shfl_xor_sync(ALL, 1.0 / (t + 1), 1);
    __syncwarp();
    out[t] = r;
}

/* Compares with CUDA's definition of each function, lane by lane. */
void test_warp()
{
    device_array<struct warp_results> out(64);
    SS_LAUNCH(warp_kernel, 1, 64, nullptr, out.p);
    const std::vector<struct warp_results> r = out.host();
    unsigned ballot = 0;
    for (int lane = 0; lane < 32; lane += 3)
        ballot |= 1u << lane;
    for (int t = 0; t < 64; t++) {
        const int lane = t % 32, warp = t - lane;
        CHECK(r[t].down == (lane + 3 < 32 ? t + 3 : t));
        CHECK(r[t].up == (lane % 8 >= 5 ? t - 5 : t));
        CHECK(r[t].exclusive_or == warp + (lane ^ 9));
        CHECK(r[t].xor_groups == (lane & 8 ? t - 8 : t));
        CHECK(r[t].from == warp + 7);
        CHECK(r[t].from_groups == warp + lane / 16 * 16 + 2);
        CHECK(r[t].any == (warp == 32));
        CHECK(r[t].all == (warp == 0));
        CHECK(r[t].ballot == ballot);
        CHECK(r[t].wide == 1.0 / ((t ^ 1) + 1));
    }
}

__global__ void grid_kernel(unsigned *count, unsigned *most, unsigned long long *places)
{
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int odd = __syncthreads_count(threadIdx.x % 2);
    const int any = __syncthreads_or(threadIdx.x == 5), all = __syncthreads_and(threadIdx.x < 95);
    if (odd != 48 || !any || all)
        return;
    atomicAdd(count, 1u);
    atomicMax(most, block * blockDim.x + threadIdx.x);
    atomicOr(places, 1ull << block);
}

void test_grid()
{
    device_array<unsigned> count(2);
    device_array<unsigned long long> places(1);
    count.set({0, 0});
    places.set({0});
    SS_LAUNCH(grid_kernel, dim3(2, 3, 4), 96, nullptr, count.p, count.p + 1, places.p);
    CHECK(count.host()[0] == 24 * 96);
    CHECK(count.host()[1] == 24 * 96 - 1);
    CHECK(places.host()[0] == (1ull << 24) - 1);
}

/* A missing barrier: each thread reads the value written by its neighbor. */
__global__ void race_kernel(unsigned *out, unsigned add)
{
    __shared__ unsigned shared[64];
    shared[threadIdx.x] = threadIdx.x + add;
    out[threadIdx.x] = shared[(threadIdx.x + 1) % 64] - add;
}

void test_order_changes()
{
    device_array<unsigned> out(64);
    int up = 0, down = 0;
    for (unsigned i = 0; i < 32; i++) {
        SS_LAUNCH(race_kernel, 1, 64, nullptr, out.p, i * 64);
        const std::vector<unsigned> v = out.host();
        up += v[0] != 1;    /* 0 ran before 1 wrote */
        down += v[63] != 0; /* 63 ran before 0 wrote */
    }
    CHECK(up > 4);
    CHECK(down > 4);
}

__global__ void fill_kernel(int *p, size_t n, int value)
{
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = value;
}
__global__ void copy_kernel(int *to, const int *from, size_t n)
{
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[i];
}

/* One stream fills an array, another copies it, with or without waiting. Returns the number of
 * wrong copies. */
int count_races(bool wait)
{
    const size_t n = 256;
    device_array<int> x(n), y(n);
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t event;
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    int wrong = 0;
    for (int i = 0; i < 40; i++) {
        SS_LAUNCH(fill_kernel, 2, 128, a, x.p, n, i);
        CUDA(cudaEventRecord(event, a));
        if (wait)
            CUDA(cudaStreamWaitEvent(b, event, 0));
        SS_LAUNCH(copy_kernel, 2, 128, b, y.p, x.p, n);
        CUDA(cudaDeviceSynchronize());
        wrong += y.host()[n - 1] != i;
    }
    CUDA(cudaEventDestroy(event));
    CUDA(cudaStreamDestroy(a));
    CUDA(cudaStreamDestroy(b));
    return wrong;
}

/* 40 items that wait 0 to 300 microseconds each: 6 ms on average. */
void test_jitter()
{
    cudaStream_t s = new_stream();
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 40; i++)
        CUDA(cudaLaunchHostFunc(
            s, [](void *) {}, nullptr));
    CUDA(cudaStreamSynchronize(s));
    clock_gettime(CLOCK_MONOTONIC, &b);
    CHECK((double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6 > 3);
    CUDA(cudaStreamDestroy(s));
}

/* A wait refers to the event's state when the wait was enqueued, not to a later record. */
void test_event_is_captured()
{
    device_array<int> x(1);
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t event;
    CUDA(cudaEventCreate(&event));
    CUDA(cudaEventQuery(event)); /* never recorded: complete */
    CUDA(cudaStreamWaitEvent(b, event, 0));
    CUDA(cudaEventRecord(event, a));
    CUDA(cudaStreamWaitEvent(b, event, 0));
    int go = 0; /* a host function blocks stream a until b is done */
    CUDA(cudaLaunchHostFunc(a, hold, &go));
    CUDA(cudaEventRecord(event, a));
    CUDA(cudaStreamSynchronize(b));
    CHECK(cudaEventQuery(event) == cudaErrorNotReady);
    CHECK(cudaStreamQuery(a) == cudaErrorNotReady);
    CHECK(cudaPeekAtLastError() == cudaErrorNotReady);
    CHECK(cudaGetLastError() == cudaErrorNotReady);
    CHECK(cudaGetLastError() == cudaSuccess);
    release(&go);
    CUDA(cudaEventSynchronize(event));
    CUDA(cudaEventQuery(event));
    CUDA(cudaStreamDestroy(a));
    CUDA(cudaStreamDestroy(b));
    CUDA(cudaEventDestroy(event));
}

void test_event_time()
{
    cudaStream_t s = new_stream();
    cudaEvent_t begin, end;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaEventRecord(begin, s));
    CUDA(cudaLaunchHostFunc(
        s, [](void *) { usleep(3000); }, nullptr));
    CUDA(cudaEventRecord(end, s));
    CUDA(cudaEventSynchronize(end));
    float ms = 0;
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    CHECK(ms >= 3 && ms < 3000);
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    CUDA(cudaStreamDestroy(s));
}

/* The legacy default stream and blocking streams wait for each other; non-blocking streams do
 * not. */
void test_default_stream()
{
    const size_t n = 64;
    device_array<int> x(n), y(n);
    cudaStream_t s = new_stream(cudaStreamDefault);
    for (int i = 0; i < 20; i++) {
        SS_LAUNCH(fill_kernel, 1, 64, s, x.p, n, i);
        SS_LAUNCH(copy_kernel, 1, 64, nullptr, y.p, x.p, n);
        SS_LAUNCH(fill_kernel, 1, 64, s, x.p, n, -1);
        CHECK(y.host()[0] == i);
    }
    CUDA(cudaStreamDestroy(s)); /* with work in its queue */
    CUDA(cudaDeviceSynchronize());
    CHECK(x.host()[0] == -1);
}

/* Pinned memory is read when the copy runs, pageable memory when it is enqueued. */
void test_asynchronous_copies()
{
    device_array<int> x(2);
    int *pinned = nullptr, pageable = 1, go = 0, back = 0;
    CUDA(cudaMallocHost((void **)&pinned, sizeof(int)));
    *pinned = 1;
    cudaStream_t s = new_stream();
    CUDA(cudaLaunchHostFunc(s, hold, &go));
    CUDA(cudaMemcpyAsync(x.p, pinned, sizeof(int), cudaMemcpyHostToDevice, s));
    CUDA(cudaMemcpyAsync(x.p + 1, &pageable, sizeof(int), cudaMemcpyHostToDevice, s));
    *pinned = pageable = 2;
    release(&go);
    CUDA(cudaMemcpyAsync(&back, x.p, sizeof(int), cudaMemcpyDeviceToHost, s)); /* blocks */
    CHECK(back == 2);
    CHECK(x.host()[1] == 1);
    CUDA(cudaStreamDestroy(s));
    CUDA(cudaFreeHost(pinned));
}

void test_memory()
{
    size_t before = 0, during = 0, total = 0;
    void *p = nullptr, *q = nullptr;
    CUDA(cudaMemGetInfo(&before, &total));
    CHECK(before == total && total == 64u << 20);
    CUDA(cudaMalloc(&p, 40 << 20));
    CHECK((uintptr_t)p % 256 == 0);
    CUDA(cudaMemGetInfo(&during, &total));
    CHECK(before - during == 40u << 20);
    CHECK(cudaMalloc(&q, 25 << 20) == cudaErrorMemoryAllocation);
    CHECK(q == nullptr);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    float f = 0;
    CUDA(cudaMemcpy(&f, p, sizeof f, cudaMemcpyDeviceToHost));
    CHECK(std::isnan(f));
    CUDA(cudaFree(p));
    CHECK(cudaFree(p) == cudaErrorInvalidValue);
    CUDA(cudaFree(nullptr));
    CUDA(cudaMalloc(&q, 64 << 20));
    CUDA(cudaFree(q));
    cudaGetLastError();
}

void test_copies()
{
    device_array<char> x(100);
    char host[100] = {0};
    for (int i = 0; i < 100; i++)
        host[i] = (char)i;
    CHECK(cudaMemcpy(x.p, host, 100, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(host, x.p, 100, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(x.p + 1, host, 100, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemset(x.p + 1, 0, 100) == cudaErrorInvalidValue);
    CHECK(cudaMemset(host, 0, 100) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    CUDA(cudaMemcpy(x.p, host, 100, cudaMemcpyDefault));
    /* 4 by 3 at (2,1) of a 10 by 10 image */
    char corner[12] = {0};
    CUDA(cudaMemcpy2D(corner, 4, x.p + 12, 10, 4, 3, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 12; i++)
        CHECK(corner[i] == (char)(12 + i / 4 * 10 + i % 4));
    /* 2 by 2 by 2 at (1,1,1) of 5 by 5 by 4 */
    char cube[8] = {0};
    struct cudaMemcpy3DParms c = {};
    c.srcPtr = make_cudaPitchedPtr(x.p, 5, 5, 5);
    c.srcPos = make_cudaPos(1, 1, 1);
    c.dstPtr = make_cudaPitchedPtr(cube, 2, 2, 2);
    c.extent = make_cudaExtent(2, 2, 2);
    c.kind = cudaMemcpyDeviceToHost;
    CUDA(cudaMemcpy3D(&c));
    for (int i = 0; i < 8; i++)
        CHECK(cube[i] == (char)(31 + i / 4 * 25 + i / 2 % 2 * 5 + i % 2));
    CUDA(cudaMemset2D(x.p, 10, 7, 2, 10));
    const std::vector<char> v = x.host();
    CHECK(v[0] == 7 && v[91] == 7 && v[92] == 92);
    struct cudaPointerAttributes a;
    CUDA(cudaPointerGetAttributes(&a, x.p + 50));
    CHECK(a.type == cudaMemoryTypeDevice && a.device == 0);
    CUDA(cudaHostRegister(host, 100, cudaHostRegisterDefault));
    CUDA(cudaPointerGetAttributes(&a, host));
    CHECK(a.type == cudaMemoryTypeHost);
    CHECK(cudaHostRegister(host + 1, 2, 0) == cudaErrorHostMemoryAlreadyRegistered);
    CUDA(cudaHostUnregister(host));
    CHECK(cudaHostUnregister(host) == cudaErrorHostMemoryNotRegistered);
    cudaGetLastError();
}

void test_device()
{
    int n = 0, value = 0;
    CUDA(cudaGetDeviceCount(&n));
    CHECK(n == 2);
    CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
    CHECK(std::string(cudaGetErrorString(cudaGetLastError())) == "invalid device ordinal");
    struct cudaDeviceProp p;
    CUDA(cudaGetDeviceProperties(&p, 0));
    CHECK(p.major == 9 && p.multiProcessorCount == 132);
    CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    CHECK(value == 132);
}

/* Each device has its own memory, streams and events; copies between devices work. */
void test_two_devices()
{
    size_t free0 = 0, free1 = 0, total = 0;
    device_array<int> x(32), z(32);
    cudaEvent_t event;
    CUDA(cudaEventCreate(&event));
    CUDA(cudaMemGetInfo(&free0, &total));
    CUDA(cudaSetDevice(1));
    CUDA(cudaMemGetInfo(&free1, &total));
    CHECK(free0 < total && free1 == total);
    int *y = nullptr;
    CUDA(cudaMalloc((void **)&y, 32 * sizeof(int)));
    cudaStream_t s = new_stream();
    CHECK(cudaEventRecord(event, s) == cudaErrorInvalidResourceHandle);
    CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    SS_LAUNCH(fill_kernel, 1, 32, s, y, 32, 5);
    CUDA(cudaMemcpyPeerAsync(z.p, 0, y, 1, 32 * sizeof(int), s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(z.host()[31] == 5);
    CUDA(cudaDeviceReset());
    CHECK(cudaFree(y) == cudaErrorInvalidValue);
    cudaGetLastError();
    CUDA(cudaMemGetInfo(&free1, &total));
    CHECK(free1 == total);
    CUDA(cudaSetDevice(0));
    CHECK(z.host()[0] == 5);
    CUDA(cudaEventDestroy(event));
}

/* Misuse. */

__global__ void divergent_kernel()
{
    if (threadIdx.x < 32)
        __syncthreads();
}
__global__ void two_barriers_kernel()
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}
__global__ void missing_lane_kernel(int *p)
{
    if (threadIdx.x != 3)
        *p = __shfl_xor_sync(ALL, 1, 1);
}
__global__ void mask_kernel(int *p)
{
    if (threadIdx.x < 16)
        *p = __shfl_xor_sync(0xffffu, 1, 1);
}

const struct misuse misuses[] = {
    {"kernel divergent_kernel, block (0,0,0): 32 of 64 threads returned, 32 wait at __syncthreads",
     [](int *) { SS_LAUNCH(divergent_kernel, 1, 64, nullptr); }},
    {"is at __syncthreads", [](int *) { SS_LAUNCH(two_barriers_kernel, 2, 64, nullptr); }},
    {"31 of 32 lanes of warp 0 wait at __shfl_xor_sync",
     [](int *p) { SS_LAUNCH(missing_lane_kernel, 1, 64, nullptr, p); }},
    {"with mask 0xffff", [](int *p) { SS_LAUNCH(mask_kernel, 1, 32, nullptr, p); }},
    {"blocks of (1056,1,1) threads",
     [](int *p) { SS_LAUNCH(fill_kernel, 1, 1056, nullptr, p, 1, 0); }},
    {"blocks of (33,1,1) threads", [](int *p) { SS_LAUNCH(fill_kernel, 1, 33, nullptr, p, 1, 0); }},
    {"a grid of (1,65536,1) blocks",
     [](int *p) { SS_LAUNCH(fill_kernel, dim3(1, 65536), 32, nullptr, p, 1, 0); }},
    {"a grid of (0,1,1) blocks", [](int *p) { SS_LAUNCH(fill_kernel, 0, 32, nullptr, p, 1, 0); }},
    {"the stream is of device 0, the current device is 1",
     [](int *p) {
         cudaStream_t s = new_stream();
         cudaSetDevice(1);
         SS_LAUNCH(fill_kernel, 1, 32, s, p, 1, 0);
     }},
    {"is not, or no longer, a stream",
     [](int *p) {
         cudaStream_t s = new_stream();
         cudaStreamDestroy(s);
         cudaMemsetAsync(p, 0, 4, s);
     }},
    {"is not, or no longer, an event",
     [](int *) {
         cudaEvent_t e;
         cudaEventCreate(&e);
         cudaEventDestroy(e);
         cudaEventRecord(e, nullptr);
     }},
    {"must not call CUDA",
     [](int *) {
         cudaLaunchHostFunc(
             nullptr, [](void *) { cudaDeviceSynchronize(); }, nullptr);
     }},
#ifndef __SANITIZE_ADDRESS__ /* which prints its own message */
    {"wrote at byte 40 of an allocation of 40 bytes",
     [](int *p) { SS_LAUNCH(fill_kernel, 1, 32, nullptr, p, 11, 0); }},
#endif
};

} // namespace

int main()
{
    setenv("SS_HOSTGPU_MEMORY_MB", "64", 1);
    setenv("SS_HOSTGPU_JITTER", "300", 1);
    setenv("SS_HOSTGPU_DEVICES", "2", 1);
    for (const struct misuse &m : misuses) /* forks: before threads are created */
        check_misuse(m);
    test_memory();
    test_copies();
    test_device();
    test_sum<float>();
    test_sum<double>();
    test_sum<int>();
    test_sum<unsigned long long>();
    test_warp();
    test_grid();
    test_order_changes();
    test_jitter();
    test_event_is_captured();
    test_event_time();
    test_default_stream();
    test_asynchronous_copies();
    test_two_devices();
    CHECK(count_races(true) == 0);
    CHECK(count_races(false) > 0);
    if (failures)
        fprintf(stderr, "%d checks failed\n", failures);
    return failures != 0;
}
