/* norm_act_cuda.cu: see norm_act_cuda.h; the formulas of backward are in norm_act_cpu.c.
 *
 * A tensor is [pixels][channels], pixels = N H W. A thread works on V neighbouring channels (16
 * bytes; one channel where C does not divide) and keeps these channels for all its pixels, so that
 * coefficients and sums stay in registers. A block is `rows` pixels times a tile of channels; it
 * takes every gridDim.x-th chunk of rows * UNROLL pixels. Kernels that sum walk from the last chunk
 * to the first, the others from first to last: each finds in the cache what was touched last.
 *
 * Sums of a block go to `partial`, [blocks][2][C] fp32, and a small kernel adds those in double in
 * a fixed order. The number of blocks follows from the shape alone: so do the bits. */
#include <math.h>

#include "codelets/kernels/launch.cuh"
extern "C" {
#include "codelets/kernels/dropout.h"
#include "codelets/kernels/norm_act_cuda.h"
}

namespace
{

using namespace ss;

enum {
    THREADS = 256,
    MAX_TILE = 32, /* vectors; whole lines of memory, and sums that fit in shared memory */
    /* For each of an H200's 132 multiprocessors as many as its registers hold at once, so that all
     * of a kernel that sums runs at once; more where the load balances itself. */
    STATS_BLOCKS = 4 * 132,
    GRADIENT_BLOCKS = 2 * 132,
    MAP_BLOCKS = 8 * 132,
    STATS_UNROLL = 4, /* vectors of a thread under way at once, in each tensor */
    MAP_UNROLL = 2,
    MERGE_CHANNELS = 8, /* of a block that adds partial sums: one sector of memory */
    MERGE_LANES = 64,
    COEFFICIENTS = 3 /* cg, cz, c0: dz = cg g + cz z + c0 */
};

struct geometry {
    unsigned pixels, chunks;
    unsigned width; /* of a pixel, in vectors */
    int channels, vector;
    int tile, rows; /* of a block: vectors, pixels */
    int tiles, blocks;
};

/* u = a z + b; saved NULL: u = z */
struct affine {
    const float *gamma, *beta, *saved;
};

/* Where the gradient of s comes from: the sum of n tensors, zero where y <= 0 (y NULL: nowhere),
 * stored to ds (NULL: nowhere). */
template <typename T> struct gradient {
    const T *dy[SS_NORM_MAX_DY];
    int n;
    const T *y;
    T *ds;
};

/* ---- what kernels share ---- */

template <int V> struct place {
    int row, vector, channel; /* pixel within a chunk's step, vector within the tile */
    bool idle;
    __device__ explicit place(const geometry &g)
    {
        row = (int)threadIdx.x / g.tile;
        vector = (int)threadIdx.x % g.tile;
        channel = ((int)blockIdx.y * g.tile + vector) * V;
        idle = row >= g.rows || channel >= g.channels;
    }
};

/* A thread's vectors of a chunk. Past the end they are in the last pixel: loads need no branch. */
struct spot {
    unsigned at;
    bool live;
};
template <int V, int UNROLL>
__device__ inline void locate(const geometry &g, const place<V> &me, unsigned chunk,
                              spot (&at)[UNROLL])
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const unsigned pixel =
            chunk * (unsigned)(g.rows * UNROLL) + (unsigned)(u * g.rows + me.row);
        at[u].live = pixel < g.pixels;
        at[u].at = (at[u].live ? pixel : g.pixels - 1) * g.width + (unsigned)(me.channel / V);
    }
}

/* As they are: all loads of a chunk are under way before the first vector is converted. */
template <typename T, int V, int UNROLL>
__device__ inline void fetch(const T *p, const spot (&at)[UNROLL], pack<T, V> (&x)[UNROLL])
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        x[u] = reinterpret_cast<const pack<T, V> *>(p)[at[u].at];
}
template <typename T, int V> __device__ inline void put(T *p, const spot &s, const pack<T, V> &x)
{
    if (s.live)
        reinterpret_cast<pack<T, V> *>(p)[s.at] = x;
}
/* sum += x */
template <typename T, int V, int UNROLL>
__device__ inline void add(const pack<T, V> (&x)[UNROLL], float (&sum)[UNROLL][V])
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
        for (int j = 0; j < V; j++)
            sum[u][j] += format<T>::load(x[u].v[j]);
}

