/* groupnorm.cu: group normalization (kernels/list.h). Formulas of backward: cpu/groupnorm.c.
 *
 * The mapping of threads to an image is described in norm_act.cuh. Of the grid's x, `parts`
 * consecutive blocks share an image, and each takes every parts-th chunk of its pixels. They
 * write partial sums of channels, which one block per image and group adds in double in a fixed
 * order. The number of parts depends on the shape only, so the results are bit-identical on all
 * devices. */
#include "kernels/cuda/norm_act.cuh"

namespace
{

using namespace ss;
using namespace ss::norm;

enum { BLOCKS = 8 * 132, UNROLL = 2, MERGE = 64 };

struct group_shape {
    geometry g; /* of one image */
    int images, groups, parts;
    activation act;
};

/* The position of a thread in a kernel over pixels. */
template <int V> struct walker {
    place<V> me;
    int image;
    unsigned part;
    size_t base; /* offset of the image, in elements */
    __device__ explicit walker(const group_shape &s) : me(s.g)
    {
        image = (int)blockIdx.x / s.parts;
        part = blockIdx.x % (unsigned)s.parts;
        base = (size_t)image * s.g.pixels * (size_t)s.g.channels;
    }
    /* Returns the index of channel j's group in an array of [images][groups]. */
    __device__ int group(const group_shape &s, int j) const
    {
        return image * s.groups + (me.channel + j) / (s.g.channels / s.groups);
    }
    /* Computes the thread's vectors of a chunk; those past the end are in the last pixel. */
    __device__ void locate(const group_shape &s, unsigned chunk, spot (&at)[UNROLL]) const
    {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const unsigned pixel =
                chunk * (unsigned)(s.g.rows * UNROLL) + (unsigned)(u * s.g.rows + me.row);
            at[u].live = pixel < s.g.pixels;
            at[u].at =
                (at[u].live ? pixel : s.g.pixels - 1) * s.g.width + (unsigned)(me.channel / V);
        }
    }
};

/* Channel coefficients: a and b of u = a x + b, and mean and invstd of the channel's group. */
template <int V> struct normal {
    float a[V], b[V], mean[V], invstd[V];
    __device__ normal(const group_shape &s, const walker<V> &w, const float *gamma,
                      const float *beta, const float *saved)
    {
#pragma unroll
        for (int j = 0; j < V; j++) {
            a[j] = b[j] = mean[j] = invstd[j] = 0;
            if (w.me.idle)
                continue;
            const int i = w.group(s, j);
            mean[j] = saved[i];
            invstd[j] = saved[s.images * s.groups + i];
            a[j] = gamma[w.me.channel + j] * invstd[j];
            b[j] = fmaf(-mean[j], a[j], beta[w.me.channel + j]);
        }
    }
};

/* Computes the sums of x - shift and of its square, where shift is the image's first pixel. */
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    stats_kernel(group_shape shape, const T *x, float *partial)
{
    const walker<V> w(shape);
    float shift[V], s[V], q[V];
#pragma unroll
    for (int j = 0; j < V; j++)
        shift[j] = s[j] = q[j] = 0;
    if (!w.me.idle)
        load<T, V>(x + w.base + w.me.channel, shift);
    for (unsigned k = w.me.idle ? shape.g.chunks : w.part; k < shape.g.chunks;
         k += (unsigned)shape.parts) {
        spot at[UNROLL];
        pack<T, V> v[UNROLL];
        w.locate(shape, k, at);
        fetch(x + w.base, at, v);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (at[u].live)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const float d = format<T>::load(v[u].v[j]) - shift[j];
                    s[j] += d;
                    q[j] = fmaf(d, d, q[j]);
                }
    }
    write_partial(shape.g, w.me, s, q, partial);
}

template <typename T, int V, bool PLAIN>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(group_shape shape, const T *x, const float *gamma, const float *beta,
                   const float *saved, T *y)
{
    const walker<V> w(shape);
    const normal<V> f(shape, w, gamma, beta, saved);
    for (unsigned k = w.me.idle ? shape.g.chunks : w.part; k < shape.g.chunks;
         k += (unsigned)shape.parts) {
        spot at[UNROLL];
        pack<T, V> v[UNROLL];
        w.locate(shape, k, at);
        fetch(x + w.base, at, v);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            pack<T, V> out;
#pragma unroll
            for (int j = 0; j < V; j++)
                out.v[j] = format<T>::store(
                    act_with_dropout<PLAIN>(f.a[j], v[u].v[j], f.b[j], shape.act, true));
            put(y + w.base, at[u], out);
        }
    }
}

