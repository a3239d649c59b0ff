/* elementwise.cu: sums and casts of arrays, biases, input conversion, and numbers from the
 * host. */
#include "kernels/cuda/grid.cuh"

#include <string.h>

namespace
{

constexpr unsigned THREADS = 256;

/* ---- flat arrays: 16 bytes per thread and iteration, the remainder elementwise ---- */

struct sources {
    const void *p[SS_NORM_MAX_DY];
};

template <typename T, int N, int V>
__device__ void sum_vector(const sources &src, T *dst, size_t at)
{
    float v[N][V], total[V];
#pragma unroll
    for (int k = 0; k < N; k++)
        ss::load(static_cast<const T *>(src.p[k]) + at, v[k]);
#pragma unroll
    for (int j = 0; j < V; j++) {
        total[j] = v[0][j];
#pragma unroll
        for (int k = 1; k < N; k++)
            total[j] += v[k][j];
    }
    ss::store(dst + at, total);
}

template <typename T, int N> __global__ void sum_kernel(sources src, T *dst, size_t count)
{
    constexpr int V = ss::format<T>::vector;
    const size_t vectors = count / V;
    for (size_t i = ss::flat_begin(); i < vectors; i += ss::flat_step())
        sum_vector<T, N, V>(src, dst, i * V);
    for (size_t i = vectors * V + ss::flat_begin(); i < count; i += ss::flat_step())
        sum_vector<T, N, 1>(src, dst, i);
}

template <typename T>
void sum_launch(const struct ss_device *gpu, const sources &src, int n, T *dst, size_t count)
{
    const unsigned grid = ss::grid_for(gpu, count / ss::format<T>::vector, THREADS, THREADS);
    const auto kernel = n == 1   ? sum_kernel<T, 1>
                        : n == 2 ? sum_kernel<T, 2>
                        : n == 3 ? sum_kernel<T, 3>
                                 : sum_kernel<T, 4>;
    static_assert(SS_NORM_MAX_DY == 4, "one kernel for each number of sources");
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, src, dst, count);
}

template <int V>
__device__ void accumulate_vector(const float *src, bool add, float factor, float *dst, size_t at)
{
    float v[V], sum[V];
    ss::load(src + at, v);
    if (add) {
        ss::load(dst + at, sum);
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] = (sum[j] + v[j]) * factor;
    }
    ss::store(dst + at, v);
}

__global__ void accumulate_kernel(size_t count, const float *__restrict__ src, bool add,
                                  float factor, float *__restrict__ dst)
{
    constexpr int V = ss::format<float>::vector;
    const size_t vectors = count / V;
    for (size_t i = ss::flat_begin(); i < vectors; i += ss::flat_step())
        accumulate_vector<V>(src, add, factor, dst, i * V);
    for (size_t i = vectors * V + ss::flat_begin(); i < count; i += ss::flat_step())
        accumulate_vector<1>(src, add, factor, dst, i);
}

/* Casts between any two formats: per iteration, as many elements as 16 bytes of the smaller
 * format hold. */
template <typename From, typename To>
__global__ void cast_kernel(const From *__restrict__ src, To *__restrict__ dst, size_t count,
                            struct ss_scaler *scaler)
{
    bool found = false;
    constexpr int V = sizeof(From) < sizeof(To) ? ss::format<From>::vector : ss::format<To>::vector;
    constexpr int V_FROM = ss::format<From>::vector, V_TO = ss::format<To>::vector;
    const size_t vectors = count / V;
    for (size_t i = ss::flat_begin(); i < vectors; i += ss::flat_step()) {
        float v[V];
#pragma unroll
        for (int j = 0; j < V; j += V_FROM)
            ss::load(src + i * V + j, *reinterpret_cast<float(*)[V_FROM]>(v + j));
#pragma unroll
        for (int j = 0; j < V; j++)
            found |= ss::not_finite(v[j]);
#pragma unroll
        for (int j = 0; j < V; j += V_TO)
            ss::store(dst + i * V + j, *reinterpret_cast<const float(*)[V_TO]>(v + j));
    }
    for (size_t i = vectors * V + ss::flat_begin(); i < count; i += ss::flat_step()) {
        const float v = ss::format<From>::load(src[i]);
        found |= ss::not_finite(v);
        dst[i] = ss::format<To>::store(v);
    }
    ss::tell(scaler, found);
}

template <typename From, typename To>
void cast_launch(const struct ss_device *gpu, const void *src, void *dst, size_t count,
                 struct ss_scaler *scaler)
{
    const unsigned grid = ss::grid_for(gpu, count / ss::format<To>::vector, THREADS, THREADS);
    const auto kernel = cast_kernel<From, To>;
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, static_cast<const From *>(src),
              static_cast<To *>(dst), count, scaler);
}

