#include "data/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

enum {
    BITS = 22, /* after the point of a weight: 32 - 8 for the pixel - 2 against overflow */
    HALF = 1 << (BITS - 1),
    MAX_SIDE = 1 << 20, /* of source and output, so that products stay in their types */
};

/* x86-64's oldest instructions lack a multiplication of 32-bit vectors: the loops are compiled
 * twice, and the loader of the library takes the version that the processor can run. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__AVX2__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#    define FOR_EACH_CPU __attribute__((target_clones("avx2", "default")))
#else
#    define FOR_EACH_CPU
#endif

typedef int32_t int4 __attribute__((vector_size(16)));
typedef uint8_t byte4 __attribute__((vector_size(4)));

/* One direction: output i is the sum of weight[i * taps + t] * source[first[i] + t], t < count[i].
 */
struct axis {
    int *first, *count;
    int32_t *weight;
    int taps;
    size_t outputs, weights; /* room */
};

struct ss_resizer {
    struct axis columns, rows;
    double *exact; /* weights of one output before rounding */
    uint8_t *middle;
    size_t exact_room, middle_room;
};

enum ss_status ss_resizer_open(struct ss_resizer **out)
{
    struct ss_resizer *r = calloc(1, sizeof *r);
    if (!r)
        return ss_fail_memory("a resizer", sizeof *r);
    *out = r;
    return SS_OK;
}

static void free_axis(struct axis *a)
{
    free(a->first);
    free(a->count);
    free(a->weight);
}

void ss_resizer_close(struct ss_resizer *r)
{
    if (!r)
        return;
    free_axis(&r->columns);
    free_axis(&r->rows);
    free(r->exact);
    free(r->middle);
    free(r);
}

struct ss_resize ss_resize_whole(const uint8_t *rgb, size_t stride, int width, int height,
                                 int out_width, int out_height)
{
    return (struct ss_resize){.rgb = rgb,
                              .stride = stride,
                              .width = width,
                              .height = height,
                              .right = width,
                              .bottom = height,
                              .full_width = out_width,
                              .full_height = out_height,
                              .out_width = out_width,
                              .out_height = out_height};
}

/* At least `want` elements of `size` bytes; the content is lost. */
static enum ss_status grow(void *pointer, size_t *room, size_t want, size_t size)
{
    void **p = pointer;
    if (want <= *room)
        return SS_OK;
    free(*p);
    *room = 0;
    *p = malloc(want * size);
    if (!*p)
        return ss_fail_memory("resizing a picture", want * size);
    *room = want;
    return SS_OK;
}

/* Weights for the outputs from .. from+count-1 of `full`, of a box begin..end of `size` pixels. */
static enum ss_status plan_axis(struct ss_resizer *r, struct axis *a, int size, double begin,
                                double end, int full, int from, int count)
{
    double scale = (end - begin) / full;
    double filter_scale = scale < 1 ? 1 : scale;
    a->taps = (int)ceil(filter_scale) * 2 + 1;
    size_t room = a->outputs;
    SS_TRY(grow(&a->first, &room, (size_t)count, sizeof *a->first));
    SS_TRY(grow(&a->count, &a->outputs, (size_t)count, sizeof *a->count));
    SS_TRY(grow(&a->weight, &a->weights, (size_t)count * (size_t)a->taps, sizeof *a->weight));
    SS_TRY(grow(&r->exact, &r->exact_room, (size_t)a->taps, sizeof *r->exact));
    for (int i = 0; i < count; i++) {
        double centre = begin + (from + i + 0.5) * scale;
        int first = (int)(centre - filter_scale + 0.5);
        int last = (int)(centre + filter_scale + 0.5);
        first = first < 0 ? 0 : first;
        last = last > size ? size : last;
        double sum = 0;
        for (int t = 0; t < last - first; t++) {
            double distance = fabs((t + first - centre + 0.5) * (1 / filter_scale));
            r->exact[t] = distance < 1 ? 1 - distance : 0;
            sum += r->exact[t];
        }
        a->first[i] = first;
        a->count[i] = last - first;
        for (int t = 0; t < last - first; t++) {
            double w = sum != 0 ? r->exact[t] / sum : r->exact[t];
            a->weight[i * a->taps + t] = (int32_t)(0.5 + w * (1 << BITS));
        }
    }
    return SS_OK;
}

