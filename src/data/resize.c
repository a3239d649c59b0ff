#include "data/resize.h"
#include "core/log.h"
#include "core/round.h"
#include "data/resize_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = SS_RESIZE_LANES,
    MIX = SS_RESIZE_MIX,
    MAX_SIDE = 1 << 20, /* of source and output, so that products do not overflow */
};

struct axis {
    struct resize_axis plan;
    size_t outputs, weights; /* capacity in elements */
};

/* LANES rows of the source are transposed together, so that the bytes of the LANES rows at one
 * position are adjacent. Both passes then compute the same weighted sum on vectors of MIX bytes: 3
 * channels of LANES rows for columns, MIX positions of the output row for rows. */
struct ss_resizer {
    struct axis columns, rows;
    double *exact;    /* weights of one output before rounding */
    uint8_t *middle;  /* (source rows, output columns) */
    uint8_t *source;  /* (positions of a source row, LANES) */
    uint8_t *resized; /* (positions of an output row, LANES) */
    uint8_t *line;    /* a row of the output, or the ends of LANES rows of the source */
    size_t exact_capacity, middle_capacity, source_capacity, resized_capacity, line_capacity;
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
    free(a->plan.first);
    free(a->plan.count);
    free(a->plan.weight);
}

void ss_resizer_close(struct ss_resizer *r)
{
    if (!r)
        return;
    free_axis(&r->columns);
    free_axis(&r->rows);
    free(r->exact);
    free(r->middle);
    free(r->source);
    free(r->resized);
    free(r->line);
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

/* Reserve at least `want` elements of `size` bytes; the content is lost. */
static enum ss_status grow(void *pointer, size_t *capacity, size_t want, size_t size)
{
    void **p = pointer;
    if (want <= *capacity)
        return SS_OK;
    free(*p);
    *capacity = 0;
    *p = malloc(want * size);
    if (!*p)
        return ss_fail_memory("resizing an image", want * size);
    *capacity = want;
    return SS_OK;
}

/* Compute the weights of outputs from .. from+count-1 of `full`, for a box begin..end in `size`
 * pixels. */
static enum ss_status plan_axis(struct ss_resizer *r, struct axis *axis, int size, double begin,
                                double end, int full, int from, int count)
{
    struct resize_axis *a = &axis->plan;
    double scale = (end - begin) / full;
    double filter_scale = scale < 1 ? 1 : scale;
    a->taps = (int)ceil(filter_scale) * 2 + 1;
    size_t capacity = axis->outputs;
    SS_TRY(grow(&a->first, &capacity, (size_t)count, sizeof *a->first));
    SS_TRY(grow(&a->count, &axis->outputs, (size_t)count, sizeof *a->count));
    SS_TRY(grow(&a->weight, &axis->weights, (size_t)count * (size_t)a->taps, sizeof *a->weight));
    SS_TRY(grow(&r->exact, &r->exact_capacity, (size_t)a->taps, sizeof *r->exact));
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
            a->weight[i * a->taps + t] = (int32_t)(0.5 + w * (1 << SS_RESIZE_BITS));
        }
    }
    return SS_OK;
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

/* Transpose LANES rows, starting at row y, of the bytes begin .. end-1 to r->source. Rows at and
 * after `bottom` repeat row bottom-1. */
static void take_source(struct ss_resizer *r, const struct ss_resize *h, int y, int bottom,
                        size_t begin, size_t end)
{
    const struct resize_tiles line_as = {LANES, LANES}, source_as = {LANES, LANES * LANES};
    const uint8_t *rows = h->rgb + (size_t)y * h->stride;
    size_t last = (size_t)(bottom - 1 - y), x = begin;
    if (last >= LANES - 1) {
        const struct resize_tiles rows_as = {h->stride, LANES};
        size_t tiles = (end - begin) / LANES;
        resize_transpose(rows + x, rows_as, r->source, source_as, tiles);
        x += tiles * LANES;
    }
    for (; x < end; x += LANES) {
        uint8_t *tile = r->line;
        size_t bytes = end - x < LANES ? end - x : LANES;
        for (size_t k = 0; k < LANES; k++)
            memcpy(tile + k * LANES, rows + (k < last ? k : last) * h->stride + x, bytes);
        resize_transpose(tile, line_as, r->source + (x - begin) * LANES, source_as, 1);
    }
}

/* Resize the columns of rows top .. bottom-1, which the second pass needs. The result is in the
 * order of the output: channel after channel, or pixel after pixel. */
