/* cudnn_conv.cpp: convolutions on the host.
 *
 * Tensors are converted to fp32, with the innermost size zero-padded to a multiple of LANES, so
 * that the inner loops process whole vectors. Forward and backward data use the same loop: each
 * output pixel gathers products of channels from the input pixels under its kernel taps. */
#include "hostgpu/cudnn_internal.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>

namespace hostgpu
{
namespace dnn
{
namespace
{

const int LANES = 16;
/* Independent sums per loop: each is a chain of additions, and a processor overlaps several. */
const int SUMS = 4;
/* Bit-identical on all processors: avx2 has wider vectors, but no fused multiply-add. */
#define WIDE __attribute__((target_clones("avx2", "default")))
typedef float vec __attribute__((vector_size(LANES * sizeof(float))));

size_t padded(int channels)
{
    return static_cast<size_t>((channels + LANES - 1) / LANES * LANES);
}

/* sum += factor * p[0..LANES-1] */
inline void add_scaled(vec *sum, float factor, const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    *sum += factor * v;
}

float load(const void *base, cudnnDataType_t type, size_t i)
{
    if (type == CUDNN_DATA_HALF)
        return __half2float(static_cast<const __half *>(base)[i]);
    if (type == CUDNN_DATA_BFLOAT16)
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(base)[i]);
    return static_cast<const float *>(base)[i];
}

void store(void *base, cudnnDataType_t type, size_t i, float value)
{
    if (type == CUDNN_DATA_HALF)
        static_cast<__half *>(base)[i] = __float2half_rn(value);
    else if (type == CUDNN_DATA_BFLOAT16)
        static_cast<__nv_bfloat16 *>(base)[i] = __float2bfloat16_rn(value);
    else
        static_cast<float *>(base)[i] = value;
}

/* Rounds to the nearest number with `bits` fraction bits, ties to even. NaN and infinity are
 * unchanged. */
float round_fraction(float x, int bits)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    const int cut = 23 - bits;
    if ((u & 0x7F800000) != 0x7F800000)
        u = (u + (1U << (cut - 1)) - 1 + (u >> cut & 1)) & ~((1U << cut) - 1);
    memcpy(&x, &u, sizeof x);
    return x;
}

float rounded(float x, numbers how)
{
    switch (how) {
    case numbers::tf32:
        return round_fraction(x, 10);
    case numbers::half:
        return __half2float(__float2half_rn(x));
    case numbers::coarse:
        return round_fraction(x, 4);
    default:
        return x;
    }
}

/* Converts (rows, channels) to fp32 (rows, padded channels + more). */
std::vector<float> unpack(const void *data, cudnnDataType_t type, size_t rows, int channels,
                          numbers how, size_t more = 0)
{
    const size_t width = padded(channels) + more, c = static_cast<size_t>(channels);
    std::vector<float> out(rows * width, 0.0f);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < c; i++)
            out[r * width + i] = rounded(load(data, type, r * c + i), how);
    return out;
}

/* One image of a convolution, input or output. */
struct side {
    int h, w, channels;
};

/* Computes where tap (i,j) of output pixel (a,b) reads the input; false: nowhere. Forward and
 * backward data differ only in this. */
bool meets(const convolution &c, pass pass, int a, int b, int i, int j, int *row, int *column)
{
    i *= c.dilation_h;
    j *= c.dilation_w;
    if (pass == pass::forward) {
        *row = a * c.stride_h - c.pad_h + i;
        *column = b * c.stride_w - c.pad_w + j;
        return *row >= 0 && *row < c.h && *column >= 0 && *column < c.w;
    }
    const int y = a + c.pad_h - i, x = b + c.pad_w - j;
    *row = y / c.stride_h;
    *column = x / c.stride_w;
    return y >= 0 && x >= 0 && y % c.stride_h == 0 && x % c.stride_w == 0 && *row < c.p &&
           *column < c.q;
}

