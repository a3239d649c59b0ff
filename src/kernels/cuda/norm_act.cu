/* norm_act.cu: normalization and activation (kernels/list.h); formulas of backward:
 * cpu/norm_act.c.
 *
 * The mapping of threads to tensors is described in norm_act.cuh. A block takes every
 * gridDim.x-th chunk of rows * UNROLL pixels. Kernels that sum process chunks from last to first,
 * the others from first to last, so each finds the most recently used data in the cache.
 *
 * If z and dz, or y, dy and ds, are views of larger tensors, their pixel pitch is larger.
 *
 * A variance computed from cuDNN's sums, which are fp32 and relative to zero, has a relative
 * error of about (1 + k^2) fp32 roundings if the mean is k standard deviations: 6e-6 at k = 10.
 * The sums computed here are relative to the first pixel and have no such error. */
#include "kernels/cuda/norm_act.cuh"

namespace
{

using namespace ss;
using namespace ss::norm;

enum {
    /* as many as run simultaneously: see GRADIENT_BLOCKS */
    STATS_BLOCKS = 4 * 132,
    STATS_UNROLL = 4, /* vectors in flight per thread and tensor */
    MAP_UNROLL = 2    /* of forward */
};

/* Source of the gradient of s: the sum of n tensors, zero where the mask is zero (NULL: no mask),
 * stored to ds (NULL: not stored). */
template <typename T> struct gradient {
    const T *dy[SS_NORM_MAX_DY];
    int n;
    const uint8_t *mask;
    T *ds;
};

/* ---- shared by the kernels ---- */

/* Layout of z and y. PARTS: views of larger tensors. ADDED: as PARTS, and dz is added to its old
 * value. */
enum lie { OWN, PARTS, ADDED };

/* Distance of pixels in vectors, for PARTS. */
struct pitches {
    unsigned z, y;
};

/* A thread's vectors of a chunk: at: counted consecutively; z, y: positions in z and y. */
template <int V, int UNROLL, lie LIE> struct spots {
    spot at[UNROLL], z[UNROLL], y[UNROLL];
    __device__ inline void find(const geometry &g, const pitches &p, const place<V> &me,
                                unsigned chunk)
    {
        locate(g, me, chunk, at);
        locate(g, me, chunk, LIE == OWN ? g.width : p.z, z);
        locate(g, me, chunk, LIE == OWN ? g.width : p.y, y);
    }
};

/* Blocks of pass 1 per multiprocessor. */
template <bool PLAIN, bool SUM> constexpr int SUM_RESIDENT = PLAIN &&SUM ? 4 : RESIDENT;

/* A backward thread's data of a chunk: two vectors of z and of dy, 64 bytes. The loads of the
 * next iteration are in flight during the current one: 3 * 256 threads * 64 bytes = 49 KB per
 * multiprocessor. SUM: with several gradients or a second ReLU, one vector per tensor, of z,
 * dy[0] and dy[1], and a byte of the mask: 4 * 256 * 49 bytes = 50 KB. The same holds for
 * activations that need many registers (25 KB, but compute-bound), and for vectors of one
 * element. ADDED also has one vector of dz: 3 * 256 * 48 bytes = 37 KB. */
template <typename T, int V, bool SUM, lie LIE> struct turn {
    static constexpr int UNROLL = SUM || LIE == ADDED ? 1 : 2;
    typedef spots<V, UNROLL, LIE> places;
    words<T, V> z[UNROLL], dy[UNROLL], other[UNROLL], there[UNROLL];
    uint8_t mask[UNROLL];

    __device__ inline void load(const places &at, const gradient<T> &in, const T *from, const T *dz)
    {
        fetch(from, at.z, z);
        fetch(in.dy[0], at.y, dy);
        if (SUM && in.n > 1)
            fetch(in.dy[1], at.y, other);
        if (LIE == ADDED)
            fetch(dz, at.z, there);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            mask[u] = SUM && in.mask ? in.mask[at.at[u].at] : 255;
    }
    /* Makes dy the gradient of s as stored, which pass 2 and other kernels read. More than two
     * gradients are rare. */
    __device__ inline void add(const places &at, const gradient<T> &in)
    {
#pragma unroll
        for (int u = 0; SUM && in.ds && u < UNROLL; u++) {
            pack<T, V> g = unpack(dy[u]);
            float sum[V];
#pragma unroll
            for (int j = 0; j < V; j++) {
                sum[j] = format<T>::load(g.v[j]);
                if (in.n > 1)
                    sum[j] += format<T>::load(unpack(other[u]).v[j]);
            }
#pragma unroll
            for (int k = 2; k < SS_NORM_MAX_DY; k++)
                if (k < in.n) {
                    const pack<T, V> x = reinterpret_cast<const pack<T, V> *>(in.dy[k])[at.y[u].at];
#pragma unroll
                    for (int j = 0; j < V; j++)
                        sum[j] += format<T>::load(x.v[j]);
                }
#pragma unroll
            for (int j = 0; j < V; j++) {
                sum[j] *= mask[u] >> j & 1 ? 1.0f : 0.0f;
                g.v[j] = format<T>::store(sum[j]);
            }
            put(in.ds, at.y[u], g);
            dy[u] = waiting(g);
        }
    }
};

/* ---- kernels over pixels ---- */

/* Computes mean and 1 / deviation from the sums of z - shift and of its square. If sums is not
 * NULL, computes only the sums of z and of its square, for an all-reduce. */
struct stats_end {
    double m; /* pixels */
    float eps, momentum;
    float *saved, *running;
    double *sums; /* (2,C) */
    __device__ inline void operator()(int channels, int c, double shift,
                                      const double (&total)[2]) const
    {
        if (sums) {
            sums[c] = m * shift + total[0];
            sums[channels + c] = total[1] + shift * (2 * total[0] + m * shift);
            return;
        }
        const double d = total[0] / m, mean = shift + d;
        double var = total[1] / m - d * d;
        if (var < 0)
            var = 0;
        saved[c] = (float)mean;
        saved[channels + c] = (float)(1 / sqrt(var + (double)eps));
        if (running) {
            const double k = (double)momentum;
            running[c] = (float)((1 - k) * (double)running[c] + k * mean);
            running[channels + c] =
                (float)((1 - k) * (double)running[channels + c] + k * var * (m / (m - 1)));
        }
    }
};

/* Computes the sums of z - shift and of its square, where shift is the first pixel. This avoids
 * cancellation in the variance if the mean is large. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS, 4)
    stats_kernel(geometry g, const T *z, merging m, stats_end end)
{
    const place<V> me(g);
    float shift[V], s[V], q[V];
#pragma unroll
    for (int j = 0; j < V; j++)
        shift[j] = s[j] = q[j] = 0;
    if (!me.idle)
        load<T, V>(z + me.channel, shift);
    for (unsigned k = me.idle ? g.chunks : blockIdx.x; k < g.chunks; k += gridDim.x) {
        spot at[STATS_UNROLL];
        pack<T, V> x[STATS_UNROLL];
        locate(g, me, g.chunks - 1 - k, at);
        fetch(z, at, x);
#pragma unroll
        for (int u = 0; u < STATS_UNROLL; u++)
            if (at[u].live)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const float d = format<T>::load(x[u].v[j]) - shift[j];
                    s[j] += d;
                    q[j] = fmaf(d, d, q[j]);
                }
    }
    write_partial(g, me, s, q, m.partial);
    merge<V>(g, m, [&](int c, const double(&total)[2]) {
        end(g.channels, c, (double)format<T>::load(z[c]), total);
    });
}

/* z, r and y may be the same tensor: each element is read and written by one thread. */
template <typename T, int V, bool PLAIN, lie LIE>
__global__ void __launch_bounds__(THREADS, (FORWARD_RESIDENT<T>))
    forward_kernel(geometry g, pitches p, affine f, activation act, float low_out, dropout drop,
                   const T *z, const T *r, T *y, uint8_t *mask)
{
    const place<V> me(g);
    float a[V], b[V];
    affine_of_tile(g, me, f, a, b);
    if (me.idle)
        return;
    for (unsigned k = blockIdx.x; k < g.chunks; k += gridDim.x) {
        spots<V, MAP_UNROLL, LIE> at;
        pack<T, V> x[MAP_UNROLL], other[MAP_UNROLL];
        at.find(g, p, me, k);
        fetch(z, at.z, x);
        if (r)
            fetch(r, at.at, other);
#pragma unroll
        for (int u = 0; u < MAP_UNROLL; u++) {
            const unsigned keep = kept<V>(drop, at.at[u]);
            unsigned bits = 0;
            pack<T, V> out;
#pragma unroll
            for (int j = 0; j < V; j++) {
                float v = act_with_dropout<PLAIN>(a[j], x[u].v[j], b[j], act, keep >> j & 1);
                v = r ? fmaf(v, drop.scale, format<T>::load(other[u].v[j])) : v * drop.scale;
                out.v[j] = format<T>::store(v < low_out ? low_out : v);
                bits |= !(format<T>::load(out.v[j]) <= 0) << j;
            }
            put(y, at.y[u], out);
            if (mask && at.at[u].live)
                mask[at.at[u].at] = (uint8_t)bits;
        }
    }
}

/* Backward, pass 1: the gradient of s, and the sums of g and g (z - mean), where g is the
 * gradient of u. */
template <typename T, int V, bool PLAIN, bool SUM, lie LIE>
__global__ void __launch_bounds__(THREADS, (SUM_RESIDENT<PLAIN, SUM>))
    gradient_sums_kernel(geometry g, pitches p, affine f, activation act, dropout drop,
                         gradient<T> in, const T *z, merging m, gradient_end end)
{
    typedef table<SUM_TABLE, V> coefficients;
    constexpr int Q = coefficients::QUAD;
    __shared__ coefficients t;
    fill_sums(t, g, f);
    const place<V> me(g);
    float s[V] = {}, q[V] = {};
    turn<T, V, SUM, LIE> now, next;
    typename turn<T, V, SUM, LIE>::places at;
    unsigned k = me.idle ? g.chunks : blockIdx.x;
    if (k < g.chunks) {
        at.find(g, p, me, g.chunks - 1 - k);
        next.load(at, in, z, nullptr);
    }
    for (; k < g.chunks; k += gridDim.x) {
        forget();
        now = next;
        if (k + gridDim.x < g.chunks) {
            at.find(g, p, me, g.chunks - 1 - k - gridDim.x);
            next.load(at, in, z, nullptr);
        }
        at.find(g, p, me, g.chunks - 1 - k);
        now.add(at, in);
        unsigned keep[now.UNROLL];
#pragma unroll
        for (int u = 0; u < now.UNROLL; u++)
            keep[u] = kept<V>(drop, at.at[u]);
#pragma unroll
        for (int h = 0; h < V / Q; h++) {
            float c[SUM_TABLE][Q];
            t.read(me, h, c);
#pragma unroll
            for (int u = 0; u < now.UNROLL; u++) {
                if (!at.at[u].live)
                    continue;
#pragma unroll
                for (int i = 0; i < Q; i++) {
                    const int j = h * Q + i;
                    const float zj = format<T>::load(unpack(now.z[u]).v[j]);
                    const float du = gradient_of_u<PLAIN>(format<T>::load(unpack(now.dy[u]).v[j]),
                                                          apply(c[A][i], zj, c[B][i]), act,
                                                          keep[u] >> j & 1, drop.scale);
                    s[j] += du;
                    q[j] = fmaf(du, zj - c[MEAN][i], q[j]);
                }
            }
        }
    }
    write_partial(g, me, s, q, m.partial);
    merge<V>(g, m, [&](int c, const double(&total)[2]) { end(f, g.channels, c, total); });
}

/* Backward, pass 2: dz, which may overwrite z. An added dz is rounded first, as a tensor would
 * be. */
template <typename T, int V, bool PLAIN, bool SUM, lie LIE>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    gradient_kernel(geometry g, pitches p, affine f, activation act, dropout drop, gradient<T> in,
                    const float *coefficient, const T *z, T *to)
{
    typedef table<DZ_TABLE, V> coefficients;
    constexpr int Q = coefficients::QUAD;
    __shared__ coefficients t;
    fill_dz(t, g, f, coefficient);
    const place<V> me(g);
    if (me.idle)
        return;
    turn<T, V, SUM, LIE> now, next;
    typename turn<T, V, SUM, LIE>::places at;
    if (blockIdx.x < g.chunks) {
        at.find(g, p, me, blockIdx.x);
        next.load(at, in, z, to);
    }
    for (unsigned k = blockIdx.x; k < g.chunks; k += gridDim.x) {
        forget();
        now = next;
        if (k + gridDim.x < g.chunks) {
            at.find(g, p, me, k + gridDim.x);
            next.load(at, in, z, to);
        }
        at.find(g, p, me, k);
        now.add(at, in);
        unsigned keep[now.UNROLL];
        pack<T, V> dz[now.UNROLL];
#pragma unroll
        for (int u = 0; u < now.UNROLL; u++)
            keep[u] = kept<V>(drop, at.at[u]);
#pragma unroll
        for (int h = 0; h < V / Q; h++) {
            float c[DZ_TABLE][Q];
            t.read(me, h, c);
#pragma unroll
            for (int u = 0; u < now.UNROLL; u++)
#pragma unroll
                for (int i = 0; i < Q; i++) {
                    const int j = h * Q + i;
                    const float zj = format<T>::load(unpack(now.z[u]).v[j]);
                    const float du = gradient_of_u<PLAIN>(format<T>::load(unpack(now.dy[u]).v[j]),
                                                          apply(c[A][i], zj, c[B][i]), act,
                                                          keep[u] >> j & 1, drop.scale);
                    dz[u].v[j] = format<T>::store(fmaf(c[CG][i], du, fmaf(c[CZ][i], zj, c[C0][i])));
                    if (LIE == ADDED)
                        dz[u].v[j] = format<T>::store(format<T>::load(unpack(now.there[u]).v[j]) +
                                                      format<T>::load(dz[u].v[j]));
                }
        }
#pragma unroll
        for (int u = 0; u < now.UNROLL; u++)
            put(to, at.z[u], dz[u]);
    }
}

/* ---- kernels over channels ---- */

/* Computes statistics from the sums of z and of its square. sums: over ranks; NULL: cuDNN's,
 * which are at end.saved. */
__global__ void __launch_bounds__(THREADS)
    stats_of_sums_kernel(int channels, const double *sums, stats_end end)
{
    const int c = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (c >= channels)
        return;
    const double total[2] = {sums ? sums[c] : (double)end.saved[c],
                             sums ? sums[channels + c] : (double)end.saved[channels + c]};
    end(channels, c, 0, total);
}

/* Ends pass 1 from sums: the first two are over all ranks, the others of this rank. */
__global__ void __launch_bounds__(THREADS)
    gradient_of_sums_kernel(int channels, affine f, const double *sums, gradient_end end)
{
    const int c = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (c >= channels)
        return;
    const double total[2] = {sums[c], sums[channels + c]};
    const double own[2] = {sums[2 * channels + c], sums[3 * channels + c]};
    end.parameters(f, channels, c, own);
    end.coefficients(f, channels, c, total);
}

__global__ void __launch_bounds__(THREADS)
    stats_eval_kernel(int channels, float eps, const float *running, float *saved)
{
    const int c = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (c >= channels)
        return;
    saved[c] = running[c];
    saved[channels + c] = (float)(1 / sqrt((double)running[channels + c] + (double)eps));
}

/* ---- launch ---- */

bool is_part(const ss_norm_act *op)
{
    return op->z_pitch || op->y_pitch;
}

/* g: the geometry of op. */
pitches pitches_of(const ss_norm_act *op, const geometry &g)
{
    const int z = op->z_pitch, y = op->y_pitch;
    return {z ? (unsigned)(z / g.vector) : g.width, y ? (unsigned)(y / g.vector) : g.width};
}

geometry geometry_of(const ss_norm_act *op, ss_dtype dtype, int unroll, int most_blocks)
{
    const size_t elements = ss_act_elements(&op->shape);
    const int vector = vector_of(dtype);
    /* Without BN all channels are alike: the vector need not divide C, only the size of the
     * tensor. */
    const int channels =
        op->has_bn || is_part(op) || elements % (size_t)vector ? op->shape.c : vector;
    return geometry_make(dtype, channels, (unsigned)(elements / (size_t)channels), unroll,
                         most_blocks);
}

/* Geometry of a backward kernel; one: `turn` has one vector per tensor. */
geometry gradient_geometry(const ss_norm_act *op, ss_dtype dtype, bool one, int most_blocks)
{
    return geometry_of(op, dtype, one ? 1 : 2, most_blocks);
}
/* Blocks of the summing kernel with the largest grid. */
int most_blocks(const ss_norm_act *op, ss_dtype dtype)
{
    const int stats = geometry_of(op, dtype, STATS_UNROLL, STATS_BLOCKS).blocks;
    const int gradient =
        op->pool ? pool_gradient_blocks(op, dtype)
                 : gradient_geometry(op, dtype, true, SUM_RESIDENT<true, true> * 132).blocks;
    return stats > gradient ? stats : gradient;
}
size_t most_shares(const ss_norm_act *op, ss_dtype dtype)
{
    return ((size_t)most_blocks(op, dtype) + SHARE - 1) / SHARE;
}

/* Scratch: shares, partial, coefficients. */
size_t scratch_bytes(const ss_norm_act *op, ss_dtype dtype)
{
    const size_t row = 2 * (size_t)op->shape.c;
    if (!op->has_bn)
        return 0;
    return most_shares(op, dtype) * row * sizeof(double) +
           ((size_t)most_blocks(op, dtype) * row + COEFFICIENTS * (size_t)op->shape.c) *
               sizeof(float);
}
size_t counters(const ss_norm_act *op, ss_dtype dtype)
{
    return op->has_bn ? (size_t)geometry_of(op, dtype, 1, 1).tiles * (most_shares(op, dtype) + 1)
                      : 0;
}
merging merging_of(const ss_device *gpu, const ss_norm_act *op, float **coefficient)
{
    const ss_dtype dtype = gpu->options.dtype;
    const size_t row = 2 * (size_t)op->shape.c;
    merging m;
    m.shares = (double *)gpu->scratch.data;
    m.partial = (float *)(m.shares + most_shares(op, dtype) * row);
    m.done = gpu->done;
    if (coefficient)
        *coefficient = m.partial + (size_t)most_blocks(op, dtype) * row;
    return m;
}

/* Views are read and written 16 bytes at a time. */
ss_status check_parts(const ss_norm_act *op, int vector)
{
    const ss_act *s = &op->shape;
    const int z = op->z_pitch, y = op->y_pitch, most = z > y ? z : y;
    if (!is_part(op))
        return SS_OK;
    if (s->c % vector || z % vector || y % vector || (z && z < s->c) || (y && y < s->c))
        return ss_fail(SS_ERR_SHAPE,
                       "normalisation: %d channels as a view of %d and %d; views have at most as "
                       "many, all of them multiples of %d",
                       s->c, z, y, vector);
    if ((size_t)s->n * (size_t)s->h * (size_t)s->w * (size_t)most >> 31)
        return ss_fail(SS_ERR_SHAPE,
                       "normalisation: a view of (%d,%d,%d,%d), which has 2^31 "
                       "elements or more",
                       s->n, most, s->h, s->w);
    if (op->pool || op->shortcut || (y && op->residual))
        return ss_fail(SS_ERR_INVALID, "normalisation: views of tensors are not supported with "
                                       "pooling, a shortcut or a residual");
    return SS_OK;
}

ss_status check(const ss_norm_act *op, ss_dtype dtype)
{
    const ss_act *s = &op->shape;
    if (s->n < 1 || s->c < 1 || s->h < 1 || s->w < 1 || s->block != s->c)
        return ss_fail(SS_ERR_SHAPE,
                       "normalisation: shape (%d,%d,%d,%d) in blocks of %d; every size must be at "
                       "least 1, and a block all channels",
                       s->n, s->c, s->h, s->w, s->block);
    if (ss_act_elements(s) >> 31)
        return ss_fail(SS_ERR_SHAPE, "normalisation: shape (%d,%d,%d,%d) has 2^31 elements or more",
                       s->n, s->c, s->h, s->w);
    if (op->pool < 0 || op->pool > MOST_POOL || op->pool > s->h || op->pool > s->w)
        return ss_fail(SS_ERR_SHAPE,
                       "normalisation: pooling of %dx%d pixels in windows of %dx%d; they must fit, "
                       "and be at most %dx%d",
                       s->h, s->w, op->pool, op->pool, (int)MOST_POOL, (int)MOST_POOL);
    SS_TRY(check_parts(op, vector_of(dtype)));
    if (op->act >= SS_ACT_COUNT)
        return ss_fail(SS_ERR_INVALID, "normalisation: no activation %d", (int)op->act);
    if (!(op->dropout >= 0 && op->dropout < 1))
        return ss_fail(SS_ERR_INVALID, "dropout %g; it must be at least 0 and below 1",
                       (double)op->dropout);
    if (op->has_bn && !(op->eps >= 0))
        return ss_fail(SS_ERR_INVALID, "BatchNorm: eps %g; it must not be negative",
                       (double)op->eps);
    return SS_OK;
}

ss_status prepare(const ss_device *gpu, const ss_norm_act *op)
{
    SS_TRY(check(op, gpu->options.dtype));
    const size_t bytes = scratch_bytes(op, gpu->options.dtype);
    if (gpu->scratch.bytes < bytes || gpu->ndone < counters(op, gpu->options.dtype))
        return ss_fail(SS_ERR_INVALID,
                       "normalisation: %zu bytes of scratch are reserved, %zu are needed; call "
                       "ss_cuda_norm_act_reserve() first",
                       gpu->scratch.bytes, bytes);
    return SS_OK;
}

dim3 grid_of_channels(int channels)
{
    return dim3((unsigned)((channels + THREADS - 1) / THREADS));
}

/* z NULL: uses the sums at saved. sums: computes those and no statistics. */
template <typename T>
ss_status stats(const ss_device *gpu, const ss_norm_act *op, const T *z, float *saved,
                float *running, double *sums)
{
    geometry g = geometry_of(op, gpu->options.dtype, STATS_UNROLL, STATS_BLOCKS);
    g.width = pitches_of(op, g).z;
    const stats_end end = {(double)g.pixels, op->eps, op->momentum, saved, running, sums};
    const auto kernel = g.vector == 1 ? stats_kernel<T, 1> : stats_kernel<T, format<T>::vector>;
    if (z)
        SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, z, merging_of(gpu, op, nullptr),
                  end);
    else
        SS_LAUNCH(stats_of_sums_kernel, grid_of_channels(g.channels), THREADS, gpu->stream,
                  g.channels, nullptr, end);
    SS_LAUNCHED("BatchNorm statistics");
    return SS_OK;
}

