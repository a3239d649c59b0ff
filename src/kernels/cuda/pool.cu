/* pool.cu: max and average pooling.
 *
 * Forward: a thread computes one output for 16 bytes of channels. Backward: a thread computes one
 * element of dx from the windows that cover it (gather: no atomics, a fixed order). Adjacent 2x2
 * windows, the common case, have special kernels without a search: K = 2 below; K = 0 is any
 * other window.
 *
 * A NaN in a max window wins, as in PyTorch. */
#include "kernels/cuda/grid.cuh"
extern "C" {
#include "kernels/divide.h"
}

namespace
{

/* Small blocks, because the average pool before the classifier has few outputs. */
constexpr unsigned THREADS = 128;
constexpr int MOST_PLACES = 256; /* positions in a window: an index is a byte */
constexpr int LOADS = 4;         /* in flight while a row of a window is read */

struct geometry {
    unsigned pixels;   /* to loop over: y's, x's, or 2x2 windows; < 2^31 */
    int height, width; /* of an image in that loop */
    struct ss_divider by_height, by_width, by_stride[2];
    int h, w, p, q; /* of x and y */
    struct ss_pool_shape s;
    bool alike;  /* all averages are over kernel^2 positions */
    float share; /* if alike: 1 / kernel^2 */
    unsigned channels;
    ss::tile tile;
};

/* A thread's first pixel in the loop and the distance to its next. No overflow, because the grid
 * is bounded. */
__device__ inline unsigned first_pixel(const struct geometry &g, const ss::tile_place &here)
{
    return blockIdx.x * g.tile.rows + here.row;
}
__device__ inline unsigned pixel_step(const struct geometry &g)
{
    return gridDim.x * g.tile.rows;
}

/* Image, row and column of a pixel in the loop. */
struct position {
    int n, row, column;
};
__device__ inline struct position locate(const struct geometry &g, unsigned pixel)
{
    const int line = (int)ss_divide(pixel, g.by_width);
    struct position at;
    at.column = (int)pixel - line * g.width;
    at.n = (int)ss_divide((unsigned)line, g.by_height);
    at.row = line - at.n * g.height;
    return at;
}

/* Returns the element index of a pixel's first channel in a tensor of this height and width. */
__device__ inline size_t pixel_at(int n, int height, int row, int width, int column,
                                  unsigned channels)
{
    return (((size_t)n * (size_t)height + (size_t)row) * (size_t)width + (size_t)column) * channels;
}

template <typename T, int V, bool MAX, int K>
__global__ void forward_kernel(geometry g, const T *__restrict__ x, T *__restrict__ y,
                               uint8_t *__restrict__ argmax)
{
    constexpr int U = K ? K : LOADS;
    const ss::tile_place here = ss::tile_here(g.tile);
    if (!here.active)
        return;
    const unsigned channel = here.vector * V;
    for (unsigned o = first_pixel(g, here); o < g.pixels; o += pixel_step(g)) {
        const struct position at = locate(g, o);
        const int top = K ? at.row * K : at.row * g.s.stride[0] - g.s.pad[0];
        const int left = K ? at.column * K : at.column * g.s.stride[1] - g.s.pad[1];
        /* The range of the window inside x, in window coordinates. */
        const int kernel = K ? K : g.s.kernel[1];
        int i0 = 0, i1 = K, j0 = 0, j1 = K;
        float share = g.share;
        if (!K) {
            const int rows = ss_pool_window(&g.s, 0, at.row, &i0, &i1),
                      columns = ss_pool_window(&g.s, 1, at.column, &j0, &j1);
            i0 -= top, i1 -= top, j0 -= left, j1 -= left;
            if (!MAX && !g.alike)
                share = 1 / ((float)rows * (float)columns);
        }
        float best[V];
        int place[V];
#pragma unroll
        for (int c = 0; c < V; c++) {
            best[c] = MAX ? -INFINITY : 0;
            place[c] = i0 * kernel + j0;
        }
        for (int i = i0; i < i1; i++) {
            const T *line = x + pixel_at(at.n, g.h, top + i, g.w, 0, g.channels) + channel;
            for (int j = j0; j < j1; j += U) {
                float v[U][V];
#pragma unroll
                for (int u = 0; u < U; u++) /* past the end: reloads the last, unused */
                    ss::load(line + (size_t)(left + min(j + u, j1 - 1)) * g.channels, v[u]);
#pragma unroll
                for (int u = 0; u < U; u++) {
                    const bool inside = j + u < j1;
#pragma unroll
                    for (int c = 0; c < V; c++) {
                        if (!MAX) {
                            best[c] += inside ? v[u][c] : 0;
                        } else if (inside && (v[u][c] > best[c] || v[u][c] != v[u][c])) {
                            best[c] = v[u][c];
                            place[c] = i * kernel + j + u;
                        }
                    }
                }
            }
        }
        const size_t out = (size_t)o * g.channels + channel;
        if (!MAX)
#pragma unroll
            for (int c = 0; c < V; c++)
                best[c] *= share;
        ss::store(y + out, best);
        if (MAX && argmax) {
            ss::pack<uint8_t, V> bytes;
#pragma unroll
            for (int c = 0; c < V; c++)
                bytes.v[c] = (uint8_t)place[c];
            *reinterpret_cast<ss::pack<uint8_t, V> *>(argmax + out) = bytes;
        }
    }
}

/* Adds the gradients of V outputs for the element of dx at position `place` of their window. */
template <typename T, int V, bool MAX>
__device__ inline void take(const T *__restrict__ dy, const uint8_t *__restrict__ argmax, size_t at,
                            int place, float share, float (&sum)[V])
{
    float v[V];
    ss::load(dy + at, v);
    if (MAX) {
        const ss::pack<uint8_t, V> bytes =
            *reinterpret_cast<const ss::pack<uint8_t, V> *>(argmax + at);
#pragma unroll
        for (int c = 0; c < V; c++)
            sum[c] += bytes.v[c] == place ? v[c] : 0;
    } else {
#pragma unroll
        for (int c = 0; c < V; c++)
            sum[c] = fmaf(v[c], share, sum[c]);
    }
}

/* The windows [begin, end) that cover row (or column) `row` of x. */
struct cover {
    int begin, end;
};
__device__ inline struct cover covering(const struct geometry &g, int axis, int row, int outputs)
{
    const int padded = row + g.s.pad[axis], kernel = g.s.kernel[axis];
    struct cover out;
    if (g.s.kind == SS_POOL_ADAPTIVE) { /* the formula of windows, with input and output swapped */
        const int in = axis ? g.w : g.h;
        out.begin = (int)((int64_t)row * outputs / in);
        out.end = (int)(((int64_t)(row + 1) * outputs + in - 1) / in);
        return out;
    }
    const struct ss_divider by = g.by_stride[axis];
    out.begin = padded < kernel ? 0 : (int)ss_divide((unsigned)(padded - kernel), by) + 1;
    out.end = min(outputs, (int)ss_divide((unsigned)padded, by) + 1);
    return out;
}

template <typename T, int V, bool MAX>
__global__ void backward_kernel(geometry g, const T *__restrict__ dy,
                                const uint8_t *__restrict__ argmax, T *__restrict__ dx)
{
    const ss::tile_place here = ss::tile_here(g.tile);
    if (!here.active)
        return;
    const unsigned channel = here.vector * V;
    for (unsigned i = first_pixel(g, here); i < g.pixels; i += pixel_step(g)) {
        const struct position at = locate(g, i);
        const struct cover rows = covering(g, 0, at.row, g.p),
                           columns = covering(g, 1, at.column, g.q);
        float sum[V] = {};
        for (int p = rows.begin; p < rows.end; p++) {
            const int above = (at.row + g.s.pad[0] - p * g.s.stride[0]) * g.s.kernel[1];
            for (int q = columns.begin; q < columns.end; q++) {
                const int place = above + at.column + g.s.pad[1] - q * g.s.stride[1];
                int begin, end;
                const float share = MAX || g.alike
                                        ? 1
                                        : 1 / ((float)ss_pool_window(&g.s, 0, p, &begin, &end) *
                                               (float)ss_pool_window(&g.s, 1, q, &begin, &end));
                take<T, V, MAX>(dy, argmax, pixel_at(at.n, g.p, p, g.q, q, g.channels) + channel,
                                place, share, sum);
            }
        }
        if (!MAX && g.alike)
#pragma unroll
            for (int c = 0; c < V; c++)
                sum[c] *= g.share;
        ss::store(dx + (size_t)i * g.channels + channel, sum);
    }
}

/* Adjacent 2x2 windows: a thread writes the four elements of dx of one window, or zeros where no
 * window covers an odd row or column of x. */
template <typename T, int V, bool MAX>
__global__ void backward_2x2_kernel(geometry g, const T *__restrict__ dy,
                                    const uint8_t *__restrict__ argmax, T *__restrict__ dx)
{
    const ss::tile_place here = ss::tile_here(g.tile);
    if (!here.active)
        return;
    const unsigned channel = here.vector * V;
    for (unsigned window = first_pixel(g, here); window < g.pixels; window += pixel_step(g)) {
        const struct position at = locate(g, window);
        const bool covered = at.row < g.p && at.column < g.q;
        float v[V] = {};
        ss::pack<uint8_t, V> places = {};
        if (covered) {
            const size_t from = pixel_at(at.n, g.p, at.row, g.q, at.column, g.channels) + channel;
            ss::load(dy + from, v);
            if (MAX)
                places = *reinterpret_cast<const ss::pack<uint8_t, V> *>(argmax + from);
        }
#pragma unroll
        for (int place = 0; place < 4; place++) {
            const int h = 2 * at.row + place / 2, w = 2 * at.column + place % 2;
            float out[V];
#pragma unroll
            for (int c = 0; c < V; c++)
                out[c] = !MAX ? v[c] * g.share : places.v[c] == place ? v[c] : 0;
            if (h < g.h && w < g.w)
                ss::store(dx + pixel_at(at.n, g.h, h, g.w, w, g.channels) + channel, out);
        }
    }
}

/* ---- kernel selection and launch ---- */

bool is_2x2(const struct ss_pool_shape *s)
{
    for (int a = 0; a < 2; a++)
        if (s->kernel[a] != 2 || s->stride[a] != 2 || s->pad[a] || ss_pool_beyond(s, a) > 0)
            return false;
    return s->kind != SS_POOL_ADAPTIVE;
}

bool has_vectors(const struct ss_device *gpu, const struct ss_pool_shape *s)
{
    return s->x.block % (16 / (int)ss_dtype_bytes(ss_cuda_dtype(gpu))) == 0;
}

/* Makes the geometry of threads that loop over images of height x width pixels. */
struct geometry geometry_make(const struct ss_device *gpu, const struct ss_pool_shape *s,
                              int height, int width)
{
    const int vector = has_vectors(gpu, s) ? 16 / (int)ss_dtype_bytes(ss_cuda_dtype(gpu)) : 1;
    struct geometry g;
    g.pixels = (unsigned)s->x.n * (unsigned)height * (unsigned)width;
    g.height = height;
    g.width = width;
    g.by_height = ss_divider_make((uint32_t)height);
    g.by_width = ss_divider_make((uint32_t)width);
    for (int a = 0; a < 2; a++)
        g.by_stride[a] = ss_divider_make(s->stride[a] > 0 ? (uint32_t)s->stride[a] : 1);
    g.h = s->x.h;
    g.w = s->x.w;
    g.p = s->y.h;
    g.q = s->y.w;
    g.s = *s;
    g.alike = s->kind == SS_POOL_AVG &&
              (s->count_pad ? ss_pool_beyond(s, 0) <= 0 && ss_pool_beyond(s, 1) <= 0
                            : !s->pad[0] && !s->pad[1] && ss_pool_beyond(s, 0) <= 0 &&
                                  ss_pool_beyond(s, 1) <= 0);
    g.share = g.alike ? 1 / (float)(s->kernel[0] * s->kernel[1]) : 1;
    g.channels = (unsigned)s->x.block;
    g.tile = ss::tile_make(s->x.block, vector, THREADS);
    return g;
}

dim3 grid_of(const struct ss_device *gpu, const struct geometry &g)
{
    return dim3(ss::grid_for(gpu, g.pixels, g.tile.rows, THREADS), g.tile.tiles);
}

template <typename T, bool MAX>
void forward_launch(const struct ss_device *gpu, const struct ss_pool_shape *s, const void *x,
                    void *y, uint8_t *argmax)
{
    constexpr int V = ss::format<T>::vector;
    const struct geometry g = geometry_make(gpu, s, s->y.h, s->y.w);
    const auto kernel = !has_vectors(gpu, s) ? forward_kernel<T, 1, MAX, 0>
                        : is_2x2(s)          ? forward_kernel<T, V, MAX, 2>
                                             : forward_kernel<T, V, MAX, 0>;
    SS_LAUNCH(kernel, grid_of(gpu, g), THREADS, gpu->stream, g, static_cast<const T *>(x),
              static_cast<T *>(y), argmax);
}

template <typename T, bool MAX>
void backward_launch(const struct ss_device *gpu, const struct ss_pool_shape *s, const void *dy,
                     const uint8_t *argmax, void *dx)
{
    constexpr int V = ss::format<T>::vector;
    const bool windows = is_2x2(s) && has_vectors(gpu, s);
    const struct geometry g = windows ? geometry_make(gpu, s, (s->x.h + 1) / 2, (s->x.w + 1) / 2)
                                      : geometry_make(gpu, s, s->x.h, s->x.w);
    const auto kernel = windows               ? backward_2x2_kernel<T, V, MAX>
                        : has_vectors(gpu, s) ? backward_kernel<T, V, MAX>
                                              : backward_kernel<T, 1, MAX>;
    SS_LAUNCH(kernel, grid_of(gpu, g), THREADS, gpu->stream, g, static_cast<const T *>(dy), argmax,
              static_cast<T *>(dx));
}

/* Checks that pixel indices fit into an int, including rows with their padding. */
enum ss_status check_pixels(const struct ss_act *a)
{
    if ((double)a->n * a->h * a->w <= (double)(INT32_MAX - 16))
        return SS_OK;
    return ss_fail(SS_ERR_SHAPE,
                   "pooling: %d images of %dx%d pixels; the total must be less than 2^31", a->n,
                   a->h, a->w);
}

} // namespace

