/* CUDA C++ for a plain C++ compiler: the features that kernels may use
 * (src/kernels/cuda/launch.cuh), run by the host emulation.
 *
 * Each thread of a block is a fibre (device.cpp). A block runs on the thread of its stream,
 * blocks one after another. The order of blocks and of threads, ascending or descending, is
 * pseudo-random per launch, which exposes a missing barrier or reliance on an unspecified order.
 * Warps are complete: every shuffle and vote requires all 32 lanes. */
#ifndef HOSTGPU_DEVICE_H
#define HOSTGPU_DEVICE_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_runtime.h>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace hostgpu
{

struct place {
    uint3 thread, block, block_size, grid_size;
};
/* Position of the running fibre. __thread: no wrapper function at each use. */
extern __thread struct place here;

/* Source location of a barrier or a warp operation. */
struct site {
    const char *what, *file;
    int line;
};

/* Waits for all threads of the block; returns how many passed a nonzero predicate. */
int barrier(bool predicate, struct site site);
/* Passes a value to the other lanes; returns the values of all 32. */
const uint64_t *exchange(unsigned mask, uint64_t value, struct site site);

/* Runs thread() for each thread of the grid, on the stream. `name` is a string literal. */
void launch_grid(const char *name, dim3 grid, dim3 block, cudaStream_t stream,
                 std::function<void()> thread);

template <typename... P, typename... A>
void launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream,
            A &&...args)
{
    static_assert(sizeof...(P) == sizeof...(A), "wrong number of kernel arguments");
    static_assert(((std::is_trivially_copyable_v<P> && !std::is_reference_v<P>)&&...),
                  "arguments of kernels are copied bytewise");
    static_assert((sizeof(P) + ... + 0) <= 4096, "CUDA passes 4096 bytes of arguments");
    std::tuple<P...> values(std::forward<A>(args)...);
    launch_grid(name, grid, block, stream, [kernel, values] { std::apply(kernel, values); });
}

template <typename T> uint64_t to_bits(T v)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "shuffles move up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    return bits;
}
template <typename T> T from_bits(uint64_t bits)
{
    T v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
/* Returns the value of lane `from`, or the lane's own value if `from` is outside its group. */
template <typename T>
T shuffle(unsigned mask, T v, bool inside, unsigned from, const struct site &site)
{
    const uint64_t *all = exchange(mask, to_bits(v), site);
    return inside ? from_bits<T>(all[from]) : v;
}
inline unsigned vote(unsigned mask, bool predicate, const struct site &site)
{
    const uint64_t *all = exchange(mask, predicate, site);
    unsigned bits = 0;
    for (int i = 0; i < 32; i++)
        bits |= (unsigned)all[i] << i;
    return bits;
}

} // namespace hostgpu

#undef __shared__
#define __shared__ static thread_local
#ifndef __launch_bounds__
#    define __launch_bounds__(...)
#endif

#define threadIdx (::hostgpu::here.thread)
#define blockIdx (::hostgpu::here.block)
#define blockDim (::hostgpu::here.block_size)
#define gridDim (::hostgpu::here.grid_size)
#define warpSize 32

