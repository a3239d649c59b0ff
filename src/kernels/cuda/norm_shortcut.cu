/* norm_shortcut.cu: an addition that applies BatchNorm or a bias to its residual first, forward
 * and backward: kernels/list.h and struct ss_norm_shortcut. With s = f(u) keep + r and g the
 * gradient of s,
 *   BIAS  dbeta' = sum of g; the rest as in norm_act.cu
 *   BN    dz = cg g + cz z + c0 and dz' = cg' g + cz' z' + c0', from the sums of g, g (z - mean)
 *         and g (z' - mean'): two passes in all, instead of two for each BatchNorm
 *
 * The mapping of threads to tensors is described in norm_act.cuh. The loads of the next
 * iteration, one vector per tensor, are in flight during the current one. */
#include "kernels/cuda/norm_act.cuh"

namespace
{

using namespace ss;
using namespace ss::norm;

enum { MAP_UNROLL = 2, SUMS = 3, MERGE_CHANNELS = 8, MERGE_LANES = 64 };

/* Source of g, the gradient of s: the sum of n tensors, zero where the mask is zero (NULL: no
 * mask), stored to ds (NULL: not stored). */
template <typename T> struct gradient {
    const T *dy[SS_NORM_MAX_DY];
    int n;
    const uint8_t *mask;
    T *ds;
};

template <typename T, int V, bool BN> struct turn {
    words<T, V> z[1], r[1], dy[1], other[1];
    uint8_t mask;

    __device__ inline void load(const spot (&at)[1], const gradient<T> &in, const T *from,
                                const T *from_r)
    {
        fetch(from, at, z);
        if (BN)
            fetch(from_r, at, r);
        fetch(in.dy[0], at, dy);
        if (in.n > 1)
            fetch(in.dy[1], at, other);
        mask = in.mask ? in.mask[at[0].at] : 255;
    }
    /* Returns the gradient as stored, which pass 2 and other kernels read. */
    __device__ inline pack<T, V> gradient_of_s(const spot (&at)[1], const gradient<T> &in) const
    {
        pack<T, V> g = unpack(dy[0]);
        if (in.n == 1 && !in.mask)
            return g;
        float sum[V];
        const pack<T, V> second = unpack(other[0]);
#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] = format<T>::load(g.v[j]) + (in.n > 1 ? format<T>::load(second.v[j]) : 0);
#pragma unroll
        for (int k = 2; k < SS_NORM_MAX_DY; k++)
            if (k < in.n) {
                const pack<T, V> x = reinterpret_cast<const pack<T, V> *>(in.dy[k])[at[0].at];
#pragma unroll
                for (int j = 0; j < V; j++)
                    sum[j] += format<T>::load(x.v[j]);
            }
#pragma unroll
        for (int j = 0; j < V; j++)
            g.v[j] = format<T>::store(sum[j] * (mask >> j & 1 ? 1.0f : 0.0f));
        if (in.ds)
            put(in.ds, at[0], g);
        return g;
    }
};

/* Computes y = relu_out(f(a z + b) keep + a' z' + b'); y may be z or z'. */
enum { A_R = AFFINE_TABLE, B_R, FORWARD_TABLE };
template <typename T, int V>
__global__ void __launch_bounds__(THREADS, (FORWARD_RESIDENT<T>))
    shortcut_forward_kernel(geometry g, affine f, affine of_r, activation act, float low_out,
                            dropout drop, const T *z, const T *r, T *y, uint8_t *mask)
{
    typedef table<FORWARD_TABLE, V> coefficients;
    constexpr int Q = coefficients::QUAD;
    __shared__ coefficients t;
    t.fill(g, [&](int c, float(&k)[FORWARD_TABLE]) {
        scale_and_shift(f, g.channels, c, &k[A], &k[B]);
        scale_and_shift(of_r, g.channels, c, &k[A_R], &k[B_R]);
        if (!of_r.saved)
            k[B_R] = of_r.beta[c];
    });
    const place<V> me(g);
    if (me.idle)
        return;
    for (unsigned k = blockIdx.x; k < g.chunks; k += gridDim.x) {
        forget();
        spot at[MAP_UNROLL];
        words<T, V> x[MAP_UNROLL], other[MAP_UNROLL];
        locate(g, me, k, at);
        fetch(z, at, x);
        fetch(r, at, other);
#pragma unroll
        for (int u = 0; u < MAP_UNROLL; u++) {
            const unsigned keep = kept<V>(drop, at[u]);
            unsigned bits = 0;
            pack<T, V> out;
#pragma unroll
            for (int h = 0; h < V / Q; h++) {
                float c[FORWARD_TABLE][Q];
                t.read(me, h, c);
#pragma unroll
                for (int i = 0; i < Q; i++) {
                    const int j = h * Q + i;
                    const float v = act_with_dropout<true>(c[A][i], unpack(x[u]).v[j], c[B][i], act,
                                                           keep >> j & 1);
                    const float s =
                        fmaf(v, drop.scale,
                             apply(c[A_R][i], format<T>::load(unpack(other[u]).v[j]), c[B_R][i]));
                    out.v[j] = format<T>::store(s < low_out ? low_out : s);
                    bits |= (unsigned)!(format<T>::load(out.v[j]) <= 0) << j;
                }
            }
            put(y, at[u], out);
            if (mask && at[u].live)
                mask[at[u].at] = (uint8_t)bits;
        }
    }
}

/* Backward, pass 1: the sums of du, du (z - mean), and g (z' - mean') with BN, else g. partial is
 * [2][blocks][2][C]; the last [C] is unused. */
enum { MEAN_R = SUM_TABLE, SHORTCUT_SUM_TABLE };
template <typename T, int V, bool BN>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    shortcut_gradient_sums_kernel(geometry g, affine f, affine of_r, activation act, dropout drop,
                                  gradient<T> in, const T *z, const T *r, float *partial)
{
    typedef table<SHORTCUT_SUM_TABLE, V> coefficients;
    constexpr int Q = coefficients::QUAD;
    __shared__ coefficients t;
    t.fill(g, [&](int c, float(&k)[SHORTCUT_SUM_TABLE]) {
        scale_and_shift(f, g.channels, c, &k[A], &k[B]);
        k[MEAN] = f.saved[c];
        k[MEAN_R] = BN ? of_r.saved[c] : 0;
    });
    const place<V> me(g);
    float sum[V] = {}, sum_z[V] = {}, sum_r[V] = {}, unused[V] = {};
    turn<T, V, BN> now, next;
    spot at[1];
    unsigned k = me.idle ? g.chunks : blockIdx.x;
    if (k < g.chunks) {
        locate(g, me, g.chunks - 1 - k, at);
        next.load(at, in, z, r);
    }
    for (; k < g.chunks; k += gridDim.x) {
        forget();
        now = next;
        if (k + gridDim.x < g.chunks) {
            locate(g, me, g.chunks - 1 - k - gridDim.x, at);
            next.load(at, in, z, r);
        }
        locate(g, me, g.chunks - 1 - k, at);
        const pack<T, V> ds = now.gradient_of_s(at, in);
        if (!at[0].live)
            continue;
        const unsigned keep = BN ? ~0u : kept<V>(drop, at[0]);
#pragma unroll
        for (int h = 0; h < V / Q; h++) {
            float c[SHORTCUT_SUM_TABLE][Q];
            t.read(me, h, c);
#pragma unroll
            for (int i = 0; i < Q; i++) {
                const int j = h * Q + i;
                const float zj = format<T>::load(unpack(now.z[0]).v[j]);
                const float gj = format<T>::load(ds.v[j]);
                const float du = BN ? gj
                                    : gradient_of_u<true>(gj, apply(c[A][i], zj, c[B][i]), act,
                                                          keep >> j & 1, drop.scale);
                sum[j] += du;
                sum_z[j] = fmaf(du, zj - c[MEAN][i], sum_z[j]);
                if (BN)
                    sum_r[j] =
                        fmaf(gj, format<T>::load(unpack(now.r[0]).v[j]) - c[MEAN_R][i], sum_r[j]);
                else
                    sum_r[j] += gj;
            }
        }
    }
    write_partial(g, me, sum, sum_z, partial);
    write_partial(g, me, sum_r, unused, partial + (size_t)gridDim.x * 2 * (size_t)g.channels);
}

/* Backward, pass 2: dz overwrites z, and with BN dz' overwrites z'. coefficient: [3][C], with BN
 * [6][C]. */
template <typename T, int V, bool BN>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    shortcut_gradient_kernel(geometry g, affine f, activation act, dropout drop, gradient<T> in,
                             const float *coefficient, T *z, T *r)
{
    enum { OWN = BN ? 0 : AFFINE_TABLE, OTHER = OWN + COEFFICIENTS };
    constexpr int K = BN ? 2 * COEFFICIENTS : OTHER;
    typedef table<K, V> coefficients;
    constexpr int Q = coefficients::QUAD;
    __shared__ coefficients t;
    t.fill(g, [&](int c, float(&k)[K]) {
        if (!BN)
            scale_and_shift(f, g.channels, c, &k[A], &k[B]);
#pragma unroll
        for (int n = OWN; n < K; n++)
            k[n] = coefficient[(n - OWN) * g.channels + c];
    });
    const place<V> me(g);
    if (me.idle)
        return;
    turn<T, V, BN> now, next;
    spot at[1];
    if (blockIdx.x < g.chunks) {
        locate(g, me, blockIdx.x, at);
        next.load(at, in, z, r);
    }
    for (unsigned k = blockIdx.x; k < g.chunks; k += gridDim.x) {
        forget();
        now = next;
        if (k + gridDim.x < g.chunks) {
            locate(g, me, k + gridDim.x, at);
            next.load(at, in, z, r);
        }
        locate(g, me, k, at);
        const pack<T, V> ds = now.gradient_of_s(at, in);
        const unsigned keep = BN ? ~0u : kept<V>(drop, at[0]);
        pack<T, V> dz, dr;
#pragma unroll
        for (int h = 0; h < V / Q; h++) {
            float c[K][Q];
            t.read(me, h, c);
#pragma unroll
            for (int i = 0; i < Q; i++) {
                const int j = h * Q + i;
                const float zj = format<T>::load(unpack(now.z[0]).v[j]);
                const float gj = format<T>::load(ds.v[j]);
                const float du = BN ? gj
                                    : gradient_of_u<true>(gj, apply(c[A][i], zj, c[B][i]), act,
                                                          keep >> j & 1, drop.scale);
                dz.v[j] =
                    format<T>::store(fmaf(c[OWN][i], du, fmaf(c[OWN + 1][i], zj, c[OWN + 2][i])));
                if (BN)
                    dr.v[j] = format<T>::store(fmaf(
                        c[K - 3][i], gj,
                        fmaf(c[K - 2][i], format<T>::load(unpack(now.r[0]).v[j]), c[K - 1][i])));
            }
        }
        put(z, at[0], dz);
        if (BN)
            put(r, at[0], dr);
    }
}

/* ---- kernels over channels ---- */

/* Computes dz's coefficients, and the gradients of BatchNorm's parameters, from the sums of g and
 * g (z - mean), in double. */
__device__ inline void finish(const affine &f, int channels, int c, double m, double sum,
                              double sum_z, float *dgamma, float *dbeta, float *coefficient,
                              ss_scaler *scaler)
{
    const double mean = (double)f.saved[c], invstd = (double)f.saved[channels + c];
    const double scale = (double)f.gamma[c] * invstd;
    const double cz = -scale * invstd * invstd * sum_z / m;
    dbeta[c] = (float)sum;
    dgamma[c] = (float)(sum_z * invstd);
    tell(scaler, not_finite(dbeta[c]) || not_finite(dgamma[c]));
    coefficient[c] = (float)scale;
    coefficient[channels + c] = (float)cz;
    coefficient[2 * channels + c] = (float)(-scale * sum / m - cz * mean);
}

template <bool BN>
__global__ void __launch_bounds__(MERGE_CHANNELS *MERGE_LANES)
    shortcut_merge_kernel(const float *partial, int blocks, int channels, double m, affine f,
                          affine of_r, float *dgamma, float *dbeta, float *dgamma_r, float *dbeta_r,
                          float *coefficient, ss_scaler *scaler)
{
    __shared__ double sums[SUMS][MERGE_LANES][MERGE_CHANNELS];
    const int j = (int)threadIdx.x % MERGE_CHANNELS, lane = (int)threadIdx.x / MERGE_CHANNELS;
    const int c = (int)blockIdx.x * MERGE_CHANNELS + j;
    double sum[SUMS] = {};
    if (c < channels) {
        const float *p = partial + c;
        for (int k = lane; k < blocks; k += MERGE_LANES) {
            sum[0] += (double)p[(size_t)(2 * k) * (size_t)channels];
            sum[1] += (double)p[(size_t)(2 * k + 1) * (size_t)channels];
            sum[2] += (double)p[(size_t)(2 * (blocks + k)) * (size_t)channels];
        }
    }
    for (int n = 0; n < SUMS; n++)
        sums[n][lane][j] = sum[n];
    for (int half = MERGE_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half)
            for (int n = 0; n < SUMS; n++)
                sums[n][lane][j] += sums[n][lane + half][j];
    }
    if (lane != 0 || c >= channels)
        return;
    finish(f, channels, c, m, sums[0][0][j], sums[1][0][j], dgamma, dbeta, coefficient, scaler);
    if (BN) {
        finish(of_r, channels, c, m, sums[0][0][j], sums[2][0][j], dgamma_r, dbeta_r,
               coefficient + COEFFICIENTS * channels, scaler);
        return;
    }
    dbeta_r[c] = (float)sums[2][0][j];
    tell(scaler, not_finite(dbeta_r[c]));
}