/* Forward and backward must agree to the bit on u: explicit fused operations. */
__device__ inline void scale_and_shift(const affine &f, int channels, int c, float *a, float *b)
{
    *a = f.saved ? f.gamma[c] * f.saved[channels + c] : 1;
    *b = f.saved ? fmaf(-f.saved[c], *a, f.beta[c]) : 0;
}
__device__ inline float apply(float a, float z, float b)
{
    return fmaf(a, z, b);
}

/* Bit j: dropout keeps the vector's j-th element. Without dropout all, and the scale is 1. */
template <int V> __device__ inline unsigned kept(const ss_dropout &drop, const spot &s)
{
    unsigned bits = ~0u;
    if (drop.on) {
        bits = 0;
#pragma unroll
        for (int j = 0; j < V; j++) {
            const uint32_t i = s.at * V + (unsigned)j;
            if (ss_dropout_hash(i, drop.key[0], drop.key[1]) >= drop.threshold)
                bits |= 1u << j;
        }
    }
    return bits;
}

/* The gradient of u from that of s, as in simd_body.h. */
__device__ inline float gradient_of_u(float g, float u, float low, bool keep, float scale)
{
    return g * (keep && !(u <= low) ? scale : 0.0f);
}

/* The gradient of s at these places, as stored: what pass 2 and other kernels read. All that two
 * gradients and the second ReLU need is loaded before it is used; more gradients are rare. */
template <typename T, int V, int UNROLL>
__device__ inline void gradient_of_s(const gradient<T> &in, const spot (&at)[UNROLL],
                                     pack<T, V> (&g)[UNROLL])
{
    fetch(in.dy[0], at, g);
    if (!in.ds)
        return;
    pack<T, V> x[UNROLL], y[UNROLL];
    if (in.n > 1)
        fetch(in.dy[1], at, x);
    if (in.y)
        fetch(in.y, at, y);
    float sum[UNROLL][V] = {};
    add(g, sum);
    if (in.n > 1)
        add(x, sum);
#pragma unroll
    for (int k = 2; k < SS_NORM_MAX_DY; k++)
        if (k < in.n) {
            fetch(in.dy[k], at, x);
            add(x, sum);
        }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            if (in.y)
                sum[u][j] *= format<T>::load(y[u].v[j]) <= 0 ? 0.0f : 1.0f;
            g[u].v[j] = format<T>::store(sum[u][j]);
        }
        put(in.ds, at[u], g[u]);
    }
}

/* Add s and q over the rows of the block, pairwise, and write them as this block's partial sums.
 * All threads of the block call it, idle ones with zeros. */
template <int V>
__device__ inline void write_partial(const geometry &g, const place<V> &me, float (&s)[V],
                                     float (&q)[V], float *partial)
{
    __shared__ float upper[2][THREADS / 2 * V];
    for (int n = g.rows; n > 1;) {
        const int half = (n + 1) / 2;
        if (me.row >= half && me.row < n)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const int i = ((me.row - half) * g.tile + me.vector) * V + j;
                upper[0][i] = s[j];
                upper[1][i] = q[j];
            }
        __syncthreads();
        if (me.row + half < n)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const int i = (me.row * g.tile + me.vector) * V + j;
                s[j] += upper[0][i];
                q[j] += upper[1][i];
            }
        __syncthreads();
        n = half;
    }
    if (me.row == 0 && !me.idle) {
        float *out = partial + (size_t)blockIdx.x * 2 * (size_t)g.channels + me.channel;
#pragma unroll
        for (int j = 0; j < V; j++) {
            out[j] = s[j];
            out[g.channels + j] = q[j];
        }
    }
}

/* ---- kernels over pixels ---- */

