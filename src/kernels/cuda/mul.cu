/* mul.cu: products (kernels/list.h).
 *
 * With a factor per channel, backward sums over the pixels of an image, or, for a parameter, of
 * all images. Pixels are divided into shares depending on the shape only, every share is summed
 * in a fixed order, and a second kernel adds the shares in double, so results are bit-identical
 * on all devices. */
#include "kernels/cuda/grid.cuh"

namespace
{

constexpr unsigned THREADS = 256;
/* A share has at least PIXELS_PER_THREAD pixels per thread. All images together have at most
 * MOST_SHARES shares, but each image at least one. */
constexpr unsigned PIXELS_PER_THREAD = 8, MOST_SHARES = 512;

struct gradients {
    const void *dy[SS_NORM_MAX_DY];
    int n;
};

/* Reads the sum of the gradients at V elements from `at`. The loop is unrolled, because a
 * variable index would put the addresses into local memory. */
template <typename T, int V>
__device__ inline void read_sum(const gradients &g, size_t at, float (&sum)[V])
{
    ss::load(static_cast<const T *>(g.dy[0]) + at, sum);
#pragma unroll
    for (int k = 1; k < SS_NORM_MAX_DY; k++) {
        if (k == g.n)
            break;
        float more[V];
        ss::load(static_cast<const T *>(g.dy[k]) + at, more);
#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] += more[j];
    }
}

template <typename T, int V>
__device__ inline void product_at(const T *a, const T *b, T *y, size_t at)
{
    float v[V], w[V];
    ss::load(a + at, v);
    ss::load(b + at, w);
#pragma unroll
    for (int j = 0; j < V; j++)
        v[j] *= w[j];
    ss::store(y + at, v);
}

template <typename T> __global__ void product_kernel(const T *a, const T *b, T *y, size_t count)
{
    constexpr int V = ss::format<T>::vector;
    const size_t vectors = count / V;
    for (size_t i = ss::flat_begin(); i < vectors; i += ss::flat_step())
        product_at<T, V>(a, b, y, i * V);
    for (size_t i = vectors * V + ss::flat_begin(); i < count; i += ss::flat_step())
        product_at<T, 1>(a, b, y, i);
}

template <typename T, int V>
__device__ inline void product_gradients_at(const gradients &dy, const T *a, const T *b, T *da,
                                            T *db, size_t at)
{
    float g[V], v[V], w[V];
    read_sum<T>(dy, at, g);
    ss::load(a + at, v);
    ss::load(b + at, w);
#pragma unroll
    for (int j = 0; j < V; j++) {
        v[j] *= g[j];
        w[j] *= g[j];
    }
    if (da)
        ss::store(da + at, w);
    if (db)
        ss::store(db + at, v);
}

template <typename T>
__global__ void product_gradients_kernel(gradients dy, const T *a, const T *b, T *da, T *db,
                                         size_t count)
{
    constexpr int V = ss::format<T>::vector;
    const size_t vectors = count / V;
    for (size_t i = ss::flat_begin(); i < vectors; i += ss::flat_step())
        product_gradients_at<T, V>(dy, a, b, da, db, i * V);
    for (size_t i = vectors * V + ss::flat_begin(); i < count; i += ss::flat_step())
        product_gradients_at<T, 1>(dy, a, b, da, db, i);
}

/* ---- a factor per channel ---- */

/* `images` times `pixels` pixels of `channels`; images that share factors count as one. */
struct geometry {
    size_t images, pixels;
    unsigned channels, shares; /* of an image */
    ss::tile tile;
};

/* Reads the factors of V channels, in the format S. */
template <typename S, int V>
__device__ inline void read_factors(const S *s, size_t image, const geometry &g, unsigned vector,
                                    float (&f)[V])
{
#pragma unroll
    for (int j = 0; j < V; j++)
        f[j] = ss::format<S>::load(s[image * g.channels + vector * V + (unsigned)j]);
}

/* Begin and end of this block's share of an image. */
struct span {
    size_t begin, end;
};
__device__ inline span share_of(const geometry &g)
{
    const size_t share = (g.pixels + g.shares - 1) / g.shares, begin = blockIdx.x * share;
    return {begin, begin + share < g.pixels ? begin + share : g.pixels};
}

template <typename T, typename S, int V>
__global__ void scale_kernel(geometry g, const T *x, const S *s, T *y)
{
    const ss::tile_place here = ss::tile_here(g.tile);
    if (!here.active)
        return;
    const span mine = share_of(g);
    for (size_t n = blockIdx.z; n < g.images; n += gridDim.z) {
        float f[V];
        read_factors<S>(s, n, g, here.vector, f);
        for (size_t p = mine.begin + here.row; p < mine.end; p += g.tile.rows) {
            const size_t at = (n * g.pixels + p) * g.channels + here.vector * V;
            float v[V];
            ss::load(x + at, v);
#pragma unroll
            for (int j = 0; j < V; j++)
                v[j] *= f[j];
            ss::store(y + at, v);
        }
    }
}

/* partials [image][share][channel] */
template <typename T, typename S, int V>
__global__ void scale_gradients_kernel(geometry g, gradients dy, const T *x, const S *s, T *dx,
                                       float *__restrict__ partials)
{
    __shared__ float sums[THREADS * V]; /* [j][row][col] */
    const ss::tile_place here = ss::tile_here(g.tile);
    const span mine = share_of(g);
    for (size_t n = blockIdx.z; n < g.images; n += gridDim.z) {
        float sum[V] = {};
        if (here.active) {
            float f[V];
            read_factors<S>(s, n, g, here.vector, f);
            for (size_t p = mine.begin + here.row; p < mine.end; p += g.tile.rows) {
                const size_t at = (n * g.pixels + p) * g.channels + here.vector * V;
                float d[V], v[V];
                read_sum<T>(dy, at, d);
                ss::load(x + at, v);
#pragma unroll
                for (int j = 0; j < V; j++) {
                    sum[j] += d[j] * v[j];
                    d[j] *= f[j];
                }
                if (dx)
                    ss::store(dx + at, d);
            }
        }
#pragma unroll
        for (int j = 0; j < V; j++)
            sums[j * THREADS + threadIdx.x] = sum[j];
        __syncthreads();
        for (unsigned i = threadIdx.x; i < g.tile.cols * V; i += THREADS) {
            const unsigned j = i / g.tile.cols, col = i - j * g.tile.cols;
            const unsigned vector = blockIdx.y * g.tile.cols + col;
            float total = 0;
            for (unsigned row = 0; row < g.tile.rows; row++)
                total += sums[j * THREADS + row * g.tile.cols + col];
            if (vector < g.tile.vectors)
                partials[(n * g.shares + blockIdx.x) * g.channels + vector * V + j] = total;
        }
        __syncthreads();
    }
}

/* One thread per factor: adds its shares in order. */
template <typename S>
__global__ void merge_kernel(const float *__restrict__ partials, size_t images, unsigned shares,
                             unsigned channels, S *__restrict__ ds, struct ss_scaler *scaler)
{
    bool found = false;
    for (size_t i = ss::flat_begin(); i < images * channels; i += ss::flat_step()) {
        const size_t n = i / channels, c = i - n * channels;
        double sum = 0;
#pragma unroll 4
        for (unsigned k = 0; k < shares; k++)
            sum += (double)partials[(n * shares + k) * channels + c];
        found |= ss::not_finite((float)sum);
        ds[i] = ss::format<S>::store((float)sum);
    }
    ss::tell(scaler, found);
}

/* ---- kernel selection and launch ---- */

enum ss_status check(const struct ss_mul *op, int n)
{
    const struct ss_act *x = &op->x;
    SS_TRY(ss_mul_check(op, n));
    if (x->n < 1 || x->c < 1 || x->h < 1 || x->w < 1 || x->block != x->c ||
        (op->kind != SS_MUL_PARAM && op->s.block != x->c))
        return ss_fail(
            SS_ERR_SHAPE,
            "a product of a tensor (%d,%d,%d,%d) in blocks of %d channels; sizes must be "
            "at least 1, and all channels one block",
            x->n, x->c, x->h, x->w, x->block);
    return SS_OK;
}

bool has_vectors(const struct ss_device *gpu, const struct ss_mul *op)
{
    return op->x.c % (16 / (int)ss_dtype_bytes(ss_cuda_dtype(gpu))) == 0;
}

geometry geometry_make(const struct ss_device *gpu, const struct ss_mul *op)
{
    const int vector = has_vectors(gpu, op) ? 16 / (int)ss_dtype_bytes(ss_cuda_dtype(gpu)) : 1;
    const size_t plane = (size_t)op->x.h * (size_t)op->x.w, n = (size_t)op->x.n;
    geometry g;
    g.images = op->kind == SS_MUL_IMAGE ? n : 1;
    g.pixels = op->kind == SS_MUL_IMAGE ? plane : plane * n;
    g.channels = (unsigned)op->x.c;
    g.tile = ss::tile_make(op->x.c, vector, THREADS);
    const size_t share = (size_t)g.tile.rows * PIXELS_PER_THREAD;
    const size_t want = (g.pixels + share - 1) / share, most = MOST_SHARES / g.images;
    g.shares = (unsigned)(want < most ? want : most > 1 ? most : 1);
    return g;
}

dim3 grid_of(const geometry &g)
{
    return dim3(g.shares, g.tile.tiles, (unsigned)(g.images < 65535 ? g.images : 65535));
}

template <typename T>
void equal_forward(const struct ss_device *gpu, const struct ss_mul *op, const void *x,
                   const void *s, void *y)
{
    const size_t count = ss_act_elements(&op->x);
    const unsigned grid = ss::grid_for(gpu, count / ss::format<T>::vector, THREADS, THREADS);
    const auto kernel = product_kernel<T>;
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, static_cast<const T *>(x),
              static_cast<const T *>(s), static_cast<T *>(y), count);
}

