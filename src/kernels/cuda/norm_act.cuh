/* Shared code of norm_act.cu and norm_act_pool.cu; CUDA C++ only.
 *
 * A tensor is [pixels][channels], pixels = N H W. A thread processes V neighboring channels (16
 * bytes; one channel if C is not a multiple), the same for all its pixels, so that sums stay in
 * registers. A block is `rows` pixels (or windows of them) times a tile of channels.
 *
 * Memory latency limits these kernels. An H200 moves about 4.1 TB/s, and a load takes about 1 us
 * under load: 4.1e12 * 1e-6 / 132 multiprocessors = 31 KB of loads per multiprocessor must be in
 * flight at all times; the target is 36 KB. Backward has RESIDENT blocks per multiprocessor, at
 * most 65536 / (3 * 256) = 85 registers per thread, so its coefficients are in shared memory
 * (`table`). The kernels document the loads in flight per thread.
 *
 * Sums of a block go to `partial`, [blocks][2][C] fp32, and are added in double in a fixed order
 * (`merge`). The number of blocks depends on the shape only, so the results are bit-identical on
 * all devices. */
#ifndef SS_KERNELS_NORM_ACT_CUDA_CUH
#define SS_KERNELS_NORM_ACT_CUDA_CUH

#include "kernels/cuda/launch.cuh"

#include <math.h>
#include <string.h>
#include <type_traits>
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
    MAX_TILE = 32, /* vectors; whole memory lines, and sums that fit into shared memory */
    /* For each of an H200's 132 multiprocessors, as many as its registers hold simultaneously, so
     * that a summing kernel runs in one wave; more where the load balances itself. */
    RESIDENT = 3, /* blocks of a backward kernel per multiprocessor */
    GRADIENT_BLOCKS = RESIDENT * 132,
    DZ_BLOCKS = 3 * RESIDENT * 132,
    MAP_BLOCKS = 8 * 132,
    MOST_POOL = 16,  /* an index in a window is a byte */
    COEFFICIENTS = 3 /* cg, cz, c0: dz = cg g + cz z + c0 */
};
/* Blocks of a forward kernel per multiprocessor. */
template <typename T> constexpr int FORWARD_RESIDENT = sizeof(T) == 4 ? 5 : 4;

struct geometry {
    unsigned pixels, chunks; /* pixels to loop over; a chunk is a block's share of an iteration */
    unsigned width;          /* of a pixel, in vectors */
    int channels, vector;
    int tile, rows; /* of a block: vectors, pixels */
    int tiles, blocks;
};

/* u = a z + b; saved NULL: u = z */
struct affine {
    const float *gamma, *beta, *saved;
};

/* The activation. PLAIN ones (none and ReLU) are a comparison with low; the others are selected
 * by family. */
struct activation {
    float low;
    ss_act_terms terms;
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

/* A thread's vector of a pixel. If not live, it is a duplicate that may be loaded only. */
struct spot {
    unsigned at;
    bool live;
};

/* Computes a thread's vectors of a chunk of a tensor with `width` vectors per pixel. Past the end
 * they are in the last pixel, so that loads need no branch. */
template <int V, int UNROLL>
__device__ inline void locate(const geometry &g, const place<V> &me, unsigned chunk, unsigned width,
                              spot (&at)[UNROLL])
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const unsigned pixel =
            chunk * (unsigned)(g.rows * UNROLL) + (unsigned)(u * g.rows + me.row);
        at[u].live = pixel < g.pixels;
        at[u].at = (at[u].live ? pixel : g.pixels - 1) * width + (unsigned)(me.channel / V);
    }
}
template <int V, int UNROLL>
__device__ inline void locate(const geometry &g, const place<V> &me, unsigned chunk,
                              spot (&at)[UNROLL])
{
    locate(g, me, chunk, g.width, at);
}

/* Loads vectors without conversion, so that all loads of a chunk are in flight before the first
 * conversion. */
template <typename T, int V, int UNROLL>
__device__ inline void fetch(const T *p, const spot (&at)[UNROLL], pack<T, V> (&x)[UNROLL])
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        x[u] = reinterpret_cast<const pack<T, V> *>(p)[at[u].at];
}
/* A pending vector, in as few registers as it has words: the compiler would unpack a pack of bf16
 * on arrival. */
