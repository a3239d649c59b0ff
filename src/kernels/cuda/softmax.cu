/* softmax.cu: the softmax of attention.c, between its products. One warp per row; sums use
 * shuffles, in a fixed order. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/norm_act.cuh"
extern "C" {
#include "kernels/cuda/softmax.h"
}

namespace
{

using namespace ss;

enum { WARP = 32, THREADS = 256, ROWS = THREADS / WARP };

__device__ inline float sum_warp(float v)
{
    for (int n = WARP / 2; n > 0; n /= 2)
        v += __shfl_xor_sync(0xFFFFFFFFu, v, n);
    return v;
}
__device__ inline float max_warp(float v)
{
    for (int n = WARP / 2; n > 0; n /= 2) {
        const float other = __shfl_xor_sync(0xFFFFFFFFu, v, n);
        v = other > v ? other : v;
    }
    return v;
}

/* A row's offset in scores and index in saved; if not live, those of row 0. */
struct row_of {
    size_t scores, saved;
    int lane;
    bool live;
    __device__ row_of(const ss_softmax_shape &s, size_t turn)
    {
        size_t row = turn * ROWS + threadIdx.x / WARP;
        live = row < (size_t)s.batch * (size_t)s.places;
        row = live ? row : 0;
        lane = (int)(threadIdx.x % WARP);
        scores = row * (size_t)s.ld;
        saved = row / (size_t)s.places * s.saved_stride + row % (size_t)s.places;
    }
};
__host__ __device__ inline size_t turns(const ss_softmax_shape &s)
{
    return ((size_t)s.batch * (size_t)s.places + ROWS - 1) / ROWS;
}

/* p may be the scores. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    softmax_kernel(ss_softmax_shape s, const float *scores, T *p, float *saved)
{
    for (size_t turn = blockIdx.x; turn < turns(s); turn += gridDim.x) {
        const row_of me(s, turn);
        const float *from = scores + me.scores;
        float most = -INFINITY, sum = 0;
        for (int j = me.lane; j < s.places; j += WARP)
            most = from[j] < most ? most : from[j];
        most = max_warp(most);
        for (int j = me.lane; j < s.places; j += WARP)
            sum += expf(s.scale * (from[j] - most));
        sum = sum_warp(sum);
        if (!me.live)
            continue;
        const float factor = 1 / sum;
        for (int j = me.lane; j < s.places; j += WARP)
            p[me.scores + j] = format<T>::store(expf(s.scale * (from[j] - most)) * factor);
        if (me.lane == 0)
            saved[me.saved] = s.scale * most + logf(sum);
    }
}

/* Backward. p and ds may be scores and dp. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    gradient_kernel(ss_softmax_shape s, const float *scores, const float *dp, const float *saved,
                    T *p, T *ds)
{
    for (size_t turn = blockIdx.x; turn < turns(s); turn += gridDim.x) {
        const row_of me(s, turn);
        const float shift = saved[me.saved];
        float sum = 0;
        for (int j = me.lane; j < s.places; j += WARP)
            sum = fmaf(expf(s.scale * scores[me.scores + j] - shift), dp[me.scores + j], sum);
        sum = sum_warp(sum);
        if (!me.live)
            continue;
        for (int j = me.lane; j < s.places; j += WARP) {
            const size_t i = me.scores + (size_t)j;
            const float e = expf(s.scale * scores[i] - shift), d = dp[i];
            p[i] = format<T>::store(e);
            ds[i] = format<T>::store(s.scale * (e * (d - sum)));
        }
    }
}

unsigned grid_of(const ss_device *gpu, const ss_softmax_shape *s)
{
    return grid_for(gpu, turns(*s), 1, THREADS);
}

} // namespace

extern "C" enum ss_status ss_cuda_softmax(struct ss_device *gpu, const struct ss_softmax_shape *s,
                                          const float *scores, void *p, float *saved)
{
    SS_DISPATCH(gpu->options.dtype, SS_LAUNCH((softmax_kernel<T>), grid_of(gpu, s), THREADS,
                                              gpu->stream, *s, scores, (T *)p, saved));
    SS_LAUNCHED("softmax");
    return SS_OK;
}

extern "C" enum ss_status ss_cuda_softmax_gradient(struct ss_device *gpu,
                                                   const struct ss_softmax_shape *s,
                                                   const float *scores, const float *dp,
                                                   const float *saved, void *p, void *ds)
{
    SS_DISPATCH(gpu->options.dtype, SS_LAUNCH((gradient_kernel<T>), grid_of(gpu, s), THREADS,
                                              gpu->stream, *s, scores, dp, saved, (T *)p, (T *)ds));
    SS_LAUNCHED("softmax's gradient");
    return SS_OK;
}