/* Backward. Pass 1 (coefficient NULL): the sums of g and of g (x - mean) invstd. Pass 2: writes
 * dx over x; coefficient is [2][images][groups]. */
template <typename T, int V, bool PLAIN>
__global__ void __launch_bounds__(THREADS)
    gradient_kernel(group_shape shape, const T *dy, T *x, const float *gamma, const float *beta,
                    const float *saved, const float *coefficient, float *partial)
{
    const walker<V> w(shape);
    const normal<V> f(shape, w, gamma, beta, saved);
    float s[V], q[V], cz[V], c0[V];
#pragma unroll
    for (int j = 0; j < V; j++) {
        s[j] = q[j] = cz[j] = c0[j] = 0;
        if (coefficient && !w.me.idle) {
            cz[j] = coefficient[w.group(shape, j)];
            c0[j] = coefficient[shape.images * shape.groups + w.group(shape, j)];
        }
    }
    for (unsigned k = w.me.idle ? shape.g.chunks : w.part; k < shape.g.chunks;
         k += (unsigned)shape.parts) {
        spot at[UNROLL];
        pack<T, V> v[UNROLL], g[UNROLL];
        w.locate(shape, k, at);
        fetch((const T *)x + w.base, at, v);
        fetch(dy + w.base, at, g);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            pack<T, V> dx;
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float xj = format<T>::load(v[u].v[j]);
                const float du = gradient_of_u<PLAIN>(
                    format<T>::load(g[u].v[j]), apply(f.a[j], xj, f.b[j]), shape.act, true, 1);
                if (coefficient) {
                    dx.v[j] =
                        format<T>::store(fmaf(f.a[j], du, fmaf(cz[j], xj - f.mean[j], c0[j])));
                } else if (at[u].live) {
                    s[j] += du;
                    q[j] = fmaf(du, (xj - f.mean[j]) * f.invstd[j], q[j]);
                }
            }
            if (coefficient)
                put(x + w.base, at[u], dx);
        }
    }
    if (!coefficient)
        write_partial(shape.g, w.me, s, q, partial);
}

/* Adds both sums over the threads of the block in a fixed order. Returns true on the thread that
 * has the results. */
__device__ inline bool merge(double &s, double &q)
{
    __shared__ double sums[2][MERGE];
    const int i = (int)threadIdx.x;
    sums[0][i] = s;
    sums[1][i] = q;
    for (int n = MERGE / 2; n > 0; n /= 2) {
        __syncthreads();
        if (i < n) {
            sums[0][i] += sums[0][i + n];
            sums[1][i] += sums[1][i + n];
        }
    }
    s = sums[0][0];
    q = sums[1][0];
    return i == 0;
}

/* Adds the sums of channel c over an image's parts. */
__device__ inline void channel_sums(const group_shape &shape, const float *partial, int image,
                                    int c, double &s, double &q)
{
    const size_t channels = (size_t)shape.g.channels;
    const float *p = partial + (size_t)image * (size_t)shape.parts * 2 * channels + c;
    s = q = 0;
    for (int k = 0; k < shape.parts; k++, p += 2 * channels) {
        s += (double)p[0];
        q += (double)p[channels];
    }
}

/* One block per image and group. */
template <typename T>
__global__ void __launch_bounds__(MERGE)
    merge_stats_kernel(group_shape shape, const float *partial, const T *x, float eps, float *saved)
{
    const int image = (int)blockIdx.x / shape.groups, channels = shape.g.channels / shape.groups;
    const int first = (int)blockIdx.x % shape.groups * channels;
    const T *shift = x + (size_t)image * shape.g.pixels * (size_t)shape.g.channels + first;
    const double m = (double)shape.g.pixels, base = (double)format<T>::load(shift[0]);
    double sum = 0, square = 0;
    for (int c = (int)threadIdx.x; c < channels; c += MERGE) {
        const double d = (double)format<T>::load(shift[c]) - base;
        double s, q;
        channel_sums(shape, partial, image, first + c, s, q);
        sum += s + m * d;
        square += q + 2 * d * s + m * d * d;
    }
    if (!merge(sum, square))
        return;
    const double mean = sum / (m * channels);
    double var = square / (m * channels) - mean * mean;
    if (var < 0)
        var = 0;
    saved[blockIdx.x] = (float)(base + mean);
    saved[gridDim.x + blockIdx.x] = (float)(1 / sqrt(var + (double)eps));
}