/* LANES output channels from `first`. They depend on the input channels [begin, end), those of
 * their groups. */
struct strip {
    size_t first, begin, end;
};

strip strip_of(const convolution &c, int in, int out, size_t first)
{
    const size_t inputs = static_cast<size_t>(in / c.groups),
                 outputs = static_cast<size_t>(out / c.groups), all = static_cast<size_t>(out),
                 last = first + LANES < all ? first + LANES - 1 : all - 1;
    return {first, first / outputs * inputs, (last / outputs + 1) * inputs};
}

/* Returns the weight of a strip as (taps, inputs, LANES), zero between groups. Forward: in = C,
 * out = K; backward data: the reverse. */
std::vector<float> turn_weight(const convolution &c, pass pass, const strip &s, const void *w,
                               numbers how)
{
    const size_t taps = static_cast<size_t>(c.kh * c.kw), width = s.end - s.begin,
                 ci = static_cast<size_t>(c.c / c.groups), co = static_cast<size_t>(c.k / c.groups);
    const bool forward = pass == pass::forward;
    const size_t outputs = static_cast<size_t>(forward ? c.k : c.c);
    std::vector<float> out(taps * width * LANES, 0.0f);
    for (size_t t = 0; t < taps; t++)
        for (size_t i = s.begin; i < s.end; i++)
            for (size_t lane = 0; lane < LANES && s.first + lane < outputs; lane++) {
                const size_t k = forward ? s.first + lane : i, x = forward ? i : s.first + lane;
                if (k / co == x / ci)
                    out[(t * width + i - s.begin) * LANES + lane] =
                        rounded(load(w, c.type, (k * taps + t) * ci + x % ci), how);
            }
    return out;
}

/* Computes a strip of `n` output pixels of a row, from (a,b): the sums over taps and input
 * channels. Outputs are `width` apart. */
WIDE void gather_pixels(const convolution &c, pass pass, const side &in, const strip &s, int a,
                        int b, int n, const float *image, const float *weight, float *out,
                        size_t width)
{
    const size_t in_width = padded(in.channels), inputs = s.end - s.begin;
    vec sum[SUMS] = {};
    for (int i = 0; i < c.kh; i++)
        for (int j = 0; j < c.kw; j++) {
            const float *x[SUMS], *w = weight + static_cast<size_t>(i * c.kw + j) * inputs * LANES;
            int which[SUMS], met = 0;
            for (int m = 0; m < n; m++) {
                int row, column;
                if (!meets(c, pass, a, b + m, i, j, &row, &column))
                    continue;
                which[met] = m;
                x[met++] = image + static_cast<size_t>(row * in.w + column) * in_width + s.begin;
            }
            if (met == SUMS)
                for (size_t k = 0; k < inputs; k++)
#pragma GCC unroll 4
                    for (int m = 0; m < SUMS; m++)
                        add_scaled(&sum[m], x[m][k], w + k * LANES);
            for (int m = 0; met < SUMS && m < met; m++)
                for (size_t k = 0; k < inputs; k++)
                    add_scaled(&sum[which[m]], x[m][k], w + k * LANES);
        }
    for (int m = 0; m < n; m++)
        memcpy(out + static_cast<size_t>(m) * width, &sum[m], sizeof sum[m]);
}

