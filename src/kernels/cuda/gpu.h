/* CUDA kernels: plain functions on device pointers. No StarPU in here.
 *
 * A `struct ss_gpu` is what the kernels of one GPU share: library handles, the stream that they
 * enqueue on, one scratch area as large as the hungriest kernel needs, and the number format of
 * activations (`dtype`). It is used by one thread at a time (the compute worker, or the main thread
 * while no task runs), and all kernels that use its scratch run on one stream.
 *
 * Kernels enqueue and return: they never wait, never allocate. Whatever takes time or memory
 * (choosing algorithms, growing the scratch) happens in the create functions, before step 1.
 *
 * Pointers named w, x, y, z, r, dx, dy, dz, ds are of the gpu's dtype and NHWC, B = C (shapes.h)
 * but for the input, whose channels are padded to B = ss_gpu_input_block(). All are 16-byte
 * aligned, and every function takes any C, only slower where C is no multiple of 8 (fp32: 4).
 * Everything else (statistics, gamma, beta, biases, master weights, all gradients of parameters) is
 * fp32. Results do not depend on timing: no floating-point atomics.
 *
 * Errors: SS_ERR_LIBRARY names the failing call, SS_ERR_MEMORY, SS_ERR_SHAPE. */
#ifndef SS_KERNELS_CUDA_GPU_H
#define SS_KERNELS_CUDA_GPU_H

#include "kernels/shapes.h"

struct CUstream_st;
typedef struct CUstream_st *ss_stream; /* a cudaStream_t */
struct CUevent_st;
typedef struct CUevent_st *ss_event; /* a cudaEvent_t */

struct ss_gpu;

struct ss_gpu_options {
    int device; /* CUDA's index */
    enum ss_dtype dtype;
    int tf32;               /* fp32 only: let tensor cores round inputs to TF32 */
    int autotune;           /* time the convolution algorithms; 0: the library's own ranking */
    const char *cache_file; /* of tuned choices; NULL: none is kept */
};

/* Errors also: SS_ERR_UNSUPPORTED where no such device is usable; the message says why. */
enum ss_status ss_gpu_open(const struct ss_gpu_options *options, struct ss_gpu **out);
void ss_gpu_close(struct ss_gpu *gpu); /* NULL is fine */
/* Devices that this process may use; 0 also where there is no driver. Never fails. */
int ss_gpu_count(void);
/* Of one of these devices: where it is, "0000:1b:00.0" in lower case, and its name. */
enum ss_status ss_gpu_bus_id(int device, char *text, size_t bytes);
enum ss_status ss_gpu_name(int device, char *text, size_t bytes);

enum ss_dtype ss_gpu_dtype(const struct ss_gpu *gpu);
/* Channels of the input after padding: 8 for 2-byte formats, 4 for fp32. */
static inline int ss_gpu_input_block(enum ss_dtype t)
{
    return t == SS_DTYPE_F32 ? 4 : 8;
}
/* "NVIDIA H200 (sm_90), CUDA 13.0, driver 13.0, cuDNN 9.19.0". Lives as long as gpu. */
const char *ss_gpu_info(const struct ss_gpu *gpu);

/* The stream for what follows. */
enum ss_status ss_gpu_set_stream(struct ss_gpu *gpu, ss_stream stream);
ss_stream ss_gpu_stream(const struct ss_gpu *gpu);
/* priority 0: normal, 1: high. Streams and events belong to the caller. */
enum ss_status ss_gpu_stream_create(struct ss_gpu *gpu, int priority, ss_stream *out);
void ss_gpu_stream_destroy(ss_stream stream); /* NULL is fine */
/* timing 0: an event that only orders. */
enum ss_status ss_gpu_event_create(struct ss_gpu *gpu, int timing, ss_event *out);
void ss_gpu_event_destroy(ss_event event); /* NULL is fine */
enum ss_status ss_gpu_record(ss_event event, ss_stream stream);
enum ss_status ss_gpu_wait(ss_stream stream, ss_event event);
/* Block until a recorded event has come. */
enum ss_status ss_gpu_finish(ss_event event);
/* Milliseconds between two recorded and completed events. */
enum ss_status ss_gpu_elapsed(ss_event begin, ss_event end, float *ms);
/* Forget what a failed call of somebody else left behind in this thread (StarPU asks for much that
 * may be refused), which the next launch would report as its own. */
void ss_gpu_forget_errors(void);
/* Block until all work of the device is done; reports errors of kernels. */
enum ss_status ss_gpu_synchronize(struct ss_gpu *gpu);

/* Zeroed, 256-byte aligned device memory; pinned host memory. Only before and after steps. what is
 * for the message. */
enum ss_status ss_gpu_alloc(struct ss_gpu *gpu, size_t bytes, const char *what, void **out);
void ss_gpu_free(void *data); /* NULL is fine */
/* Zero device memory of another allocator and count it as given out; take it from the books again
 * before it is freed there. */
enum ss_status ss_gpu_adopt(struct ss_gpu *gpu, void *data, size_t bytes, const char *what);
void ss_gpu_disown(void *data);
enum ss_status ss_gpu_alloc_host(struct ss_gpu *gpu, size_t bytes, const char *what, void **out);
void ss_gpu_free_host(void *data); /* NULL is fine */
/* Bytes that ss_gpu_alloc gave out, scratch and workspaces included, and of the whole device. */
void ss_gpu_memory(const struct ss_gpu *gpu, size_t *used, size_t *device);

/* Copies that block until done; any two of host and device. */
enum ss_status ss_gpu_copy(struct ss_gpu *gpu, void *dst, const void *src, size_t bytes);
/* A copy, or zeros, enqueued on `stream`; host memory must be pinned. */
enum ss_status ss_gpu_copy_async(void *dst, const void *src, size_t bytes, ss_stream stream);
enum ss_status ss_gpu_zero_async(void *dst, size_t bytes, ss_stream stream);

/* Device scratch: kernels call reserve when they are created; it grows at once, so the pointer is
 * asked for at each launch. Contents do not outlive one kernel function. */
enum ss_status ss_gpu_reserve(struct ss_gpu *gpu, size_t bytes);
void *ss_gpu_scratch(const struct ss_gpu *gpu);

#endif