template <typename T, int V>
void launch_forward(const ss_device *gpu, const geometry &g, const ss_norm_act *op, const affine &f,
                    const dropout &drop, const T *z, const T *r, T *y, uint8_t *mask)
{
    constexpr lie PART = V > 1 ? PARTS : OWN;
    const auto kernel = is_part(op)         ? is_plain(op->act) ? forward_kernel<T, V, true, PART>
                                                                : forward_kernel<T, V, false, PART>
                                : is_plain(op->act) ? forward_kernel<T, V, true, OWN>
                                            : forward_kernel<T, V, false, OWN>;
    SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, pitches_of(op, g), f, activation_of(op),
              low_of(op->relu_out != 0), drop, z, r, y, op->relu_out ? mask : nullptr);
}

template <typename T>
ss_status forward(const ss_device *gpu, const ss_norm_act *op, const affine &f, const dropout &drop,
                  const T *z, const T *r, T *y, uint8_t *mask)
{
    const geometry g = geometry_of(op, gpu->options.dtype, MAP_UNROLL, MAP_BLOCKS);
    if (g.vector == 1)
        launch_forward<T, 1>(gpu, g, op, f, drop, z, r, y, mask);
    else
        launch_forward<T, format<T>::vector>(gpu, g, op, f, drop, z, r, y, mask);
    SS_LAUNCHED("normalisation forward");
    return SS_OK;
}