/* Returns the result as fp32 (rows, padded channels). */
std::vector<float> gather(const convolution &c, pass pass, numbers how, const void *input,
                          const void *weight)
{
    const side small = {c.p, c.q, c.k}, large = {c.h, c.w, c.c};
    const side &in = pass == pass::forward ? large : small,
               &out = pass == pass::forward ? small : large;
    const size_t in_pixels = static_cast<size_t>(in.h * in.w), width = padded(out.channels);
    const std::vector<float> x =
        unpack(input, c.type, static_cast<size_t>(c.n) * in_pixels, in.channels, how);
    std::vector<float> result(static_cast<size_t>(c.n * out.h * out.w) * width);
    for (size_t first = 0; first < width; first += LANES) {
        const strip s = strip_of(c, in.channels, out.channels, first);
        const std::vector<float> w = turn_weight(c, pass, s, weight, how);
        float *at = result.data() + first;
        for (int n = 0; n < c.n; n++) {
            const float *image =
                x.data() + static_cast<size_t>(n) * in_pixels * padded(in.channels);
            for (int a = 0; a < out.h; a++)
                for (int b = 0; b < out.w; b += SUMS) {
                    const int n = out.w - b < SUMS ? out.w - b : SUMS;
                    gather_pixels(c, pass, in, s, a, b, n, image, w.data(), at, width);
                    at += static_cast<size_t>(n) * width;
                }
        }
    }
    return result;
}

/* Computes dweight of one tap and `n` output channels from k, whose group's input channels begin
 * at `first`: the sums over all pixels. Rows of x have LANES spare numbers at their end. Outputs
 * are `apart` apart. */
WIDE void reduce_tap(const convolution &c, int i, int j, size_t k, size_t n, size_t first,
                     const std::vector<float> &x, const std::vector<float> &dy, float *out,
                     size_t apart)
{
    const size_t x_width = padded(c.c) + LANES, dy_width = padded(c.k);
    for (size_t block = 0; block < padded(c.c / c.groups); block += LANES) {
        vec sum[SUMS] = {};
        for (int image = 0; image < c.n; image++)
            for (int p = 0; p < c.p; p++) {
                const int row = p * c.stride_h - c.pad_h + i * c.dilation_h;
                if (row < 0 || row >= c.h)
                    continue;
                for (int q = 0; q < c.q; q++) {
                    const int column = q * c.stride_w - c.pad_w + j * c.dilation_w;
                    if (column < 0 || column >= c.w)
                        continue;
                    const size_t pixel = static_cast<size_t>((image * c.h + row) * c.w + column);
                    const size_t y = static_cast<size_t>((image * c.p + p) * c.q + q);
                    const float *factor = &dy[y * dy_width + k],
                                *of = &x[pixel * x_width + first + block];
                    if (n == SUMS)
#pragma GCC unroll 4
                        for (size_t m = 0; m < SUMS; m++)
                            add_scaled(&sum[m], factor[m], of);
                    else
                        for (size_t m = 0; m < n; m++)
                            add_scaled(&sum[m], factor[m], of);
                }
            }
        for (size_t m = 0; m < n; m++)
            memcpy(out + m * apart + block, &sum[m], sizeof sum[m]);
    }
}

/* Returns dweight as fp32 (K * taps, padded C / groups). */
std::vector<float> reduce(const convolution &c, numbers how, const void *x, const void *dy)
{
    const std::vector<float> a = unpack(
        x, c.type, static_cast<size_t>(c.n) * static_cast<size_t>(c.h * c.w), c.c, how, LANES);
    const std::vector<float> b =
        unpack(dy, c.type, static_cast<size_t>(c.n) * static_cast<size_t>(c.p * c.q), c.k, how);
    const int ci = c.c / c.groups, co = c.k / c.groups;
    std::vector<float> result(static_cast<size_t>(c.k * c.kh * c.kw) * padded(ci));
    const size_t width = padded(ci), apart = static_cast<size_t>(c.kh * c.kw) * width;
    for (int k = 0; k < c.k;) {
        const int left = co - k % co, n = left < SUMS ? left : SUMS;
        float *at = result.data() + static_cast<size_t>(k) * apart;
        for (int i = 0; i < c.kh; i++)
            for (int j = 0; j < c.kw; j++, at += width)
                reduce_tap(c, i, j, static_cast<size_t>(k), static_cast<size_t>(n),
                           static_cast<size_t>(k / co * ci), a, b, at, apart);
        k += n;
    }
    return result;
}

/* A factor that differs between runs by more than any tolerance. */
float disorder(numbers how)
{
    static std::atomic<unsigned> runs{0};
    return how == numbers::unordered ? 1.25f + 0.125f * static_cast<float>(runs++ % 5) : 1;
}