/* Sums of z - shift and its square, shift being the first pixel: the variance does not cancel where
 * the mean is large. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS, 4) stats_kernel(geometry g, const T *z, float *partial)
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
    write_partial(g, me, s, q, partial);
}

/* Comparisons are written so that NaN passes through. z, r and y may be one tensor: an element is
 * read and written by one thread. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(geometry g, affine f, float low, float low_out, ss_dropout drop, const T *z,
                   const T *r, T *y)
{
    __shared__ float as[MAX_TILE * V], bs[MAX_TILE * V];
    const place<V> me(g);
    const int first = (int)blockIdx.y * g.tile * V;
    for (int i = (int)threadIdx.x; i < g.tile * V && first + i < g.channels; i += THREADS)
        scale_and_shift(f, g.channels, first + i, &as[i], &bs[i]);
    __syncthreads();
    if (me.idle)
        return;
    float a[V], b[V];
#pragma unroll
    for (int j = 0; j < V; j++) {
        a[j] = as[me.vector * V + j];
        b[j] = bs[me.vector * V + j];
    }
    for (unsigned k = blockIdx.x; k < g.chunks; k += gridDim.x) {
        spot at[MAP_UNROLL];
        pack<T, V> x[MAP_UNROLL], other[MAP_UNROLL];
        locate(g, me, k, at);
        fetch(z, at, x);
        if (r)
            fetch(r, at, other);
#pragma unroll
        for (int u = 0; u < MAP_UNROLL; u++) {
            const unsigned keep = kept<V>(drop, at[u]);
            pack<T, V> out;
#pragma unroll
            for (int j = 0; j < V; j++) {
                float v = apply(a[j], format<T>::load(x[u].v[j]), b[j]);
                v = v < low ? low : v;
                v = keep >> j & 1 ? v * drop.scale : 0;
                if (r)
                    v += format<T>::load(other[u].v[j]);
                out.v[j] = format<T>::store(v < low_out ? low_out : v);
            }
            put(y, at[u], out);
        }
    }
}

/* Backward, pass 1: the gradient of s, and the sums of g and g (z - mean), g that of u. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS, 2)
    gradient_sums_kernel(geometry g, affine f, float low, ss_dropout drop, gradient<T> in,
                         const T *z, float *partial)
{
    const place<V> me(g);
    float a[V], b[V], mean[V], s[V], q[V];
#pragma unroll
    for (int j = 0; j < V; j++) {
        a[j] = b[j] = mean[j] = s[j] = q[j] = 0;
        if (!me.idle) {
            scale_and_shift(f, g.channels, me.channel + j, &a[j], &b[j]);
            mean[j] = f.saved[me.channel + j];
        }
    }
    for (unsigned k = me.idle ? g.chunks : blockIdx.x; k < g.chunks; k += gridDim.x) {
        spot at[MAP_UNROLL];
        pack<T, V> x[MAP_UNROLL], ds[MAP_UNROLL];
        locate(g, me, g.chunks - 1 - k, at);
        fetch(z, at, x);
        gradient_of_s(in, at, ds);
#pragma unroll
        for (int u = 0; u < MAP_UNROLL; u++) {
            if (!at[u].live)
                continue;
            const unsigned keep = kept<V>(drop, at[u]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float zj = format<T>::load(x[u].v[j]);
                const float du = gradient_of_u(format<T>::load(ds[u].v[j]), apply(a[j], zj, b[j]),
                                               low, keep >> j & 1, drop.scale);
                s[j] += du;
                q[j] = fmaf(du, zj - mean[j], q[j]);
            }
        }
    }
    write_partial(g, me, s, q, partial);
}

/* Backward, pass 2: dz over z. coefficient is [3][C]; NULL, without BN: dz = g. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS, 2)
    gradient_kernel(geometry g, affine f, float low, ss_dropout drop, gradient<T> in,
                    const float *coefficient, T *z)
{
    __shared__ float as[MAX_TILE * V], bs[MAX_TILE * V], cs[COEFFICIENTS][MAX_TILE * V];
    const place<V> me(g);
    const int first = (int)blockIdx.y * g.tile * V;
    for (int i = (int)threadIdx.x; i < g.tile * V && first + i < g.channels; i += THREADS) {
        scale_and_shift(f, g.channels, first + i, &as[i], &bs[i]);
        for (int k = 0; k < COEFFICIENTS; k++)
            cs[k][i] = coefficient ? coefficient[k * g.channels + first + i] : k == 0;
    }
    __syncthreads();
    if (me.idle)
        return;
    float a[V], b[V], cg[V], cz[V], c0[V];
#pragma unroll
    for (int j = 0; j < V; j++) {
        const int i = me.vector * V + j;
        a[j] = as[i];
        b[j] = bs[i];
        cg[j] = cs[0][i];
        cz[j] = cs[1][i];
        c0[j] = cs[2][i];
    }
    for (unsigned k = blockIdx.x; k < g.chunks; k += gridDim.x) {
        spot at[MAP_UNROLL];
        pack<T, V> x[MAP_UNROLL], ds[MAP_UNROLL];
        locate(g, me, k, at);
        fetch(z, at, x);
        gradient_of_s(in, at, ds);
#pragma unroll
        for (int u = 0; u < MAP_UNROLL; u++) {
            const unsigned keep = kept<V>(drop, at[u]);
            pack<T, V> dz;
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float zj = format<T>::load(x[u].v[j]);
                const float du = gradient_of_u(format<T>::load(ds[u].v[j]), apply(a[j], zj, b[j]),
                                               low, keep >> j & 1, drop.scale);
                dz.v[j] = format<T>::store(fmaf(cg[j], du, fmaf(cz[j], zj, c0[j])));
            }
            put(z, at[u], dz);
        }
    }
}

/* ---- kernels over channels ---- */

