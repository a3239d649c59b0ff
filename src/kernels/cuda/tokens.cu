/* tokens.cu: converts a map to a sequence, and selects one token of a sequence (kernels/list.h).
 * Memory-bound; 16 bytes per thread and iteration if channels are whole vectors. */
#include "kernels/cuda/grid.cuh"

namespace
{

using namespace ss;

constexpr unsigned THREADS = 256;

struct sequence {
    size_t images, pixels, tokens, width; /* width: vectors per token */
    int class_token;
};

template <typename T, int V>
__global__ void tokens_forward_kernel(sequence s, const T *x, const float *class_token,
                                      const float *positions, T *y)
{
    for (size_t i = flat_begin(); i < s.images * s.tokens * s.width; i += flat_step()) {
        const size_t vector = i % s.width, token = i / s.width % s.tokens;
        const size_t n = i / s.width / s.tokens;
        float v[V];
        if (token < (size_t)s.class_token) {
#pragma unroll
            for (int j = 0; j < V; j++)
                v[j] = class_token[vector * V + j];
        } else {
            const size_t pixel = n * s.pixels + token - (size_t)s.class_token;
            load<T, V>(x + (pixel * s.width + vector) * V, v);
        }
        if (positions)
#pragma unroll
            for (int j = 0; j < V; j++)
                v[j] += positions[(token * s.width + vector) * V + j];
        store<T, V>(y + i * V, v);
    }
}

template <typename T, int V> __global__ void tokens_gradient_kernel(sequence s, const T *dy, T *dx)
{
    for (size_t i = flat_begin(); i < s.images * s.pixels * s.width; i += flat_step()) {
        const size_t n = i / s.width / s.pixels;
        float v[V];
        load<T, V>(dy + (i + (n * (s.tokens - s.pixels) + (size_t)s.class_token) * s.width) * V, v);
        store<T, V>(dx + i * V, v);
    }
}

/* Adds the gradients of the first `tokens` tokens over all images, in order. */
template <typename T, int V>
__global__ void tokens_parameters_kernel(sequence s, size_t tokens, const T *dy,
                                         float *dclass_token, float *dpositions, ss_scaler *scaler)
{
    bool found = false;
    for (size_t i = flat_begin(); i < tokens * s.width; i += flat_step()) {
        double sum[V];
#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] = 0;
        for (size_t n = 0; n < s.images; n++) {
            float v[V];
            load<T, V>(dy + (n * s.tokens * s.width + i) * V, v);
#pragma unroll
            for (int j = 0; j < V; j++)
                sum[j] += (double)v[j];
        }
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float total = (float)sum[j];
            found |= not_finite(total);
            if (dclass_token && i < s.width)
                dclass_token[i * V + j] = total;
            if (dpositions)
                dpositions[i * V + j] = total;
        }
    }
    tell(scaler, found);
}

/* x (images,tokens,width). Forward: selects one token; backward: its gradient, zeros
 * elsewhere. */
template <typename T, int V>
__global__ void token_forward_kernel(sequence s, size_t index, const T *x, T *y)
{
    for (size_t i = flat_begin(); i < s.images * s.width; i += flat_step()) {
        float v[V];
        load<T, V>(x + ((i / s.width * s.tokens + index) * s.width + i % s.width) * V, v);
        store<T, V>(y + i * V, v);
    }
}

template <typename T, int V>
__global__ void token_gradient_kernel(sequence s, size_t index, const T *dy, T *dx)
{
    for (size_t i = flat_begin(); i < s.images * s.tokens * s.width; i += flat_step()) {
        const size_t n = i / s.width / s.tokens;
        float v[V];
        load<T, V>(dy + (n * s.width + i % s.width) * V, v);
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] = i / s.width % s.tokens == index ? v[j] : 0;
        store<T, V>(dx + i * V, v);
    }
}

ss_status check(const ss_tokens_shape *s)
{
    if (s->x.n < 1 || s->x.c < 1 || s->x.h < 1 || s->x.w < 1 || s->x.block != s->x.c ||
        s->y.block != s->y.c || s->y.n != s->x.n || s->y.c != s->x.c ||
        s->y.h * s->y.w != s->x.h * s->x.w + s->class_token)
        return ss_fail(SS_ERR_SHAPE,
                       "tokens: (%d,%d,%d) in blocks of %d do not become (%d,%d,%d) in blocks of "
                       "%d",
                       s->x.c, s->x.h, s->x.w, s->x.block, s->y.c, s->y.h, s->y.w, s->y.block);
    return SS_OK;
}

ss_status check_index(const ss_act *x, int index)
{
    if (x->n < 1 || x->c < 1 || x->block != x->c || index < 0 || index >= x->h * x->w)
        return ss_fail(SS_ERR_SHAPE, "token %d of a sequence of %d, of %d channels in blocks of %d",
                       index, x->h * x->w, x->c, x->block);
    return SS_OK;
}

