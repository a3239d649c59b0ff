/* layernorm.cu: layer normalization over channels (kernels/list.h). Formulas of backward:
 * cpu/layernorm.c.
 *
 * Neighboring threads of a warp, a power of two, share a pixel; their sums are combined by
 * shuffles. The second and third pass over a pixel hit the multiprocessor's cache. Gradients of
 * gamma and beta are computed in a separate pass, in which a thread has fixed channels
 * (norm_act.cuh); the sums of its blocks are added in double in a fixed order. The number of
 * blocks depends on the shape only, so the results are bit-identical on all devices. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/norm_act.cuh"

namespace
{

using namespace ss;
using namespace ss::norm;

enum { WARP = 32, BLOCKS = 2 * 132, UNROLL = 2, MERGE = 64 };

struct layer {
    unsigned places;
    int channels, width; /* per pixel: numbers, vectors */
    int lanes;           /* threads per pixel */
};

/* Adds v over the threads of a pixel. All threads of the warp must call it. */
__device__ inline float sum_lanes(float v, int lanes)
{
    for (int n = lanes / 2; n > 0; n /= 2)
        v += __shfl_xor_sync(0xFFFFFFFFu, v, n);
    return v;
}

/* The thread's pixel in an iteration. If not live, it is a duplicate that may be loaded only. */
struct here {
    size_t at;
    int lane;
    bool live;
    __device__ here(const layer &l, unsigned turn)
    {
        const unsigned place =
            turn * (THREADS / (unsigned)l.lanes) + threadIdx.x / (unsigned)l.lanes;
        live = place < l.places;
        at = live ? place : l.places - 1;
        lane = (int)threadIdx.x % l.lanes;
    }
};
__host__ __device__ inline unsigned turns(const layer &l)
{
    const unsigned each = THREADS / (unsigned)l.lanes;
    return (l.places + each - 1) / each;
}

