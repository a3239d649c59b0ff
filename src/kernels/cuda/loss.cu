/* loss.cu: softmax cross-entropy. One warp per row, then one block adds the rows.
 *
 * A row with an invalid label has loss NaN, so it counts as bad, and gradient 0. */
#include "kernels/cuda/grid.cuh"

namespace
{

constexpr unsigned THREADS = 128, WARP = 32, FINISH_THREADS = 256;
constexpr unsigned ALL_LANES = 0xffffffff;

struct row {
    double loss;
    int correct, top, counts; /* 0 or 1 */
};

/* The target t of a row: the weight of all classes, of the label and of the other label (list.h).
 * For a plain label 0, 1 and 0, so that the sums below are exact. */
struct target {
    int label, other, right;
    float base, of_label, of_other;
};
__device__ inline struct target target_of(const struct ss_label &l, int k, float smoothing)
{
    const float rest = 1 - smoothing;
    return {l.label,
            l.other,
            l.share >= 0.5f ? l.label : l.other,
            smoothing / (float)k,
            rest * l.share,
            rest * (1 - l.share)};
}

/* The largest value and its index, the first one of equal values. NaN is never selected. */
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

/* Computes the sum of x - shift. */
template <typename T> __device__ float warp_sum_below(const T *x, int k, int lane, float shift)
{
    float sum = 0;
#pragma unroll 4
    for (int i = lane; i < k; i += (int)WARP)
        sum += ss::format<T>::load(x[i]) - shift;
#pragma unroll
    for (int d = (int)WARP / 2; d > 0; d /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, d);
    return sum;
}

/* Returns the number of logits that rank higher than the label's. */
template <typename T> __device__ int warp_place(const T *x, int k, int lane, int label)
{
    const float own = ss::format<T>::load(x[label]);
    int before = 0;
#pragma unroll 4
    for (int i = lane; i < k; i += (int)WARP) {
        const float value = ss::format<T>::load(x[i]);
        before += value > own || (value == own && i < label);
    }
#pragma unroll
    for (int d = (int)WARP / 2; d > 0; d /= 2)
        before += __shfl_xor_sync(ALL_LANES, before, d);
    return before;
}

/* Computes - sum of t * (x - shift). Terms of weight 0 are skipped, because x may be infinite. */
template <typename T>
__device__ double warp_distance(const struct target &t, const T *x, int k, int lane, float shift)
{
    double sum = 0;
    if (t.of_label > 0)
        sum += (double)t.of_label * (double)(ss::format<T>::load(x[t.label]) - shift);
    if (t.of_other > 0)
        sum += (double)t.of_other * (double)(ss::format<T>::load(x[t.other]) - shift);
    if (t.base > 0)
        sum += (double)t.base * (double)warp_sum_below(x, k, lane, shift);
    return -sum;
}

__device__ inline int is_class(int label, int k)
{
    return label >= 0 && label < k;
}

/* Requires all lanes of a warp together. dx may be x: a lane overwrites only logits that no other
 * lane reads later. The labels' logits, read by all lanes, are read before the barrier. */
template <typename T>
__device__ void one_row(const T *x, int k, const struct target &t, float factor, T *dx,
                        struct row *out)
{
    const int lane = (int)(threadIdx.x % WARP);
    const bool counts = t.label != -1, valid = is_class(t.label, k) && is_class(t.other, k);
    struct row result = {0, 0, 0, counts};
    struct top best = {0, 0};
    float inv_sum = 0;
    if (valid) {
        best = warp_top(x, k, lane);
        const float sum = warp_sum_exp(x, k, lane, best.value);
        inv_sum = 1 / sum;
        result.loss = log((double)sum) + warp_distance(t, x, k, lane, best.value);
        result.correct = best.place == t.right;
        result.top = warp_place(x, k, lane, t.right) < SS_TOP && !isnan(result.loss);
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
        const float want =
            t.base + (float)(i == t.label) * t.of_label + (float)(i == t.other) * t.of_other;
        dx[i] = ss::format<T>::store((p - (valid ? want : 0)) * factor);
    }
}

template <typename T>
__global__ void rows_kernel(int n, int k, const T *logits, const struct ss_label *labels,
                            float smoothing, const struct ss_scaler *scaler, T *dlogits,
                            struct row *rows)
{
    const float factor = (scaler ? scaler->scale : 1) * (1 / (float)n);
    const size_t step = (size_t)gridDim.x * (THREADS / WARP);
    for (size_t i = ss::flat_begin() / WARP; i < (size_t)n; i += step) {
        const size_t at = i * (size_t)k;
        one_row(logits + at, k, target_of(labels[i], k, smoothing), factor,
                dlogits ? dlogits + at : NULL, rows + i);
    }
}

/* One block: each thread adds every FINISH_THREADS-th row, then the block reduces by halves. */
__global__ void finish_kernel(int n, const struct row *rows, const struct ss_scaler *scaler,
                              struct ss_metrics *metrics, int accumulate)
{
    __shared__ double loss[FINISH_THREADS];
    __shared__ int correct[FINISH_THREADS], top[FINISH_THREADS];
    __shared__ int count[FINISH_THREADS], bad[FINISH_THREADS];
    const unsigned t = threadIdx.x;
    struct row sum = {0, 0, 0, 0};
    int infinite = 0;
    for (unsigned i = t; i < (unsigned)n; i += FINISH_THREADS) {
        const struct row r = rows[i];
        sum.loss += r.loss;
        sum.correct += r.correct;
        sum.top += r.top;
        sum.counts += r.counts;
        infinite += !isfinite(r.loss);
    }
    loss[t] = sum.loss;
    correct[t] = sum.correct;
    top[t] = sum.top;
    count[t] = sum.counts;
    bad[t] = infinite;
    for (unsigned half = FINISH_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            loss[t] += loss[t + half];
            correct[t] += correct[t + half];
            top[t] += top[t + half];
            count[t] += count[t + half];
            bad[t] += bad[t + half];
        }
    }
    if (t != 0)
        return;
    struct ss_metrics m = {0, 0, 0, 0, 0, 0};
    if (accumulate)
        m = *metrics;
    m.loss += loss[0];
    m.correct += correct[0];
    m.top5 += top[0];
    m.count += count[0];
    m.bad += bad[0];
    m.scale = scaler ? (double)scaler->scale : 1;
    *metrics = m;
}

template <typename T>
void rows_launch(const struct ss_device *gpu, int n, int k, const void *logits,
                 const struct ss_label *labels, float smoothing, const struct ss_scaler *scaler,
                 void *dlogits, struct row *rows)
{
    const unsigned grid = ss::grid_for(gpu, (size_t)n, THREADS / WARP, THREADS);
    const auto kernel = rows_kernel<T>;
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, n, k, static_cast<const T *>(logits), labels,
              smoothing, scaler, static_cast<T *>(dlogits), rows);
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
                            const struct ss_label *labels, float smoothing,
                            const struct ss_scaler *scaler, struct ss_metrics *metrics,
                            int accumulate, void *dlogits)
{
    SS_TRY(check(n, k));
    struct row *rows = static_cast<struct row *>(ss_cuda_scratch(gpu));
    SS_DISPATCH(ss_cuda_dtype(gpu),
                rows_launch<T>(gpu, n, k, logits, labels, smoothing, scaler, dlogits, rows));
    SS_LAUNCHED("the loss");
    SS_LAUNCH(finish_kernel, 1, FINISH_THREADS, gpu->stream, n, rows, scaler, metrics, accumulate);
    SS_LAUNCHED("the loss's sums");
    return SS_OK;
}
