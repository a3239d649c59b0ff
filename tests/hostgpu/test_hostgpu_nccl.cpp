/* Tests of the emulated NCCL (hostgpu). Ranks are child processes; only these call CUDA. */
#include "tests/hostgpu/test_hostgpu_nccl.h"

extern "C" void ss_hostgpu_nccl_ctas(ncclComm_t comm, int *min, int *max);

namespace
{

/* --- collectives ---------------------------------------------------------------------------- */

/* A format: number of significant bits, smallest exponent e of 1.x 2^e, and largest number. */
struct format {
    int bits, min_exponent;
    double max;
};

/* Rounds to the nearest number of a format, ties to even. */
double round_to(double x, const format &f)
{
    if (x == 0 || !std::isfinite(x))
        return x;
    const int ulp = std::max(std::ilogb(x), f.min_exponent) - f.bits + 1;
    const double y = std::ldexp(std::nearbyint(std::ldexp(x, -ulp)), ulp);
    return std::fabs(y) > f.max ? std::copysign(INFINITY, x) : y;
}

const format FP16 = {11, -14, 65504}, BF16 = {8, -126, 0x1.fep127},
             FP32 = {24, -126, 0x1.fffffep127};

struct half_bits {
    uint16_t bits;
};
struct bf16_bits {
    uint16_t bits;
};

double value(double x)
{
    return x;
}
double value(float x)
{
    return (double)x;
}
double value(bf16_bits x)
{
    const uint32_t u = (uint32_t)x.bits << 16;
    float f;
    memcpy(&f, &u, 4);
    return (double)f;
}
double value(half_bits x)
{
    const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
    const double size = exponent == 31  ? INFINITY
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(1024 + fraction, exponent - 25);
    return x.bits >> 15 ? -size : size;
}
double rounded(double x, double)
{
    return x;
}
double rounded(double x, float)
{
    return round_to(x, FP32);
}
double rounded(double x, half_bits)
{
    return round_to(x, FP16);
}
double rounded(double x, bf16_bits)
{
    return round_to(x, BF16);
}

uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x7fb5d329728ea185ull;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44dull;
    return x ^ x >> 33;
}