gradient_end gradient_end_of(const ss_device *gpu, const ss_norm_act *op,
                             const ss_norm_act_grad *grad, float *coefficient)
{
    return {ss_norm_values(op), grad->dgamma, grad->dbeta, coefficient, gpu->scaler, nullptr};
}

affine affine_of(const ss_norm_act *op, const ss_norm_act_grad *grad)
{
    return {grad->gamma, grad->beta, op->has_bn ? grad->saved : nullptr};
}

/* Pass 1. */
template <typename T, int V, bool PLAIN, bool SUM>
ss_status sums_as(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad,
                  const gradient<T> &in, const gradient_end &end)
{
    constexpr lie PART = V > 1 ? PARTS : OWN;
    const geometry g =
        gradient_geometry(op, gpu->options.dtype, SUM, SUM_RESIDENT<PLAIN, SUM> * 132);
    const auto kernel = is_part(op) ? gradient_sums_kernel<T, V, PLAIN, SUM, PART>
                                    : gradient_sums_kernel<T, V, PLAIN, SUM, OWN>;
    SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, pitches_of(op, g), affine_of(op, grad),
              activation_of(op), dropout_of(op, 1, grad->dropout_key), in, (const T *)grad->z,
              merging_of(gpu, op, nullptr), end);
    SS_LAUNCHED("BatchNorm backward");
    return SS_OK;
}

