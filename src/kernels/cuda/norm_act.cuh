/* What the kernels of norm_act.cu and norm_act_pool.cu share; CUDA C++ only.
 *
 * A tensor is [pixels][channels], pixels = N H W. A thread works on V neighbouring channels (16
 * bytes; one channel where C does not divide) and keeps these channels for all its pixels, so that
 * coefficients and sums stay in registers. A block is `rows` pixels (or windows of them) times a
 * tile of channels.
 *
 * Sums of a block go to `partial`, [blocks][2][C] fp32, and a small kernel adds those in double in
 * a fixed order. The number of blocks follows from the shape alone: so do the bits. */
#ifndef SS_KERNELS_NORM_ACT_CUDA_CUH
#define SS_KERNELS_NORM_ACT_CUDA_CUH

#include "kernels/cuda/launch.cuh"

#include <math.h>
extern "C" {
#include "kernels/activation.h"
#include "kernels/dropout.h"
}

namespace ss
{
namespace norm
{

enum {
    THREADS = 256,
    MAX_TILE = 32, /* vectors; whole lines of memory, and sums that fit in shared memory */
    /* For each of an H200's 132 multiprocessors as many as its registers hold at once, so that all
     * of a kernel that sums runs at once; more where the load balances itself. */
    GRADIENT_BLOCKS = 2 * 132,
    MAP_BLOCKS = 8 * 132,
    MOST_POOL = 16,  /* a place in a window is a byte */
    COEFFICIENTS = 3 /* cg, cz, c0: dz = cg g + cz z + c0 */
};

struct geometry {
    unsigned pixels, chunks; /* of what threads walk over; a chunk is a block's share of a turn */
    unsigned width;          /* of a pixel, in vectors */
    int channels, vector;
    int tile, rows; /* of a block: vectors, pixels */
    int tiles, blocks;
};

/* u = a z + b; saved NULL: u = z */
struct affine {
    const float *gamma, *beta, *saved;
};

/* The activation. PLAIN ones, none and ReLU, are one: a cut off at low; the rest go by kind. */
struct activation {
    float low;
    ss_activation kind;
};

/* ---- device code ---- */

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

/* A thread's vector of a pixel. One that is not live stands for no pixel, but can be loaded. */
struct spot {
    unsigned at;
    bool live;
};

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

/* Kernels must agree to the bit on u and y: explicit fused operations. */
__device__ inline void scale_and_shift(const affine &f, int channels, int c, float *a, float *b)
{
    *a = f.saved ? f.gamma[c] * f.saved[channels + c] : 1;
    *b = f.saved ? fmaf(-f.saved[c], *a, f.beta[c]) : 0;
}
__device__ inline float apply(float a, float z, float b)
{
    return fmaf(a, z, b);
}

/* a and b of this thread's channels; all threads of the block call it, idle ones get anything. */
template <int V>
__device__ inline void affine_of_tile(const geometry &g, const place<V> &me, const affine &f,
                                      float (&a)[V], float (&b)[V])
{
    __shared__ float as[MAX_TILE * V], bs[MAX_TILE * V];
    const int first = (int)blockIdx.y * g.tile * V;
    for (int i = (int)threadIdx.x; i < g.tile * V && first + i < g.channels; i += THREADS)
        scale_and_shift(f, g.channels, first + i, &as[i], &bs[i]);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < V; j++) {
        a[j] = as[me.vector * V + j];
        b[j] = bs[me.vector * V + j];
    }
}

/* Likewise what makes dz; coefficient is [3][C]; NULL, without BN: dz = g. */
template <int V>
__device__ inline void coefficients_of_tile(const geometry &g, const place<V> &me,
                                            const float *coefficient, float (&cg)[V],
                                            float (&cz)[V], float (&c0)[V])
{
    __shared__ float cs[COEFFICIENTS][MAX_TILE * V];
    const int first = (int)blockIdx.y * g.tile * V;
    for (int i = (int)threadIdx.x; i < g.tile * V && first + i < g.channels; i += THREADS)
        for (int k = 0; k < COEFFICIENTS; k++)
            cs[k][i] = coefficient ? coefficient[k * g.channels + first + i] : k == 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < V; j++) {
        const int i = me.vector * V + j;
        cg[j] = cs[0][i];
        cz[j] = cs[1][i];
        c0[j] = cs[2][i];
    }
}