sequence sequence_of(const ss_tokens_shape *s, int vector)
{
    return {(size_t)s->x.n, (size_t)s->x.h * (size_t)s->x.w, (size_t)s->y.h * (size_t)s->y.w,
            (size_t)(s->x.c / vector), s->class_token};
}

sequence sequence_of(const ss_act *x, int vector)
{
    const size_t places = (size_t)x->h * (size_t)x->w;
    return {(size_t)x->n, places, places, (size_t)(x->c / vector), 0};
}

unsigned grid_of(const ss_device *gpu, size_t items)
{
    return grid_for(gpu, items, THREADS, THREADS);
}

template <typename T, int V>
ss_status tokens_forward(const ss_device *gpu, const ss_tokens_shape *shape, const T *x,
                         const float *class_token, const float *positions, T *y)
{
    const sequence s = sequence_of(shape, V);
    SS_LAUNCH((tokens_forward_kernel<T, V>), grid_of(gpu, s.images * s.tokens * s.width), THREADS,
              gpu->stream, s, x, class_token, positions, y);
    SS_LAUNCHED("tokens");
    return SS_OK;
}

template <typename T, int V>
ss_status tokens_backward(const ss_device *gpu, const ss_tokens_shape *shape, const T *dy, T *dx,
                          float *dclass_token, float *dpositions)
{
    const sequence s = sequence_of(shape, V);
    const size_t summed = dpositions ? s.tokens : dclass_token != NULL;
    if (dx) {
        SS_LAUNCH((tokens_gradient_kernel<T, V>), grid_of(gpu, s.images * s.pixels * s.width),
                  THREADS, gpu->stream, s, dy, dx);
        SS_LAUNCHED("tokens' gradient");
    }
    if (summed) {
        SS_LAUNCH((tokens_parameters_kernel<T, V>), grid_of(gpu, summed * s.width), THREADS,
                  gpu->stream, s, summed, dy, dclass_token, dpositions, gpu->scaler);
        SS_LAUNCHED("tokens' gradient");
    }
    return SS_OK;
}

template <typename T, int V>
ss_status token_forward(const ss_device *gpu, const ss_act *shape, int index, const T *x, T *y)
{
    const sequence s = sequence_of(shape, V);
    SS_LAUNCH((token_forward_kernel<T, V>), grid_of(gpu, s.images * s.width), THREADS, gpu->stream,
              s, (size_t)index, x, y);
    SS_LAUNCHED("token");
    return SS_OK;
}

template <typename T, int V>
ss_status token_backward(const ss_device *gpu, const ss_act *shape, int index, const T *dy, T *dx)
{
    const sequence s = sequence_of(shape, V);
    SS_LAUNCH((token_gradient_kernel<T, V>), grid_of(gpu, s.images * s.tokens * s.width), THREADS,
              gpu->stream, s, (size_t)index, dy, dx);
    SS_LAUNCHED("token's gradient");
    return SS_OK;
}

} // namespace

/* Calls FUNCTION(gpu, shape, ...) for vectors, or for single elements. */
#define BY_VECTORS(function, channels, ...)                                                        \
    SS_DISPATCH(gpu->options.dtype,                                                                \
                status = (channels) % format<T>::vector                                            \
                             ? (function<T, 1>(gpu, shape, __VA_ARGS__))                           \
                             : (function<T, format<T>::vector>(gpu, shape, __VA_ARGS__)))

extern "C" enum ss_status ss_cuda_tokens_forward(struct ss_device *gpu,
                                                 const struct ss_tokens_shape *shape, const void *x,
                                                 const float *class_token, const float *positions,
                                                 void *y)
{
    SS_TRY(check(shape));
    ss_status status;
    BY_VECTORS(tokens_forward, shape->x.c, (const T *)x, class_token, positions, (T *)y);
    return status;
}

extern "C" enum ss_status ss_cuda_tokens_backward(struct ss_device *gpu,
                                                  const struct ss_tokens_shape *shape,
                                                  const void *dy, void *dx, float *dclass_token,
                                                  float *dpositions)
{
    SS_TRY(check(shape));
    ss_status status;
    BY_VECTORS(tokens_backward, shape->x.c, (const T *)dy, (T *)dx, dclass_token, dpositions);
    return status;
}

extern "C" enum ss_status ss_cuda_token_forward(struct ss_device *gpu, const struct ss_act *shape,
                                                int index, const void *in, void *y)
{
    SS_TRY(check_index(shape, index));
    ss_status status;
    BY_VECTORS(token_forward, shape->c, index, (const T *)in, (T *)y);
    return status;
}

extern "C" enum ss_status ss_cuda_token_backward(struct ss_device *gpu, const struct ss_act *shape,
                                                 int index, const void *dy, void *dx)
{
    SS_TRY(check_index(shape, index));
    ss_status status;
    BY_VECTORS(token_backward, shape->c, index, (const T *)dy, (T *)dx);
    return status;
}