/* Pass 2. */
template <typename T, int V, bool PLAIN, bool SUM>
ss_status dz_as(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad,
                const gradient<T> &in, const float *coefficient)
{
    constexpr lie PART = V > 1 ? PARTS : OWN, MORE = V > 1 ? ADDED : OWN;
    const geometry g = gradient_geometry(op, gpu->options.dtype, SUM || grad->adds, DZ_BLOCKS);
    const auto kernel = grad->adds    ? gradient_kernel<T, V, PLAIN, SUM, MORE>
                        : is_part(op) ? gradient_kernel<T, V, PLAIN, SUM, PART>
                                      : gradient_kernel<T, V, PLAIN, SUM, OWN>;
    SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, pitches_of(op, g), affine_of(op, grad),
              activation_of(op), dropout_of(op, 1, grad->dropout_key), in, coefficient,
              (const T *)grad->z, (T *)grad->dz);
    SS_LAUNCHED("normalisation backward");
    return SS_OK;
}

template <typename T, int V, bool PLAIN, bool SUM>
ss_status backward_as(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad,
                      gradient<T> in)
{
    float *coefficient = nullptr;
    if (!op->has_bn)
        return dz_as<T, V, PLAIN, SUM>(gpu, op, grad, in, nullptr);
    merging_of(gpu, op, &coefficient);
    SS_TRY((
        sums_as<T, V, PLAIN, SUM>(gpu, op, grad, in, gradient_end_of(gpu, op, grad, coefficient))));
    if (in.ds) /* written by pass 1 */
        in = {{in.ds}, 1, nullptr, nullptr};
    /* The sum made by pass 1 is a single gradient: two vectors of it at a time. */
    constexpr bool MADE = SUM && !(PLAIN && V > 1);
    return dz_as<T, V, PLAIN, MADE>(gpu, op, grad, in, coefficient);
}