/* Any bits for integers; finite floats of very different sizes, so that sums round. */
template <typename T> T element(int rank, size_t i)
{
    const uint64_t bits = mix((uint64_t)rank << 40 | (i + 1));
    T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
template <> float element(int rank, size_t i)
{
    const uint64_t bits = mix((uint64_t)rank << 40 | (i + 1));
    return std::ldexp((float)(int32_t)bits, (int)(bits >> 40 & 31) - 40);
}
template <> double element(int rank, size_t i)
{
    const uint64_t bits = mix((uint64_t)rank << 40 | (i + 1));
    return std::ldexp((double)(int64_t)bits, (int)(bits & 63) - 60);
}
template <> half_bits element(int rank, size_t i)
{
    half_bits x = {(uint16_t)mix((uint64_t)rank << 40 | (i + 1))};
    x.bits = (x.bits >> 10 & 31) == 31 ? (uint16_t)(x.bits & 0x83ff) : x.bits;
    return x;
}
/* Every 100th element is 1, 2^-8, 2^-40 or 0, by rank: the sum is just above halfway between two
 * numbers, by less than fp32 can represent. */
template <> bf16_bits element(int rank, size_t i)
{
    const uint16_t halfway[] = {0x3f80, 0x3b80, 0x2b80, 0};
    if (i % 100 == 1)
        return {halfway[rank % 4]};
    const uint64_t bits = mix((uint64_t)rank << 40 | (i + 1));
    return {(uint16_t)((bits & 0x807f) | (110 + (bits >> 20) % 32) << 7)};
}

template <typename T> std::vector<T> elements(int rank, size_t n)
{
    std::vector<T> v(n);
    for (size_t i = 0; i < n; i++)
        v[i] = element<T>(rank, i);
    return v;
}

/* right: whether `got` is the result of an operation for element i. */
template <typename T> struct floats {
    static bool right(ncclRedOp_t op, int nranks, size_t i, T got)
    {
        double x = value(element<T>(0, i));
        for (int r = 1; r < nranks; r++) {
            const double y = value(element<T>(r, i));
            x = op == ncclMax ? std::max(x, y) : op == ncclMin ? std::min(x, y) : x + y;
        }
        return value(got) == rounded(op == ncclAvg ? x / nranks : x, got);
    }
};
/* For integers the sum wraps before it is divided. */
template <typename T> struct integers {
    static bool right(ncclRedOp_t op, int nranks, size_t i, T got)
    {
        __int128 x = element<T>(0, i);
        for (int r = 1; r < nranks; r++) {
            const __int128 y = element<T>(r, i);
            x = op == ncclMax ? std::max(x, y) : op == ncclMin ? std::min(x, y) : x + y;
        }
        return got == (op == ncclAvg ? (T)((T)x / nranks) : (T)x);
    }
};
const ncclRedOp_t OPS[] = {ncclSum, ncclMax, ncclMin, ncclAvg};

template <typename T, template <typename> class expect>
void check_sums(const place &p, ncclComm_t comm, ncclDataType_t type, cudaStream_t stream)
{
    const size_t megabyte = ((size_t)1 << 20) / sizeof(T); /* exchanged at a time */
    for (size_t n : {(size_t)0, (size_t)1, (size_t)1001, megabyte, megabyte + 7}) {
        for (ncclRedOp_t op : OPS) {
            if (n >= megabyte && op != ncclSum)
                continue;
            T *send = device(elements<T>(p.rank, n)), *recv = send;
            if (n % 2)
                recv = device(std::vector<T>(n));
            NCCL(ncclAllReduce(send, recv, n, type, op, comm, stream));
            CUDA(cudaStreamSynchronize(stream));
            const std::vector<T> got = host(recv, n);
            size_t wrong = 0;
            for (size_t i = 0; i < n; i++)
                wrong += !expect<T>::right(op, p.nranks, i, got[i]);
            if (wrong)
                fprintf(stderr, "type %d, operation %d: %zu of %zu wrong\n", type, op, wrong, n);
            CHECK(wrong == 0);
            CUDA(cudaFree(send));
            if (recv != send)
                CUDA(cudaFree(recv));
        }
    }
}

void sums(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    check_sums<float, floats>(p, comm, ncclFloat32, s);
    check_sums<double, floats>(p, comm, ncclFloat64, s);
    check_sums<half_bits, floats>(p, comm, ncclFloat16, s);
    check_sums<bf16_bits, floats>(p, comm, ncclBfloat16, s);
    check_sums<int32_t, integers>(p, comm, ncclInt32, s);
    check_sums<uint64_t, integers>(p, comm, ncclUint64, s);
    check_sums<int8_t, integers>(p, comm, ncclInt8, s);
    check_sums<uint8_t, integers>(p, comm, ncclUint8, s);
    NCCL(ncclCommDestroy(comm));
}

/* Blocks larger than the size exchanged at a time, out of place and in place. */
void other_collectives(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    const size_t n = 300001, all = n * (size_t)p.nranks, own = n * (size_t)p.rank;
    const int root = p.nranks - 1;
    const std::vector<float> mine = elements<float>(p.rank, n);

    float *out = device(std::vector<float>(all));
    NCCL(ncclAllGather(device(mine), out, n, ncclFloat32, comm, s));
    float *in_place = device(std::vector<float>(all));
    CUDA(cudaMemcpy(in_place + own, mine.data(), n * 4, cudaMemcpyHostToDevice));
    NCCL(ncclAllGather(in_place + own, in_place, n, ncclFloat32, comm, s));
    CUDA(cudaStreamSynchronize(s));
    std::vector<float> expected;
    for (int r = 0; r < p.nranks; r++) {
        const std::vector<float> v = elements<float>(r, n);
        expected.insert(expected.end(), v.begin(), v.end());
    }
    CHECK(host(out, all) == expected);
    CHECK(host(in_place, all) == expected);

    NCCL(ncclBroadcast(p.rank == root ? in_place + own : nullptr, out, n, ncclFloat32, root, comm,
                       s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(host(out, n) == elements<float>(root, n));

    float *big = device(elements<float>(p.rank, all));
    NCCL(ncclReduceScatter(big, out, n, ncclFloat32, ncclSum, comm, s));
    NCCL(ncclReduceScatter(big, big + own, n, ncclFloat32, ncclSum, comm, s));
    CUDA(cudaStreamSynchronize(s));
    for (const std::vector<float> &v : {host(out, n), host(big + own, n)}) {
        size_t wrong = 0;
        for (size_t i = 0; i < n; i++)
            wrong += !floats<float>::right(ncclSum, p.nranks, own + i, v[i]);
        CHECK(wrong == 0);
    }
    NCCL(ncclCommDestroy(comm));
}

/* --- messages ------------------------------------------------------------------------------- */

/* Sends to the next rank and receives from the previous one, two messages each, in order; also
 * sends to the own rank. */
void messages(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    const size_t n = 300001, m = 5; /* larger and smaller than the size sent at a time */
    const int next = (p.rank + 1) % p.nranks, before = (p.rank + p.nranks - 1) % p.nranks;
    float *large = device(elements<float>(p.rank, n)), *small = device(elements<float>(-p.rank, m));
    float *out = device(std::vector<float>(n)), *few = device(std::vector<float>(m));
    NCCL(ncclGroupStart());
    NCCL(ncclRecv(out, n, ncclFloat32, before, comm, s));
    NCCL(ncclRecv(few, m, ncclFloat32, before, comm, s));
    NCCL(ncclSend(large, n, ncclFloat32, next, comm, s));
    NCCL(ncclSend(small, m, ncclFloat32, next, comm, s));
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(s));
    CHECK(host(out, n) == elements<float>(before, n));
    CHECK(host(few, m) == elements<float>(-before, m));

    NCCL(ncclGroupStart());
    NCCL(ncclSend(small, m, ncclFloat32, p.rank, comm, s));
    NCCL(ncclRecv(out, m, ncclFloat32, p.rank, comm, s));
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(s));
    CHECK(host(out, m) == elements<float>(-p.rank, m));

    /* Single messages, in order with all-reduces. */
    if (p.rank == 0)
        NCCL(ncclSend(large, n, ncclFloat32, p.nranks - 1, comm, s));
    else if (p.rank == p.nranks - 1)
        NCCL(ncclRecv(large, n, ncclFloat32, 0, comm, s));
    NCCL(ncclAllReduce(large, large, n, ncclFloat32, ncclMax, comm, s));
    if (p.rank == p.nranks - 1)
        NCCL(ncclSend(large, n, ncclFloat32, 0, comm, s));
    else if (p.rank == 0)
        NCCL(ncclRecv(out, n, ncclFloat32, p.nranks - 1, comm, s));
    CUDA(cudaStreamSynchronize(s));
    if (p.rank == 0)
        CHECK(host(out, n) == host(large, n));

    CHECK(ncclSend(large, n, ncclFloat32, p.nranks, comm, s) == ncclInvalidArgument);
    CHECK(ncclRecv(large, n, ncclFloat32, -1, comm, s) == ncclInvalidArgument);
    CHECK(ncclSend(large, n, ncclFloat32, p.rank, comm, s) == ncclInvalidUsage);
    NCCL(ncclCommDestroy(comm));
}

void differ_message(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data = device(std::vector<float>(N));
    if (p.rank == 0)
        ncclSend(data, N, ncclFloat32, 1, comm, s);
    else
        ncclRecv(data, N - 1, ncclFloat32, 0, comm, s);
    cudaStreamSynchronize(s);
}

void message_of_host(const place &p)
{
    std::vector<float> data(N);
    ncclSend(data.data(), N, ncclFloat32, p.rank, start(p), new_stream());
}

/* --- streams -------------------------------------------------------------------------------- */

/* Streams of a producer, NCCL and a consumer, ordered by events; all steps use the same memory. */
void ordered_streams(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t produce = new_stream(), reduce = new_stream(), consume = new_stream();
    cudaEvent_t ready, done, used;
    for (cudaEvent_t *e : {&ready, &done, &used})
        CUDA(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    const int steps = 20;
    float *data = device(std::vector<float>(N)), *pinned = nullptr, *results = nullptr;
    CUDA(cudaMallocHost((void **)&pinned, steps * sizeof(float) * N));
    CUDA(cudaMallocHost((void **)&results, steps * sizeof(float) * N));
    for (int i = 0; i < steps; i++) {
        float *from = pinned + (size_t)i * N;
        std::fill(from, from + N, (float)(i * 10 + p.rank));
        CUDA(cudaMemcpyAsync(data, from, N * 4, cudaMemcpyHostToDevice, produce));
        CUDA(cudaEventRecord(ready, produce));
        CUDA(cudaStreamWaitEvent(reduce, ready, 0));
        NCCL(ncclAllReduce(data, data, N, ncclFloat32, ncclSum, comm, reduce));
        CUDA(cudaEventRecord(done, reduce));
        CUDA(cudaStreamWaitEvent(consume, done, 0));
        CUDA(
            cudaMemcpyAsync(results + (size_t)i * N, data, N * 4, cudaMemcpyDeviceToHost, consume));
        CUDA(cudaEventRecord(used, consume));
        CUDA(cudaStreamWaitEvent(produce, used, 0));
    }
    CUDA(cudaDeviceSynchronize());
    size_t wrong = 0;
    for (size_t i = 0; i < steps * N; i++)
        wrong +=
            results[i] != (float)((int)(i / N) * 10 * p.nranks + p.nranks * (p.nranks - 1) / 2);
    CHECK(wrong == 0);
    NCCL(ncclCommDestroy(comm));
}

/* The call returns before the last rank has arrived; the stream waits for that rank. */
void stream_waits(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    if (p.rank == p.nranks - 1)
        wait_for_arrived(p.nranks - 1);
    NCCL(small_sum(comm, p.rank, &data, s));
    if (p.rank != p.nranks - 1) {
        sleep_ms(50);
        CHECK(!finished(s));
        ++*arrived;
    }
    CUDA(cudaStreamSynchronize(s));
    CHECK(all_are(data, N, (float)(p.nranks * (p.nranks + 1) / 2)));
    NCCL(ncclCommDestroy(comm));
}

/* The capture of collectives is not emulated. */
void captured(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *x;
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    NCCL(small_sum(comm, p.rank, &x, s));
}

/* One communicator on two streams: first ordered by an event, then without order. */
void two_streams(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t between;
    CUDA(cudaEventCreateWithFlags(&between, cudaEventDisableTiming));
    float *x, *y;
    NCCL(small_sum(comm, p.rank, &x, a));
    CUDA(cudaEventRecord(between, a));
    CUDA(cudaStreamWaitEvent(b, between, 0));
    NCCL(small_sum(comm, p.rank, &y, b));
    CUDA(cudaDeviceSynchronize());
    CHECK(all_are(x, N, 3) && all_are(y, N, 3));
    if (p.rank == 1)
        return;
    NCCL(small_sum(comm, p.rank, &x, a)); /* waits for rank 1 */
    NCCL(small_sum(comm, p.rank, &y, b));
    CUDA(cudaDeviceSynchronize());
}

/* --- non-blocking communicators --------------------------------------------------------------- */

ncclConfig_t non_blocking()
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.minCTAs = 2;
    config.maxCTAs = 8;
    return config;
}

void refused_in_progress(ncclComm_t comm)
{
    int n;
    float *data;
    CHECK(ncclCommCount(comm, &n) == ncclInvalidArgument);
    CHECK(ncclCommUserRank(comm, &n) == ncclInvalidArgument);
    CHECK(ncclCommCuDevice(comm, &n) == ncclInvalidArgument);
    CHECK(ncclCommFinalize(comm) == ncclInvalidArgument);
    CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
    CHECK(small_sum(comm, 0, &data, nullptr) == ncclInvalidArgument);
    CHECK(strstr(ncclGetLastError(comm), "in progress"));
}

void not_blocking(const place &p)
{
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr;
    if (p.rank == 1)
        wait_for_arrived(1);
    CHECK(ncclCommInitRankConfig(&comm, p.nranks, p.id, p.rank, &config) == ncclInProgress);
    if (p.rank == 0) {
        CHECK(state_of(comm) == ncclInProgress);
        refused_in_progress(comm);
        ++*arrived;
    }
    CHECK(poll(comm) == ncclSuccess);
    int n = 0, rank = -1, min = 0, max = 0;
    NCCL(ncclCommCount(comm, &n));
    NCCL(ncclCommUserRank(comm, &rank));
    ss_hostgpu_nccl_ctas(comm, &min, &max);
    CHECK(n == p.nranks && rank == p.rank && min == 2 && max == 8);

    cudaStream_t s = new_stream();
    float *data;
    CHECK(small_sum(comm, p.rank, &data, s) == ncclInProgress);
    CHECK(finished(s)); /* not enqueued yet: without polling, synchronizing does not wait for it */
    CHECK(poll(comm) == ncclSuccess);
    CUDA(cudaStreamSynchronize(s));
    CHECK(all_are(data, N, (float)(p.nranks * (p.nranks + 1) / 2)));

    CHECK(ncclCommFinalize(comm) == ncclInProgress);
    CHECK(poll(comm) == ncclSuccess);
    CHECK(ncclCommFinalize(comm) == ncclInvalidArgument);
    CHECK(small_sum(comm, p.rank, &data, s) == ncclInvalidUsage);
    NCCL(ncclCommDestroy(comm));
}

/* The other rank never arrives. */
void abort_start(const place &p)
{
    if (p.rank == 1)
        return;
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRankConfig(&comm, p.nranks, p.id, p.rank, &config) == ncclInProgress);
    sleep_ms(50);
    CHECK(state_of(comm) == ncclInProgress);
    NCCL(ncclCommAbort(comm));
}