/* total: both sums of this thread's channel over all blocks; true for the one thread of the channel
 * that has them. */
__device__ inline bool merge_partial(const float *partial, int blocks, int channels, int *channel,
                                     double (&total)[2])
{
    __shared__ double sums[2][MERGE_LANES][MERGE_CHANNELS];
    const int j = (int)threadIdx.x % MERGE_CHANNELS, lane = (int)threadIdx.x / MERGE_CHANNELS;
    const int c = (int)blockIdx.x * MERGE_CHANNELS + j;
    double s = 0, q = 0;
    if (c < channels) {
        const float *p = partial + c;
#pragma unroll 4
        for (int k = lane; k < blocks; k += MERGE_LANES) {
            s += (double)p[(size_t)(2 * k) * (size_t)channels];
            q += (double)p[(size_t)(2 * k + 1) * (size_t)channels];
        }
    }
    sums[0][lane][j] = s;
    sums[1][lane][j] = q;
    for (int n = MERGE_LANES / 2; n > 0; n /= 2) {
        __syncthreads();
        if (lane < n) {
            sums[0][lane][j] += sums[0][lane + n][j];
            sums[1][lane][j] += sums[1][lane + n][j];
        }
    }
    *channel = c;
    total[0] = sums[0][0][j];
    total[1] = sums[1][0][j];
    return lane == 0 && c < channels;
}

