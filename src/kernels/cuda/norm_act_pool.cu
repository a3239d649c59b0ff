/* norm_act_pool.cu: normalization followed by max pooling, in one pass over z. The tensor before
 * pooling and its gradient are never stored. See kernels/list.h.
 *
 * Threads loop over adjacent windows of pool x pool pixels. The positions in a window are
 * numbered row-major and processed in groups, whose loads are in flight simultaneously. Forward,
 * and the sums of backward, use complete windows only: elsewhere the gradient is zero. The pass
 * that writes dz also visits the partial windows at the right and lower edge, so each pixel once.
 *
 * One element per window and channel has a gradient, so its ReLU and dropout are evaluated for
 * this element only. Windows of 2x2 are one group and have their own kernels: K = 2 below; K = 0
 * is any other size. */
#include "kernels/cuda/norm_act.cuh"

namespace
{

using namespace ss;
using namespace ss::norm;

/* Positions in flight: a window of 2x2; fewer of other sizes, which need more registers. */
template <int K> constexpr unsigned GROUP = K == 2 ? 4 : 2;

struct windows {
    unsigned images, rows, columns; /* of the loop: windows in an image */
    unsigned h, w;                  /* of z */
    unsigned p, q;                  /* of y: whole windows in an image */
    unsigned pool;
    unsigned inverse; /* n * inverse >> 16 = n / pool, exactly for n < 512 and pool <= 16 */
    unsigned step_images, step_rows, step_columns; /* from a thread's window to its next */
};

struct window {
    unsigned image, row, column;
};

/* Source of the gradient of y: the sum of n tensors, zero where y <= 0 (y NULL: no ReLU). */
template <typename T> struct pooled {
    const T *dy[SS_NORM_MAX_DY];
    int n;
    const T *y;
    const uint8_t *argmax;
};

/* For a window: its gradient, the positions that get it, and whether dropout retains the elements
 * there (bit j: element j of the vector). */
template <typename T, int V> struct share {
    pack<T, V> g;
    pack<uint8_t, V> place;
    unsigned keep;
};

/* ---- device code ---- */

/* Returns the thread's first window. Past the last image: none. */
template <int V>
__device__ inline window first_window(const geometry &g, const windows &w, const place<V> &me)
{
    const unsigned number = blockIdx.x * (unsigned)g.rows + (unsigned)me.row;
    const unsigned line = number / w.columns;
    window at;
    at.image = me.idle ? w.images : line / w.rows;
    at.row = line % w.rows;
    at.column = number % w.columns;
    return at;
}
__device__ inline void advance(const windows &w, window *at)
{
    at->column += w.step_columns;
    at->row += w.step_rows;
    at->image += w.step_images;
    if (at->column >= w.columns) {
        at->column -= w.columns;
        at->row++;
    }
    if (at->row >= w.rows) {
        at->row -= w.rows;
        at->image++;
    }
}
/* Mirrors a window, to loop from the last to the first. */
__device__ inline window mirrored(const windows &w, const window &at)
{
    return {w.images - 1 - at.image, w.rows - 1 - at.row, w.columns - 1 - at.column};
}

__device__ inline bool whole(const windows &w, const window &at)
{
    return at.row < w.p && at.column < w.q;
}

/* Returns the index of the pooled pixel's vector. */
template <int V>
__device__ inline size_t pooled_at(const geometry &g, const windows &w, const window &at,
                                   const place<V> &me)
{
    return (size_t)((at.image * w.p + at.row) * w.q + at.column) * g.width +
           (unsigned)(me.channel / V);
}

/* Returns the row of position `number` in a window. */
template <int K> __device__ inline unsigned line_of(const windows &w, unsigned number)
{
    return K ? number / (K ? K : 1) : number * w.inverse >> 16;
}

/* Computes the vectors of a group in z. Those past the window's end or outside z are in its first
 * pixel. */
template <int K, int V>
__device__ inline void locate(const geometry &g, const windows &w, const window &at,
                              const place<V> &me, unsigned first, spot (&s)[GROUP<K>])
{
    const unsigned pool = K ? K : w.pool;
    const unsigned top = at.row * pool, left = at.column * pool;
    const unsigned corner = (at.image * w.h + top) * w.w + left;
#pragma unroll
    for (unsigned u = 0; u < GROUP<K>; u++) {
        const unsigned number = first + u;
        const unsigned i = line_of<K>(w, number), j = number - i * pool;
        s[u].live = number < pool * pool && top + i < w.h && left + j < w.w;
        s[u].at =
            (s[u].live ? corner + i * w.w + j : corner) * g.width + (unsigned)(me.channel / V);
    }
}

/* Adds the other contributions to a window's gradient and rounds the sum as a stored one; then
 * applies the second ReLU. */
template <typename T, int V>
__device__ inline void add_shares(const pooled<T> &in, size_t at, pack<T, V> *g)
{
    pack<T, V> x = *g, y = *g;
    if (in.n > 1)
        x = reinterpret_cast<const pack<T, V> *>(in.dy[1])[at];
    if (in.y)
        y = reinterpret_cast<const pack<T, V> *>(in.y)[at];
    float sum[V];
#pragma unroll
    for (int j = 0; j < V; j++)
        sum[j] = format<T>::load(g->v[j]) + (in.n > 1 ? format<T>::load(x.v[j]) : 0);
#pragma unroll
    for (int k = 2; k < SS_NORM_MAX_DY; k++)
        if (k < in.n) {
            x = reinterpret_cast<const pack<T, V> *>(in.dy[k])[at];
#pragma unroll
            for (int j = 0; j < V; j++)
                sum[j] += format<T>::load(x.v[j]);
        }
#pragma unroll
    for (int j = 0; j < V; j++) {
        g->v[j] = format<T>::store(sum[j]);
        if (in.y) {
            const float factor = format<T>::load(y.v[j]) <= 0 ? 0.0f : 1.0f;
            g->v[j] = format<T>::store(format<T>::load(g->v[j]) * factor);
        }
    }
}

/* Returns which of the elements that get a gradient dropout retains. */
template <int K, int V>
__device__ inline unsigned dropout_bits_at(const geometry &g, const windows &w, const window &at,
                                           const place<V> &me, const dropout &drop,
                                           const pack<uint8_t, V> &places)
{
    const unsigned pool = K ? K : w.pool;
    const unsigned corner = (at.image * w.h + at.row * pool) * w.w + at.column * pool;
    const uint64_t key = __ldg(drop.from);
    unsigned bits = 0;
#pragma unroll
    for (int j = 0; j < V; j++) {
        const unsigned number = places.v[j], i = line_of<K>(w, number);
        const unsigned pixel = corner + i * w.w + number - i * pool;
        if (keeps(drop, key, pixel * (unsigned)g.channels + (unsigned)(me.channel + j)))
            bits |= 1u << j;
    }
    return bits;
}

template <int K, typename T, int V>
__device__ inline void load_share(const geometry &g, const windows &w, const window &at,
                                  const place<V> &me, const dropout &drop, const pooled<T> &in,
                                  share<T, V> *out)
{
    const size_t from = pooled_at(g, w, at, me);
    out->g = reinterpret_cast<const pack<T, V> *>(in.dy[0])[from];
    out->place = reinterpret_cast<const pack<uint8_t, V> *>(in.argmax)[from];
    if (in.n > 1 || in.y)
        add_shares(in, from, &out->g);
    out->keep = drop.on ? dropout_bits_at<K>(g, w, at, me, drop, out->place) : ~0u;
}

/* Returns the gradient of u for channel j at the position that gets one, and z there. If that
 * position is in another group, returns zero and any z of this group. */
template <int K, bool PLAIN, typename T, int V>
__device__ inline float gradient_of_group(const share<T, V> &from, int j, unsigned first,
                                          const words<T, V> (&x)[GROUP<K>], float a, float b,
                                          const activation &act, float scale, float *z)
{
    const unsigned u = from.place.v[j] - first;
    *z = format<T>::load(unpack(x[0]).v[j]);
#pragma unroll
    for (unsigned k = 1; k < GROUP<K>; k++)
        *z = u == k ? format<T>::load(unpack(x[k]).v[j]) : *z;
    return gradient_of_u<PLAIN>(u < GROUP<K> ? format<T>::load(from.g.v[j]) : 0, apply(a, *z, b),
                                act, from.keep >> j & 1, scale);
}

/* Returns the gradient of s at a position. */
template <typename T, int V>
__device__ inline pack<T, V> gradient_at(const share<T, V> &from, unsigned number)
{
    pack<T, V> g;
#pragma unroll
    for (int j = 0; j < V; j++)
        g.v[j] = from.place.v[j] == number ? from.g.v[j] : format<T>::store(0);
    return g;
}

/* ---- kernels ---- */

/* Compares values rounded as y would be. NaN wins, as in pool.cu. */
template <typename T, int V, int K, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    pool_forward_kernel(geometry g, windows w, affine f, activation act, float low_out,
                        dropout drop, const T *z, const T *r, T *y, uint8_t *argmax)
{
    const place<V> me(g);
    const unsigned pool = K ? K : w.pool;
    typedef table<AFFINE_TABLE, V> coefficients;
    constexpr int Q = coefficients::QUAD;
    __shared__ coefficients t;
    fill_affine(t, g, f);
    for (window at = first_window(g, w, me); at.image < w.images; advance(w, &at)) {
        float best[V];
        pack<T, V> out;
        pack<uint8_t, V> places;
#pragma unroll
        for (int j = 0; j < V; j++) {
            best[j] = -INFINITY;
            places.v[j] = 0;
        }
        for (unsigned first = 0; first < pool * pool; first += GROUP<K>) {
            forget();
            spot s[GROUP<K>];
            words<T, V> x[GROUP<K>], other[GROUP<K>];
            locate<K>(g, w, at, me, first, s);
            fetch(z, s, x);
            if (r)
                fetch(r, s, other);
            unsigned keep[GROUP<K>];
#pragma unroll
            for (unsigned u = 0; u < GROUP<K>; u++)
                keep[u] = kept<V>(drop, s[u]);
#pragma unroll
            for (int h = 0; h < V / Q; h++) {
                float c[AFFINE_TABLE][Q];
                t.read(me, h, c);
#pragma unroll
                for (unsigned u = 0; u < GROUP<K>; u++) {
                    if (!K && !s[u].live)
                        continue;
#pragma unroll
                    for (int i = 0; i < Q; i++) {
                        const int j = h * Q + i;
                        float vj = act_with_dropout<PLAIN>(c[A][i], unpack(x[u]).v[j], c[B][i], act,
                                                           keep[u] >> j & 1);
                        vj = r ? fmaf(vj, drop.scale, format<T>::load(unpack(other[u]).v[j]))
                               : vj * drop.scale;
                        vj = format<T>::load(format<T>::store(vj < low_out ? low_out : vj));
                        if (vj > best[j] || vj != vj) {
                            best[j] = vj;
                            places.v[j] = (uint8_t)(first + u);
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int j = 0; j < V; j++)
            out.v[j] = format<T>::store(best[j]);
        const size_t to = pooled_at(g, w, at, me);
        reinterpret_cast<pack<T, V> *>(y)[to] = out;
        if (argmax)
            reinterpret_cast<pack<uint8_t, V> *>(argmax)[to] = places;
    }
}

/* Backward, pass 1: the sums of g and g (z - mean), g the gradient of u. */
template <typename T, int V, int K, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    pool_gradient_sums_kernel(geometry g, windows w, affine f, activation act, dropout drop,
                              pooled<T> in, const T *z, merging m, gradient_end end)
{
    const place<V> me(g);
    const unsigned pool = K ? K : w.pool;
    typedef table<SUM_TABLE, V> coefficients;
    constexpr int Q = coefficients::QUAD;
    __shared__ coefficients t;
    fill_sums(t, g, f);
    float s[V] = {}, q[V] = {};
    for (window k = first_window(g, w, me); k.image < w.images; advance(w, &k)) {
        const window at = mirrored(w, k);
        share<T, V> from;
        for (unsigned first = 0; first < pool * pool; first += GROUP<K>) {
            forget();
            spot spots[GROUP<K>];
            words<T, V> x[GROUP<K>];
            locate<K>(g, w, at, me, first, spots);
            fetch(z, spots, x);
            if (first == 0) /* after issuing the loads of z */
                load_share<K>(g, w, at, me, drop, in, &from);
#pragma unroll
            for (int h = 0; h < V / Q; h++) {
                float c[SUM_TABLE][Q];
                t.read(me, h, c);
#pragma unroll
                for (int i = 0; i < Q; i++) {
                    const int j = h * Q + i;
                    float zj;
                    const float du = gradient_of_group<K, PLAIN>(from, j, first, x, c[A][i],
                                                                 c[B][i], act, drop.scale, &zj);
                    s[j] += du;
                    q[j] = fmaf(du, zj - c[MEAN][i], q[j]);
                }
            }
        }
    }
    write_partial(g, me, s, q, m.partial);
    merge<V>(g, m, [&](int c, const double(&total)[2]) { end(f, g.channels, c, total); });
}

/* Backward, pass 2: overwrites z with dz, and writes the gradient of s to ds unless NULL. */
template <typename T, int V, int K, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    pool_gradient_kernel(geometry g, windows w, affine f, activation act, dropout drop,
                         pooled<T> in, const float *coefficient, T *z, T *ds)
{
    const place<V> me(g);
    const unsigned pool = K ? K : w.pool;
    typedef table<DZ_TABLE, V> coefficients;
    constexpr int Q = coefficients::QUAD;
    __shared__ coefficients t;
    fill_dz(t, g, f, coefficient);
    for (window at = first_window(g, w, me); at.image < w.images; advance(w, &at)) {
        share<T, V> from = {};
        for (unsigned first = 0; first < pool * pool; first += GROUP<K>) {
            forget();
            spot spots[GROUP<K>];
            words<T, V> x[GROUP<K>];
            locate<K>(g, w, at, me, first, spots);
            fetch(z, spots, x);
            if (first == 0 && whole(w, at))
                load_share<K>(g, w, at, me, drop, in, &from);
            if (ds)
#pragma unroll
                for (unsigned u = 0; u < GROUP<K>; u++)
                    put(ds, spots[u], gradient_at(from, first + u));
#pragma unroll
            for (int h = 0; h < V / Q; h++) {
                float c[DZ_TABLE][Q];
                t.read(me, h, c);
#pragma unroll
                for (int i = 0; i < Q; i++) {
                    const int j = h * Q + i;
                    float zj;
                    const float du = gradient_of_group<K, PLAIN>(from, j, first, x, c[A][i],
                                                                 c[B][i], act, drop.scale, &zj);
#pragma unroll
                    for (unsigned u = 0; u < GROUP<K>; u++) {
                        const bool own = from.place.v[j] == first + u;
                        pack<T, V> dz = unpack(x[u]);
                        zj = fmaf(c[CZ][i], format<T>::load(dz.v[j]), c[C0][i]);
                        dz.v[j] = format<T>::store(fmaf(c[CG][i], own ? du : 0, zj));
                        x[u] = waiting(dz);
                    }
                }
            }
#pragma unroll
            for (unsigned u = 0; u < GROUP<K>; u++)
                put(z, spots[u], unpack(x[u]));
        }
    }
}

/* ---- launch ---- */

/* all: all windows; else complete ones only. */
geometry geometry_of(const ss_norm_act *op, ss_dtype dtype, bool all, int most_blocks, windows *w)
{
    const ss_act *s = &op->shape;
    const unsigned pool = (unsigned)op->pool;
    w->h = (unsigned)s->h;
    w->w = (unsigned)s->w;
    w->p = w->h / pool;
    w->q = w->w / pool;
    w->pool = pool;
    w->inverse = ((1u << 16) + pool - 1) / pool;
    w->images = (unsigned)s->n;
    w->rows = all ? (w->h + pool - 1) / pool : w->p;
    w->columns = all ? (w->w + pool - 1) / pool : w->q;
    const geometry g = geometry_make(dtype, s->c, w->images * w->rows * w->columns, 1, most_blocks);
    const unsigned step = (unsigned)g.blocks * (unsigned)g.rows;
    w->step_columns = step % w->columns;
    w->step_rows = step / w->columns % w->rows;
    w->step_images = step / w->columns / w->rows;
    return g;
}

template <typename T> pooled<T> pooled_of(const ss_norm_act *op, const ss_norm_act_grad *grad)
{
    pooled<T> in = {};
    for (int k = 0; k < grad->ndy; k++)
        in.dy[k] = (const T *)grad->dy[k];
    in.n = grad->ndy;
    in.y = op->relu_out ? (const T *)grad->y : nullptr;
    in.argmax = grad->workspace;
    return in;
}

/* Other activations are compute-bound, so 2x2 windows have no special kernels for them. */
#define POOL_KERNEL(name)                                                                          \
    (is_plain(op->act) ? (g.vector == 1   ? name<T, 1, 0, true>                                    \
                          : op->pool == 2 ? name<T, V, 2, true>                                    \
                                          : name<T, V, 0, true>)                                   \
     : g.vector == 1   ? name<T, 1, 0, false>                                                      \
                       : name<T, V, 0, false>)

template <typename T>
void launch_forward(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                    const dropout &drop, const void *z, const void *r, void *y, uint8_t *argmax)
{
    constexpr int V = format<T>::vector;
    windows w;
    const geometry g = geometry_of(op, gpu->options.dtype, false, DZ_BLOCKS, &w);
    const auto kernel = POOL_KERNEL(pool_forward_kernel);
    SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, w, f, activation_of(op),
              low_of(op->relu_out != 0), drop, (const T *)z, (const T *)r, (T *)y, argmax);
}

template <typename T>
void launch_sums(const ss_device *gpu, const ss_norm_act *op, const affine &f, const dropout &drop,
                 const ss_norm_act_grad *grad, const merging &m, const gradient_end &end)
{
    constexpr int V = format<T>::vector;
    windows w;
    const geometry g = geometry_of(op, gpu->options.dtype, false, GRADIENT_BLOCKS, &w);
    const auto kernel = POOL_KERNEL(pool_gradient_sums_kernel);
    SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, w, f, activation_of(op), drop,
              pooled_of<T>(op, grad), (const T *)grad->z, m, end);
}

template <typename T>
void launch_gradient(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                     const dropout &drop, const ss_norm_act_grad *grad, const float *coefficient)
{
    constexpr int V = format<T>::vector;
    windows w;
    const geometry g = geometry_of(op, gpu->options.dtype, true, DZ_BLOCKS, &w);
    const auto kernel = POOL_KERNEL(pool_gradient_kernel);
    SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, w, f, activation_of(op), drop,
              pooled_of<T>(op, grad), coefficient, (T *)grad->dz, (T *)grad->ds);
}

} // namespace

ss_status ss::norm::pool_forward(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                                 const dropout &drop, const void *z, const void *r, void *y,
                                 uint8_t *argmax)
{
    SS_DISPATCH(gpu->options.dtype, launch_forward<T>(gpu, op, f, drop, z, r, y, argmax));
    SS_LAUNCHED("normalisation and pooling");
    return SS_OK;
}

int ss::norm::pool_gradient_blocks(const ss_norm_act *op, ss_dtype dtype)
{
    windows w;
    return geometry_of(op, dtype, false, GRADIENT_BLOCKS, &w).blocks;
}

ss_status ss::norm::pool_gradient_sums(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                                       const dropout &drop, const ss_norm_act_grad *grad,
                                       const merging &m, const gradient_end &end)
{
    SS_DISPATCH(gpu->options.dtype, launch_sums<T>(gpu, op, f, drop, grad, m, end));
    SS_LAUNCHED("BatchNorm backward with pooling");
    return SS_OK;
}

ss_status ss::norm::pool_gradient(const ss_device *gpu, const ss_norm_act *op, const affine &f,
                                  const dropout &drop, const ss_norm_act_grad *grad,
                                  const float *coefficient)
{
    SS_DISPATCH(gpu->options.dtype, launch_gradient<T>(gpu, op, f, drop, grad, coefficient));
    SS_LAUNCHED("normalisation backward with pooling");
    return SS_OK;
}