static inline uint8_t clip(int32_t sum)
{
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static inline int4 load_pixel(const uint8_t *p)
{
    byte4 bytes;
    memcpy(&bytes, p, 4);
    return __builtin_convertvector(bytes, int4);
}

/* One source row to one row in between. Three bytes of a pixel are computed as four, except where a
 * fourth would lie behind the row's end. at[c] is where channel c of output 0 goes; step to
 * output 1. */
FOR_EACH_CPU
static void resize_row(const struct axis *a, int outputs, const uint8_t *source, int width,
                       uint8_t *const at[3], ptrdiff_t step)
{
    for (int i = 0; i < outputs; i++) {
        const uint8_t *p = source + 3 * (ptrdiff_t)a->first[i];
        const int32_t *w = a->weight + (ptrdiff_t)i * a->taps;
        int count = a->count[i], whole = a->first[i] + count < width ? count : count - 1;
        int4 sum = {HALF, HALF, HALF, HALF};
        for (int t = 0; t < whole; t++)
            sum += load_pixel(p + 3 * t) * w[t];
        if (whole < count) {
            const uint8_t *q = p + 3 * whole;
            sum += (int4){q[0], q[1], q[2], 0} * w[whole];
        }
        for (int c = 0; c < 3; c++)
            at[c][i * step] = clip(sum[c]);
    }
}

enum { CHUNK = 256 };

/* One output row, or one channel of it: bytes 0 .. n-1 of `count` rows, weighted. */
FOR_EACH_CPU
static void mix_rows(const uint8_t *restrict rows, size_t stride, const int32_t *restrict weight,
                     int count, int n, uint8_t *restrict out)
{
    for (int from = 0; from < n; from += CHUNK) {
        int32_t sum[CHUNK];
        int size = n - from < CHUNK ? n - from : CHUNK;
        const uint8_t *row = rows + from;
#pragma omp simd
        for (int i = 0; i < size; i++)
            sum[i] = HALF + row[i] * weight[0];
        for (int t = 1; t < count; t++) {
            row += stride;
            int32_t w = weight[t];
#pragma omp simd
            for (int i = 0; i < size; i++)
                sum[i] += row[i] * w;
        }
#pragma omp simd
        for (int i = 0; i < size; i++)
            out[from + i] = clip(sum[i]);
    }
}

static enum ss_status check(const struct ss_resize *h)
{
    if (h->width < 1 || h->height < 1 || h->width > MAX_SIDE || h->height > MAX_SIDE ||
        h->full_width < 1 || h->full_height < 1 || h->full_width > MAX_SIDE ||
        h->full_height > MAX_SIDE)
        return ss_fail(SS_ERR_INVALID, "resize: %d x %d to %d x %d pixels; each must be 1 to %d",
                       h->width, h->height, h->full_width, h->full_height, MAX_SIDE);
    if (!(h->left >= 0 && h->top >= 0 && h->right <= h->width && h->bottom <= h->height &&
          h->left < h->right && h->top < h->bottom))
        return ss_fail(
            SS_ERR_INVALID,
            "resize: the box (%g, %g) to (%g, %g) is empty, or not inside %d x %d pixels", h->left,
            h->top, h->right, h->bottom, h->width, h->height);
    if (h->x < 0 || h->y < 0 || h->out_width < 1 || h->out_height < 1 ||
        h->out_width > h->full_width - h->x || h->out_height > h->full_height - h->y)
        return ss_fail(SS_ERR_INVALID,
                       "resize: the window %d x %d at (%d, %d) is not inside %d x %d pixels",
                       h->out_width, h->out_height, h->x, h->y, h->full_width, h->full_height);
    return SS_OK;
}

/* Columns: the rows that the second pass needs, from `top` to before `bottom`, in the order of the
 * output: channel after channel, or pixel after pixel. */
static void resize_columns(struct ss_resizer *r, const struct ss_resize *h, int top, int bottom)
{
    int n = h->out_width;
    ptrdiff_t channel = h->order == SS_PIXELS_CHW ? n : 1;
    ptrdiff_t step = h->order == SS_PIXELS_CHW ? 1 : 3;
    for (int y = top; y < bottom; y++) {
        uint8_t *row = r->middle + (size_t)(y - top) * 3 * (size_t)n;
        if (h->flip)
            row += (n - 1) * step;
        uint8_t *const at[3] = {row, row + channel, row + 2 * channel};
        resize_row(&r->columns, n, h->rgb + (size_t)y * h->stride, h->width, at,
                   h->flip ? -step : step);
    }
}

enum ss_status ss_resize_run(struct ss_resizer *r, const struct ss_resize *h, uint8_t *out)
{
    SS_TRY(check(h));
    SS_TRY(
        plan_axis(r, &r->columns, h->width, h->left, h->right, h->full_width, h->x, h->out_width));
    SS_TRY(
        plan_axis(r, &r->rows, h->height, h->top, h->bottom, h->full_height, h->y, h->out_height));
    int last = h->out_height - 1, top = r->rows.first[0];
    int bottom = r->rows.first[last] + r->rows.count[last];
    size_t row = 3 * (size_t)h->out_width;
    SS_TRY(grow(&r->middle, &r->middle_room, row * (size_t)(bottom - top), 1));
    resize_columns(r, h, top, bottom);
    size_t plane = (size_t)h->out_width * (size_t)h->out_height;
    for (int y = 0; y < h->out_height; y++) {
        const uint8_t *rows = r->middle + row * (size_t)(r->rows.first[y] - top);
        const int32_t *weight = r->rows.weight + (ptrdiff_t)y * r->rows.taps;
        int count = r->rows.count[y];
        if (h->order == SS_PIXELS_HWC) {
            mix_rows(rows, row, weight, count, (int)row, out + row * (size_t)y);
            continue;
        }
        for (size_t c = 0; c < 3; c++)
            mix_rows(rows + c * (size_t)h->out_width, row, weight, count, h->out_width,
                     out + c * plane + (size_t)y * (size_t)h->out_width);
    }
    return SS_OK;
}
