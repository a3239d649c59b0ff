/* Kernels: plain functions on pointers. No StarPU in here.
 *
 * Each device fills one table (list.h says what is in it), ss_cpu_kernels and ss_cuda_kernels, and
 * nobody above knows whether a build has the second: in one without CUDA, cuda/none.c fills the
 * table with `missing`, and nothing of it but `count` is called.
 *
 * A struct ss_device is what the kernels of one compute worker share: library handles, threads or
 * the stream that they enqueue on, and one scratch area as large as the hungriest kernel needs. It
 * is used by one thread at a time (the compute worker, or the main thread while no task runs). Each
 * device has a struct of its own behind it; so has each behind struct ss_conv_kernel and so on.
 *
 * Whatever takes time or memory (choosing algorithms, growing the scratch) happens in the create
 * and reserve functions, before step 1. On a GPU the others enqueue and return. Results do not
 * depend on timing or on the number of threads.
 *
 * To add a kernel: a line in list.h and a function in a file of cpu/ and cuda/ each, in local.mk. */
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
    /* What computes; on a CPU it is fp32, and this is the format of the weights' copy in an update. */
    enum ss_dtype dtype;
    /* GPU */
    int device;           /* CUDA's index */
    int tf32;             /* fp32 only: let tensor cores round inputs to TF32 */
    int nondeterministic; /* admit engines of cuDNN that add in an order of their own each time */
    int autotune;         /* time the convolution algorithms; 0: the library's own ranking */
    int runtime_compilation; /* admit cuDNN's engines that compile their kernels at run time */
    const char *cache_file;  /* of tuned choices; NULL: none is kept */
};

/* On the CPU. */
enum ss_conv_algo {
    SS_CONV_AUTO,     /* what is faster: a rule of shapes, never timing */
    SS_CONV_DIRECT,   /* oneDNN's, where the program has it */
    SS_CONV_WINOGRAD, /* Winograd F(4x4,3x3), wherever it can be computed so */
    SS_CONV_PRODUCT,  /* products of matrices; depthwise ones are not */
};

struct ss_kernels {
    const char *missing; /* "this build has no CUDA codelets"; NULL: they are there */
#define KERNEL_OF(type, name, ...) type (*name)(__VA_ARGS__);
#include "kernels/list.h"
};
extern const struct ss_kernels ss_cpu_kernels, ss_cuda_kernels;

/* Channels of a GPU's input after padding: 8 for 2-byte formats, 4 for fp32. */
static inline int ss_gpu_input_block(enum ss_dtype t)
{
    return t == SS_DTYPE_F32 ? 4 : 8;
}

/* Does a GPU's convolution leave the sums that BatchNorm needs, so that nothing reads its output for
 * them? It does where cuDNN has an engine for it: up to 9.19 in fp16 alone, with channels in eights,
 * and for no window as large as a 7x7 one. */
static inline int ss_gpu_conv_sums(const struct ss_conv_shape *s, enum ss_dtype t)
{
    return s->sums && !s->bias && t == SS_DTYPE_F16 && s->x.block % 8 == 0 && s->y.c % 8 == 0 &&
           s->groups == 1 && s->kernel[0] < 7 && s->kernel[1] < 7;
}

#endif