/* Dropout keeps element i; without dropout all, and the scale is 1. */
__device__ inline bool keeps(const ss_dropout_draw &drop, uint32_t i)
{
    return ss_dropout_hash(i, drop.key[0], drop.key[1]) >= drop.threshold;
}
/* Bit j: the vector's j-th. */
template <int V> __device__ inline unsigned kept(const ss_dropout_draw &drop, const spot &s)
{
    unsigned bits = ~0u;
    if (drop.on) {
        bits = 0;
#pragma unroll
        for (int j = 0; j < V; j++)
            if (keeps(drop, s.at * V + (unsigned)j))
                bits |= 1u << j;
    }
    return bits;
}

/* f of z scaled and shifted, and zero where dropped. Comparisons are written so that NaN passes
 * through. */
template <bool PLAIN, typename T>
__device__ inline float kept_part(float a, T z, float b, const activation &act, bool keep)
{
    const float u = apply(a, format<T>::load(z), b);
    if (!PLAIN)
        return keep ? ss_act_value(act.kind, u) : 0;
    return !keep ? 0 : u < act.low ? act.low : u;
}

/* The gradient of u from that of s, as in simd_body.h. */
template <bool PLAIN>
__device__ inline float gradient_of_u(float g, float u, const activation &act, bool keep,
                                      float scale)
{
    if (!PLAIN)
        return g * (keep ? ss_act_slope(act.kind, u) * scale : 0.0f);
    return g * (keep && !(u <= act.low) ? scale : 0.0f);
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

/* ---- host code ---- */

/* Elements of 16 bytes. */
static inline int vector_of(ss_dtype dtype)
{
    return dtype == SS_DTYPE_F32 ? format<float>::vector : format<__half>::vector;
}

/* Tiles of equal width where there are any. */
static inline int tile_of(int vectors)
{
    if (vectors <= MAX_TILE)
        return vectors;
    for (int tile = MAX_TILE; tile >= MAX_TILE / 2; tile--)
        if (vectors % tile == 0)
            return tile;
    return MAX_TILE;
}

/* Threads walk over `pixels`, `unroll` at once. */
static inline geometry geometry_make(ss_dtype dtype, int channels, unsigned pixels, int unroll,
                                     int most_blocks)
{
    const int vector = vector_of(dtype);
    geometry g;
    g.channels = channels;
    g.pixels = pixels;
    g.vector = channels % vector ? 1 : vector;
    g.width = (unsigned)(channels / g.vector);
    g.tile = tile_of(channels / g.vector);
    g.rows = THREADS / g.tile;
    g.tiles = (channels / g.vector + g.tile - 1) / g.tile;
    const unsigned chunk = (unsigned)(g.rows * unroll);
    g.chunks = (pixels + chunk - 1) / chunk;
    const int blocks = most_blocks > g.tiles ? most_blocks / g.tiles : 1;
    g.blocks = g.chunks < (unsigned)blocks ? (int)g.chunks : blocks;
    return g;
}

static inline dim3 grid_of(const geometry &g)
{
    return dim3((unsigned)g.blocks, (unsigned)g.tiles);
}

static inline float low_of(bool relu)
{
    return relu ? 0 : -INFINITY;
}
static inline bool is_plain(ss_activation kind)
{
    return kind == SS_ACT_NONE || kind == SS_ACT_RELU;
}
static inline activation activation_of(const ss_norm_act *op)
{
    return {low_of(op->act == SS_ACT_RELU), op->act};
}

/* ---- norm_act_pool.cu; arguments have been checked ---- */

ss_status pool_forward(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                       const ss_dropout_draw &drop, const void *z, const void *r, void *y,
                       uint8_t *argmax);
/* Backward, pass 1: partial sums of this many blocks; pass 2, as coefficients_of_tile above. */
int pool_gradient_blocks(const ss_norm_act *op, ss_dtype dtype);
ss_status pool_gradient_sums(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                             const ss_dropout_draw &drop, const ss_norm_act_grad *grad,
                             float *partial);
ss_status pool_gradient(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                        const ss_dropout_draw &drop, const ss_norm_act_grad *grad,
                        const float *coefficient);

} // namespace norm
} // namespace ss

#endif