template <typename T, int V> struct alignas(V * sizeof(T)) words {
    typedef typename std::conditional<V * sizeof(T) % 4, uint16_t, uint32_t>::type word;
    word w[V * sizeof(T) / sizeof(word)];
};
template <typename T, int V, int UNROLL>
__device__ inline void fetch(const T *p, const spot (&at)[UNROLL], words<T, V> (&x)[UNROLL])
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        x[u] = reinterpret_cast<const words<T, V> *>(p)[at[u].at];
}
template <typename T, int V> __device__ inline pack<T, V> unpack(const words<T, V> &x)
{
    pack<T, V> out;
    memcpy(&out, &x, sizeof out);
    return out;
}
template <typename T, int V> __device__ inline words<T, V> waiting(const pack<T, V> &x)
{
    words<T, V> out;
    memcpy(&out, &x, sizeof out);
    return out;
}
template <typename T, int V> __device__ inline void put(T *p, const spot &s, const pack<T, V> &x)
{
    if (s.live)
        reinterpret_cast<pack<T, V> *>(p)[s.at] = x;
}

/* Kernels must agree bit by bit on u and y, hence explicit fused operations. */
__device__ inline void scale_and_shift(const affine &f, int channels, int c, float *a, float *b)
{
    *a = f.saved ? f.gamma[c] * f.saved[channels + c] : 1;
    *b = f.saved ? fmaf(-f.saved[c], *a, f.beta[c]) : 0;
}
__device__ inline float apply(float a, float z, float b)
{
    return fmaf(a, z, b);
}

/* K coefficients of each channel of the block's tile, in shared memory. They are read QUAD
 * channels at a time: neighboring threads read neighboring 16 bytes, and few registers are
 * used. */
template <int K, int V> struct table {
    static constexpr int QUAD = V < 4 ? V : 4;
    pack<float, QUAD> v[K][V / QUAD][MAX_TILE];
    /* value(c, k) sets k[0..K-1] of channel c. All threads of the block must call it. */
    template <typename F> __device__ inline void fill(const geometry &g, F value)
    {
        const int first = (int)blockIdx.y * g.tile * V;
        for (int i = (int)threadIdx.x; i < g.tile * V && first + i < g.channels; i += THREADS) {
            float k[K];
            value(first + i, k);
#pragma unroll
            for (int n = 0; n < K; n++)
                v[n][i % V / QUAD][i / V].v[i % QUAD] = k[n];
        }
        __syncthreads();
    }
    /* Reads the coefficients of the thread's channels from QUAD * quad on. */
    __device__ inline void read(const place<V> &me, int quad, float (&k)[K][QUAD]) const
    {
#pragma unroll
        for (int n = 0; n < K; n++) {
            const pack<float, QUAD> from = v[n][quad][me.vector];
#pragma unroll
            for (int i = 0; i < QUAD; i++)
                k[n][i] = from.v[i];
        }
    }
};

/* Compiler barrier, once per iteration: tables are read again instead of being held in
 * registers. */
__device__ inline void forget()
{
    asm volatile("" ::: "memory");
}

/* Tables: the coefficients of forward, and those of pass 1 of backward. */
enum { A, B, AFFINE_TABLE, MEAN = AFFINE_TABLE, SUM_TABLE };
template <int V>
__device__ inline void fill_affine(table<AFFINE_TABLE, V> &t, const geometry &g, const affine &f)
{
    t.fill(g, [&](int c, float(&k)[AFFINE_TABLE]) {
        scale_and_shift(f, g.channels, c, &k[A], &k[B]);
    });
}
template <int V>
__device__ inline void fill_sums(table<SUM_TABLE, V> &t, const geometry &g, const affine &f)
{
    t.fill(g, [&](int c, float(&k)[SUM_TABLE]) {
        scale_and_shift(f, g.channels, c, &k[A], &k[B]);
        k[MEAN] = f.saved[c];
    });
}

/* Pass 2: a, b, and the coefficients of dz. coefficient is [3][C]; NULL without BN: dz = g. */
enum { CG = AFFINE_TABLE, CZ, C0, DZ_TABLE };
template <int V>
__device__ inline void fill_dz(table<DZ_TABLE, V> &t, const geometry &g, const affine &f,
                               const float *coefficient)
{
    t.fill(g, [&](int c, float(&k)[DZ_TABLE]) {
        scale_and_shift(f, g.channels, c, &k[A], &k[B]);
#pragma unroll
        for (int n = 0; n < COEFFICIENTS; n++)
            k[CG + n] = coefficient ? coefficient[n * g.channels + c] : n == 0;
    });
}

/* Loads a and b of this thread's channels into registers. All threads of the block must call it;
 * values of idle ones are undefined. */