/* ---- biases ---- */

template <typename T, int V>
__global__ void bias_kernel(T *y, const float *bias, size_t pixels, unsigned channels,
                            ss::tile tile)
{
    const ss::tile_place here = ss::tile_here(tile);
    if (!here.active)
        return;
    float b[V];
#pragma unroll
    for (int j = 0; j < V; j++)
        b[j] = bias[here.vector * V + j];
    const size_t step = (size_t)gridDim.x * tile.rows;
    for (size_t p = (size_t)blockIdx.x * tile.rows + here.row; p < pixels; p += step) {
        T *at = y + p * channels + here.vector * V;
        float v[V];
        ss::load(at, v);
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] += b[j];
        ss::store(at, v);
    }
}

/* Pixels are divided into shares depending on the shape only, not on the device, and every share
 * is summed in a fixed order, so results are bit-identical on all devices. A share has at least 8
 * pixels per thread; there are at most MOST_SHARES shares to merge. */
constexpr unsigned MOST_SHARES = 512, PIXELS_PER_THREAD = 8, MERGE_CHANNELS = 32;

unsigned bias_shares(size_t pixels, const ss::tile &tile)
{
    const size_t share = (size_t)tile.rows * PIXELS_PER_THREAD;
    const size_t shares = (pixels + share - 1) / share;
    return (unsigned)(shares < MOST_SHARES ? shares : MOST_SHARES);
}

/* Computes partials (shares, channels): the sums of each share. */
template <typename T, int V>
__global__ void bias_shares_kernel(const T *__restrict__ dy, size_t pixels, unsigned channels,
                                   ss::tile tile, float *__restrict__ partials)
{
    __shared__ float sums[THREADS * V]; /* [j][row][col] */
    const ss::tile_place here = ss::tile_here(tile);
    const size_t share = (pixels + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * share;
    const size_t end = begin + share < pixels ? begin + share : pixels;
    float sum[V] = {};
    if (here.active) {
#pragma unroll 4
        for (size_t p = begin + here.row; p < end; p += tile.rows) {
            float v[V];
            ss::load(dy + p * channels + here.vector * V, v);
#pragma unroll
            for (int j = 0; j < V; j++)
                sum[j] += v[j];
        }
    }
#pragma unroll
    for (int j = 0; j < V; j++)
        sums[j * THREADS + threadIdx.x] = sum[j];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < tile.cols * V; i += THREADS) {
        const unsigned j = i / tile.cols, col = i - j * tile.cols;
        const unsigned vector = blockIdx.y * tile.cols + col;
        float total = 0;
        for (unsigned row = 0; row < tile.rows; row++)
            total += sums[j * THREADS + row * tile.cols + col];
        if (vector < tile.vectors)
            partials[(size_t)blockIdx.x * channels + vector * V + j] = total;
    }
}

/* Merges the sums of the shares in double: each thread sums every eighth share, then the eight
 * sums are added in order. */
__global__ void bias_merge_kernel(const float *__restrict__ partials, unsigned shares,
                                  unsigned channels, float *__restrict__ dbias,
                                  struct ss_scaler *scaler)
{
    __shared__ double sums[THREADS];
    const unsigned lane = threadIdx.x % MERGE_CHANNELS, first = threadIdx.x / MERGE_CHANNELS;
    const unsigned c = blockIdx.x * MERGE_CHANNELS + lane;
    double sum = 0;
    if (c < channels) {
#pragma unroll 4
        for (unsigned i = first; i < shares; i += THREADS / MERGE_CHANNELS)
            sum += (double)partials[(size_t)i * channels + c];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (first != 0 || c >= channels)
        return;
    for (unsigned i = 1; i < THREADS / MERGE_CHANNELS; i++)
        sum += sums[i * MERGE_CHANNELS + lane];
    dbias[c] = (float)sum;
    ss::tell(scaler, ss::not_finite(dbias[c]));
}

struct bias_shape {
    size_t pixels;
    unsigned channels;
    ss::tile tile;
    bool vectors; /* 16-byte accesses are possible */
};

enum ss_status bias_shape_make(const struct ss_device *gpu, const struct ss_act *shape,
                               struct bias_shape *out)
{
    if (shape->n < 1 || shape->c < 1 || shape->h < 1 || shape->w < 1 || shape->block != shape->c)
        return ss_fail(SS_ERR_SHAPE,
                       "bias: a tensor (%d,%d,%d,%d) in blocks of %d channels; sizes must be at "
                       "least 1, and all channels one block",
                       shape->n, shape->c, shape->h, shape->w, shape->block);
    const int vector = 16 / (int)ss_dtype_bytes(ss_cuda_dtype(gpu));
    out->pixels = (size_t)shape->n * (size_t)shape->h * (size_t)shape->w;
    out->channels = (unsigned)shape->c;
    out->vectors = shape->c % vector == 0;
    out->tile = ss::tile_make(shape->c, out->vectors ? vector : 1, THREADS);
    return SS_OK;
}

template <typename T>
void bias_forward_launch(const struct ss_device *gpu, const struct bias_shape &s, T *y,
                         const float *bias)
{
    const auto kernel = s.vectors ? bias_kernel<T, ss::format<T>::vector> : bias_kernel<T, 1>;
    const dim3 grid(ss::grid_for(gpu, s.pixels, s.tile.rows, THREADS), s.tile.tiles);
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, y, bias, s.pixels, s.channels, s.tile);
}