/* Computes the coefficients of pass 2. One block per image and group. */
__global__ void __launch_bounds__(MERGE)
    merge_gradient_kernel(group_shape shape, const float *partial, const float *gamma,
                          const float *saved, float *coefficient)
{
    const int image = (int)blockIdx.x / shape.groups, channels = shape.g.channels / shape.groups;
    const int first = (int)blockIdx.x % shape.groups * channels;
    double sum = 0, sum_z = 0;
    for (int c = first + (int)threadIdx.x; c < first + channels; c += MERGE) {
        double s, q;
        channel_sums(shape, partial, image, c, s, q);
        sum += (double)gamma[c] * s;
        sum_z += (double)gamma[c] * q;
    }
    if (!merge(sum, sum_z))
        return;
    const double m = (double)shape.g.pixels * channels;
    const double invstd = (double)saved[gridDim.x + blockIdx.x];
    coefficient[blockIdx.x] = (float)(-invstd * invstd * sum_z / m);
    coefficient[gridDim.x + blockIdx.x] = (float)(-invstd * sum / m);
}

/* Adds the sums of a channel over images. One block per channel. */
__global__ void __launch_bounds__(MERGE)
    merge_parameters_kernel(group_shape shape, const float *partial, float *dgamma, float *dbeta,
                            ss_scaler *scaler)
{
    const int c = (int)blockIdx.x;
    double sum = 0, sum_z = 0;
    for (int image = (int)threadIdx.x; image < shape.images; image += MERGE) {
        double s, q;
        channel_sums(shape, partial, image, c, s, q);
        sum += s;
        sum_z += q;
    }
    if (!merge(sum, sum_z))
        return;
    dbeta[c] = (float)sum;
    dgamma[c] = (float)sum_z;
    tell(scaler, not_finite(dbeta[c]) || not_finite(dgamma[c]));
}

/* ---- launch ---- */

group_shape shape_of(const ss_norm_act *op, int groups, ss_dtype dtype)
{
    const ss_act *s = &op->shape;
    const int most = BLOCKS / s->n;
    group_shape out;
    out.g = geometry_make(dtype, s->c, (unsigned)(s->h * s->w), UNROLL, most > 0 ? most : 1);
    out.images = s->n;
    out.groups = groups;
    out.parts = out.g.blocks;
    out.act = activation_of(op);
    return out;
}

size_t partial_floats(const group_shape &s)
{
    return (size_t)s.images * (size_t)s.parts * 2 * (size_t)s.g.channels;
}

size_t scratch_bytes(const group_shape &s)
{
    return (partial_floats(s) + 2 * (size_t)s.images * (size_t)s.groups) * sizeof(float);
}

ss_status check(const ss_norm_act *op, int groups)
{
    const ss_act *s = &op->shape;
    if (s->n < 1 || s->c < 1 || s->h < 1 || s->w < 1 || s->block != s->c || groups < 1 ||
        s->c % groups || ss_act_elements(s) >> 31)
        return ss_fail(SS_ERR_SHAPE,
                       "group normalisation: shape (%d,%d,%d,%d) in blocks of %d and %d groups; "
                       "groups must be equal, a block all channels, and elements fewer than 2^31",
                       s->n, s->c, s->h, s->w, s->block, groups);
    return SS_OK;
}

ss_status prepare(const ss_device *gpu, const ss_norm_act *op, int groups)
{
    SS_TRY(check(op, groups));
    if (gpu->scratch.bytes < scratch_bytes(shape_of(op, groups, gpu->options.dtype)))
        return ss_fail(SS_ERR_INVALID, "group normalisation: call groupnorm_reserve first");
    return SS_OK;
}

dim3 grid_of(const group_shape &s)
{
    return dim3((unsigned)(s.images * s.parts), (unsigned)s.g.tiles);
}

dim3 merge_grid(int blocks)
{
    return dim3((unsigned)blocks);
}