template <typename T> gradient<T> gradient_of(const ss_norm_act *op, const ss_norm_act_grad *grad)
{
    gradient<T> in = {};
    for (int k = 0; k < grad->ndy; k++)
        in.dy[k] = (const T *)grad->dy[k];
    in.n = grad->ndy;
    in.mask = op->relu_out ? grad->workspace : nullptr;
    in.ds = grad->ndy > 1 || op->relu_out ? (T *)grad->ds : nullptr;
    return in;
}

/* Selects the instance of a template for these tensors. */
#define SS_OF_GRADIENT(what)                                                                       \
    (geometry_of(op, gpu->options.dtype, 1, 1).vector == 1                                         \
         ? is_plain(op->act) ? what<T, 1, true, true> : what<T, 1, false, true>                    \
     : !is_plain(op->act) ? what<T, format<T>::vector, false, true>                                \
     : in.ds              ? what<T, format<T>::vector, true, true>                                 \
                          : what<T, format<T>::vector, true, false>)

template <typename T>
ss_status backward(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad)
{
    const gradient<T> in = gradient_of<T>(op, grad);
    return SS_OF_GRADIENT(backward_as)(gpu, op, grad, in);
}

template <typename T>
ss_status backward_sums(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad,
                        double *sums)
{
    const gradient<T> in = gradient_of<T>(op, grad);
    gradient_end end = gradient_end_of(gpu, op, grad, nullptr);
    end.sums = sums;
    return SS_OF_GRADIENT(sums_as)(gpu, op, grad, in, end);
}

