/* Internals of the emulated cuDNN: 2-D convolutions of NHWC tensors (cudnn_conv.cpp), executed
 * for plans of the real library (cudnn.cpp). */
#ifndef HOSTGPU_CUDNN_INTERNAL_H
#define HOSTGPU_CUDNN_INTERNAL_H

#include "hostgpu/hostgpu.h"

#include <cudnn.h>

struct cudnnContext {
    int device;
    cudaStream_t stream;
};

namespace hostgpu
{
namespace dnn
{

enum class pass { forward, backward_data, backward_filter };

/* Numerical behavior of engines, worse than on a GPU, so that tests detect the wrong choice. */
enum class numbers {
    exact,     /* products exact, sums in fp32 */
    tf32,      /* inputs rounded to 10 bits of fraction */
    half,      /* inputs rounded to fp16 */
    coarse,    /* inputs rounded to 4 bits of fraction */
    unordered, /* each run gives a different result */
};

/* x (N,H,W,C), w (K,kh,kw,C / groups), y (N,P,Q,K) */
struct convolution {
    int n, c, h, w, k, kh, kw, p, q;
    int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups;
    cudnnDataType_t type; /* fp32, fp16, bf16 */
};

struct operands {
    const void *x, *w, *y; /* the pass writes one of them */
    void *workspace;
    size_t workspace_bytes;
    float *sum, *squares; /* (K): sums of y as stored, and of its squares; null: not requested */
};

/* Computes result = alpha * convolution + beta * result on the handle's stream. Invalid memory
 * ends the process. Returns as hostgpu::enqueue. */
cudaError_t run(const cudnnContext *handle, const convolution &c, pass pass, numbers numbers,
                float alpha, float beta, const operands &o);

} // namespace dnn
} // namespace hostgpu

#endif