template <typename T>
void bias_backward_launch(const struct ss_device *gpu, const struct bias_shape &s, const T *dy,
                          float *dbias)
{
    const auto kernel =
        s.vectors ? bias_shares_kernel<T, ss::format<T>::vector> : bias_shares_kernel<T, 1>;
    const unsigned shares = bias_shares(s.pixels, s.tile);
    const dim3 grid(shares, s.tile.tiles);
    float *partials = static_cast<float *>(ss_cuda_scratch(gpu));
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, dy, s.pixels, s.channels, s.tile, partials);
    const unsigned merges = (s.channels + MERGE_CHANNELS - 1) / MERGE_CHANNELS;
    SS_LAUNCH(bias_merge_kernel, merges, THREADS, gpu->stream, partials, shares, s.channels, dbias,
              gpu->scaler);
}

/* ---- the input ---- */

struct normalisation {
    float mean[SS_INPUT_CHANNELS], std[SS_INPUT_CHANNELS];
};

/* Each thread makes a whole pixel, V channels at a time; reads are neighboring bytes of each
 * plane. V is 16 bytes' worth if the block is a multiple, else 1. Divisions are as on the CPU, so
 * that both results are bit-identical. Means and deviations are read from the kernel parameters,
 * because a copy would be in local memory. */
template <typename T, int V>
__global__ void convert_kernel(const uint8_t *__restrict__ images, T *__restrict__ out, int n,
                               int channels, int block, size_t plane,
                               const __grid_constant__ normalisation norm)
{
    for (size_t i = blockIdx.y; i < (size_t)n; i += gridDim.y) {
        const uint8_t *image = images + i * (size_t)channels * plane;
        for (size_t p = ss::flat_begin(); p < plane; p += ss::flat_step())
            for (int first = 0; first < block; first += V) {
                float v[V] = {};
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const int c = first + j;
                    if (c < channels)
                        v[j] = ((float)image[(size_t)c * plane + p] / 255.0f - norm.mean[c]) /
                               norm.std[c];
                }
                ss::store(out + (i * plane + p) * (size_t)block + first, v);
            }
    }
}

template <typename T>
void convert_launch(const struct ss_device *gpu, const struct ss_act *x, const uint8_t *images,
                    const normalisation &norm, T *out)
{
    const size_t plane = (size_t)x->h * (size_t)x->w;
    const unsigned most = ss::grid_for(gpu, (size_t)x->n * plane, THREADS, THREADS);
    const unsigned across = min(ss::grid_for(gpu, plane, THREADS, THREADS), most);
    const dim3 grid(across, min(min((unsigned)x->n, max(1U, most / across)), 65535U));
    const auto kernel = x->block % ss::format<T>::vector ? convert_kernel<T, 1>
                                                         : convert_kernel<T, ss::format<T>::vector>;
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, images, out, x->n, x->c, x->block, plane, norm);
}

/* ---- numbers from the host ---- */

struct numbers {
    uint64_t value[SS_PUT_NUMBERS];
};

__global__ void numbers_kernel(numbers from, unsigned count, uint64_t *to)
{
    if (threadIdx.x < count)
        to[threadIdx.x] = from.value[threadIdx.x];
}

} // namespace

