/* Internal interface of the host emulation, also used by cudnn.cpp and cublaslt.cpp.
 *
 * A stream is a thread with a queue. Work that a library call does "on a stream" is one function
 * passed to hostgpu::enqueue; it runs on the stream's thread after all work enqueued there
 * before. It may access any memory that the call was given, and must not call the CUDA runtime.
 * Capture arguments by value: the call returns before the function runs, and in a graph the
 * function runs many times. */
#ifndef HOSTGPU_H
#define HOSTGPU_H

#include "hostgpu/devices.h"

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>

namespace hostgpu
{

/* Runs `work` on `stream` (0: the legacy default stream). `what` names it in messages and must
 * have static lifetime (a string literal). An unknown or destroyed stream ends the process. If
 * the stream captures, the work is recorded instead and runs at each launch of the graph. Returns
 * cudaSuccess, or the error with which a capture refuses the work, which also becomes the
 * thread's last error. */
cudaError_t enqueue(cudaStream_t stream, const char *what, std::function<void()> work);

/* As enqueue, for computation: skipped by a device with timed emulation. */
cudaError_t enqueue_work(cudaStream_t stream, const char *what, std::function<void()> work);

/* As enqueue, for a kernel, which gets the values drawn when it, or its graph, was launched. */
struct draw {
    unsigned order; /* bit 0: blocks in descending order, bit 1: threads */
    bool faults;    /* selected by SS_HOSTGPU_FAULT */
};
struct draw draw_kernel();
cudaError_t enqueue_kernel(cudaStream_t stream, const char *what,
                           std::function<void(struct draw)> work);

/* Returns whether the stream captures, validly or not. */
bool captures(cudaStream_t stream);
/* Call unsafe_call() before a call that a capture of the calling thread forbids: allocation,
 * waiting for a device, querying it. Call whole_device_call() before a call that a capture on any
 * stream of the device forbids. Both return the error, set it as the thread's last error, and
 * invalidate the capture. */
cudaError_t unsafe_call();
cudaError_t whole_device_call(int device);

/* Timed emulation: a device with timed emulation computes nothing. Times passed to hostgpu_spend,
 * and collectives, take their time on the device clock; all other work takes none. By this clock,
 * work begins when its dependencies have ended and not before it was enqueued, independent of
 * delays of host threads. After the first hostgpu_spend, large collectives move no data
 * either. */
extern "C" void
hostgpu_emulate_time(void); /* call before allocating; calling it again re-enables collectives */
extern "C" void hostgpu_spend(cudaStream_t stream, double seconds); /* see time_scale */
bool emulates_time();
bool spends();                       /* was hostgpu_spend called? */
double time_scale();                 /* SS_HOSTGPU_TIME_SCALE: host seconds per device second */
uint64_t host_ns_of(double seconds); /* seconds: of the device */
/* SS_HOSTGPU_NCCL_LINK: seconds to transfer these bytes between two devices. */
double link_seconds(double bytes);
/* SS_HOSTGPU_HOST_LINK: the same between a device and the host. */
double host_link_seconds(double bytes);
/* On a stream's thread: does the work, taking at least this time; in timed emulation exactly this
 * time on the device clock. */
void take(double seconds, const std::function<void()> &work);
/* For the running item of this thread's stream, on the device clock (CLOCK_MONOTONIC in ns):
 * returns when it began; sets when it ends. */
uint64_t begun_at();
void ends_at(uint64_t end);
/* For SS_HOSTGPU_REPORT: the longest delay of an item's start behind the device clock. */
uint64_t most_ns_behind();

/* Returns how many items the calling thread has enqueued so far: kernels, library calls and
 * copies. For tests that count launches. */
extern "C" unsigned long hostgpu_enqueued(void);

/* Blocks until the stream, or all streams of a device, have completed all work enqueued so far. */
void wait_stream(cudaStream_t stream);
void wait_device(int device);

/* Returns whether [p, p + bytes) is inside one allocation of device memory; true for 0 bytes at
 * any p. Libraries check the pointers passed to them with it. */
bool is_device_memory(const void *p, size_t bytes);

/* The calling thread's current device. */
int current_device();
/* Restores the current device after a library's own cudaSetDevice. Creates no context. */
void restore_device(int device);
int device_count();
/* The type of all devices: SS_HOSTGPU_DEVICE. */
const described_gpu &described_device();
/* Memory of each device in bytes. */
size_t memory_limit();
int stream_device(cudaStream_t stream);

/* For cudaDeviceReset: frees all memory, and releases all streams, of a device. */
void reset_memory(int device);
void reset_streams(int device);

/* Returns the numeric value of an environment variable. An invalid or out-of-range value ends the
 * process. */
long environment(const char *name, long unset, long min, long max);

/* Sets the last error of this thread (cudaGetLastError) and returns it. */
cudaError_t set_last_error(cudaError_t error);

/* Must come first in every call that needs a context: creates one on the thread's current device,
 * as CUDA does. Returns the sticky error of the process since a kernel faulted. standing(): the
 * same, at the end of a call that has waited. */
cudaError_t begin_call();
cudaError_t standing();
/* Records that a kernel has faulted: nothing runs any more. */
void fault(cudaError_t error);
bool has_fault();

/* For SS_HOSTGPU_REPORT: records that the calling thread uses NCCL, and the CTAPolicy of a
 * communicator. */
void note_nccl_caller();
void note_nccl_policy(int policy);
/* For SS_HOSTGPU_REPORT: records a stream's number of pending items, and of all items it was
 * given. */
void note_queued(uint64_t items, uint64_t given);

/* Prints one line, "host emulation: ...", to stderr, then calls abort(). For cases in which a
 * real GPU has undefined behavior. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace hostgpu

#define HOSTGPU_BEGIN()                                                                            \
    do {                                                                                           \
        const cudaError_t stuck_ = hostgpu::begin_call();                                          \
        if (stuck_ != cudaSuccess)                                                                 \
            return stuck_;                                                                         \
    } while (0)

/* The same for calls that a capture of the calling thread forbids. */
#define HOSTGPU_BEGIN_UNSAFE()                                                                     \
    do {                                                                                           \
        HOSTGPU_BEGIN();                                                                           \
        const cudaError_t unsafe_ = hostgpu::unsafe_call();                                        \
        if (unsafe_ != cudaSuccess)                                                                \
            return unsafe_;                                                                        \
    } while (0)

#endif
