/* update.cu: an optimizer's update of a whole bucket, in one kernel unless norms are needed, and
 * sums of squares. */
#include "kernels/cuda/grid.cuh"

extern "C" {
#include "kernels/update.h"
}

namespace
{

constexpr unsigned THREADS = 256;
constexpr int V = ss::format<float>::vector;

/* Adds a and b over the block. Only the first thread gets the sums; others get undefined
 * values. */
__device__ void block_sums(double &a, double &b)
{
    __shared__ double part[2][THREADS / 32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = 16; step; step /= 2) {
        a += __shfl_down_sync(~0U, a, step);
        b += __shfl_down_sync(~0U, b, step);
    }
    if (lane == 0) {
        part[0][warp] = a;
        part[1][warp] = b;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        a = b = 0;
        for (unsigned w = 0; w < THREADS / 32; w++) {
            a += part[0][w];
            b += part[1][w];
        }
    }
    __syncthreads();
}

/* Updates the calling thread's vectors. T: the format of the weights' copy. Gradients are divided
 * by the loss scale, a power of two: exact except for gradients near the smallest numbers. */
template <typename T, enum ss_rule RULE>
__device__ void update_vectors(const struct ss_update &u, const struct ss_rule_terms &terms,
                               float scale, size_t begin, size_t end, size_t step)
{
    const int states = ss_rule_states(RULE);
    T *copy = static_cast<T *>(u.copy);
    for (size_t i = begin; i < end; i += step) {
        float w[V], g[V], s[SS_UPDATE_STATES][V], ema[V];
        ss::load(u.w + i, w);
        ss::load(u.g + i, g);
#pragma unroll
        for (int k = 0; k < states; k++)
            ss::load(u.state[k] + i, s[k]);
        if (u.ema)
            ss::load(u.ema + i, ema);
#pragma unroll
        for (int j = 0; j < V; j++) {
            float state[SS_UPDATE_STATES];
#pragma unroll
            for (int k = 0; k < states; k++)
                state[k] = s[k][j];
            w[j] = ss_rule_element(RULE, &terms, w[j], scale * g[j], state);
#pragma unroll
            for (int k = 0; k < states; k++)
                s[k][j] = state[k];
        }
        ss::store(u.w + i, w);
#pragma unroll
        for (int k = 0; k < states; k++)
            ss::store(u.state[k] + i, s[k]);
        if (copy)
            ss::store(copy + i, w);
        if (u.ema) {
#pragma unroll
            for (int j = 0; j < V; j++)
                ema[j] = ss_average(ema[j], w[j], terms.average);
            ss::store(u.ema + i, ema);
        }
    }
}

template <typename T, enum ss_rule RULE>
__global__ void update_kernel(struct ss_update u, struct ss_rule_terms terms)
{
    if (u.scaler) {
        if (u.scaler->found)
            return;
        if (u.scaler->skipped)
            terms = ss_rule_begin(&u, NULL, ss_update_made(&u));
    }
    update_vectors<T, RULE>(u, terms, ss_update_scale(&u), ss::flat_begin() * V, u.count,
                            ss::flat_step() * V);
}

/* One chunk per block and iteration. ratio: NULL except for rules with norms. */
template <typename T, enum ss_rule RULE>
__global__ void update_spans_kernel(struct ss_update u, const float *ratio)
{
    __shared__ struct ss_rule_terms terms[1];
    if (u.scaler && u.scaler->found)
        return;
    const float scale = ss_update_scale(&u);
    for (uint32_t i = blockIdx.x; i < u.spans.nchunks; i += gridDim.x) {
        const struct ss_chunk c = u.spans.chunk[i];
        if (threadIdx.x == 0) {
            terms[0] = ss_rule_begin(&u, &u.spans.span[c.span], ss_update_made(&u));
            if (ratio)
                terms[0].lr *= ratio[c.span];
        }
        __syncthreads();
        update_vectors<T, RULE>(u, terms[0], scale, c.begin + threadIdx.x * V, c.begin + c.count,
                                (size_t)blockDim.x * V);
        __syncthreads();
    }
}

/* Computes two sums of squares per chunk: of the weights, and of the direction. */
template <enum ss_rule RULE> __global__ void norms_kernel(struct ss_update u, double *sums)
{
    __shared__ struct ss_rule_terms terms[1];
    const int states = ss_rule_states(RULE);
    if (u.scaler && u.scaler->found)
        return;
    const float scale = ss_update_scale(&u);
    for (uint32_t i = blockIdx.x; i < u.spans.nchunks; i += gridDim.x) {
        const struct ss_chunk c = u.spans.chunk[i];
        if (threadIdx.x == 0)
            terms[0] = ss_rule_begin(&u, &u.spans.span[c.span], ss_update_made(&u));
        __syncthreads();
        double w2 = 0, d2 = 0;
        for (size_t k = c.begin + threadIdx.x; k < c.begin + c.count; k += blockDim.x) {
            float state[SS_UPDATE_STATES] = {0};
            for (int j = 0; j < states; j++)
                state[j] = u.state[j][k];
            const float w = u.w[k],
                        d = ss_rule_direction(RULE, &terms[0], w, scale * u.g[k], state);
            w2 += static_cast<double>(w) * static_cast<double>(w);
            d2 += static_cast<double>(d) * static_cast<double>(d);
        }
        block_sums(w2, d2);
        if (threadIdx.x == 0) {
            sums[2 * i] = w2;
            sums[2 * i + 1] = d2;
        }
    }
}

/* One span per block and iteration. */
__global__ void ratios_kernel(struct ss_update u, const double *sums, float *ratio)
{
    if (u.scaler && u.scaler->found)
        return;
    for (uint32_t k = blockIdx.x; k < u.spans.nspans; k += gridDim.x) {
        const struct ss_span s = u.spans.span[k];
        double w2 = 0, d2 = 0;
        for (uint32_t i = s.chunk + threadIdx.x; i < s.chunk + s.chunks; i += blockDim.x) {
            w2 += sums[2 * i];
            d2 += sums[2 * i + 1];
        }
        block_sums(w2, d2);
        if (threadIdx.x == 0)
            ratio[k] = ss_rule_ratio(&u, &s, w2, d2);
    }
}

__global__ void squares_kernel(size_t count, const float *g, double *sums)
{
    const size_t chunks = (count + SS_UPDATE_CHUNK - 1) / SS_UPDATE_CHUNK;
    for (size_t i = blockIdx.x; i < chunks; i += gridDim.x) {
        const size_t begin = i * SS_UPDATE_CHUNK,
                     end = count - begin < SS_UPDATE_CHUNK ? count : begin + SS_UPDATE_CHUNK;
        double sum = 0, none = 0;
        for (size_t k = begin + threadIdx.x; k < end; k += blockDim.x)
            sum += static_cast<double>(g[k]) * static_cast<double>(g[k]);
        block_sums(sum, none);
        if (threadIdx.x == 0)
            sums[i] = sum;
    }
}

/* One block. */
__global__ void add_squares_kernel(size_t chunks, const double *sums, int first, double *sum)
{
    double all = 0, none = 0;
    for (size_t i = threadIdx.x; i < chunks; i += blockDim.x)
        all += sums[i];
    block_sums(all, none);
    if (threadIdx.x == 0)
        *sum = first ? all : *sum + all;
}

template <enum ss_rule RULE>
const float *launch_norms(struct ss_device *gpu, const struct ss_update &u)
{
    double *sums = static_cast<double *>(gpu->update_scratch.data);
    float *ratio = reinterpret_cast<float *>(sums + 2 * u.spans.nchunks);
    const auto kernel = norms_kernel<RULE>;
    SS_LAUNCH(kernel, ss::grid_for(gpu, u.spans.nchunks, 1, THREADS), THREADS, gpu->stream, u,
              sums);
    SS_LAUNCH(ratios_kernel, ss::grid_for(gpu, u.spans.nspans, 1, THREADS), THREADS, gpu->stream, u,
              sums, ratio);
    return ratio;
}

template <typename T, enum ss_rule RULE>
void launch(struct ss_device *gpu, const struct ss_update &u)
{
    if (u.spans.nchunks) {
        const float *ratio = ss_rule_has_norms(RULE) ? launch_norms<RULE>(gpu, u) : NULL;
        const auto kernel = update_spans_kernel<T, RULE>;
        SS_LAUNCH(kernel, ss::grid_for(gpu, u.spans.nchunks, 1, THREADS), THREADS, gpu->stream, u,
                  ratio);
        return;
    }
    const unsigned grid = ss::grid_for(gpu, u.count / V, THREADS, THREADS);
    const auto kernel = update_kernel<T, RULE>;
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, u, ss_rule_begin(&u, NULL, u.step));
}

