/* Kernel launches and number formats for .cu files; CUDA C++ only.
 *
 * The same files also compile with a plain C++ compiler for the host emulation (hostgpu), where
 * each thread of a block is a fibre. So kernels use only this subset of CUDA:
 * - SS_LAUNCH instead of <<<>>>; one-dimensional blocks, a multiple of 32 threads, at most 1024;
 * - threadIdx.x, blockIdx.{x,y,z}, blockDim.x, gridDim.{x,y,z};
 * - static __shared__ arrays of fixed size, __syncthreads(), __syncwarp();
 * - __shfl_down_sync and __shfl_xor_sync with all 32 lanes, __ldg;
 * - no __syncthreads() after a thread of the block has returned; no floating-point atomics
 *   (atomicOr and atomicAdd on integers, and __threadfence(), are available);
 * - 16-byte accesses through uint4, float4. */
#ifndef SS_KERNELS_LAUNCH_CUH
#define SS_KERNELS_LAUNCH_CUH

/* Included before internal.h: their C++ overloads must not get C linkage. */
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

/* After a launch: returns an error if it was refused. Errors inside kernels are reported by a
 * later call. "Not ready" is not an error: it remains from StarPU's last query of an event. */
#define SS_LAUNCHED(what)                                                                          \
    do {                                                                                           \
        cudaError_t ss_launch_ret_ = cudaGetLastError();                                           \
        if (ss_launch_ret_ != cudaSuccess && ss_launch_ret_ != cudaErrorNotReady)                  \
            return ss_fail(SS_ERR_LIBRARY, "CUDA: launching %s: %s", (what),                       \
                           cudaGetErrorString(ss_launch_ret_));                                    \
    } while (0)

namespace ss
{

/* Number formats: conversion to and from fp32, and the number of elements in 16 bytes. */
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

/* For kernels that compute parameter gradients: ss_device.scaler. */
__device__ inline bool not_finite(float x)
{
    return !(x - x == 0);
}
__device__ inline void tell(ss_scaler *scaler, bool found)
{
    if (scaler && found)
        atomicOr(&scaler->found, 1);
}

/* V elements; V*sizeof(T) is a power of two up to 16, and the address a multiple of it. */
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

/* Runs `call` with T as the type of a dtype: SS_DISPATCH(dtype, f<T>(...)). */
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
