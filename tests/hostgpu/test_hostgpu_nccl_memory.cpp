/* Tests of the emulated NCCL: memory, windows, ncclCommAbort, and faults of calls other than
 * collectives. */
#include "tests/hostgpu/test_hostgpu_nccl.h"

namespace
{

constexpr size_t PAGE = 4096, BYTES = 2 * PAGE;

float *memory(size_t bytes = BYTES)
{
    void *p = nullptr;
    NCCL(ncclMemAlloc(&p, bytes));
    CHECK(p && (uintptr_t)p % PAGE == 0);
    return (float *)p;
}

void fill(float *p, size_t n, float value)
{
    const std::vector<float> v(n, value);
    CUDA(cudaMemcpy(p, v.data(), n * sizeof *p, cudaMemcpyHostToDevice));
}

ncclWindow_t open_window(ncclComm_t comm, void *p, size_t bytes = BYTES)
{
    ncclWindow_t window = nullptr;
    NCCL(ncclCommWindowRegister(comm, p, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
    return window;
}

ncclResult_t sum(ncclComm_t comm, float *p, size_t n, cudaStream_t stream)
{
    return ncclAllReduce(p, p, n, ncclFloat32, ncclSum, comm, stream);
}

/* --- registration --------------------------------------------------------------------------- */

void registered_memory(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *a = memory(5000), *b = memory();
    void *handle = nullptr;
    float on_stack = 0;
    NCCL(ncclCommRegister(comm, a, 5000, &handle));
    CHECK(handle);
    ncclWindow_t window = open_window(comm, b), second = open_window(comm, a, 5000);
    CHECK(window && second);
    fill(b, 2 * PAGE / 4, (float)(p.rank + 1));
    NCCL(sum(comm, b, 100, s));
    NCCL(sum(comm, b + 100, 2 * PAGE / 4 - 100, s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(all_are(b, 2 * PAGE / 4, 3));

    CHECK(ncclCommRegister(comm, &on_stack, 4, &handle) == ncclInvalidArgument);
    CHECK(ncclCommWindowRegister(comm, (char *)b + 256, 256, &window, 0) == ncclInvalidArgument);
    CHECK(ncclCommWindowRegister(comm, b, 0, &window, 0) == ncclInvalidArgument);
    CHECK(ncclCommWindowRegister(comm, b, PAGE, &window, 8) == ncclInvalidArgument);
    CHECK(cudaFree(b) == cudaErrorInvalidValue);
    cudaGetLastError();
    NCCL(ncclCommWindowDeregister(comm, second));
    NCCL(ncclCommWindowDeregister(comm, window));
    CHECK(ncclCommWindowDeregister(comm, window) == ncclInvalidArgument);
    NCCL(ncclCommDeregister(comm, handle));
    CHECK(ncclCommDeregister(comm, nullptr) == ncclInvalidArgument);
    NCCL(ncclMemFree(a));
    CHECK(ncclMemFree(a) == ncclInvalidArgument);
    CHECK(ncclMemFree(&on_stack) == ncclInvalidArgument);
    NCCL(ncclMemFree(b));
    NCCL(ncclMemFree(nullptr));
    NCCL(ncclCommDestroy(comm));
}

ncclComm_t start_not_blocking(const place &p)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRankConfig(&comm, p.nranks, p.id, p.rank, &config) == ncclInProgress);
    CHECK(poll(comm) == ncclSuccess);
    return comm;
}

/* The window is available when all ranks have called. */
void window_in_progress(const place &p)
{
    ncclComm_t comm = start_not_blocking(p);
    float *a = memory();
    ncclWindow_t window = nullptr;
    if (p.rank == 1)
        wait_for_arrived(1);
    CHECK(ncclCommWindowRegister(comm, a, BYTES, &window, NCCL_WIN_COLL_SYMMETRIC) ==
          ncclInProgress);
    if (p.rank == 0) {
        sleep_ms(50);
        CHECK(state_of(comm) == ncclInProgress && !window);
        ++*arrived;
    }
    CHECK(poll(comm) == ncclSuccess);
    CHECK(window);
    NCCL(ncclCommWindowDeregister(comm, window));
    NCCL(ncclMemFree(a));
    CHECK(ncclCommFinalize(comm) == ncclInProgress && poll(comm) == ncclSuccess);
    NCCL(ncclCommDestroy(comm));
}

/* --- missing features ------------------------------------------------------------------------- */

void fails_all_allocations(const place &p)
{
    ncclComm_t comm = start(p);
    void *a = nullptr, *handle = comm;
    CHECK(ncclMemAlloc(&a, 5000) == ncclUnhandledCudaError);
    CHECK(!a && strstr(ncclGetLastError(comm), "ncclMemAlloc is disabled"));
    float *b = device(std::vector<float>(N, 1));
    NCCL(ncclCommRegister(comm, b, 4 * N, &handle));
    CHECK(!handle);
    NCCL(ncclCommDestroy(comm));
}

void lacks_windows(const place &p)
{
    ncclComm_t comm = start(p);
    float *a = memory();
    void *handle = nullptr;
    CHECK(!open_window(comm, a));
    NCCL(ncclCommRegister(comm, a, BYTES, &handle));
    CHECK(handle);
    NCCL(ncclCommDeregister(comm, handle));
    NCCL(ncclCommDestroy(comm));
}

void old_version(const place &p)
{
    int version = 0;
    NCCL(ncclGetVersion(&version));
    CHECK(version == 22602);
    ncclComm_t comm = start(p);
    open_window(comm, memory());
}

void older_version(const place &p)
{
    start(p);
    memory();
}

/* --- misuse ----------------------------------------------------------------------------------- */

void differ_window(const place &p)
{
    ncclComm_t comm = start(p);
    open_window(comm, memory(), PAGE << p.rank);
}

void differ_flags(const place &p)
{
    ncclComm_t comm = start(p);
    ncclWindow_t window;
    ncclCommWindowRegister(comm, memory(), BYTES, &window, p.rank ? 0 : NCCL_WIN_COLL_SYMMETRIC);
}

void plain_memory(const place &p)
{
    ncclComm_t comm = start(p);
    char *a = nullptr;
    CUDA(cudaMalloc((void **)&a, 3 * PAGE));
    open_window(comm, a + (PAGE - (uintptr_t)a % PAGE) % PAGE, PAGE);
}

void too_large_window(const place &p)
{
    ncclComm_t comm = start(p);
    open_window(comm, memory(), BYTES + 1);
}

void two_windows(const place &p)
{
    ncclComm_t comm = start(p);
    float *a = memory();
    open_window(comm, a);
    open_window(comm, a + PAGE / 4, PAGE);
}

void leaves_window(const place &p)
{
    ncclComm_t comm = start(p);
    float *a = memory();
    open_window(comm, a, PAGE);
    sum(comm, a, PAGE / 4 + 1, nullptr);
}

void differ_place(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *a = memory();
    open_window(comm, a);
    NCCL(sum(comm, a + (p.rank ? 4 : 0), 100, s));
    CUDA(cudaStreamSynchronize(s));
}

void window_left(const place &p)
{
    ncclComm_t comm = start(p);
    open_window(comm, memory());
    if (p.rank == 0)
        ncclCommFinalize(comm);
    else
        ncclCommDestroy(comm);
}

void free_window(const place &p)
{
    ncclComm_t comm = start(p);
    float *a = memory();
    open_window(comm, a);
    ncclMemFree(a);
}

void free_registered(const place &p)
{
    ncclComm_t comm = start(p);
    float *a = memory();
    void *handle;
    NCCL(ncclCommRegister(comm, a, PAGE, &handle));
    ncclMemFree(a);
}

/* The other rank does not take part. */
void free_in_use(const place &p)
{
    ncclComm_t comm = start(p);
    float *a = memory();
    cudaStream_t s = new_stream();
    if (p.rank == 1)
        return;
    NCCL(sum(comm, a, 100, s));
    ncclMemFree(a);
}

void deregister_in_use(const place &p)
{
    ncclComm_t comm = start(p);
    float *a = memory();
    cudaStream_t s = new_stream();
    ncclWindow_t window = open_window(comm, a);
    if (p.rank == 1)
        return;
    NCCL(sum(comm, a, 100, s));
    ncclCommWindowDeregister(comm, window);
}

void use_freed(const place &p)
{
    ncclComm_t comm = start(p);
    float *a = memory();
    NCCL(ncclMemFree(a));
    sum(comm, a, 100, nullptr);
}

void wrong_deregister(const place &p)
{
    ncclComm_t comm = start(p);
    ncclCommDeregister(comm, open_window(comm, memory()));
}

void check_misuse()
{
    dies("window's size", {}, differ_window, {"4096 bytes", "8192 bytes"});
    dies("window's flags", {}, differ_flags, {"calls differ", "calls differ"});
    dies("window of plain memory", {}, plain_memory, {"not allocated by ncclMemAlloc"});
    dies("window too large", {}, too_large_window, {"not allocated by ncclMemAlloc"});
    dies("window over another", {}, two_windows, {"two windows overlap"});
    dies("sum leaves its window", {}, leaves_window, {"exceeds its window of 4096 bytes"});
    dies("other places in windows", {}, differ_place,
         {"at byte 16 of window 0", "at byte 0 of window 0"});
    dies("window left", {}, window_left,
         {"calls ncclCommFinalize with 1 windows still registered",
          "calls ncclCommDestroy with 1 windows still registered"});
    dies("window freed", {}, free_window, {"frees memory that is still registered as a window"});
    dies("registered memory freed", {}, free_registered, {"frees memory that is still registered"});
    dies("memory freed in use", {}, free_in_use, {"that a collective still uses", nullptr});
    dies("deregistered in use", {}, deregister_in_use, {"that a collective still uses", nullptr});
    dies("freed memory used", {}, use_freed, {"not in one piece of device memory"});
    dies("wrong deregistration", {}, wrong_deregister, {"deregisters a window as a buffer"});
}

/* --- ncclCommAbort ---------------------------------------------------------------------------- */

/* Rank 1 aborts. Rank 0's all-reduce continues to wait; it reports the abort only if
 * SS_HOSTGPU_NCCL_TELL_ABORT is set. */
void abort_peer(const place &p)
{
    const bool told = getenv("SS_HOSTGPU_NCCL_TELL_ABORT") != nullptr;
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    open_window(comm, memory());
    if (p.rank == 1) {
        NCCL(ncclCommAbort(comm)); /* allowed with an open window */
        ++*arrived;
        return;
    }
    NCCL(small_sum(comm, p.rank, &data, s));
    wait_for_arrived(1);
    CHECK(state_of(comm) == (told ? ncclRemoteError : ncclSuccess));
    sleep_ms(50);
    CHECK(!finished(s));
    NCCL(ncclCommAbort(comm));
    CUDA(cudaStreamSynchronize(s));
}

/* Rank 0's ncclCommAbort never returns, and its all-reduce never ends. Rank 1's returns an error
 * but aborts. */
void abort_hangs(const place &p)
{
    ncclComm_t comm = start(p);
    cudaStream_t s = new_stream();
    float *data;
    if (p.rank == 1) {
        CHECK(ncclCommAbort(comm) == ncclInternalError);
        return;
    }
    NCCL(small_sum(comm, p.rank, &data, s));
    std::atomic<bool> returned{false};
    std::thread([comm, &returned] {
        ncclCommAbort(comm);
        returned = true;
    }).detach();
    sleep_ms(300);
    CHECK(!returned && !finished(s));
    fflush(nullptr);
    _exit(failures != 0);
}

/* --- faults of calls other than collectives --------------------------------------------------- */

void fault_fails(const place &p)
{
    void *a = nullptr, *handle = nullptr;
    ncclWindow_t window = nullptr;
    ncclComm_t comm = start(p);
    CHECK(ncclMemAlloc(&a, 10) == (p.rank == 1 ? ncclInternalError : ncclSuccess));
    CHECK(p.rank == 0 || strstr(ncclGetLastError(comm), "ncclMemAlloc fails"));
    float *b = memory(); /* the second call */
    open_window(comm, memory());
    NCCL(ncclCommRegister(comm, b, BYTES, &handle));
    NCCL(ncclCommDeregister(comm, handle));
    if (p.rank == 0) {
        ++*arrived;
        return;
    }
    wait_for_arrived(1);
    CHECK(ncclCommWindowRegister(comm, b, BYTES, &window, 0) == ncclInternalError);
    CHECK(ncclCommRegister(comm, b, BYTES, &handle) == ncclInternalError); /* the error persists */
    CHECK(ncclCommDestroy(comm) == ncclInternalError);
}

/* With a non-blocking communicator the call fails in the background. */
void fault_in_background(const place &p)
{
    ncclComm_t comm = start_not_blocking(p);
    if (p.rank == 0)
        return;
    ncclWindow_t window = nullptr;
    CHECK(ncclCommWindowRegister(comm, memory(), BYTES, &window, 0) == ncclInProgress);
    CHECK(poll(comm) == ncclInternalError);
    NCCL(ncclCommAbort(comm));
}

void fault_hangs_and_delays(const place &p)
{
    ncclComm_t comm = start_not_blocking(p);
    float *a = memory();
    void *handle;
    double begin = now();
    NCCL(ncclCommRegister(comm, a, BYTES, &handle));
    CHECK(now() - begin >= (p.rank == 0 ? 0.3 : 0));
    NCCL(ncclCommDeregister(comm, handle));
    CHECK(ncclCommFinalize(comm) == ncclInProgress);
    sleep_ms(300);
    CHECK(state_of(comm) == ncclInProgress);
    NCCL(ncclCommAbort(comm));
}

void fault_state(const place &p)
{
    ncclComm_t comm = start(p);
    ncclResult_t state;
    NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK(ncclCommGetAsyncError(comm, &state) == ncclInternalError);
    NCCL(ncclCommAbort(comm));
}

/* Each rank is a separate process here, so each can make an id. */
void fault_id(const place &)
{
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id) == ncclInternalError);
}

void memory_only(const place &)
{
    void *a;
    ncclMemAlloc(&a, 10);
}

void check_faults()
{
    const char *name = "SS_HOSTGPU_NCCL_FAULT";
    good("memory, window and destroy fail", 2,
         {{name, "1:memory:fail,1:window.1:fail,1:destroy:fail"}}, fault_fails);
    good("a window fails later", 2, {{name, "1:window:fail"}}, fault_in_background);
    good("hang and delay", 2, {{name, "0:register:delay:300,1:finalize:hang"}},
         fault_hangs_and_delays);
    good("the state's call fails", 1, {{name, "0:state.1:fail"}}, fault_state);
    /* Rank 0 already made the first id. */
    good("id", 1, {{name, "0:id.1:fail"}}, fault_id);
    dies("no rank", {{name, "0:memory:fail"}}, memory_only, {"the rank is unknown"});
    good("an abort hangs", 2, {{name, "0:abort:hang,1:abort:fail"}}, abort_hangs);
}

} // namespace

void check_memory()
{
    const char *lacks = "SS_HOSTGPU_NCCL_LACKS", *version = "SS_HOSTGPU_NCCL_VERSION";
    good("registered memory", 2, {}, registered_memory);
    good("a window in progress", 2, {}, window_in_progress);
    good("nothing of memory", 2, {{lacks, "memory,registration"}}, fails_all_allocations);
    good("no windows", 2, {{lacks, "window"}}, lacks_windows);
    dies("bad list", {{lacks, "windows"}}, memory_only, {"is not memory, window or registration"});
    dies("version", {{version, "22602"}}, old_version, {"2.26.2 has no ncclCommWindowRegister"});
    dies("older version", {{version, "21805"}}, older_version, {"2.18.5 has no ncclMemAlloc"});
    check_misuse();
    good("abort, peers wait", 2, {}, abort_peer);
    good("abort, peers are notified", 2, {{"SS_HOSTGPU_NCCL_TELL_ABORT", "1"}}, abort_peer);
    check_faults();
}
