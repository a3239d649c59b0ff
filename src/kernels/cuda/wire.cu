/* wire.cu: packs gradients for communication, see kernels/list.h. */
#include "kernels/cuda/grid.cuh"

namespace
{

constexpr unsigned THREADS = 256;
constexpr int V_F32 = ss::format<float>::vector;

template <typename T>
__global__ void pack_kernel(const float *__restrict__ src, float scale, T *__restrict__ dst,
                            size_t count)
{
    constexpr int V = ss::format<T>::vector;
    const size_t vectors = count / V;
    for (size_t i = ss::flat_begin(); i < vectors; i += ss::flat_step()) {
        float v[V];
#pragma unroll
        for (int j = 0; j < V; j += V_F32)
            ss::load(src + i * V + j, *reinterpret_cast<float(*)[V_F32]>(v + j));
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] *= scale;
        ss::store(dst + i * V, v);
    }
    for (size_t i = vectors * V + ss::flat_begin(); i < count; i += ss::flat_step())
        dst[i] = ss::format<T>::store(src[i] * scale);
}

template <typename T>
__global__ void unpack_kernel(const T *__restrict__ src, float scale, float *__restrict__ dst,
                              size_t count)
{
    constexpr int V = ss::format<T>::vector;
    const size_t vectors = count / V;
    for (size_t i = ss::flat_begin(); i < vectors; i += ss::flat_step()) {
        float v[V];
        ss::load(src + i * V, v);
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] *= scale;
#pragma unroll
        for (int j = 0; j < V; j += V_F32)
            ss::store(dst + i * V + j, *reinterpret_cast<const float(*)[V_F32]>(v + j));
    }
    for (size_t i = vectors * V + ss::flat_begin(); i < count; i += ss::flat_step())
        dst[i] = ss::format<T>::load(src[i]) * scale;
}

template <typename T>
void pack_launch(const struct ss_device *gpu, const float *src, float scale, void *dst,
                 size_t count, ss_stream stream)
{
    const unsigned grid = ss::grid_for(gpu, count / ss::format<T>::vector, THREADS, THREADS);
    SS_LAUNCH(pack_kernel<T>, grid, THREADS, stream, src, scale, static_cast<T *>(dst), count);
}

template <typename T>
void unpack_launch(const struct ss_device *gpu, const void *src, float scale, float *dst,
                   size_t count, ss_stream stream)
{
    const unsigned grid = ss::grid_for(gpu, count / ss::format<T>::vector, THREADS, THREADS);
    SS_LAUNCH(unpack_kernel<T>, grid, THREADS, stream, static_cast<const T *>(src), scale, dst,
              count);
}

enum ss_status check(enum ss_dtype dtype)
{
    if (dtype == SS_DTYPE_F16 || dtype == SS_DTYPE_BF16)
        return SS_OK;
    return ss_fail(SS_ERR_INVALID, "gradients can be packed to fp16 or bf16, not to %s",
                   ss_dtype_name(dtype));
}

} // namespace

enum ss_status ss_cuda_wire_pack(const struct ss_device *gpu, enum ss_dtype dtype, const float *src,
                                 float scale, void *dst, size_t count, ss_stream stream)
{
    SS_TRY(check(dtype));
    if (count == 0)
        return SS_OK;
    if (dtype == SS_DTYPE_F16)
        pack_launch<__half>(gpu, src, scale, dst, count, stream);
    else
        pack_launch<__nv_bfloat16>(gpu, src, scale, dst, count, stream);
    SS_LAUNCHED("the rounding of gradients");
    return SS_OK;
}

enum ss_status ss_cuda_wire_unpack(const struct ss_device *gpu, enum ss_dtype dtype,
                                   const void *src, float scale, float *dst, size_t count,
                                   ss_stream stream)
{
    SS_TRY(check(dtype));
    if (count == 0)
        return SS_OK;
    if (dtype == SS_DTYPE_F16)
        unpack_launch<__half>(gpu, src, scale, dst, count, stream);
    else
        unpack_launch<__nv_bfloat16>(gpu, src, scale, dst, count, stream);
    SS_LAUNCHED("the widening of gradients");
    return SS_OK;
}