template <typename T>
void equal_backward(const struct ss_device *gpu, const struct ss_mul *op, const gradients &dy,
                    const void *x, const void *s, void *dx, void *ds)
{
    const size_t count = ss_act_elements(&op->x);
    const unsigned grid = ss::grid_for(gpu, count / ss::format<T>::vector, THREADS, THREADS);
    const auto kernel = product_gradients_kernel<T>;
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, dy, static_cast<const T *>(x),
              static_cast<const T *>(s), static_cast<T *>(dx), static_cast<T *>(ds), count);
}

template <typename T, typename S>
void scale_forward(const struct ss_device *gpu, const struct ss_mul *op, const void *x,
                   const void *s, void *y)
{
    const geometry g = geometry_make(gpu, op);
    const auto kernel =
        has_vectors(gpu, op) ? scale_kernel<T, S, ss::format<T>::vector> : scale_kernel<T, S, 1>;
    SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, static_cast<const T *>(x),
              static_cast<const S *>(s), static_cast<T *>(y));
}

/* scaler: for the gradient of a parameter; else NULL. */
template <typename T, typename S>
void scale_backward(const struct ss_device *gpu, const struct ss_mul *op, const gradients &dy,
                    const void *x, const void *s, void *dx, void *ds, struct ss_scaler *scaler)
{
    const geometry g = geometry_make(gpu, op);
    const auto kernel = has_vectors(gpu, op) ? scale_gradients_kernel<T, S, ss::format<T>::vector>
                                             : scale_gradients_kernel<T, S, 1>;
    float *partials = static_cast<float *>(ss_cuda_scratch(gpu));
    SS_LAUNCH(kernel, grid_of(g), THREADS, gpu->stream, g, dy, static_cast<const T *>(x),
              static_cast<const S *>(s), static_cast<T *>(dx), partials);
    if (!ds)
        return;
    const auto merge = merge_kernel<S>;
    const unsigned grid = ss::grid_for(gpu, g.images * g.channels, THREADS, THREADS);
    SS_LAUNCH(merge, grid, THREADS, gpu->stream, partials, g.images, g.shares, g.channels,
              static_cast<S *>(ds), scaler);
}

} // namespace