/* --- errors ----------------------------------------------------------------------------------- */

void bad_arguments(const place &p)
{
    ncclComm_t comm = nullptr;
    ncclUniqueId other = {};
    CHECK(ncclCommInitRank(&comm, 1, other, 0) == ncclInvalidArgument);
    CHECK(ncclCommInitRank(nullptr, 1, p.id, 0) == ncclInvalidArgument);
    CHECK(ncclCommInitRank(&comm, 2, p.id, 2) == ncclInvalidArgument);
    CHECK(ncclCommInitRank(&comm, 0, p.id, 0) == ncclInvalidArgument);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.minCTAs = 0;
    CHECK(ncclCommInitRankConfig(&comm, 1, p.id, 0, &config) == ncclInvalidArgument);
    config.minCTAs = 9;
    config.maxCTAs = 8;
    CHECK(ncclCommInitRankConfig(&comm, 1, p.id, 0, &config) == ncclInvalidArgument);
    config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 2;
    CHECK(ncclCommInitRankConfig(&comm, 1, p.id, 0, &config) == ncclInvalidArgument);
    config = {};
    CHECK(ncclCommInitRankConfig(&comm, 1, p.id, 0, &config) == ncclInvalidArgument);
    CHECK(!comm);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);

    NCCL(ncclCommInitRank(&comm, 1, p.id, 0));
    int n = 0, version = 0;
    NCCL(ncclCommCount(comm, &n));
    NCCL(ncclGetVersion(&version));
    CHECK(n == 1 && version == NCCL_VERSION_CODE);
    ncclComm_t again = nullptr; /* an id can be used only once */
    CHECK(ncclCommInitRank(&again, 1, p.id, 0) == ncclSystemError);
    float *x = device(std::vector<float>(N));
    CHECK(ncclBroadcast(x, x, N, ncclFloat32, 1, comm, nullptr) == ncclInvalidArgument);
    CHECK(ncclAllReduce(x, x, N, ncclFloat32, ncclSum, nullptr, nullptr) == ncclInvalidArgument);
    NCCL(ncclCommDestroy(comm));
    NCCL(ncclCommDestroy(nullptr));
    NCCL(ncclCommAbort(nullptr));
    CHECK(strlen(ncclGetErrorString(ncclRemoteError)) > 0);
}

