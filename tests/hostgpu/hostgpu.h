/* Inside of the host emulation: what cudart.cpp offers to device.cpp, cudnn.cpp and cublaslt.cpp.
 *
 * A stream is a thread with a queue. Whatever a library call promises to do "on a stream" is one
 * function, handed to hostgpu::enqueue; it runs on the stream's thread after all that was enqueued
 * there before. It may read and write any memory that the call named, and must not call the CUDA
 * runtime. Capture arguments by value: the call returns long before. */
#ifndef HOSTGPU_H
#define HOSTGPU_H

#include <cuda_runtime_api.h>
#include <cstddef>
#include <functional>

namespace hostgpu
{

/* Run `work` on `stream` (0: the legacy default stream). `what` names it in messages and must
 * outlive the process (a string literal). An unknown or destroyed stream ends the process. */
void enqueue(cudaStream_t stream, const char *what, std::function<void()> work);

/* Does [p, p + bytes) lie inside one allocation of device memory? Also true for 0 bytes at any p.
 * Libraries check the pointers they get with it when they are called. */
bool is_device_memory(const void *p, size_t bytes);

/* The calling thread's current device; the device of a stream. */
int current_device();
int stream_device(cudaStream_t stream);

/* Remember an error for cudaGetLastError of this thread, and return it. */
cudaError_t set_last_error(cudaError_t error);

/* One line to stderr, "host emulation: ...", then abort(). For what a real GPU answers with
 * undefined behaviour. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace hostgpu

#endif
