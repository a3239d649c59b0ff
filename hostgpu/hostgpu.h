/* Inside of the host emulation: what its parts offer to each other, to cudnn.cpp and to
 * cublaslt.cpp.
 *
 * A stream is a thread with a queue. Whatever a library call promises to do "on a stream" is one
 * function, handed to hostgpu::enqueue; it runs on the stream's thread after all that was enqueued
 * there before. It may read and write any memory that the call named, and must not call the CUDA
 * runtime. Capture arguments by value: the call returns long before, and in a graph the function runs
 * many times. */
#ifndef HOSTGPU_H
#define HOSTGPU_H

#include "hostgpu/devices.h"

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>

namespace hostgpu
{

/* Run `work` on `stream` (0: the legacy default stream). `what` names it in messages and must
 * outlive the process (a string literal). An unknown or destroyed stream ends the process. While the
 * stream captures, the work is recorded instead, and runs each time that the graph is launched.
 * Returns, and remembers, why a capture refuses it. */
cudaError_t enqueue(cudaStream_t stream, const char *what, std::function<void()> work);

/* The same for what computes, which a device with timed emulation leaves out. */
cudaError_t enqueue_work(cudaStream_t stream, const char *what, std::function<void()> work);

/* And for a kernel, which is told what was drawn for this run when it, or its graph, was launched. */
struct draw {
    unsigned order; /* bit 0: blocks go downwards, bit 1: threads do */
    bool faults;    /* SS_HOSTGPU_FAULT means this one */
};
struct draw draw_kernel();
cudaError_t enqueue_kernel(cudaStream_t stream, const char *what,
                           std::function<void(struct draw)> work);

/* Does the stream capture, validly or not? */
bool captures(cudaStream_t stream);
/* Before a call that a capture of the calling thread forbids: allocation, and what waits for a device
 * or asks it. Before one that a capture on any of the device's streams forbids. Both return why not,
 * and remember it; the capture is invalid then. */
cudaError_t unsafe_call();
cudaError_t whole_device_call(int device);

/* Timed emulation: a device with timed emulation computes nothing. What it was told to spend, and sums, take
 * their time; all else that it does takes none, by a clock of the device's own: work begins when what
 * it waits for has ended by that clock, and no sooner than it was enqueued, however late the host's
 * threads wake up. From the first time that is spent on, large sums move nothing either. */
extern "C" void
hostgpu_emulate_time(void); /* before any memory is given out; later: sums are real again */
extern "C" void hostgpu_spend(cudaStream_t stream, double seconds); /* of the device, see time_scale */
bool emulates_time();
bool spends(); /* has time been spent? */
double time_scale();                 /* SS_HOSTGPU_TIME_SCALE: seconds of the host for one of the device */
uint64_t host_ns_of(double seconds); /* of the device */
/* SS_HOSTGPU_NCCL_LINK: what these bytes take between two devices. */
double link_seconds(double bytes);
/* SS_HOSTGPU_HOST_LINK: between a device and the host. */
double host_link_seconds(double bytes);
/* On a stream's thread: do the work, which takes at least so long, in timed emulation exactly that by the
 * device's clock. */
void take(double seconds, const std::function<void()> &work);
/* Of what runs on this thread's stream: when it began by the device's clock, CLOCK_MONOTONIC in ns; it
 * ends at `end`. */
uint64_t begun_at();
void ends_at(uint64_t end);
/* For SS_HOSTGPU_REPORT: how long after its time by the device's clock an item has begun at most. */
uint64_t most_ns_behind();

/* How much the calling thread has enqueued so far, kernels and what libraries and copies do on a
 * stream; for tests that count launches. */
extern "C" unsigned long hostgpu_enqueued(void);

/* Block until the stream, or all streams of a device, are done with what was enqueued so far. */
void wait_stream(cudaStream_t stream);
void wait_device(int device);

/* Does [p, p + bytes) lie inside one allocation of device memory? Also true for 0 bytes at any p.
 * Libraries check the pointers they get with it when they are called. */
bool is_device_memory(const void *p, size_t bytes);

/* The calling thread's current device; the device of a stream. */
int current_device();
/* As it was before a library's own cudaSetDevice: makes no context. */
void restore_device(int device);
int device_count();
/* What all devices are: SS_HOSTGPU_DEVICE. */
const described_gpu &described_device();
/* Bytes of memory of each device. */
size_t memory_limit();
int stream_device(cudaStream_t stream);

/* Give back all memory, and forget all streams, of a device: cudaDeviceReset. */
void reset_memory(int device);
void reset_streams(int device);

/* An environment variable that is a number, within limits; anything else ends the process. */
long environment(const char *name, long unset, long min, long max);

/* Remember an error for cudaGetLastError of this thread, and return it. */
cudaError_t set_last_error(cudaError_t error);

/* The first words of every call that needs a context: the thread's current device gets one, as in
 * CUDA, whoever's device it is. Returns what the process is stuck with since a kernel faulted;
 * standing(): the same at the end of a call that has waited. */
cudaError_t begin_call();
cudaError_t standing();
/* A kernel has faulted: nothing runs any more. */
void fault(cudaError_t error);
bool has_fault();

/* For SS_HOSTGPU_REPORT: the calling thread uses NCCL; the CTAPolicy of a communicator. */
void note_nccl_caller();
void note_nccl_policy(int policy);
/* For SS_HOSTGPU_REPORT: a stream holds this many items that it has not done, of all it was given. */
void note_queued(uint64_t items, uint64_t given);

/* One line to stderr, "host emulation: ...", then abort(). For what a real GPU answers with
 * undefined behaviour. */
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
