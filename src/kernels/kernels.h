/* Kernels: plain functions on pointers, independent of StarPU.
 *
 * Each device fills one table (its entries are in list.h), ss_cpu_kernels and ss_cuda_kernels.
 * Higher layers do not depend on whether a build has CUDA: without it, cuda/none.c fills the
 * table with `missing`, and only its `count` may be called.
 *
 * A struct ss_device is shared by the kernels of one compute worker: library handles, threads or
 * the stream that they enqueue on, and one scratch area, as large as the largest request. It is
 * used by one thread at a time (the compute worker, or the main thread while no task runs). Each
 * device defines its own struct ss_device, and its own struct ss_conv_kernel and so on.
 *
 * Everything that takes time or memory (choosing algorithms, growing the scratch) is done in the
 * create and reserve functions, before step 1. On a GPU the other functions enqueue and return.
 * Results do not depend on timing or on the number of threads.
 *
 * To add a kernel, add a line to list.h and a function to a file of cpu/ and cuda/ each, listed
 * in local.mk. */
#ifndef SS_KERNELS_KERNELS_H
#define SS_KERNELS_KERNELS_H

#include "kernels/shapes.h"
#include "kernels/update.h"

struct CUstream_st;
typedef struct CUstream_st *ss_stream; /* a cudaStream_t; NULL on a CPU */
struct CUevent_st;
typedef struct CUevent_st *ss_event; /* a cudaEvent_t */

struct ss_device;
struct ss_gpu_graph;
struct ss_conv_kernel;
struct ss_linear_kernel;
struct ss_pool_kernel;
struct ss_attention_kernel;

struct ss_device_options {
    /* CPU */
    int threads; /* OpenMP threads that kernels use, >= 1 */
    /* Format of computation; a CPU computes in fp32, and this is the format of the weights' copy
     * in updates. */
    enum ss_dtype dtype;
    /* GPU */
    int device;              /* CUDA's index */
    int tf32;                /* fp32 only: let tensor cores round inputs to TF32 */
    int nondeterministic;    /* allow engines of cuDNN with varying order of additions */
    int autotune;            /* time the convolution algorithms; 0: use the library's ranking */
    int runtime_compilation; /* allow cuDNN's engines that compile their kernels at run time */
    const char *cache_file;  /* of tuned choices; NULL: none */
};

/* Convolution algorithms on the CPU. */
enum ss_conv_algo {
    SS_CONV_AUTO,     /* the faster one, by a rule of shapes, never timing */
    SS_CONV_DIRECT,   /* oneDNN's, if the build has it */
    SS_CONV_WINOGRAD, /* Winograd F(4x4,3x3), where applicable */
    SS_CONV_PRODUCT,  /* matrix products; not for depthwise ones */
};

struct ss_kernels {
    const char *missing; /* "this build has no CUDA codelets"; NULL: not missing */
#define KERNEL_OF(type, name, ...) type (*name)(__VA_ARGS__);
#include "kernels/list.h"
};
extern const struct ss_kernels ss_cpu_kernels, ss_cuda_kernels;

/* Channels of a GPU's input after padding: 8 for 2-byte formats, 4 for fp32. */
static inline int ss_gpu_input_block(enum ss_dtype t)
{
    return t == SS_DTYPE_F32 ? 4 : 8;
}

/* Returns whether a GPU's convolution computes the sums for BatchNorm too, so that its output
 * need not be read for them. This requires an engine of cuDNN: up to 9.19 only in fp16, with
 * channels in multiples of 8, and windows smaller than 7x7. */
static inline int ss_gpu_conv_sums(const struct ss_conv_shape *s, enum ss_dtype t)
{
    return s->sums && !s->bias && t == SS_DTYPE_F16 && s->x.block % 8 == 0 && s->y.c % 8 == 0 &&
           s->groups == 1 && s->kernel[0] < 7 && s->kernel[1] < 7;
}

#endif