template <typename T>
__global__ void __launch_bounds__(MERGE_CHANNELS *MERGE_LANES)
    merge_stats_kernel(const float *partial, int blocks, int channels, double m, float eps,
                       float momentum, const T *z, float *saved, float *running)
{
    int c;
    double total[2];
    if (!merge_partial(partial, blocks, channels, &c, total))
        return;
    const double d = total[0] / m, mean = (double)format<T>::load(z[c]) + d;
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

__global__ void __launch_bounds__(MERGE_CHANNELS *MERGE_LANES)
    merge_gradient_kernel(const float *partial, int blocks, int channels, double m, affine f,
                          float *dgamma, float *dbeta, float *coefficient)
{
    int c;
    double total[2];
    if (!merge_partial(partial, blocks, channels, &c, total))
        return;
    const double mean = (double)f.saved[c], invstd = (double)f.saved[channels + c];
    const double scale = (double)f.gamma[c] * invstd;
    const double cz = -scale * invstd * invstd * total[1] / m;
    dbeta[c] = (float)total[0];
    dgamma[c] = (float)(total[1] * invstd);
    coefficient[c] = (float)scale;
    coefficient[channels + c] = (float)cz;
    coefficient[2 * channels + c] = (float)(-scale * total[0] / m - cz * mean);
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

/* ---- launching ---- */

/* Tiles of equal width where there are any. */
int tile_of(int vectors)
{
    if (vectors <= MAX_TILE)
        return vectors;
    for (int tile = MAX_TILE; tile >= MAX_TILE / 2; tile--)
        if (vectors % tile == 0)
            return tile;
    return MAX_TILE;
}

geometry geometry_of(const ss_norm_act *op, ss_dtype dtype, int unroll, int most_blocks)
{
    const ss_act *s = &op->shape;
    const size_t elements = ss_act_elements(s);
    const int vector = dtype == SS_DTYPE_F32 ? format<float>::vector : format<__half>::vector;
    geometry g;
    /* Without BN all channels are alike: C need not divide, the whole tensor must. */
    g.channels = op->has_bn || elements % (size_t)vector ? s->c : vector;
    g.pixels = (unsigned)(elements / (size_t)g.channels);
    g.vector = g.channels % vector ? 1 : vector;
    g.width = (unsigned)(g.channels / g.vector);
    g.tile = tile_of(g.channels / g.vector);
    g.rows = THREADS / g.tile;
    g.tiles = (g.channels / g.vector + g.tile - 1) / g.tile;
    const unsigned chunk = (unsigned)(g.rows * unroll);
    g.chunks = (g.pixels + chunk - 1) / chunk;
    const int blocks = most_blocks > g.tiles ? most_blocks / g.tiles : 1;
    g.blocks = g.chunks < (unsigned)blocks ? (int)g.chunks : blocks;
    return g;
}

dim3 grid_of(const geometry &g)
{
    return dim3((unsigned)g.blocks, (unsigned)g.tiles);
}

dim3 merge_grid(int channels)
{
    return dim3((unsigned)((channels + MERGE_CHANNELS - 1) / MERGE_CHANNELS));
}

/* Of the two kernels that sum, which differ in UNROLL. */
size_t partial_floats(const ss_norm_act *op, ss_dtype dtype)
{
    const int stats = geometry_of(op, dtype, STATS_UNROLL, STATS_BLOCKS).blocks;
    const int gradient = geometry_of(op, dtype, MAP_UNROLL, GRADIENT_BLOCKS).blocks;
    return (size_t)(stats > gradient ? stats : gradient) * 2 * (size_t)op->shape.c;
}

size_t scratch_bytes(const ss_norm_act *op, ss_dtype dtype)
{
    if (!op->has_bn)
        return 0;
    return (partial_floats(op, dtype) + COEFFICIENTS * (size_t)op->shape.c) * sizeof(float);
}

ss_status check(const ss_norm_act *op)
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
    if (!(op->dropout >= 0 && op->dropout < 1))
        return ss_fail(SS_ERR_INVALID, "dropout %g; it must be at least 0 and below 1",
                       (double)op->dropout);
    if (op->has_bn && !(op->eps >= 0))
        return ss_fail(SS_ERR_INVALID, "BatchNorm: eps %g; it must not be negative",
                       (double)op->eps);
    return SS_OK;
}

ss_status prepare(const ss_gpu *gpu, const ss_norm_act *op)
{
    SS_TRY(check(op));
    const size_t bytes = scratch_bytes(op, gpu->options.dtype);
    if (gpu->scratch_bytes < bytes)
        return ss_fail(SS_ERR_INVALID,
                       "normalisation: %zu bytes of scratch are reserved, %zu are needed; call "
                       "ss_norm_act_cuda_reserve() first",
                       gpu->scratch_bytes, bytes);
    return SS_OK;
}

float low_of(int relu)
{
    return relu ? 0 : -INFINITY;
}

ss_dropout dropout_of(const ss_norm_act *op, int training, uint64_t key)
{
    ss_dropout drop = ss_dropout_make(op->dropout, key);
    drop.on = drop.on && training;
    if (!drop.on)
        drop.scale = 1;
    return drop;
}

template <typename T, int V>
void launch_stats(const ss_gpu *gpu, const geometry &g, const T *z, float *partial)
{
    SS_LAUNCH((stats_kernel<T, V>), grid_of(g), THREADS, gpu->stream, g, z, partial);
}

template <typename T>
ss_status stats(const ss_gpu *gpu, const ss_norm_act *op, const T *z, float *saved, float *running)
{
    const geometry g = geometry_of(op, gpu->options.dtype, STATS_UNROLL, STATS_BLOCKS);
    float *partial = (float *)gpu->scratch;
    if (g.vector == 1)
        launch_stats<T, 1>(gpu, g, z, partial);
    else
        launch_stats<T, format<T>::vector>(gpu, g, z, partial);
    SS_LAUNCHED("BatchNorm statistics");
    SS_LAUNCH((merge_stats_kernel<T>), merge_grid(g.channels), MERGE_CHANNELS * MERGE_LANES,
              gpu->stream, partial, g.blocks, g.channels, (double)g.pixels, op->eps, op->momentum,
              z, saved, running);
    SS_LAUNCHED("BatchNorm statistics");
    return SS_OK;
}

template <typename T, int V>
void launch_forward(const ss_gpu *gpu, const geometry &g, const ss_norm_act *op, const affine &f,
                    const ss_dropout &drop, const T *z, const T *r, T *y)
{
    SS_LAUNCH((forward_kernel<T, V>), grid_of(g), THREADS, gpu->stream, g, f, low_of(op->relu),
              low_of(op->relu_out), drop, z, r, y);
}

template <typename T>
ss_status forward(const ss_gpu *gpu, const ss_norm_act *op, const affine &f, const ss_dropout &drop,
                  const T *z, const T *r, T *y)
{
    const geometry g = geometry_of(op, gpu->options.dtype, MAP_UNROLL, MAP_BLOCKS);
    if (g.vector == 1)
        launch_forward<T, 1>(gpu, g, op, f, drop, z, r, y);
    else
        launch_forward<T, format<T>::vector>(gpu, g, op, f, drop, z, r, y);
    SS_LAUNCHED("normalisation forward");
    return SS_OK;
}

template <typename T, int V>
ss_status backward_sums(const ss_gpu *gpu, const ss_norm_act *op, const affine &f,
                        const ss_dropout &drop, const gradient<T> &in, const T *z, float *dgamma,
                        float *dbeta, float *coefficient)
{
    const geometry g = geometry_of(op, gpu->options.dtype, MAP_UNROLL, GRADIENT_BLOCKS);
    float *partial = (float *)gpu->scratch;
    SS_LAUNCH((gradient_sums_kernel<T, V>), grid_of(g), THREADS, gpu->stream, g, f,
              low_of(op->relu), drop, in, z, partial);
    SS_LAUNCHED("BatchNorm backward");
    SS_LAUNCH(merge_gradient_kernel, merge_grid(g.channels), MERGE_CHANNELS * MERGE_LANES,
              gpu->stream, partial, g.blocks, g.channels, (double)g.pixels, f, dgamma, dbeta,
              coefficient);
    SS_LAUNCHED("BatchNorm backward");
    return SS_OK;
}

template <typename T, int V>
ss_status backward_vector(const ss_gpu *gpu, const ss_norm_act *op,
                          const ss_norm_act_cuda_grad *grad)
{
    gradient<T> in = {};
    for (int k = 0; k < grad->ndy; k++)
        in.dy[k] = (const T *)grad->dy[k];
    in.n = grad->ndy;
    in.y = op->relu_out ? (const T *)grad->y : nullptr;
    in.ds = grad->ndy > 1 || op->relu_out ? (T *)grad->ds : nullptr;
    const affine f = {grad->gamma, grad->beta, op->has_bn ? grad->saved : nullptr};
    const ss_dropout drop = dropout_of(op, 1, grad->dropout_key);
    T *z = (T *)grad->z;
    float *coefficient = nullptr;
    if (op->has_bn) {
        coefficient = (float *)gpu->scratch + partial_floats(op, gpu->options.dtype);
        SS_TRY(
            (backward_sums<T, V>(gpu, op, f, drop, in, z, grad->dgamma, grad->dbeta, coefficient)));
        /* Pass 1 has made ds. */
        gradient<T> made = {};
        made.dy[0] = in.ds ? in.ds : in.dy[0];
        made.n = 1;
        in = made;
    }
    const geometry g = geometry_of(op, gpu->options.dtype, MAP_UNROLL, MAP_BLOCKS);
    SS_LAUNCH((gradient_kernel<T, V>), grid_of(g), THREADS, gpu->stream, g, f, low_of(op->relu),
              drop, in, coefficient, z);
    SS_LAUNCHED("normalisation backward");
    return SS_OK;
}

template <typename T>
ss_status backward(const ss_gpu *gpu, const ss_norm_act *op, const ss_norm_act_cuda_grad *grad)
{
    if (geometry_of(op, gpu->options.dtype, MAP_UNROLL, MAP_BLOCKS).vector == 1)
        return backward_vector<T, 1>(gpu, op, grad);
    return backward_vector<T, format<T>::vector>(gpu, op, grad);
}

ss_status check_backward(const ss_norm_act *op, const ss_norm_act_cuda_grad *g)
{
    if (g->ndy < 1 || g->ndy > SS_NORM_MAX_DY)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: %d gradients; 1 to %d can be added",
                       g->ndy, (int)SS_NORM_MAX_DY);
    if (g->ndy == 1 && !op->relu_out ? g->ds != g->dy[0] : !g->ds)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: ds must be %s here",
                       g->ds ? "dy[0]" : "given");
    if (op->relu_out && !g->y)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: the second ReLU needs y");
    if (op->has_bn && (!g->gamma || !g->beta || !g->saved || !g->dgamma || !g->dbeta))
        return ss_fail(SS_ERR_INVALID, "BatchNorm backward: gamma, beta, statistics, dgamma and "
                                       "dbeta are all needed");
    return SS_OK;
}

} // namespace