enum ss_status ss_cuda_sum(struct ss_device *gpu, const void *const *src, int n, void *dst,
                           size_t count)
{
    if (n < 1 || n > SS_NORM_MAX_DY)
        return ss_fail(SS_ERR_INVALID, "sum of %d tensors; 1 to %d are possible", n,
                       SS_NORM_MAX_DY);
    if (count == 0)
        return SS_OK;
    sources s = {};
    for (int i = 0; i < n; i++)
        s.p[i] = src[i];
    SS_DISPATCH(ss_cuda_dtype(gpu), sum_launch<T>(gpu, s, n, static_cast<T *>(dst), count));
    SS_LAUNCHED("a sum");
    return SS_OK;
}

enum ss_status ss_cuda_accumulate(struct ss_device *gpu, size_t count, const float *src, int add,
                                  float factor, float *dst)
{
    if (count == 0)
        return SS_OK;
    const unsigned grid = ss::grid_for(gpu, count / ss::format<float>::vector, THREADS, THREADS);
    SS_LAUNCH(accumulate_kernel, grid, THREADS, gpu->stream, count, src, add != 0, factor, dst);
    SS_LAUNCHED("the addition of gradients");
    return SS_OK;
}

enum ss_status ss_cuda_cast(struct ss_device *gpu, const float *src, void *dst, size_t count)
{
    if (count == 0)
        return SS_OK;
    SS_DISPATCH(ss_cuda_dtype(gpu), cast_launch<float, T>(gpu, src, dst, count, nullptr));
    SS_LAUNCHED("a cast");
    return SS_OK;
}

enum ss_status ss_cuda_uncast(struct ss_device *gpu, const void *src, float *dst, size_t count)
{
    if (count == 0)
        return SS_OK;
    SS_DISPATCH(ss_cuda_dtype(gpu), cast_launch<T, float>(gpu, src, dst, count, gpu->scaler));
    SS_LAUNCHED("a cast");
    return SS_OK;
}

enum ss_status ss_cuda_bias_forward(struct ss_device *gpu, const struct ss_act *shape, void *y,
                                    const float *bias)
{
    struct bias_shape s = {};
    SS_TRY(bias_shape_make(gpu, shape, &s));
    SS_DISPATCH(ss_cuda_dtype(gpu), bias_forward_launch<T>(gpu, s, static_cast<T *>(y), bias));
    SS_LAUNCHED("a bias");
    return SS_OK;
}

enum ss_status ss_cuda_bias_reserve(struct ss_device *gpu, const struct ss_act *shape)
{
    struct bias_shape s = {};
    SS_TRY(bias_shape_make(gpu, shape, &s));
    return ss_cuda_reserve(gpu, (size_t)bias_shares(s.pixels, s.tile) * s.channels * sizeof(float));
}

enum ss_status ss_cuda_bias_backward(struct ss_device *gpu, const struct ss_act *shape,
                                     const void *dy, float *dbias)
{
    struct bias_shape s = {};
    SS_TRY(bias_shape_make(gpu, shape, &s));
    SS_DISPATCH(ss_cuda_dtype(gpu),
                bias_backward_launch<T>(gpu, s, static_cast<const T *>(dy), dbias));
    SS_LAUNCHED("a bias gradient");
    return SS_OK;
}

enum ss_status ss_cuda_convert(struct ss_device *gpu, const struct ss_act *x, const uint8_t *images,
                               const float *mean, const float *std, void *out)
{
    if (x->n < 1 || x->h < 1 || x->w < 1 || x->c < 1 || x->c > SS_INPUT_CHANNELS || x->block < x->c)
        return ss_fail(
            SS_ERR_SHAPE,
            "input (%d,%d,%d,%d) in blocks of %d channels; 1 to %d channels in one block "
            "are possible",
            x->n, x->c, x->h, x->w, x->block, SS_INPUT_CHANNELS);
    normalisation norm = {};
    for (int c = 0; c < x->c; c++) {
        norm.mean[c] = mean[c];
        norm.std[c] = std[c];
    }
    SS_DISPATCH(ss_cuda_dtype(gpu), convert_launch<T>(gpu, x, images, norm, static_cast<T *>(out)));
    SS_LAUNCHED("the input's conversion");
    return SS_OK;
}

enum ss_status ss_cuda_put_numbers(struct ss_device *gpu, const uint64_t *values, size_t count,
                                   uint64_t *dst)
{
    for (size_t at = 0; at < count; at += SS_PUT_NUMBERS) {
        const size_t most = SS_PUT_NUMBERS, n = count - at < most ? count - at : most;
        numbers from = {};
        memcpy(from.value, values + at, n * sizeof *values);
        SS_LAUNCH(numbers_kernel, 1, SS_PUT_NUMBERS, gpu->stream, from, (unsigned)n, dst + at);
        SS_LAUNCHED("the host's numbers");
    }
    return SS_OK;
}