template <int V>
__device__ inline void affine_of_tile(const geometry &g, const place<V> &me, const affine &f,
                                      float (&a)[V], float (&b)[V])
{
    constexpr int Q = table<AFFINE_TABLE, V>::QUAD;
    __shared__ table<AFFINE_TABLE, V> t;
    fill_affine(t, g, f);
#pragma unroll
    for (int h = 0; h < V / Q; h++) {
        float k[AFFINE_TABLE][Q];
        t.read(me, h, k);
#pragma unroll
        for (int i = 0; i < Q; i++) {
            a[h * Q + i] = k[A][i];
            b[h * Q + i] = k[B][i];
        }
    }
}

/* The key changes between steps and launches may be replayed, so kernels read it from memory. */
struct dropout : ss_dropout_draw {
    const uint64_t *from;
};
/* Returns whether dropout retains element i; without dropout all, and the scale is 1. key:
 * __ldg(drop.from) */
__device__ inline bool keeps(const dropout &drop, uint64_t key, uint32_t i)
{
    return ss_dropout_hash(drop.shared ? ss_divide(i, drop.by) : i, (uint32_t)key,
                           (uint32_t)(key >> 32)) >= drop.threshold;
}
/* Returns the mask of retained elements. Bit j: element j of the vector. */
template <int V> __device__ inline unsigned kept(const dropout &drop, const spot &s)
{
    unsigned bits = ~0u;
    if (drop.on) {
        bits = 0;
        const uint64_t key = __ldg(drop.from);
#pragma unroll
        for (int j = 0; j < V; j++)
            if (keeps(drop, key, s.at * V + (unsigned)j))
                bits |= 1u << j;
    }
    return bits;
}

/* Returns f of the scaled and shifted z, zero if dropped. Comparisons are written so that NaN
 * passes through. */
template <bool PLAIN, typename T>
__device__ inline float act_with_dropout(float a, T z, float b, const activation &act, bool keep)
{
    const float u = apply(a, format<T>::load(z), b);
    if (!PLAIN)
        return keep ? ss_act_value(act.terms.family, &act.terms, u) : 0;
    return !keep ? 0 : u < act.low ? act.low : u;
}

/* Returns the gradient of u from that of s, as in cpu/simd_norm.h. */
template <bool PLAIN>
__device__ inline float gradient_of_u(float g, float u, const activation &act, bool keep,
                                      float scale)
{
    if (!PLAIN)
        return g * (keep ? ss_act_slope(act.terms.family, &act.terms, u) * scale : 0.0f);
    return g * (keep && !(u <= act.low) ? scale : 0.0f);
}

/* Adds s and q over the rows of the block, pairwise, and writes them as this block's partial
 * sums. All threads of the block must call it, idle ones with zeros. */