extern "C" enum ss_status ss_norm_act_cuda_reserve(struct ss_gpu *gpu, const struct ss_norm_act *op)
{
    SS_TRY(check(op));
    return ss_gpu_reserve(gpu, scratch_bytes(op, gpu->options.dtype));
}

extern "C" enum ss_status ss_norm_act_cuda_stats(struct ss_gpu *gpu, const struct ss_norm_act *op,
                                                 const void *z, float *saved, float *running)
{
    SS_TRY(prepare(gpu, op));
    if ((double)op->shape.n * op->shape.h * op->shape.w < 2)
        return ss_fail(SS_ERR_SHAPE,
                       "BatchNorm: one value per channel has no variance; use a larger batch");
    ss_status status;
    SS_DISPATCH(gpu->options.dtype, status = stats<T>(gpu, op, (const T *)z, saved, running));
    return status;
}

extern "C" enum ss_status ss_norm_act_cuda_stats_eval(struct ss_gpu *gpu,
                                                      const struct ss_norm_act *op,
                                                      const float *running, float *saved)
{
    SS_TRY(check(op));
    const int channels = op->shape.c;
    SS_LAUNCH(stats_eval_kernel, dim3((unsigned)((channels + THREADS - 1) / THREADS)), THREADS,
              gpu->stream, channels, op->eps, running, saved);
    SS_LAUNCHED("BatchNorm statistics");
    return SS_OK;
}