static enum ss_status check_shape(const struct ss_pool_shape *s)
{
    const struct ss_act *x = &s->x, *y = &s->y;
    if (s->kind == SS_POOL_MAX && s->kernel[0] * s->kernel[1] > MOST_PLACES)
        return ss_fail(SS_ERR_SHAPE, "pooling: a window of %dx%d; the limit is %d positions",
                       s->kernel[0], s->kernel[1], MOST_PLACES);
    if (x->n < 1 || x->c < 1 || x->h < 1 || x->w < 1 || x->block < x->c)
        return ss_fail(SS_ERR_SHAPE,
                       "pooling: an input (%d,%d,%d,%d) in blocks of %d channels; sizes must be at "
                       "least 1, and all channels one block",
                       x->n, x->c, x->h, x->w, x->block);
    SS_TRY(check_pixels(x));
    if (!ss_pool_follows(s))
        return ss_fail(SS_ERR_SHAPE,
                       "pooling: kernel %dx%d, stride %dx%d, padding %dx%d (at most half the "
                       "kernel) do not produce (%d,%d,%d,%d) from (%d,%d,%d,%d)",
                       s->kernel[0], s->kernel[1], s->stride[0], s->stride[1], s->pad[0], s->pad[1],
                       y->n, y->c, y->h, y->w, x->n, x->c, x->h, x->w);
    return check_pixels(y);
}