template <typename T>
ss_status backward_apply(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad,
                         const double *sums)
{
    const gradient<T> in = {{(const T *)grad->ds}, 1, nullptr, nullptr};
    float *coefficient;
    merging_of(gpu, op, &coefficient);
    SS_LAUNCH(gradient_of_sums_kernel, grid_of_channels(op->shape.c), THREADS, gpu->stream,
              op->shape.c, affine_of(op, grad), sums, gradient_end_of(gpu, op, grad, coefficient));
    SS_LAUNCHED("BatchNorm backward");
    return SS_OF_GRADIENT(dz_as)(gpu, op, grad, in, coefficient);
}

ss_status backward_pooled(const ss_device *gpu, const ss_norm_act *op, const ss_norm_act_grad *grad)
{
    const affine f = affine_of(op, grad);
    const dropout drop = dropout_of(op, 1, grad->dropout_key);
    float *coefficient = nullptr;
    if (op->has_bn) {
        const merging m = merging_of(gpu, op, &coefficient);
        SS_TRY(pool_gradient_sums(gpu, op, f, drop, grad, m,
                                  gradient_end_of(gpu, op, grad, coefficient)));
    }
    return pool_gradient(gpu, op, f, drop, grad, coefficient);
}

/* Checks ds, which only some layers need or have. */
ss_status check_ds(const ss_norm_act *op, const ss_norm_act_grad *g)
{
    if (op->pool) {
        for (int k = 0; k < g->ndy; k++)
            if (g->ds && g->ds == g->dy[k])
                return ss_fail(SS_ERR_INVALID,
                               "normalisation backward: ds is larger than dy[%d], "
                               "which is pooled; they must differ",
                               k);
        return SS_OK;
    }
    if (g->ndy == 1 && !op->relu_out ? g->ds != g->dy[0] : !g->ds)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: ds must be %s here",
                       g->ds ? "dy[0]" : "given");
    return SS_OK;
}