void one_gpu(const place &p)
{
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRank(&comm, p.nranks, p.id, p.rank) == ncclInvalidUsage);
    CHECK(!comm && strstr(ncclGetLastError(nullptr), "ranks 0 and 1 use the same GPU"));
}

void own_gpus(const place &p)
{
    CUDA(cudaSetDevice(p.rank));
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    int d = -1;
    NCCL(ncclCommCuDevice(comm, &d));
    CHECK(d == p.rank);
    NCCL(small_sum(comm, p.rank, &data, s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(all_are(data, N, 3));
    NCCL(ncclCommDestroy(comm));
}

/* The third and the first of three devices are visible. */
void visible_gpus(const place &)
{
    int n = 0;
    char bus[32] = "";
    CUDA(cudaGetDeviceCount(&n));
    CHECK(n == 2);
    CUDA(cudaDeviceGetPCIBusId(bus, (int)sizeof bus, 0));
    CHECK(!strcmp(bus, "0000:03:00.0"));
    CUDA(cudaDeviceGetPCIBusId(bus, (int)sizeof bus, 1));
    CHECK(!strcmp(bus, "0000:01:00.0"));
    CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
}

void no_gpu(const place &)
{
    int n = 1;
    CHECK(cudaGetDeviceCount(&n) == cudaErrorNoDevice && n == 0);
}

void check_visible()
{
    const char *name = "CUDA_VISIBLE_DEVICES", *devices = "SS_HOSTGPU_DEVICES";
    for (const char *list : {"2,0", "2,0,3,1", "2,0,x,1", "2,0,-1,1"})
        good("visible GPUs", 1, {{devices, "3"}, {name, list}}, visible_gpus);
    for (const char *list : {"", "-1", "1", "0,0"})
        good("no visible GPU", 1, {{devices, "1"}, {name, list}}, no_gpu);
    dies("named GPU", {{name, "GPU-1234"}}, no_gpu, {"names are not emulated"});
    /* One GPU is visible to each rank, as device 0. */
    good("one GPU each", 2, {{"SS_HOSTGPU_NCCL_SHARE_GPU", "0"}, {devices, "2"}},
         [](const place &p) {
             setenv("CUDA_VISIBLE_DEVICES", p.rank ? "1" : "0", 1);
             ncclComm_t comm = start(p);
             NCCL(ncclCommDestroy(comm));
         });
}

/* Rank 0's stream waits until another thread aborts; the stream remains usable. */
void abort_unblocks(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    if (p.rank == 1)
        return; /* its process exits */
    float *data;
    NCCL(small_sum(comm, p.rank, &data, s));
    std::thread watchdog([comm, s] {
        sleep_ms(300);
        CHECK(!finished(s));
        CHECK(state_of(comm) == ncclSuccess);
        NCCL(ncclCommAbort(comm));
    });
    CUDA(cudaStreamSynchronize(s));
    watchdog.join();
    CUDA(cudaMemsetAsync(data, 0, N * 4, s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(all_are(data, N, 0));
}

/* If a rank is killed between two all-reduces, the other waits until it aborts. */
void killed(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    const size_t n = 32 << 20;
    uint8_t *data = nullptr;
    CUDA(cudaMalloc((void **)&data, n));
    NCCL(ncclAllReduce(data, data, n, ncclUint8, ncclSum, comm, s));
    if (p.rank == 1)
        CUDA(cudaLaunchHostFunc(
            s, [](void *) { raise(SIGKILL); }, nullptr));
    NCCL(ncclAllReduce(data, data, n, ncclUint8, ncclSum, comm, s));
    sleep_ms(500);
    CHECK(!finished(s));
    CHECK(state_of(comm) == ncclSuccess);
    NCCL(ncclCommAbort(comm));
    CUDA(cudaStreamSynchronize(s));
}

void check_killed()
{
    const std::vector<ending> ends = run(2, {}, killed);
    if (ends[0].status != 0 || !ends[0].text.empty())
        show("killed", 0, ends[0]);
    CHECK(ends[1].status == -SIGKILL);
}

void differ_count(const place &p)
{
    ncclComm_t comm = start(p);
    float *x = device(std::vector<float>(N));
    NCCL(ncclAllReduce(x, x, N - (size_t)p.rank, ncclFloat32, ncclSum, comm, nullptr));
    CUDA(cudaDeviceSynchronize());
}

void differ_type(const place &p)
{
    ncclComm_t comm = start(p);
    float *x = device(std::vector<float>(N));
    NCCL(ncclAllReduce(x, x, N, p.rank ? ncclInt32 : ncclFloat32, ncclSum, comm, nullptr));
    CUDA(cudaDeviceSynchronize());
}

void differ_op(const place &p)
{
    ncclComm_t comm = start(p);
    float *x = device(std::vector<float>(N));
    NCCL(ncclAllReduce(x, x, N, ncclFloat32, p.rank ? ncclAvg : ncclSum, comm, nullptr));
    CUDA(cudaDeviceSynchronize());
}

void differ_kind(const place &p)
{
    ncclComm_t comm = start(p);
    float *x = device(std::vector<float>(N));
    if (p.rank == 0)
        NCCL(ncclBroadcast(x, x, N, ncclFloat32, 0, comm, nullptr));
    NCCL(ncclAllReduce(x, x, N, ncclFloat32, ncclSum, comm, nullptr));
    CUDA(cudaDeviceSynchronize());
}

void differ_root(const place &p)
{
    ncclComm_t comm = start(p);
    float *x = device(std::vector<float>(N));
    NCCL(ncclBroadcast(x, x, N, ncclFloat32, p.rank, comm, nullptr));
    CUDA(cudaDeviceSynchronize());
}

void differ_size(const place &p)
{
    ncclComm_t comm = nullptr;
    ncclCommInitRank(&comm, p.nranks + p.rank, p.id, p.rank);
}

void host_memory(const place &p)
{
    ncclComm_t comm = start(p);
    std::vector<float> x(N);
    ncclAllReduce(x.data(), x.data(), N, ncclFloat32, ncclSum, comm, nullptr);
}

void overlap(const place &p)
{
    ncclComm_t comm = start(p);
    float *x = device(std::vector<float>(2 * N));
    ncclAllReduce(x, x + 1, N, ncclFloat32, ncclSum, comm, nullptr);
}

void use_destroyed(const place &p)
{
    ncclComm_t comm = start(p);
    NCCL(ncclCommDestroy(comm));
    ncclResult_t state;
    ncclCommGetAsyncError(comm, &state);
}

/* --- injected faults -------------------------------------------------------------------------- */

/* Rank 1's second all-reduce (call 1) is late. */
void fault_delay(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    double took[3];
    for (int call = 0; call < 3; call++) {
        const double begin = now();
        NCCL(small_sum(comm, p.rank, &data, s));
        const double returned = now();
        CUDA(cudaStreamSynchronize(s));
        took[call] = now() - begin;
        CHECK(all_are(data, N, 3));
        CHECK(returned - begin < 0.8);
    }
    CHECK(took[1] >= (p.rank == 1 ? 0.99 : 0.5)); /* rank 0 may start it later than rank 1 */
    CHECK(took[0] < took[1] && took[2] < took[1]);
    NCCL(ncclCommDestroy(comm));
}

void fault_fail(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    NCCL(small_sum(comm, p.rank, &data, s));
    CUDA(cudaStreamSynchronize(s));
    const ncclResult_t expected = p.rank == 1 ? ncclInternalError : ncclSuccess;
    CHECK(small_sum(comm, p.rank, &data, s) == expected);
    CHECK(state_of(comm) == expected);
    sleep_ms(100);
    CHECK(finished(s) == (p.rank == 1));
    if (p.rank == 1)
        CHECK(small_sum(comm, p.rank, &data, s) == ncclInternalError);
    NCCL(p.rank == 1 ? ncclCommDestroy(comm) : ncclCommAbort(comm));
}

/* The error is not reported before the call is reached on the stream. */
void fault_async(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    NCCL(small_sum(comm, p.rank, &data, s));
    while (p.rank != 2 && state_of(comm) == ncclSuccess)
        sleep_ms(1);
    CHECK(state_of(comm) == (p.rank == 0   ? ncclRemoteError
                             : p.rank == 1 ? ncclSystemError
                                           : ncclSuccess));
    CHECK(!finished(s));
    NCCL(ncclCommAbort(comm));
    CUDA(cudaStreamSynchronize(s));
}

void fault_hang(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    NCCL(small_sum(comm, p.rank, &data, s));
    sleep_ms(200);
    CHECK(state_of(comm) == ncclSuccess);
    CHECK(!finished(s));
    NCCL(ncclCommAbort(comm));
    CUDA(cudaStreamSynchronize(s));
}

/* Rank 1's element 17 is 3 with one bit flipped; all other elements are correct. */
void fault_corrupt(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    NCCL(small_sum(comm, p.rank, &data, s));
    CUDA(cudaStreamSynchronize(s));
    const std::vector<float> v = host(data, N);
    for (size_t i = 0; i < N; i++)
        CHECK(p.rank == 1 && i == 17 ? v[i] == 2 : v[i] == 3);
    NCCL(ncclCommDestroy(comm));
}

/* Rank 0's start is late, rank 1's fails, rank 2's succeeds with an error, rank 3's hangs. */
void fault_start(const place &p)
{
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr;
    const double begin = now();
    CHECK(ncclCommInitRankConfig(&comm, p.nranks, p.id, p.rank, &config) == ncclInProgress);
    if (p.rank == 1) {
        CHECK(poll(comm) == ncclInternalError);
        NCCL(ncclCommDestroy(comm));
        return;
    }
    sleep_ms(300);
    CHECK(state_of(comm) == ncclInProgress);
    NCCL(ncclCommAbort(comm));
    CHECK(now() - begin < 10);
}

void fault_start_error(const place &p)
{
    const double begin = now();
    ncclComm_t comm = start(p);
    CHECK(now() - begin >= (p.rank == 0 ? 0.2 : 0)); /* rank 1 may start later */
    CHECK(state_of(comm) == (p.rank == 0 ? ncclSuccess : ncclRemoteError));
    NCCL(ncclCommAbort(comm));
}

void start_only(const place &p)
{
    start(p);
}

/* --- groups, rendezvous --------------------------------------------------------------- */

void grouped(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *x, *y;
    NCCL(ncclGroupStart());
    NCCL(ncclGroupStart());
    NCCL(small_sum(comm, p.rank, &x, s));
    NCCL(ncclGroupEnd());
    NCCL(small_sum(comm, p.rank, &y, s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(all_are(x, N, (float)(p.rank + 1))); /* not started yet */
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(s));
    CHECK(all_are(x, N, 3) && all_are(y, N, 3));
    NCCL(ncclGroupStart());
    CHECK(ncclBroadcast(x, x, N, ncclFloat32, 9, comm, s) == ncclInvalidArgument);
    NCCL(small_sum(comm, p.rank, &x, s));
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
    NCCL(ncclCommDestroy(comm));
}

/* One process, one thread, two GPUs. */
void two_gpus(const place &p)
{
    ncclComm_t comms[2];
    cudaStream_t streams[2];
    float *data[2];
    NCCL(ncclGroupStart());
    for (int d = 0; d < 2; d++) {
        CUDA(cudaSetDevice(d));
        NCCL(ncclCommInitRank(&comms[d], 2, p.id, d));
    }
    NCCL(ncclGroupEnd());
    NCCL(ncclGroupStart());
    for (int d = 0; d < 2; d++) {
        CUDA(cudaSetDevice(d));
        streams[d] = new_stream();
        NCCL(small_sum(comms[d], d, &data[d], streams[d]));
    }
    NCCL(ncclGroupEnd());
    for (int d = 0; d < 2; d++) {
        CUDA(cudaStreamSynchronize(streams[d]));
        CHECK(all_are(data[d], N, 3));
    }
    std::thread other([&] { NCCL(ncclCommDestroy(comms[1])); });
    NCCL(ncclCommDestroy(comms[0]));
    other.join();
}

bool is_listening(const ncclUniqueId &id)
{
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);)
        if (line.find(id.internal) != std::string::npos)
            return true;
    return false;
}

bool is_mapped(const ncclUniqueId &id)
{
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find(id.internal) != std::string::npos)
            return true;
    return false;
}

/* The socket is closed once all ranks have connected, and the shared memory is unmapped at the
 * end. */
void nothing_left(const place &p)
{
    CHECK(p.rank != 0 || is_listening(p.id));
    ncclComm_t comm = start(p);
    for (int i = 0; i < 1000 && is_listening(p.id); i++)
        sleep_ms(1);
    CHECK(!is_listening(p.id) && is_mapped(p.id));
    NCCL(ncclCommDestroy(comm));
    CHECK(!is_mapped(p.id));
}

/* Rank 0 dies before rank 1 connects. */
void killed_before(const place &p)
{
    if (p.rank == 0)
        raise(SIGKILL);
    while (is_listening(p.id))
        sleep_ms(1);
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRank(&comm, p.nranks, p.id, p.rank) == ncclSystemError);
}

void check_killed_before()
{
    const std::vector<ending> ends = run(2, {}, killed_before);
    CHECK(ends[0].status == -SIGKILL);
    if (ends[1].status != 0 || !ends[1].text.empty())
        show("killed before", 1, ends[1]);
}

void check_faults()
{
    const char *name = "SS_HOSTGPU_NCCL_FAULT";
    good("delay", 2, {{name, "1:1:delay:1000"}}, fault_delay);
    good("fail", 2, {{name, "1:1:fail"}}, fault_fail);
    good("async", 3, {{name, "0:0:async,1:0:async:2"}}, fault_async);
    good("hang", 2, {{name, "1:0:hang"}}, fault_hang);
    good("corrupt", 2, {{name, "1:0:corrupt:17"}}, fault_corrupt);
    good("corrupt by size", 2, {{name, "1:bytes.4000:corrupt:17,0:bytes.4000.2:corrupt:1"}},
         fault_corrupt);
    good("start", 4, {{name, "0:init:delay:100,1:init:fail,2:init:async,3:init:hang"}},
         fault_start);
    good("start's error", 2, {{name, "0:init:delay:200,1:init:async"}}, fault_start_error);
    for (const char *bad :
         {"1:bytes:hang", "1:bytes.x:hang", "1:0", "1:0:burn", "x:0:hang", "0:1:delay",
          "0:init:corrupt:1", "0:0:async:7", "0:window:async", "0:memory:corrupt:1", "1:id:fail",
          "0:windows:fail", "0:window.x:fail", "0:init.1:fail"})
        dies("bad fault", {{name, bad}}, start_only, {"must be RANK:CALL:KIND[:VALUE]"});
}

void check_misuse()
{
    dies("count", {}, differ_count,
         {"rank 0 calls ncclAllReduce(1000 fp32, sum), rank 1 calls ncclAllReduce(999 fp32, sum)",
          "rank 1 calls ncclAllReduce(999 fp32, sum), rank 0 calls ncclAllReduce(1000 fp32, sum)"});
    dies("message", {}, differ_message,
         {nullptr, "rank 0 sends 1000 fp32, rank 1 receives 999 fp32"});
    dies("message of the host", {}, message_of_host, {"the send buffer is not in one piece"});
    dies("type", {}, differ_type, {"1000 int32", "1000 fp32"});
    dies("operation", {}, differ_op, {"1000 fp32, average", "1000 fp32, average"});
    dies("kind", {}, differ_kind,
         {"rank 0 calls ncclBroadcast(1000 fp32, from rank 0), rank 1 calls ncclAllReduce",
          "rank 0 calls ncclBroadcast(1000 fp32, from rank 0)"});
    dies("root", {}, differ_root, {"from rank 1", "from rank 0"});
    dies("host memory", {}, host_memory, {"not in one piece of device memory"});
    dies("overlap", {}, overlap, {"overlap"});
    dies("destroyed", {}, use_destroyed, {"is not a communicator"});
    dies("two streams", {}, two_streams, {"on two streams without order", nullptr});
    dies("captured", {}, captured, {"on a stream that captures: not emulated"});
}

/* The later of the two ranks reports the difference; the other waits until its alarm ends it. */
void check_size()
{
    const std::vector<ending> ends = run(2, {}, [](const place &p) {
        alarm(2);
        differ_size(p);
    });
    size_t named = 0;
    for (const ending &e : ends)
        named += e.status == -SIGABRT && e.text.find("another rank one of") != std::string::npos;
    CHECK(named == 1);
}

} // namespace