enum ss_status ss_cuda_mul_reserve(struct ss_device *gpu, const struct ss_mul *op)
{
    SS_TRY(check(op, 1));
    if (op->kind == SS_MUL_EQUAL)
        return SS_OK;
    const geometry g = geometry_make(gpu, op);
    return ss_cuda_reserve(gpu, g.images * g.shares * g.channels * sizeof(float));
}

enum ss_status ss_cuda_mul_forward(struct ss_device *gpu, const struct ss_mul *op, const void *x,
                                   const void *s, void *y)
{
    SS_TRY(check(op, 1));
    if (op->kind == SS_MUL_EQUAL)
        SS_DISPATCH(ss_cuda_dtype(gpu), equal_forward<T>(gpu, op, x, s, y));
    else if (op->kind == SS_MUL_PARAM)
        SS_DISPATCH(ss_cuda_dtype(gpu), (scale_forward<T, float>(gpu, op, x, s, y)));
    else
        SS_DISPATCH(ss_cuda_dtype(gpu), (scale_forward<T, T>(gpu, op, x, s, y)));
    SS_LAUNCHED("a product");
    return SS_OK;
}

enum ss_status ss_cuda_mul_backward(struct ss_device *gpu, const struct ss_mul *op,
                                    const void *const *dy, int n, const void *x, const void *s,
                                    void *dx, void *ds)
{
    SS_TRY(check(op, n));
    gradients g = {};
    g.n = n;
    for (int k = 0; k < n; k++)
        g.dy[k] = dy[k];
    if (op->kind == SS_MUL_EQUAL)
        SS_DISPATCH(ss_cuda_dtype(gpu), equal_backward<T>(gpu, op, g, x, s, dx, ds));
    else if (op->kind == SS_MUL_PARAM)
        SS_DISPATCH(ss_cuda_dtype(gpu),
                    (scale_backward<T, float>(gpu, op, g, x, s, dx, ds, gpu->scaler)));
    else
        SS_DISPATCH(ss_cuda_dtype(gpu), (scale_backward<T, T>(gpu, op, g, x, s, dx, ds, nullptr)));
    SS_LAUNCHED("a product's gradient");
    return SS_OK;
}