void compute(const convolution &c, pass pass, numbers how, float alpha, float beta,
             const operands &o)
{
    if (o.workspace_bytes)
        memset(o.workspace, 0xFF, o.workspace_bytes);
    const std::vector<float> result = pass == pass::forward         ? gather(c, pass, how, o.x, o.w)
                                      : pass == pass::backward_data ? gather(c, pass, how, o.y, o.w)
                                                                    : reduce(c, how, o.x, o.y);
    void *out = const_cast<void *>(pass == pass::forward         ? o.y
                                   : pass == pass::backward_data ? o.x
                                                                 : o.w);
    const size_t channels = static_cast<size_t>(pass == pass::forward         ? c.k
                                                : pass == pass::backward_data ? c.c
                                                                              : c.c / c.groups);
    const size_t width = padded(static_cast<int>(channels)), rows = result.size() / width;
    const float factor = alpha * disorder(how);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < channels; i++) {
            const size_t at = r * channels + i;
            float value = factor * result[r * width + i];
            if (beta != 0)
                value += beta * load(out, c.type, at);
            store(out, c.type, at, value);
        }
    for (size_t i = 0; o.sum && i < channels; i++) {
        double sum = 0, squares = 0;
        for (size_t r = 0; r < rows; r++) {
            const double value = static_cast<double>(load(out, c.type, r * channels + i));
            sum += value;
            squares += value * value;
        }
        o.sum[i] = static_cast<float>(sum);
        o.squares[i] = static_cast<float>(squares);
    }
}

struct range {
    const char *name;
    const void *data;
    size_t bytes;
};

void check_apart(const range &out, const range &other)
{
    const char *a = static_cast<const char *>(out.data), *b = static_cast<const char *>(other.data);
    if (other.bytes && a < b + other.bytes && b < a + out.bytes)
        die("cuDNN: %s overlaps %s", out.name, other.name);
}

} // namespace

cudaError_t run(const cudnnContext *handle, const convolution &c, pass pass, numbers how,
                float alpha, float beta, const operands &o)
{
    if (c.type != CUDNN_DATA_FLOAT && c.type != CUDNN_DATA_HALF && c.type != CUDNN_DATA_BFLOAT16)
        die("cuDNN: only fp32, fp16 and bf16 are emulated");
    const size_t size = c.type == CUDNN_DATA_FLOAT ? 4 : 2;
    const size_t statistics = o.sum ? static_cast<size_t>(c.k) * sizeof(float) : 0;
    const range all[] = {
        {"x", o.x, static_cast<size_t>(c.n * c.h * c.w) * static_cast<size_t>(c.c) * size},
        {"w", o.w,
         static_cast<size_t>(c.k * c.kh * c.kw) * static_cast<size_t>(c.c / c.groups) * size},
        {"y", o.y, static_cast<size_t>(c.n * c.p * c.q) * static_cast<size_t>(c.k) * size},
        {"the workspace", o.workspace, o.workspace_bytes},
        {"sums", o.sum, statistics},
        {"sums of squares", o.squares, statistics}};
    const int written = pass == pass::forward ? 2 : pass == pass::backward_data ? 0 : 1;
    for (int i = 0; i < 6; i++) {
        if (!is_device_memory(all[i].data, all[i].bytes))
            die("cuDNN: %s at %p, %zu bytes, is not device memory", all[i].name, all[i].data,
                all[i].bytes);
        if (i != 3)
            check_apart(all[3], all[i]);
        if (i != written)
            check_apart(all[written], all[i]);
    }
    if (current_device() != handle->device)
        die("cuDNN: a handle of device %d is used while device %d is current", handle->device,
            current_device());
    return enqueue_work(handle->stream, "a convolution",
                        [=]() { compute(c, pass, how, alpha, beta, o); });
}

} // namespace dnn
} // namespace hostgpu