/* ---- launch ---- */

geometry geometry_of(const ss_norm_act *op, ss_dtype dtype, int unroll, int most_blocks)
{
    const size_t pixels = ss_act_elements(&op->shape) / (size_t)op->shape.c;
    return geometry_make(dtype, op->shape.c, (unsigned)pixels, unroll, most_blocks);
}

size_t partial_floats(const geometry &g)
{
    return (size_t)g.blocks * 4 * (size_t)g.channels;
}

size_t scratch_bytes(const ss_norm_act *op, ss_dtype dtype)
{
    return (partial_floats(geometry_of(op, dtype, 1, GRADIENT_BLOCKS)) +
            2 * COEFFICIENTS * (size_t)op->shape.c) *
           sizeof(float);
}

/* Checks that norm_act.cu does not make. */
ss_status check(const ss_norm_act *op)
{
    const bool bn = op->shortcut == SS_SHORTCUT_BN;
    if ((!bn && op->shortcut != SS_SHORTCUT_BIAS) || !op->has_bn || !op->residual || op->pool ||
        !is_plain(op->act) || (bn && (op->act != SS_ACT_NONE || op->dropout > 0)))
        return ss_fail(SS_ERR_INVALID,
                       "normalisation: unsupported operation on a residual; it must be a bias, or "
                       "BatchNorm without activation and dropout, and not be combined with "
                       "pooling");
    return SS_OK;
}