template <typename T> void dispatch(struct ss_device *gpu, const struct ss_update &u)
{
    SS_RULE_DISPATCH(u.rule, launch<T, RULE>(gpu, u));
}

} // namespace

enum ss_status ss_cuda_update(struct ss_device *gpu, const struct ss_update *u)
{
    if (u->count % 16 != 0)
        return ss_fail(SS_ERR_SHAPE, "update: a bucket of %zu elements; must be a multiple of 16",
                       u->count);
    for (int k = 0; k < ss_rule_states(u->rule); k++)
        if (!u->state[k])
            return ss_fail(SS_ERR_INVALID, "update: state %d is missing", k);
    if (u->count == 0)
        return SS_OK;
    if (ss_rule_has_norms(u->rule) && !u->spans.nchunks)
        return ss_fail(SS_ERR_INVALID, "update: a rule with norms needs spans");
    SS_DISPATCH(ss_cuda_dtype(gpu), dispatch<T>(gpu, *u));
    SS_LAUNCHED("an optimizer's update");
    return SS_OK;
}

/* Reserves two partial sums per chunk, and one ratio per span. */
enum ss_status ss_cuda_update_reserve(struct ss_device *gpu, size_t chunks)
{
    return ss_cuda_reserve_update(gpu, chunks * (2 * sizeof(double) + sizeof(float)));
}

enum ss_status ss_cuda_squares(struct ss_device *gpu, size_t count, const float *g, int first,
                               double *sum)
{
    const size_t chunks = (count + SS_UPDATE_CHUNK - 1) / SS_UPDATE_CHUNK;
    double *sums = static_cast<double *>(gpu->update_scratch.data);
    SS_LAUNCH(squares_kernel, ss::grid_for(gpu, chunks, 1, THREADS), THREADS, gpu->stream, count, g,
              sums);
    SS_LAUNCH(add_squares_kernel, 1, THREADS, gpu->stream, chunks, sums, first, sum);
    SS_LAUNCHED("the gradients' norm");
    return SS_OK;
}