/* The first sum is relative to the first number of the pixel, to avoid cancellation if the mean
 * is large. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(layer l, const T *x, const float *gamma, const float *beta, float eps,
                   float *saved, T *y)
{
    const float channels = (float)l.channels;
    for (unsigned turn = blockIdx.x; turn < turns(l); turn += gridDim.x) {
        const here me(l, turn);
        const T *from = x + me.at * (size_t)l.channels;
        const float shift = format<T>::load(from[0]);
        float s = 0, q = 0, v[V], a[V], b[V];
        for (int i = me.lane; i < l.width; i += l.lanes) {
            load<T, V>(from + i * V, v);
#pragma unroll
            for (int j = 0; j < V; j++)
                s += v[j] - shift;
        }
        const float mean = shift + sum_lanes(s, l.lanes) / channels;
        for (int i = me.lane; i < l.width; i += l.lanes) {
            load<T, V>(from + i * V, v);
#pragma unroll
            for (int j = 0; j < V; j++)
                q = fmaf(v[j] - mean, v[j] - mean, q);
        }
        const float invstd = 1 / sqrtf(sum_lanes(q, l.lanes) / channels + eps);
        if (!me.live)
            continue;
        if (me.lane == 0) {
            saved[me.at] = mean;
            saved[l.places + me.at] = invstd;
        }
        for (int i = me.lane; i < l.width; i += l.lanes) {
            load<T, V>(from + i * V, v);
#pragma unroll
            for (int j = 0; j < V; j++) {
                a[j] = gamma[i * V + j];
                b[j] = beta[i * V + j];
                v[j] = fmaf((v[j] - mean) * invstd, a[j], b[j]);
            }
            store<T, V>(y + me.at * (size_t)l.channels + i * V, v);
        }
    }
}

template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    gradient_kernel(layer l, const T *dy, const T *x, const float *gamma, const float *saved, T *dx)
{
    const float channels = (float)l.channels;
    for (unsigned turn = blockIdx.x; turn < turns(l); turn += gridDim.x) {
        const here me(l, turn);
        const size_t begin = me.at * (size_t)l.channels;
        const float mean = saved[me.at], invstd = saved[l.places + me.at];
        float s = 0, q = 0, v[V], g[V];
        for (int i = me.lane; i < l.width; i += l.lanes) {
            load<T, V>(x + begin + i * V, v);
            load<T, V>(dy + begin + i * V, g);
#pragma unroll
            for (int j = 0; j < V; j++) {
                g[j] *= gamma[i * V + j];
                s += g[j];
                q = fmaf(g[j], (v[j] - mean) * invstd, q);
            }
        }
        s = sum_lanes(s, l.lanes) / channels;
        q = sum_lanes(q, l.lanes) / channels;
        if (!me.live)
            continue;
        for (int i = me.lane; i < l.width; i += l.lanes) {
            load<T, V>(x + begin + i * V, v);
            load<T, V>(dy + begin + i * V, g);
#pragma unroll
            for (int j = 0; j < V; j++)
                v[j] = invstd * (g[j] * gamma[i * V + j] - s - q * ((v[j] - mean) * invstd));
            store<T, V>(dx + begin + i * V, v);
        }
    }
}

/* Computes each block's sums of dy xhat and of dy. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    parameters_kernel(geometry g, const T *dy, const T *x, const float *saved, float *partial)
{
    const place<V> me(g);
    float s[V], q[V];
#pragma unroll
    for (int j = 0; j < V; j++)
        s[j] = q[j] = 0;
    for (unsigned k = me.idle ? g.chunks : blockIdx.x; k < g.chunks; k += gridDim.x) {
        spot at[UNROLL];
        pack<T, V> v[UNROLL], d[UNROLL];
        locate(g, me, k, at);
        fetch(x, at, v);
        fetch(dy, at, d);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const unsigned pixel = at[u].at / g.width;
            const float mean = saved[pixel], invstd = saved[g.pixels + pixel];
#pragma unroll
            for (int j = 0; j < V && at[u].live; j++) {
                const float dj = format<T>::load(d[u].v[j]);
                q[j] += dj;
                s[j] = fmaf(dj, (format<T>::load(v[u].v[j]) - mean) * invstd, s[j]);
            }
        }
    }
    write_partial(g, me, s, q, partial);
}

/* One block per channel. */
__global__ void __launch_bounds__(MERGE)
    merge_kernel(int channels, int blocks, const float *partial, float *dgamma, float *dbeta,
                 ss_scaler *scaler)
{
    __shared__ double sums[2][MERGE];
    const int i = (int)threadIdx.x, c = (int)blockIdx.x;
    double s = 0, q = 0;
    for (int k = i; k < blocks; k += MERGE) {
        s += (double)partial[(size_t)(2 * k) * (size_t)channels + c];
        q += (double)partial[(size_t)(2 * k + 1) * (size_t)channels + c];
    }
    sums[0][i] = s;
    sums[1][i] = q;
    for (int n = MERGE / 2; n > 0; n /= 2) {
        __syncthreads();
        if (i < n) {
            sums[0][i] += sums[0][i + n];
            sums[1][i] += sums[1][i + n];
        }
    }
    if (i > 0)
        return;
    dgamma[c] = (float)sums[0][0];
    dbeta[c] = (float)sums[1][0];
    tell(scaler, not_finite(dgamma[c]) || not_finite(dbeta[c]));
}

/* ---- launch ---- */

ss_status check(const ss_act *s)
{
    if (s->n < 1 || s->c < 1 || s->h < 1 || s->w < 1 || s->block != s->c ||
        ss_act_elements(s) >> 31)
        return ss_fail(SS_ERR_SHAPE,
                       "layer normalisation: shape (%d,%d,%d,%d) in blocks of %d; a block must be "
                       "all channels, and elements fewer than 2^31",
                       s->n, s->c, s->h, s->w, s->block);
    return SS_OK;
}

unsigned places_of(const ss_act *s)
{
    return (unsigned)(s->n * s->h * s->w);
}

geometry geometry_of(const ss_act *s, ss_dtype dtype)
{
    return geometry_make(dtype, s->c, places_of(s), UNROLL, BLOCKS);
}