template <int V>
__device__ inline void write_partial(const geometry &g, const place<V> &me, float (&s)[V],
                                     float (&q)[V], float *partial)
{
    __shared__ float upper[2][V][THREADS / 2];
    for (int n = g.rows; n > 1;) {
        const int half = (n + 1) / 2;
        if (me.row >= half && me.row < n)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const int i = (me.row - half) * g.tile + me.vector;
                upper[0][j][i] = s[j];
                upper[1][j][i] = q[j];
            }
        __syncthreads();
        if (me.row + half < n)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const int i = me.row * g.tile + me.vector;
                s[j] += upper[0][j][i];
                q[j] += upper[1][j][i];
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

/* Adds the sums of all blocks without a second kernel. Of every SHARE blocks, the last one to
 * finish adds their sums, and of these the last one adds all shares. So no block reads more than
 * SHARE rows, or adds more numbers in sequence, while others wait. The order of additions depends
 * on the block numbers only, not on which block is last. */
constexpr unsigned SHARE = 24;
struct merging {
    float *partial;
    double *shares; /* [shares][2][C] */
    unsigned *done; /* [tiles][shares + 1], 0 before and after */
};

/* Returns true in all threads of the last of n blocks that call it; that block sees the writes of
 * the others. */
__device__ inline bool last_of(unsigned *done, unsigned n)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(done, 1u) + 1 == n;
        if (last)
            *done = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* Calls finish(c, total) once per channel with both sums over all blocks. Call after
 * write_partial, from all threads of the block. Reads bypass the multiprocessor's own cache. */
template <int V, typename F>
__device__ inline void merge(const geometry &g, const merging &m, F finish)
{
    const size_t row = 2 * (size_t)g.channels;
    const unsigned shares = (gridDim.x + SHARE - 1) / SHARE, share = blockIdx.x / SHARE;
    const unsigned begin = share * SHARE;
    const unsigned count = gridDim.x - begin < SHARE ? gridDim.x - begin : SHARE;
    const int first = (int)blockIdx.y * g.tile * V;
    const int width = g.channels - first < g.tile * V ? g.channels - first : g.tile * V;
    unsigned *done = m.done + blockIdx.y * (shares + 1);
    if (!last_of(done + share, count))
        return;
    for (int i = (int)threadIdx.x; i < 2 * width; i += THREADS) {
        const size_t at = (size_t)(i < width ? first + i : g.channels + first + i - width);
        double sum = 0;
#pragma unroll 8
        for (unsigned k = 0; k < count; k++)
            sum += (double)__ldcg(m.partial + (begin + k) * row + at);
        m.shares[share * row + at] = sum;
    }
    if (!last_of(done + shares, shares))
        return;
    for (int i = (int)threadIdx.x; i < width; i += THREADS) {
        const double *from = m.shares + first + i;
        double total[2] = {0, 0};
#pragma unroll 4
        for (unsigned k = 0; k < shares; k++) {
            total[0] += __ldcg(from + k * row);
            total[1] += __ldcg(from + k * row + g.channels);
        }
        finish(first + i, total);
    }
}

/* Ends pass 1 of backward. If sums is not NULL, writes only the sums, for an all-reduce. */
struct gradient_end {
    double m; /* pixels of z */
    float *dgamma, *dbeta, *coefficient;
    ss_scaler *scaler;
    double *sums; /* (4,C), see norm_act_backward_sums */
    __device__ inline void parameters(const affine &f, int channels, int c,
                                      const double (&total)[2]) const
    {
        const double invstd = (double)f.saved[channels + c];
        dbeta[c] = (float)total[0];
        dgamma[c] = (float)(total[1] * invstd);
        tell(scaler, not_finite(dbeta[c]) || not_finite(dgamma[c]));
    }
    __device__ inline void coefficients(const affine &f, int channels, int c,
                                        const double (&total)[2]) const
    {
        const double mean = (double)f.saved[c], invstd = (double)f.saved[channels + c];
        const double scale = (double)f.gamma[c] * invstd;
        const double cz = -scale * invstd * invstd * total[1] / m;
        coefficient[c] = (float)scale;
        coefficient[channels + c] = (float)cz;
        coefficient[2 * channels + c] = (float)(-scale * total[0] / m - cz * mean);
    }
    __device__ inline void operator()(const affine &f, int channels, int c,
                                      const double (&total)[2]) const
    {
        if (sums) {
            sums[c] = sums[2 * channels + c] = total[0];
            sums[channels + c] = sums[3 * channels + c] = total[1];
            return;
        }
        parameters(f, channels, c, total);
        coefficients(f, channels, c, total);
    }
};

/* ---- host code ---- */

/* Number of elements in 16 bytes. */
static inline int vector_of(ss_dtype dtype)
{
    return dtype == SS_DTYPE_F32 ? format<float>::vector : format<__half>::vector;
}

/* Tiles have equal width if possible. */
static inline int tile_of(int vectors)
{
    if (vectors <= MAX_TILE)
        return vectors;
    for (int tile = MAX_TILE; tile >= MAX_TILE / 2; tile--)
        if (vectors % tile == 0)
            return tile;
    return MAX_TILE;
}

/* Makes the geometry of threads that loop over `pixels`, `unroll` at a time. */
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
static inline bool is_plain(ss_activation act)
{
    return ss_act_compares(act);
}
static inline activation activation_of(const ss_norm_act *op)
{
    return {low_of(op->act == SS_ACT_RELU), ss_act_terms_of(op->act, op->slope)};
}

static inline dropout dropout_of(const ss_norm_act *op, int training, const uint64_t *key)
{
    dropout drop = {ss_dropout_make(op->dropout, 0), key};
    drop.on = drop.on && training;
    if (!drop.on)
        drop.scale = 1;
    if (op->drop != SS_DROP_ELEMENT)
        ss_dropout_share(&drop, (uint32_t)(ss_act_elements(&op->shape) /
                                           (op->drop == SS_DROP_SAMPLE ? (size_t)op->shape.n : 1)));
    return drop;
}

/* ---- norm_act_pool.cu; the caller has checked the arguments ---- */

ss_status pool_forward(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                       const dropout &drop, const void *z, const void *r, void *y, uint8_t *argmax);
/* Backward. Pass 1: partial sums of this many blocks; pass 2: as fill_dz above. */
int pool_gradient_blocks(const ss_norm_act *op, ss_dtype dtype);
ss_status pool_gradient_sums(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                             const dropout &drop, const ss_norm_act_grad *grad, const merging &m,
                             const gradient_end &end);
ss_status pool_gradient(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                        const dropout &drop, const ss_norm_act_grad *grad,
                        const float *coefficient);

} // namespace norm
} // namespace ss

#endif
