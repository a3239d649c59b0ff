/* How .cu files launch kernels and name number formats; CUDA C++ only.
 *
 * The same files also compile with a plain C++ compiler for the host emulation (hostgpu),
 * where a thread of a block is a fibre. So kernels use this much of CUDA and no more:
 * - SS_LAUNCH instead of <<<>>>; one-dimensional blocks, a multiple of 32 threads, at most 1024;
 * - threadIdx.x, blockIdx.{x,y,z}, blockDim.x, gridDim.{x,y,z};
 * - static __shared__ arrays of fixed size, __syncthreads(), __syncwarp();
 * - __shfl_down_sync and __shfl_xor_sync with all 32 lanes, __ldg;
 * - no __syncthreads() after a thread of the block has returned; no atomics on floating point
 *   (atomicOr and atomicAdd on integers are there, and __threadfence());
 * - 16-byte accesses through uint4, float4. */
#ifndef SS_KERNELS_LAUNCH_CUH
#define SS_KERNELS_LAUNCH_CUH

/* Before gpu_internal.h: its C++ overloads must not get C linkage. */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#ifdef SS_HOSTGPU
#    include "hostgpu/device.h"
#else
#    define SS_LAUNCH(kernel, grid, block, stream, ...)                                            \
        kernel<<<(grid), (block), 0, (stream)>>>(__VA_ARGS__)
#endif

extern "C" {
#include "kernels/cuda/internal.h"
}

/* After a launch: report a launch that was refused. Errors inside kernels come with a later call.
 * "Not ready" is what StarPU's last look at an event left behind, no failure. */
#define SS_LAUNCHED(what)                                                                          \
    do {                                                                                           \
        cudaError_t ss_launch_ret_ = cudaGetLastError();                                           \
        if (ss_launch_ret_ != cudaSuccess && ss_launch_ret_ != cudaErrorNotReady)                  \
            return ss_fail(SS_ERR_LIBRARY, "CUDA: launching %s: %s", (what),                       \
                           cudaGetErrorString(ss_launch_ret_));                                    \
    } while (0)

namespace ss
{

/* Formats: to and from fp32, and 16 bytes of them at once. */
template <typename T> struct format;
template <> struct format<float> {
    static constexpr int vector = 4; /* elements of 16 bytes */
    static __host__ __device__ float load(float v)
    {
        return v;
    }
    static __host__ __device__ float store(float v)
    {
        return v;
    }
};
template <> struct format<__half> {
    static constexpr int vector = 8;
    static __host__ __device__ float load(__half v)
    {
        return __half2float(v);
    }
    static __host__ __device__ __half store(float v)
    {
        return __float2half_rn(v);
    }
};
template <> struct format<__nv_bfloat16> {
    static constexpr int vector = 8;
    static __host__ __device__ float load(__nv_bfloat16 v)
    {
        return __bfloat162float(v);
    }
    static __host__ __device__ __nv_bfloat16 store(float v)
    {
        return __float2bfloat16_rn(v);
    }
};

/* For kernels that make gradients of parameters: ss_device.scaler. */
__device__ inline bool not_finite(float x)
{
    return !(x - x == 0);
}
__device__ inline void tell(ss_scaler *scaler, bool found)
{
    if (scaler && found)
        atomicOr(&scaler->found, 1);
}

/* V elements, V*sizeof(T) a power of two up to 16 and the address a multiple of it. */
template <typename T, int V> struct alignas(V * sizeof(T)) pack {
    T v[V];
};
template <typename T, int V> __device__ inline void load(const T *p, float (&out)[V])
{
    const pack<T, V> a = *reinterpret_cast<const pack<T, V> *>(p);
#pragma unroll
    for (int i = 0; i < V; i++)
        out[i] = format<T>::load(a.v[i]);
}
template <typename T, int V> __device__ inline void store(T *p, const float (&in)[V])
{
    pack<T, V> a;
#pragma unroll
    for (int i = 0; i < V; i++)
        a.v[i] = format<T>::store(in[i]);
    *reinterpret_cast<pack<T, V> *>(p) = a;
}

} // namespace ss

/* Run `call` with T being the type of a dtype: SS_DISPATCH(dtype, f<T>(...)). */
#define SS_DISPATCH(dtype, ...)                                                                    \
    do {                                                                                           \
        switch (dtype) {                                                                           \
        case SS_DTYPE_F16: {                                                                       \
            typedef __half T;                                                                      \
            __VA_ARGS__;                                                                           \
            break;                                                                                 \
        }                                                                                          \
        case SS_DTYPE_BF16: {                                                                      \
            typedef __nv_bfloat16 T;                                                               \
            __VA_ARGS__;                                                                           \
            break;                                                                                 \
        }                                                                                          \
        default: {                                                                                 \
            typedef float T;                                                                       \
            __VA_ARGS__;                                                                           \
            break;                                                                                 \
        }                                                                                          \
        }                                                                                          \
    } while (0)

#endif