template <typename T, int V>
ss_status forward(const ss_device *gpu, const ss_norm_act *op, const group_shape &s, const T *x,
                  const float *gamma, const float *beta, float *saved, T *y)
{
    float *partial = (float *)gpu->scratch.data;
    SS_LAUNCH((stats_kernel<T, V>), grid_of(s), THREADS, gpu->stream, s, x, partial);
    SS_LAUNCHED("GroupNorm statistics");
    SS_LAUNCH((merge_stats_kernel<T>), merge_grid(s.images * s.groups), MERGE, gpu->stream, s,
              partial, x, op->eps, saved);
    SS_LAUNCHED("GroupNorm statistics");
    const auto kernel =
        is_plain(op->act) ? forward_kernel<T, V, true> : forward_kernel<T, V, false>;
    SS_LAUNCH(kernel, grid_of(s), THREADS, gpu->stream, s, x, gamma, beta, saved, y);
    SS_LAUNCHED("GroupNorm forward");
    return SS_OK;
}

template <typename T, int V>
ss_status backward(const ss_device *gpu, const ss_norm_act *op, const group_shape &s, const T *dy,
                   T *x, const float *gamma, const float *beta, const float *saved, float *dgamma,
                   float *dbeta)
{
    float *partial = (float *)gpu->scratch.data, *coefficient = partial + partial_floats(s);
    const auto kernel =
        is_plain(op->act) ? gradient_kernel<T, V, true> : gradient_kernel<T, V, false>;
    SS_LAUNCH(kernel, grid_of(s), THREADS, gpu->stream, s, dy, x, gamma, beta, saved, nullptr,
              partial);
    SS_LAUNCHED("GroupNorm backward");
    SS_LAUNCH(merge_gradient_kernel, merge_grid(s.images * s.groups), MERGE, gpu->stream, s,
              partial, gamma, saved, coefficient);
    SS_LAUNCHED("GroupNorm backward");
    SS_LAUNCH(merge_parameters_kernel, merge_grid(s.g.channels), MERGE, gpu->stream, s, partial,
              dgamma, dbeta, gpu->scaler);
    SS_LAUNCHED("GroupNorm backward");
    SS_LAUNCH(kernel, grid_of(s), THREADS, gpu->stream, s, dy, x, gamma, beta, saved, coefficient,
              partial);
    SS_LAUNCHED("GroupNorm backward");
    return SS_OK;
}

} // namespace

extern "C" enum ss_status ss_cuda_groupnorm_reserve(struct ss_device *gpu,
                                                    const struct ss_norm_act *op, int groups)
{
    SS_TRY(check(op, groups));
    return ss_cuda_reserve(gpu, scratch_bytes(shape_of(op, groups, gpu->options.dtype)));
}

extern "C" enum ss_status ss_cuda_groupnorm_forward(struct ss_device *gpu,
                                                    const struct ss_norm_act *op, int groups,
                                                    const void *x, const float *gamma,
                                                    const float *beta, float *saved, void *y)
{
    SS_TRY(prepare(gpu, op, groups));
    const group_shape s = shape_of(op, groups, gpu->options.dtype);
    ss_status status;
    SS_DISPATCH(gpu->options.dtype,
                status = s.g.vector == 1
                             ? (forward<T, 1>(gpu, op, s, (const T *)x, gamma, beta, saved, (T *)y))
                             : (forward<T, format<T>::vector>(gpu, op, s, (const T *)x, gamma, beta,
                                                              saved, (T *)y)));
    return status;
}

extern "C" enum ss_status ss_cuda_groupnorm_backward(struct ss_device *gpu,
                                                     const struct ss_norm_act *op, int groups,
                                                     const void *dy, void *x, const float *gamma,
                                                     const float *beta, const float *saved,
                                                     float *dgamma, float *dbeta)
{
    SS_TRY(prepare(gpu, op, groups));
    const group_shape s = shape_of(op, groups, gpu->options.dtype);
    ss_status status;
    SS_DISPATCH(gpu->options.dtype,
                status = s.g.vector == 1
                             ? (backward<T, 1>(gpu, op, s, (const T *)dy, (T *)x, gamma, beta,
                                               saved, dgamma, dbeta))
                             : (backward<T, format<T>::vector>(gpu, op, s, (const T *)dy, (T *)x,
                                                               gamma, beta, saved, dgamma, dbeta)));
    return status;
}
