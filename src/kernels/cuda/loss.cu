/* loss.cu: softmax cross-entropy. A warp per row, then one block adds the rows up.
 *
 * A row with a label that is none gets the loss NaN, so it counts as bad, and the gradient 0. */
#include "kernels/cuda/grid.cuh"

namespace
{

constexpr unsigned THREADS = 128, WARP = 32, FINISH_THREADS = 256;
constexpr unsigned ALL_LANES = 0xffffffff;

struct row {
    double loss;
    int correct, counts; /* 0 or 1 */
};

/* The largest value and its place, the first of equals; a NaN is never it. */
struct top {
    float value;
    int place;
};
__device__ inline struct top higher(const struct top &a, const struct top &b)
{
    return b.value > a.value || (b.value == a.value && b.place < a.place) ? b : a;
}

template <typename T> __device__ struct top warp_top(const T *x, int k, int lane)
{
    struct top best = {-INFINITY, 0};
#pragma unroll 4
    for (int i = lane; i < k; i += (int)WARP)
        best = higher(best, {ss::format<T>::load(x[i]), i});
#pragma unroll
    for (int d = (int)WARP / 2; d > 0; d /= 2) {
        struct top other;
        other.value = __shfl_xor_sync(ALL_LANES, best.value, d);
        other.place = __shfl_xor_sync(ALL_LANES, best.place, d);
        best = higher(best, other);
    }
    return best;
}

template <typename T> __device__ float warp_sum_exp(const T *x, int k, int lane, float shift)
{
    float sum = 0;
#pragma unroll 4
    for (int i = lane; i < k; i += (int)WARP)
        sum += expf(ss::format<T>::load(x[i]) - shift);
#pragma unroll
    for (int d = (int)WARP / 2; d > 0; d /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, d);
    return sum;
}

/* All lanes of a warp come here together. dx may be x: a lane writes only what it alone has still
 * to read, but for the label's logit, which all have read before the barrier. */
template <typename T>
__device__ void one_row(const T *x, int k, int label, float factor, T *dx, struct row *out)
{
    const int lane = (int)(threadIdx.x % WARP);
    const bool counts = label != -1, valid = label >= 0 && label < k;
    struct row result = {0, 0, counts};
    struct top best = {0, 0};
    float inv_sum = 0;
    if (valid) {
        best = warp_top(x, k, lane);
        const float sum = warp_sum_exp(x, k, lane, best.value);
        inv_sum = 1 / sum;
        result.loss = log((double)sum) - (double)(ss::format<T>::load(x[label]) - best.value);
        result.correct = best.place == label;
    } else if (counts) {
        result.loss = (double)NAN;
    }
    if (lane == 0)
        *out = result;
    if (!dx)
        return;
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < k; i += (int)WARP) {
        const float p = valid ? expf(ss::format<T>::load(x[i]) - best.value) * inv_sum : 0;
        dx[i] = ss::format<T>::store((p - (float)(valid && i == label)) * factor);
    }
}

template <typename T>
__global__ void rows_kernel(int n, int k, const T *logits, const int32_t *labels,
                            const struct ss_scaler *scaler, T *dlogits, struct row *rows)
{
    const float factor = (scaler ? scaler->scale : 1) * (1 / (float)n);
    const size_t step = (size_t)gridDim.x * (THREADS / WARP);
    for (size_t i = ss::flat_begin() / WARP; i < (size_t)n; i += step) {
        const size_t at = i * (size_t)k;
        one_row(logits + at, k, labels[i], factor, dlogits ? dlogits + at : NULL, rows + i);
    }
}

/* One block: a thread adds every FINISH_THREADS-th row, then halves of the block are added up. */
__global__ void finish_kernel(int n, const struct row *rows, const struct ss_scaler *scaler,
                              struct ss_metrics *metrics, int accumulate)
{
    __shared__ double loss[FINISH_THREADS];
    __shared__ int correct[FINISH_THREADS], count[FINISH_THREADS], bad[FINISH_THREADS];
    const unsigned t = threadIdx.x;
    struct row sum = {0, 0, 0};
    int infinite = 0;
    for (unsigned i = t; i < (unsigned)n; i += FINISH_THREADS) {
        const struct row r = rows[i];
        sum.loss += r.loss;
        sum.correct += r.correct;
        sum.counts += r.counts;
        infinite += !isfinite(r.loss);
    }
    loss[t] = sum.loss;
    correct[t] = sum.correct;
    count[t] = sum.counts;
    bad[t] = infinite;
    for (unsigned half = FINISH_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            loss[t] += loss[t + half];
            correct[t] += correct[t + half];
            count[t] += count[t + half];
            bad[t] += bad[t + half];
        }
    }
    if (t != 0)
        return;
    struct ss_metrics m = {0, 0, 0, 0, 0};
    if (accumulate)
        m = *metrics;
    m.loss += loss[0];
    m.correct += correct[0];
    m.count += count[0];
    m.bad += bad[0];
    m.scale = scaler ? (double)scaler->scale : 1;
    *metrics = m;
}

template <typename T>
void rows_launch(const struct ss_device *gpu, int n, int k, const void *logits,
                 const int32_t *labels, const struct ss_scaler *scaler, void *dlogits,
                 struct row *rows)
{
    const unsigned grid = ss::grid_for(gpu, (size_t)n, THREADS / WARP, THREADS);
    const auto kernel = rows_kernel<T>;
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, n, k, static_cast<const T *>(logits), labels,
              scaler, static_cast<T *>(dlogits), rows);
}

enum ss_status check(int n, int k)
{
    if (n >= 1 && k >= 1)
        return SS_OK;
    return ss_fail(SS_ERR_SHAPE, "loss: logits (%d,%d); every size must be at least 1", n, k);
}

} // namespace

enum ss_status ss_cuda_loss_reserve(struct ss_device *gpu, int n, int k)
{
    SS_TRY(check(n, k));
    return ss_cuda_reserve(gpu, (size_t)n * sizeof(struct row));
}

enum ss_status ss_cuda_loss(struct ss_device *gpu, int n, int k, const void *logits,
                            const int32_t *labels, const struct ss_scaler *scaler,
                            struct ss_metrics *metrics, int accumulate, void *dlogits)
{
    SS_TRY(check(n, k));
    struct row *rows = static_cast<struct row *>(ss_cuda_scratch(gpu));
    SS_DISPATCH(ss_cuda_dtype(gpu),
                rows_launch<T>(gpu, n, k, logits, labels, scaler, dlogits, rows));
    SS_LAUNCHED("the loss");
    SS_LAUNCH(finish_kernel, 1, FINISH_THREADS, gpu->stream, n, rows, scaler, metrics, accumulate);
    SS_LAUNCHED("the loss's sums");
    return SS_OK;
}