extern "C" enum ss_status ss_norm_act_cuda_forward(struct ss_gpu *gpu, const struct ss_norm_act *op,
                                                   const void *z, const float *gamma,
                                                   const float *beta, const float *saved,
                                                   const void *r, void *y, uint8_t *argmax,
                                                   int training, uint64_t dropout_key)
{
    (void)argmax;
    SS_TRY(prepare(gpu, op));
    if (op->residual != (r != NULL))
        return ss_fail(SS_ERR_INVALID,
                       "normalisation forward: residual input %s, but the layer has %s",
                       r ? "given" : "missing", op->residual ? "one" : "none");
    if (op->has_bn && (!gamma || !beta || !saved))
        return ss_fail(SS_ERR_INVALID,
                       "BatchNorm forward: gamma, beta and statistics are all needed");
    const affine f = {gamma, beta, op->has_bn ? saved : nullptr};
    const ss_dropout drop = dropout_of(op, training, dropout_key);
    ss_status status;
    SS_DISPATCH(gpu->options.dtype,
                status = forward<T>(gpu, op, f, drop, (const T *)z, (const T *)r, (T *)y));
    return status;
}

extern "C" enum ss_status ss_norm_act_cuda_backward(struct ss_gpu *gpu,
                                                    const struct ss_norm_act *op,
                                                    const struct ss_norm_act_cuda_grad *g)
{
    SS_TRY(prepare(gpu, op));
    SS_TRY(check_backward(op, g));
    ss_status status;
    SS_DISPATCH(gpu->options.dtype, status = backward<T>(gpu, op, g));
    return status;
}