layer layer_of(const ss_act *s, int vector)
{
    layer l = {places_of(s), s->c, s->c / vector, 1};
    while (l.lanes < WARP && l.lanes < l.width)
        l.lanes *= 2;
    return l;
}

template <typename T, int V>
ss_status forward(const ss_device *gpu, const ss_act *s, float eps, const T *x, const float *gamma,
                  const float *beta, float *saved, T *y)
{
    const layer l = layer_of(s, V);
    SS_LAUNCH((forward_kernel<T, V>), grid_for(gpu, turns(l), 1, THREADS), THREADS, gpu->stream, l,
              x, gamma, beta, eps, saved, y);
    SS_LAUNCHED("LayerNorm forward");
    return SS_OK;
}

template <typename T, int V>
ss_status backward(const ss_device *gpu, const ss_act *s, const T *dy, const T *x,
                   const float *gamma, const float *saved, T *dx, float *dgamma, float *dbeta)
{
    const layer l = layer_of(s, V);
    const geometry g = geometry_of(s, gpu->options.dtype);
    float *partial = (float *)gpu->scratch.data;
    SS_LAUNCH((parameters_kernel<T, V>), grid_of(g), THREADS, gpu->stream, g, dy, x, saved,
              partial);
    SS_LAUNCHED("LayerNorm backward");
    SS_LAUNCH(merge_kernel, dim3((unsigned)s->c), MERGE, gpu->stream, s->c, g.blocks, partial,
              dgamma, dbeta, gpu->scaler);
    SS_LAUNCHED("LayerNorm backward");
    if (!dx)
        return SS_OK;
    SS_LAUNCH((gradient_kernel<T, V>), grid_for(gpu, turns(l), 1, THREADS), THREADS, gpu->stream, l,
              dy, x, gamma, saved, dx);
    SS_LAUNCHED("LayerNorm backward");
    return SS_OK;
}

size_t scratch_bytes(const ss_act *s, ss_dtype dtype)
{
    return (size_t)geometry_of(s, dtype).blocks * 2 * (size_t)s->c * sizeof(float);
}

} // namespace

extern "C" enum ss_status ss_cuda_layernorm_reserve(struct ss_device *gpu,
                                                    const struct ss_act *shape)
{
    SS_TRY(check(shape));
    return ss_cuda_reserve(gpu, scratch_bytes(shape, gpu->options.dtype));
}

extern "C" enum ss_status ss_cuda_layernorm_forward(struct ss_device *gpu,
                                                    const struct ss_act *shape, float eps,
                                                    const void *x, const float *gamma,
                                                    const float *beta, float *saved, void *y)
{
    SS_TRY(check(shape));
    ss_status status;
    SS_DISPATCH(gpu->options.dtype,
                status =
                    shape->c % format<T>::vector
                        ? (forward<T, 1>(gpu, shape, eps, (const T *)x, gamma, beta, saved, (T *)y))
                        : (forward<T, format<T>::vector>(gpu, shape, eps, (const T *)x, gamma, beta,
                                                         saved, (T *)y)));
    return status;
}

extern "C" enum ss_status ss_cuda_layernorm_backward(struct ss_device *gpu,
                                                     const struct ss_act *shape, const void *dy,
                                                     const void *x, const float *gamma,
                                                     const float *saved, void *dx, float *dgamma,
                                                     float *dbeta)
{
    SS_TRY(check(shape));
    if (gpu->scratch.bytes < scratch_bytes(shape, gpu->options.dtype))
        return ss_fail(SS_ERR_INVALID, "layer normalisation: call layernorm_reserve first");
    ss_status status;
    SS_DISPATCH(gpu->options.dtype,
                status =
                    shape->c % format<T>::vector
                        ? (backward<T, 1>(gpu, shape, (const T *)dy, (const T *)x, gamma, saved,
                                          (T *)dx, dgamma, dbeta))
                        : (backward<T, format<T>::vector>(gpu, shape, (const T *)dy, (const T *)x,
                                                          gamma, saved, (T *)dx, dgamma, dbeta)));
    return status;
}