ss_status check_pointers(const ss_norm_act *op, const float *gamma, const float *beta,
                         const float *saved, const ss_norm_shortcut *s)
{
    SS_TRY(check(op));
    const bool bn = op->shortcut == SS_SHORTCUT_BN;
    if (!gamma || !beta || !saved || (bn && (!s->r || !s->saved)))
        return ss_fail(SS_ERR_INVALID, "normalisation of a residual: parameters, statistics or the "
                                       "residual are missing");
    return SS_OK;
}

affine affine_of_residual(const ss_norm_act *op, const ss_norm_shortcut *s)
{
    return {s->gamma, s->beta, op->shortcut == SS_SHORTCUT_BN ? s->saved : nullptr};
}

template <typename T, int V>
void forward(const ss_device *gpu, const ss_norm_act *op, const affine &f,
             const ss_norm_shortcut *s, const dropout &drop, const void *z, void *y, uint8_t *mask)
{
    const geometry g = geometry_of(op, gpu->options.dtype, MAP_UNROLL, MAP_BLOCKS);
    SS_LAUNCH((shortcut_forward_kernel<T, V>), grid_of(g), THREADS, gpu->stream, g, f,
              affine_of_residual(op, s), activation_of(op), low_of(op->relu_out != 0), drop,
              (const T *)z, (const T *)s->r, (T *)y, op->relu_out ? mask : nullptr);
}

