/* Shared code of the tests of the emulated GPU that launch kernels. Compiled as C++ only. */
#ifndef SS_TESTS_TEST_HOSTGPU_H
#define SS_TESTS_TEST_HOSTGPU_H

#include "hostgpu/device.h"
#include "tests/hostgpu/check.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

/* Device memory, freed at the end of its scope. */
template <typename T> struct device_array {
    T *p = nullptr;
    size_t n;

    explicit device_array(size_t count) : n(count)
    {
        CUDA(cudaMalloc((void **)&p, n * sizeof(T)));
    }
    ~device_array()
    {
        CUDA(cudaFree(p));
    }
    std::vector<T> host() const
    {
        std::vector<T> v(n);
        CUDA(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
    void set(const std::vector<T> &v)
    {
        CUDA(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    }
};

inline cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking)
{
    cudaStream_t s = nullptr;
    CUDA(cudaStreamCreateWithFlags(&s, flags));
    return s;
}

/* A host function that blocks its stream until *(int *)go is set. */
inline void hold(void *go)
{
    while (!__atomic_load_n((int *)go, __ATOMIC_ACQUIRE))
        usleep(100);
}
inline void release(int *go)
{
    __atomic_store_n(go, 1, __ATOMIC_RELEASE);
}

/* Calls run(p) in a child process, where p is 40 bytes of device memory. Returns its exit status
 * and its stderr. Must be called before threads are created. */
struct ending {
    int status;
    std::string words;
};
inline struct ending in_child(void (*run)(int *p))
{
    struct ending e = {0, ""};
    int fd[2];
    if (pipe(fd))
        return e;
    const pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], STDERR_FILENO);
        alarm(20);
        failures = 0;
        void *p = nullptr;
        cudaMalloc(&p, 40);
        run((int *)p);
        cudaFree(p);
        _exit(failures != 0);
    }
    close(fd[1]);
    char buffer[512];
    for (ssize_t n; (n = read(fd[0], buffer, sizeof buffer)) > 0;)
        e.words.append(buffer, (size_t)n);
    close(fd[0]);
    waitpid(child, &e.status, 0);
    return e;
}

/* A misuse: the process must abort with a message that contains `words`. */
struct misuse {
    const char *words;
    void (*run)(int *p);
};
inline void check_misuse(const struct misuse &m)
{
    const struct ending e = in_child(m.run);
    const bool aborted = WIFSIGNALED(e.status) && WTERMSIG(e.status) == SIGABRT;
    if (aborted && e.words.find(m.words) != std::string::npos)
        return;
    fprintf(stderr, "expected \"%s\", got \"%s\"\n", m.words, e.words.c_str());
    failures++;
}

#endif