int main()
{
    arrived = new (mmap(nullptr, sizeof *arrived, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
    for (int nranks : {1, 2, 4})
        good("sums", nranks, {}, sums);
    for (int nranks : {2, 4}) {
        good("other collectives", nranks, {}, other_collectives);
        good("messages", nranks, {}, messages);
    }
    for (int nranks : {2, 4})
        good("ordered streams", nranks, {{"SS_HOSTGPU_JITTER", "2000"}}, ordered_streams);
    good("stream waits", 3, {}, stream_waits);
    good("not blocking", 2, {{"SS_HOSTGPU_NCCL_LATENCY", "300000"}}, not_blocking);
    good("abort a start", 2, {}, abort_start);
    good("bad arguments", 1, {}, bad_arguments);
    good("one GPU", 2, {{"SS_HOSTGPU_NCCL_SHARE_GPU", "0"}}, one_gpu);
    good("own GPUs", 2, {{"SS_HOSTGPU_NCCL_SHARE_GPU", "0"}, {"SS_HOSTGPU_DEVICES", "2"}},
         own_gpus);
    check_visible();
    good("abort unblocks", 2, {}, abort_unblocks);
    check_killed();
    check_killed_before();
    check_faults();
    check_misuse();
    check_size();
    good("groups", 2, {}, grouped);
    good("two GPUs in one process", 1,
         {{"SS_HOSTGPU_NCCL_SHARE_GPU", "0"}, {"SS_HOSTGPU_DEVICES", "2"}}, two_gpus);
    good("nothing left", 3, {}, nothing_left);
    check_memory();
    if (failures)
        fprintf(stderr, "%d failures\n", failures);
    return failures != 0;
}