template <typename T, int V, bool BN>
ss_status backward(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad,
                   const ss_norm_shortcut *s)
{
    const ss_dtype dtype = gpu->options.dtype;
    const geometry g = geometry_of(op, dtype, 1, GRADIENT_BLOCKS);
    const affine f = {grad->gamma, grad->beta, grad->saved}, of_r = affine_of_residual(op, s);
    const dropout drop = dropout_of(op, 1, grad->dropout_key);
    float *partial = (float *)gpu->scratch.data, *coefficient = partial + partial_floats(g);
    gradient<T> in = {};
    for (int k = 0; k < grad->ndy; k++)
        in.dy[k] = (const T *)grad->dy[k];
    in.n = grad->ndy;
    in.mask = op->relu_out ? grad->workspace : nullptr;
    in.ds = !BN && (in.n > 1 || in.mask) ? (T *)grad->ds : nullptr;
    T *z = (T *)grad->dz, *r = BN ? (T *)s->r : nullptr;
    SS_LAUNCH((shortcut_gradient_sums_kernel<T, V, BN>), grid_of(g), THREADS, gpu->stream, g, f,
              of_r, activation_of(op), drop, in, z, r, partial);
    SS_LAUNCHED("backward of a normalised residual");
    SS_LAUNCH((shortcut_merge_kernel<BN>),
              dim3((unsigned)((g.channels + MERGE_CHANNELS - 1) / MERGE_CHANNELS)),
              MERGE_CHANNELS * MERGE_LANES, gpu->stream, partial, g.blocks, g.channels,
              (double)g.pixels, f, of_r, grad->dgamma, grad->dbeta, s->dgamma, s->dbeta,
              coefficient, gpu->scaler);
    SS_LAUNCHED("backward of a normalised residual");
    if (in.ds) { /* written by pass 1 */
        gradient<T> made = {};
        made.dy[0] = in.ds;
        made.n = 1;
        in = made;
    }
    const geometry map = geometry_of(op, dtype, 1, DZ_BLOCKS);
    SS_LAUNCH((shortcut_gradient_kernel<T, V, BN>), grid_of(map), THREADS, gpu->stream, map, f,
              activation_of(op), drop, in, coefficient, z, r);
    SS_LAUNCHED("backward of a normalised residual");
    return SS_OK;
}