#define SS_LAUNCH(kernel, grid, block, stream, ...)                                                \
    ::hostgpu::launch(#kernel, kernel, dim3(grid), dim3(block), (stream)__VA_OPT__(, ) __VA_ARGS__)

/* The caller's line is a default argument, for messages. */
#define HOSTGPU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define HOSTGPU_HERE (::hostgpu::site{__func__, file, line})

inline void __syncthreads(HOSTGPU_SITE)
{
    hostgpu::barrier(false, HOSTGPU_HERE);
}
inline int __syncthreads_count(int predicate, HOSTGPU_SITE)
{
    return hostgpu::barrier(predicate != 0, HOSTGPU_HERE);
}
inline int __syncthreads_or(int predicate, HOSTGPU_SITE)
{
    return hostgpu::barrier(predicate != 0, HOSTGPU_HERE) != 0;
}
inline int __syncthreads_and(int predicate, HOSTGPU_SITE)
{
    return hostgpu::barrier(predicate == 0, HOSTGPU_HERE) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, HOSTGPU_SITE)
{
    hostgpu::exchange(mask, 0, HOSTGPU_HERE);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, HOSTGPU_SITE)
{
    const unsigned lane = threadIdx.x % 32, from = lane + delta;
    const bool inside = lane % (unsigned)width + delta < (unsigned)width;
    return hostgpu::shuffle(mask, v, inside, from, HOSTGPU_HERE);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, HOSTGPU_SITE)
{
    const unsigned lane = threadIdx.x % 32, from = lane - delta;
    return hostgpu::shuffle(mask, v, lane % (unsigned)width >= delta, from, HOSTGPU_HERE);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32, HOSTGPU_SITE)
{
    const unsigned lane = threadIdx.x % 32, from = lane ^ (unsigned)lanes;
    /* CUDA lets a lane read lower groups, not higher ones. */
    const bool inside = from < 32 && from / (unsigned)width <= lane / (unsigned)width;
    return hostgpu::shuffle(mask, v, inside, from, HOSTGPU_HERE);
}
template <typename T> T __shfl_sync(unsigned mask, T v, int from, int width = 32, HOSTGPU_SITE)
{
    const unsigned lane = threadIdx.x % 32, group = lane / (unsigned)width * (unsigned)width;
    return hostgpu::shuffle(mask, v, true, group + (unsigned)from % (unsigned)width, HOSTGPU_HERE);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, HOSTGPU_SITE)
{
    return hostgpu::vote(mask, predicate != 0, HOSTGPU_HERE);
}
inline int __any_sync(unsigned mask, int predicate, HOSTGPU_SITE)
{
    return hostgpu::vote(mask, predicate != 0, HOSTGPU_HERE) != 0;
}
inline int __all_sync(unsigned mask, int predicate, HOSTGPU_SITE)
{
    return hostgpu::vote(mask, predicate != 0, HOSTGPU_HERE) == 0xffffffffu;
}

#undef HOSTGPU_SITE
#undef HOSTGPU_HERE

/* Atomics: integers only, because kernels must not depend on the order of floating-point sums. */
#define HOSTGPU_ATOMICS(T)                                                                         \
    inline T atomicAdd(T *p, T v)                                                                  \
    {                                                                                              \
        return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                                         \
    }                                                                                              \
    inline T atomicSub(T *p, T v)                                                                  \
    {                                                                                              \
        return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED);                                         \
    }                                                                                              \
    inline T atomicOr(T *p, T v)                                                                   \
    {                                                                                              \
        return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);                                          \
    }                                                                                              \
    inline T atomicAnd(T *p, T v)                                                                  \
    {                                                                                              \
        return __atomic_fetch_and(p, v, __ATOMIC_RELAXED);                                         \
    }                                                                                              \
    inline T atomicXor(T *p, T v)                                                                  \
    {                                                                                              \
        return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED);                                         \
    }                                                                                              \
    inline T atomicExch(T *p, T v)                                                                 \
    {                                                                                              \
        return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);                                        \
    }                                                                                              \
    inline T atomicCAS(T *p, T expected, T v)                                                      \
    {                                                                                              \
        __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);   \
        return expected;                                                                           \
    }                                                                                              \
    inline T atomicMax(T *p, T v)                                                                  \
    {                                                                                              \
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                              \
        while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED,        \
                                                       __ATOMIC_RELAXED))                          \
            ;                                                                                      \
        return old;                                                                                \
    }                                                                                              \
    inline T atomicMin(T *p, T v)                                                                  \
    {                                                                                              \
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                              \
        while (v < old && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED,        \
                                                       __ATOMIC_RELAXED))                          \
            ;                                                                                      \
        return old;                                                                                \
    }
HOSTGPU_ATOMICS(int)
HOSTGPU_ATOMICS(unsigned)
HOSTGPU_ATOMICS(unsigned long long)
#undef HOSTGPU_ATOMICS
inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <typename T> T __ldg(const T *p)
{
    return *p;
}
template <typename T> T __ldcg(const T *p)
{
    return *p;
}
template <typename T> T __ldcs(const T *p)
{
    return *p;
}
template <typename T> void __stcs(T *p, T v)
{
    *p = v;
}

/* Arithmetic. CUDA's fast versions are a few ulp less accurate than these. */
inline unsigned __float_as_uint(float v)
{
    return hostgpu::from_bits<unsigned>(hostgpu::to_bits(v));
}
inline int __float_as_int(float v)
{
    return hostgpu::from_bits<int>(hostgpu::to_bits(v));
}
inline float __uint_as_float(unsigned v)
{
    return hostgpu::from_bits<float>(v);
}
inline float __int_as_float(int v)
{
    return hostgpu::from_bits<float>((unsigned)v);
}
inline float __expf(float v)
{
    return expf(v);
}
inline float __logf(float v)
{
    return logf(v);
}
inline float __log2f(float v)
{
    return log2f(v);
}
inline float __powf(float a, float b)
{
    return powf(a, b);
}
inline float __sinf(float v)
{
    return sinf(v);
}
inline float __cosf(float v)
{
    return cosf(v);
}
inline float __fdividef(float a, float b)
{
    return a / b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline float __frcp_rn(float v)
{
    return 1.0f / v;
}
inline float __fsqrt_rn(float v)
{
    return sqrtf(v);
}
inline float __frsqrt_rn(float v)
{
    return (float)(1.0 / sqrt((double)v));
}
inline float rsqrtf(float v)
{
    return (float)(1.0 / sqrt((double)v));
}
inline double rsqrt(double v)
{
    return 1.0 / sqrt(v);
}
inline float __saturatef(float v)
{
    return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
}
inline float __int2float_rn(int v)
{
    return (float)v;
}
inline float __uint2float_rn(unsigned v)
{
    return (float)v;
}
inline int __float2int_rn(float v)
{
    return (int)rintf(v);
}
inline int __float2int_rz(float v)
{
    return (int)v;
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
inline int __clz(int v)
{
    return v ? __builtin_clz((unsigned)v) : 32;
}
inline int __ffs(int v)
{
    return __builtin_ffs(v);
}

/* CUDA has min and max of any two arithmetic types in the global namespace. */
template <typename A, typename B>
constexpr std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>,
                           std::common_type_t<A, B>>
min(A a, B b)
{
    using T = std::common_type_t<A, B>;
    return (T)b < (T)a ? (T)b : (T)a;
}
template <typename A, typename B>
constexpr std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>,
                           std::common_type_t<A, B>>
max(A a, B b)
{
    using T = std::common_type_t<A, B>;
    return (T)a < (T)b ? (T)b : (T)a;
}

#endif