ss_status check_backward(const ss_norm_act *op, const ss_norm_act_grad *g)
{
    if (g->ndy < 1 || g->ndy > SS_NORM_MAX_DY)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: %d gradients; 1 to %d can be added",
                       g->ndy, (int)SS_NORM_MAX_DY);
    SS_TRY(check_ds(op, g));
    if (op->pool && g->dz != g->z)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: with pooling dz must be z");
    if (op->pool && !g->workspace)
        return ss_fail(SS_ERR_INVALID,
                       "normalisation backward: pooling needs the workspace (argmax)");
    if (op->relu_out && !(op->pool ? g->y : g->workspace))
        return ss_fail(SS_ERR_INVALID, "normalisation backward: the second ReLU needs its %s",
                       op->pool ? "output" : "mask");
    return SS_OK;
}

/* sums: only pass 1 runs, of BN. */
ss_status check_parameters(const ss_norm_act *op, const ss_norm_act_grad *g, const double *sums)
{
    if (g->adds && (g->dz == g->z || !is_part(op)))
        return ss_fail(SS_ERR_INVALID,
                       "normalisation backward: dz can be added only if it is a view of a tensor");
    if (op->has_bn && (!g->gamma || !g->beta || !g->saved || (!sums && (!g->dgamma || !g->dbeta))))
        return ss_fail(SS_ERR_INVALID, "BatchNorm backward: gamma, beta, statistics, dgamma and "
                                       "dbeta are all needed");
    return SS_OK;
}

/* Checks the operands of the two halves: they require BN, and support neither pooling nor a
 * shortcut. */
ss_status check_half(const ss_norm_act *op, const double *sums)
{
    if (!op->has_bn || op->pool || op->shortcut || !sums)
        return ss_fail(SS_ERR_INVALID, "statistics over ranks: BatchNorm and sums are needed, and "
                                       "neither pooling nor a shortcut");
    return SS_OK;
}

} // namespace

extern "C" enum ss_status ss_cuda_norm_act_reserve(struct ss_device *gpu,
                                                   const struct ss_norm_act *op)
{
    SS_TRY(check(op, gpu->options.dtype));
    SS_TRY(ss_cuda_reserve_done(gpu, counters(op, gpu->options.dtype)));
    return ss_cuda_reserve(gpu, scratch_bytes(op, gpu->options.dtype));
}

extern "C" enum ss_status ss_cuda_norm_act_stats(struct ss_device *gpu,
                                                 const struct ss_norm_act *op, const void *z,
                                                 float *saved, float *running)
{
    SS_TRY(prepare(gpu, op));
    if ((double)op->shape.n * op->shape.h * op->shape.w < 2)
        return ss_fail(SS_ERR_SHAPE,
                       "BatchNorm: one value per channel has no variance; use a larger batch");
    ss_status status;
    SS_DISPATCH(gpu->options.dtype,
                status = stats<T>(gpu, op, (const T *)z, saved, running, nullptr));
    return status;
}

