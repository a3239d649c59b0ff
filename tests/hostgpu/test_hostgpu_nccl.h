/* Shared code of the tests of the emulated NCCL (hostgpu): runs ranks as child processes. Only
 * these call CUDA. */
#ifndef TEST_HOSTGPU_NCCL_H
#define TEST_HOSTGPU_NCCL_H

#include "tests/hostgpu/check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <nccl.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define NCCL(call) CHECK((call) == ncclSuccess)

/* --- ranks ---------------------------------------------------------------------------------- */

constexpr unsigned TIMEOUT_S = 60;

/* Shared by all ranks: the number of ranks that have reached some point. */
inline std::atomic<int> *arrived;

/* The rank of a child. */
struct place {
    int rank, nranks;
    ncclUniqueId id;
};

/* The end of a child: its exit status or minus its signal, and its stderr. */
struct ending {
    int status;
    std::string text;
};

inline std::string contents(int fd)
{
    std::string text;
    char buffer[4096];
    lseek(fd, 0, SEEK_SET);
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
        text.append(buffer, (size_t)n);
    close(fd);
    return text;
}

/* Rank 0 makes the id and sends it to the other ranks through a pipe. */
inline ncclUniqueId share_id(int rank, int nranks, const int pipe_ends[2])
{
    ncclUniqueId id = {};
    if (rank == 0) {
        NCCL(ncclGetUniqueId(&id));
        for (int r = 1; r < nranks; r++)
            CHECK(write(pipe_ends[1], &id, sizeof id) == (ssize_t)sizeof id);
    } else {
        CHECK(read(pipe_ends[0], &id, sizeof id) == (ssize_t)sizeof id);
    }
    return id;
}

typedef std::vector<std::pair<const char *, const char *>> environment;

[[noreturn]] inline void child(int rank, int nranks, const int pipe_ends[2], int out,
                               const environment &env, void (*body)(const place &))
{
    dup2(out, 2);
    alarm(TIMEOUT_S);
    setenv("SS_HOSTGPU_NCCL_SHARE_GPU", "1", 1);
    for (const auto &e : env)
        setenv(e.first, e.second, 1);
    failures = 0;
    body({rank, nranks, share_id(rank, nranks, pipe_ends)});
    _exit(failures != 0);
}

/* Runs `body` as each of the ranks, and waits for them. */
inline std::vector<ending> run(int nranks, const environment &env, void (*body)(const place &))
{
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0);
    std::vector<pid_t> pids;
    std::vector<int> outs;
    *arrived = 0;
    for (int r = 0; r < nranks; r++) {
        outs.push_back(memfd_create("output", 0));
        pids.push_back(fork());
        if (pids.back() == 0)
            child(r, nranks, pipe_ends, outs.back(), env, body);
    }
    std::vector<ending> ends;
    for (size_t r = 0; r < pids.size(); r++) {
        int status = 0;
        CHECK(waitpid(pids[r], &status, 0) == pids[r]);
        ends.push_back(
            {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), contents(outs[r])});
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return ends;
}

inline void show(const char *name, size_t rank, const ending &e)
{
    fprintf(stderr, "%s: rank %zu ends with %d: %s\n", name, rank, e.status, e.text.c_str());
    failures++;
}

/* Fails unless all ranks exit with status 0 and without output. */
inline void good(const char *name, int nranks, const environment &env, void (*body)(const place &))
{
    const std::vector<ending> ends = run(nranks, env, body);
    for (size_t r = 0; r < ends.size(); r++)
        if (ends[r].status != 0 || !ends[r].text.empty())
            show(name, r, ends[r]);
}

/* Fails unless each rank aborts with one line that contains its `words`, or exits with status 0 and
 * without output if these are NULL. */
inline void dies(const char *name, const environment &env, void (*body)(const place &),
                 const std::vector<const char *> &words)
{
    const std::vector<ending> ends = run((int)words.size(), env, body);
    for (size_t r = 0; r < ends.size(); r++) {
        const ending &e = ends[r];
        const bool expected = words[r] ? e.status == -SIGABRT &&
                                             e.text.find(words[r]) != std::string::npos &&
                                             e.text.compare(0, 16, "host emulation: ") == 0 &&
                                             std::count(e.text.begin(), e.text.end(), '\n') == 1
                                       : e.status == 0 && e.text.empty();
        if (!expected)
            show(name, r, e);
    }
}

inline void sleep_ms(long ms)
{
    const timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, nullptr);
}

inline void wait_for_arrived(int n)
{
    while (arrived->load() < n)
        sleep_ms(1);
}

inline double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- helpers of a rank ---------------------------------------------------------------------- */

inline cudaStream_t new_stream()
{
    cudaStream_t s = nullptr;
    CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

/* Returns device memory with the values of v. It is not freed, as test processes end soon. */
template <typename T> T *device(const std::vector<T> &v)
{
    T *p = nullptr;
    CUDA(cudaMalloc((void **)&p, v.size() * sizeof(T)));
    CUDA(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

template <typename T> std::vector<T> host(const T *p, size_t n)
{
    std::vector<T> v(n);
    CUDA(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

inline ncclComm_t start(const place &p)
{
    ncclComm_t comm = nullptr;
    NCCL(ncclCommInitRank(&comm, p.nranks, p.id, p.rank));
    CHECK(comm);
    return comm;
}

inline ncclResult_t state_of(ncclComm_t comm)
{
    ncclResult_t state = ncclInternalError;
    NCCL(ncclCommGetAsyncError(comm, &state));
    return state;
}

/* Waits until the state is no longer ncclInProgress, and returns it. */
inline ncclResult_t poll(ncclComm_t comm)
{
    while (state_of(comm) == ncclInProgress)
        sleep_ms(1);
    return state_of(comm);
}

inline bool finished(cudaStream_t stream)
{
    const cudaError_t error = cudaStreamQuery(stream);
    CHECK(error == cudaSuccess || error == cudaErrorNotReady);
    cudaGetLastError();
    return error == cudaSuccess;
}

/* Starts an all-reduce of 1000 numbers, each rank + 1. */
constexpr size_t N = 1000;
inline ncclResult_t small_sum(ncclComm_t comm, int rank, float **data, cudaStream_t stream)
{
    *data = device(std::vector<float>(N, (float)(rank + 1)));
    return ncclAllReduce(*data, *data, N, ncclFloat32, ncclSum, comm, stream);
}

inline bool all_are(const float *p, size_t n, float value)
{
    const std::vector<float> v = host(p, n);
    return std::all_of(v.begin(), v.end(), [value](float x) { return x == value; });
}

/* Memory, windows, and faults of calls other than collectives: test_hostgpu_nccl_memory.cpp. */
void check_memory();

#endif
