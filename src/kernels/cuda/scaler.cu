/* scaler.cu: dynamic loss scaling. */
#include "kernels/cuda/grid.cuh"

namespace
{

constexpr unsigned THREADS = 256;
constexpr int V = ss::format<float>::vector;

/* Infinite or NaN: all bits of the exponent are set. */
__device__ inline bool not_finite(unsigned bits)
{
    return (bits & 0x7f800000U) == 0x7f800000U;
}

__global__ void check_kernel(size_t count, const unsigned *__restrict__ grads,
                             struct ss_scaler *scaler)
{
    const size_t vectors = count / V;
    const uint4 *packed = reinterpret_cast<const uint4 *>(grads);
    bool found = false;
#pragma unroll 4
    for (size_t i = ss::flat_begin(); i < vectors; i += ss::flat_step()) {
        const uint4 b = packed[i];
        found |= not_finite(b.x) | not_finite(b.y) | not_finite(b.z) | not_finite(b.w);
    }
    for (size_t i = vectors * V + ss::flat_begin(); i < count; i += ss::flat_step())
        found |= not_finite(grads[i]);
    if (found)
        atomicOr(&scaler->found, 1);
}

__global__ void update_kernel(struct ss_scaler *scaler)
{
    if (threadIdx.x != 0)
        return;
    struct ss_scaler s = *scaler;
    if (s.found) {
        s.scale *= s.backoff;
        s.tracker = 0;
        s.skipped++;
    } else if (++s.tracker >= s.interval) {
        const float grown = s.scale * s.growth;
        if (isfinite(grown))
            s.scale = grown;
        s.tracker = 0;
    }
    s.found = 0;
    *scaler = s;
}

} // namespace

void ss_cuda_watch_gradients(struct ss_device *gpu, struct ss_scaler *scaler)
{
    gpu->scaler = scaler;
}

enum ss_status ss_cuda_scaler_check(struct ss_device *gpu, size_t count, const float *grads,
                                    struct ss_scaler *scaler)
{
    if (count == 0)
        return SS_OK;
    const unsigned grid = ss::grid_for(gpu, count / V, THREADS, THREADS);
    SS_LAUNCH(check_kernel, grid, THREADS, gpu->stream, count,
              reinterpret_cast<const unsigned *>(grads), scaler);
    SS_LAUNCHED("the check for infinite gradients");
    return SS_OK;
}

enum ss_status ss_cuda_scaler_update(struct ss_device *gpu, struct ss_scaler *scaler)
{
    SS_LAUNCH(update_kernel, 1, 32, gpu->stream, scaler);
    SS_LAUNCHED("the loss scale's update");
    return SS_OK;
}