extern "C" enum ss_status ss_cuda_norm_act_sums(struct ss_device *gpu, const struct ss_norm_act *op,
                                                const void *z, double *sums)
{
    SS_TRY(prepare(gpu, op));
    SS_TRY(check_half(op, sums));
    ss_status status;
    SS_DISPATCH(gpu->options.dtype,
                status = stats<T>(gpu, op, (const T *)z, nullptr, nullptr, sums));
    return status;
}

extern "C" enum ss_status ss_cuda_norm_act_stats_of_sums(struct ss_device *gpu,
                                                         const struct ss_norm_act *op,
                                                         const double *sums, float *saved,
                                                         float *running)
{
    SS_TRY(check(op, gpu->options.dtype));
    SS_TRY(check_half(op, sums));
    const stats_end end = {ss_norm_values(op), op->eps, op->momentum, saved, running, nullptr};
    SS_LAUNCH(stats_of_sums_kernel, grid_of_channels(op->shape.c), THREADS, gpu->stream,
              op->shape.c, sums, end);
    SS_LAUNCHED("BatchNorm statistics");
    return SS_OK;
}

extern "C" enum ss_status ss_cuda_norm_act_stats_eval(struct ss_device *gpu,
                                                      const struct ss_norm_act *op,
                                                      const float *running, float *saved)
{
    SS_TRY(check(op, gpu->options.dtype));
    const int channels = op->shape.c;
    SS_LAUNCH(stats_eval_kernel, grid_of_channels(channels), THREADS, gpu->stream, channels,
              op->eps, running, saved);
    SS_LAUNCHED("BatchNorm statistics");
    return SS_OK;
}

extern "C" enum ss_status
ss_cuda_norm_act_forward(struct ss_device *gpu, const struct ss_norm_act *op, const void *z,
                         const float *gamma, const float *beta, const float *saved, const void *r,
                         void *y, uint8_t *workspace, int training, const uint64_t *dropout_key)
{
    SS_TRY(prepare(gpu, op));
    if (op->pool && (y == z || y == r))
        return ss_fail(SS_ERR_INVALID,
                       "normalisation forward: with pooling, y must be a tensor of its own");
    if (op->residual != (r != NULL))
        return ss_fail(SS_ERR_INVALID,
                       "normalisation forward: residual input %s, but the layer has %s",
                       r ? "given" : "missing", op->residual ? "one" : "none");
    if (op->has_bn && (!gamma || !beta || !saved))
        return ss_fail(SS_ERR_INVALID,
                       "BatchNorm forward: gamma, beta and statistics are all needed");
    const affine f = {gamma, beta, op->has_bn ? saved : nullptr};
    const dropout drop = dropout_of(op, training, dropout_key);
    if (op->pool)
        return pool_forward(gpu, op, f, drop, z, r, y, workspace);
    ss_status status;
    SS_DISPATCH(gpu->options.dtype, status = forward<T>(gpu, op, f, drop, (const T *)z,
                                                        (const T *)r, (T *)y, workspace));
    return status;
}

extern "C" enum ss_status ss_cuda_norm_act_backward(struct ss_device *gpu,
                                                    const struct ss_norm_act *op,
                                                    const struct ss_norm_act_grad *g)
{
    SS_TRY(prepare(gpu, op));
    SS_TRY(check_backward(op, g));
    SS_TRY(check_parameters(op, g, NULL));
    if (op->pool)
        return backward_pooled(gpu, op, g);
    ss_status status;
    SS_DISPATCH(gpu->options.dtype, status = backward<T>(gpu, op, g));
    return status;
}

extern "C" enum ss_status ss_cuda_norm_act_backward_sums(struct ss_device *gpu,
                                                         const struct ss_norm_act *op,
                                                         const struct ss_norm_act_grad *g,
                                                         double *sums)
{
    SS_TRY(prepare(gpu, op));
    SS_TRY(check_half(op, sums));
    SS_TRY(check_backward(op, g));
    SS_TRY(check_parameters(op, g, sums));
    ss_status status;
    SS_DISPATCH(gpu->options.dtype, status = backward_sums<T>(gpu, op, g, sums));
    return status;
}

extern "C" enum ss_status ss_cuda_norm_act_backward_apply(struct ss_device *gpu,
                                                          const struct ss_norm_act *op,
                                                          const struct ss_norm_act_grad *g,
                                                          const double *sums)
{
    SS_TRY(prepare(gpu, op));
    SS_TRY(check_half(op, sums));
    SS_TRY(check_parameters(op, g, NULL));
    if (!g->ds)
        return ss_fail(SS_ERR_INVALID, "BatchNorm backward: its second half needs ds");
    ss_status status;
    SS_DISPATCH(gpu->options.dtype, status = backward_apply<T>(gpu, op, g, sums));
    return status;
}