struct ss_pool_kernel {
    struct ss_device *gpu;
    struct ss_pool_shape shape;
};

enum ss_status ss_cuda_pool_create(struct ss_device *gpu, const struct ss_pool_shape *shape,
                                   int training, struct ss_pool_kernel **out)
{
    (void)training;
    const struct ss_pool_shape s = ss_pool_simplest(*shape);
    SS_TRY(check_shape(&s));
    struct ss_pool_kernel *p = (struct ss_pool_kernel *)malloc(sizeof *p);
    if (!p)
        return ss_fail_memory("pooling", sizeof *p);
    p->gpu = gpu;
    p->shape = s;
    *out = p;
    return SS_OK;
}

void ss_cuda_pool_destroy(struct ss_pool_kernel *p)
{
    free(p);
}

/* argmax: one byte per output, the row-major index in the window. */
size_t ss_cuda_pool_workspace_bytes(const struct ss_pool_kernel *p)
{
    return p->shape.kind == SS_POOL_MAX ? ss_act_elements(&p->shape.y) : 0;
}

enum ss_status ss_cuda_pool_forward(struct ss_pool_kernel *pool, const void *x, void *y,
                                    void *workspace)
{
    struct ss_device *gpu = pool->gpu;
    const struct ss_pool_shape *shape = &pool->shape;
    uint8_t *argmax = static_cast<uint8_t *>(workspace);
    if (shape->kind == SS_POOL_MAX)
        SS_DISPATCH(ss_cuda_dtype(gpu), forward_launch<T, true>(gpu, shape, x, y, argmax));
    else
        SS_DISPATCH(ss_cuda_dtype(gpu), forward_launch<T, false>(gpu, shape, x, y, NULL));
    SS_LAUNCHED("pooling");
    return SS_OK;
}

enum ss_status ss_cuda_pool_backward(struct ss_pool_kernel *pool, const void *dy,
                                     const void *workspace, void *dx)
{
    struct ss_device *gpu = pool->gpu;
    const struct ss_pool_shape *shape = &pool->shape;
    const uint8_t *argmax = static_cast<const uint8_t *>(workspace);
    if (shape->kind == SS_POOL_MAX && !argmax)
        return ss_fail(SS_ERR_INVALID, "max pooling: backward pass without the workspace (argmax)");
    if (shape->kind == SS_POOL_MAX)
        SS_DISPATCH(ss_cuda_dtype(gpu), backward_launch<T, true>(gpu, shape, dy, argmax, dx));
    else
        SS_DISPATCH(ss_cuda_dtype(gpu), backward_launch<T, false>(gpu, shape, dy, NULL, dx));
    SS_LAUNCHED("pooling's gradient");
    return SS_OK;
}