static void resize_columns(struct ss_resizer *r, const struct ss_resize *h, int top, int bottom,
                           size_t stride)
{
    const struct resize_axis *a = &r->columns.plan;
    const struct resize_tiles resized_as = {LANES, LANES * LANES}, rows_as = {stride, LANES};
    int n = h->out_width, chw = h->order == SS_PIXELS_CHW;
    size_t begin = 3 * (size_t)a->first[0], end = 3 * (size_t)(a->first[n - 1] + a->count[n - 1]);
    struct resize_places to = {.step = (chw ? 1 : 3) * LANES,
                               .channel = (size_t)(chw ? n : 1) * LANES};
    uint8_t *first = r->resized;
    if (h->flip) {
        first += (n - 1) * to.step;
        to.step = -to.step;
    }
    for (int y = top; y < bottom; y += LANES) {
        take_source(r, h, y, bottom, begin, end);
        resize_mix_columns(r->source, a, n, first, to);
        /* `middle` has space for LANES extra rows. */
        resize_transpose(r->resized, resized_as, r->middle + (size_t)(y - top) * stride, rows_as,
                         stride / LANES);
    }
}

static void resize_rows(struct ss_resizer *r, const struct ss_resize *h, int top, size_t stride,
                        uint8_t *out)
{
    const struct resize_axis *a = &r->rows.plan;
    size_t width = (size_t)h->out_width, plane = width * (size_t)h->out_height;
    for (int y = 0; y < h->out_height; y++) {
        resize_mix_row(r->middle + stride * (size_t)(a->first[y] - top), stride, a, y, stride,
                       r->line);
        if (h->order == SS_PIXELS_HWC)
            memcpy(out + 3 * width * (size_t)y, r->line, 3 * width);
        for (size_t c = 0; h->order == SS_PIXELS_CHW && c < 3; c++)
            memcpy(out + c * plane + (size_t)y * width, r->line + c * width, width);
    }
}

/* Return 1 if the size does not change, so that copying suffices, as in evaluating TinyImageNet. */
static int is_copy(const struct ss_resize *h)
{
    return h->left == 0 && h->top == 0 && h->right == h->width && h->bottom == h->height &&
           h->full_width == h->width && h->full_height == h->height;
}

static void copy(const struct ss_resize *h, uint8_t *out)
{
    size_t plane = (size_t)h->out_width * (size_t)h->out_height;
    size_t channel = h->order == SS_PIXELS_CHW ? plane : 1;
    ptrdiff_t step = h->order == SS_PIXELS_CHW ? 1 : 3;
    for (int y = 0; y < h->out_height; y++) {
        const uint8_t *in = h->rgb + (size_t)(h->y + y) * h->stride + 3 * (size_t)h->x;
        uint8_t *at = out + (ptrdiff_t)y * h->out_width * step;
        if (h->flip)
            at += (h->out_width - 1) * step;
        for (int x = 0; x < h->out_width; x++, in += 3, at += h->flip ? -step : step)
            for (size_t c = 0; c < 3; c++)
                at[c * channel] = in[c];
    }
}

enum ss_status ss_resize_run(struct ss_resizer *r, const struct ss_resize *h, uint8_t *out)
{
    SS_TRY(check(h));
    if (is_copy(h)) {
        copy(h, out);
        return SS_OK;
    }
    SS_TRY(
        plan_axis(r, &r->columns, h->width, h->left, h->right, h->full_width, h->x, h->out_width));
    SS_TRY(
        plan_axis(r, &r->rows, h->height, h->top, h->bottom, h->full_height, h->y, h->out_height));
    const struct resize_axis *rows = &r->rows.plan;
    int last = h->out_height - 1, top = rows->first[0];
    int bottom = rows->first[last] + rows->count[last];
    size_t stride = ss_round_up(3 * (size_t)h->out_width, MIX);
    size_t line = stride > LANES * LANES ? stride : LANES * LANES;
    SS_TRY(grow(&r->middle, &r->middle_capacity, stride * (size_t)(bottom - top + LANES), 1));
    SS_TRY(
        grow(&r->source, &r->source_capacity, ss_round_up(3 * (size_t)h->width, LANES) * LANES, 1));
    SS_TRY(grow(&r->resized, &r->resized_capacity, stride * LANES, 1));
    SS_TRY(grow(&r->line, &r->line_capacity, line, 1));
    resize_columns(r, h, top, bottom, stride);
    resize_rows(r, h, top, stride, out);
    return SS_OK;
}