template <typename T, int V>
ss_status backward_of(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad,
                      const ss_norm_shortcut *s)
{
    return op->shortcut == SS_SHORTCUT_BN ? backward<T, V, true>(gpu, op, grad, s)
                                          : backward<T, V, false>(gpu, op, grad, s);
}

} // namespace

extern "C" enum ss_status ss_cuda_norm_shortcut_reserve(struct ss_device *gpu,
                                                        const struct ss_norm_act *op)
{
    SS_TRY(check(op));
    return ss_cuda_reserve(gpu, scratch_bytes(op, gpu->options.dtype));
}

extern "C" enum ss_status
ss_cuda_norm_shortcut_forward(struct ss_device *gpu, const struct ss_norm_act *op, const void *z,
                              const float *gamma, const float *beta, const float *saved,
                              const struct ss_norm_shortcut *s, void *y, uint8_t *mask,
                              int training, const uint64_t *dropout_key)
{
    SS_TRY(check_pointers(op, gamma, beta, saved, s));
    const affine f = {gamma, beta, saved};
    const dropout drop = dropout_of(op, training, dropout_key);
    const bool single = geometry_of(op, gpu->options.dtype, 1, 1).vector == 1;
    SS_DISPATCH(gpu->options.dtype,
                single ? forward<T, 1>(gpu, op, f, s, drop, z, y, mask)
                       : forward<T, format<T>::vector>(gpu, op, f, s, drop, z, y, mask));
    SS_LAUNCHED("forward of a normalised residual");
    return SS_OK;
}

extern "C" enum ss_status ss_cuda_norm_shortcut_backward(struct ss_device *gpu,
                                                         const struct ss_norm_act *op,
                                                         const struct ss_norm_act_grad *g,
                                                         const struct ss_norm_shortcut *s)
{
    SS_TRY(check_pointers(op, g->gamma, g->beta, g->saved, s));
    if (gpu->scratch.bytes < scratch_bytes(op, gpu->options.dtype))
        return ss_fail(SS_ERR_INVALID,
                       "normalisation of a residual: call norm_shortcut_reserve first");
    if (op->relu_out && !g->workspace)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: the second ReLU needs its mask");
    const bool single = geometry_of(op, gpu->options.dtype, 1, 1).vector == 1;
    ss_status status;
    SS_DISPATCH(gpu->options.dtype,
                status = single ? backward_of<T, 1>(gpu, op, g, s)
                                : backward_of<T, format<T>::vector>(gpu, op, g, s));
    return status;
}
