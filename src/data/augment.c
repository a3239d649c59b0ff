#include "data/augment.h"
#include "core/rng.h"

#include <string.h>

struct ss_crop_flip ss_augment_draw(uint64_t seed, uint32_t epoch, uint32_t sample, int padding)
{
    struct ss_rng rng;
    ss_rng_open(&rng, seed, SS_RNG_AUGMENT, epoch, sample);
    struct ss_crop_flip how;
    how.dy = (int)ss_rng_below(&rng, 2 * (uint32_t)padding + 1);
    how.dx = (int)ss_rng_below(&rng, 2 * (uint32_t)padding + 1);
    how.flip = (int)(ss_rng_u32(&rng) >> 31);
    return how;
}

static int clamp(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

/* One output row: columns begin .. end-1 come from the image, the others from the padding. */
struct window {
    int width, left, begin, end, flip;
};

static struct window make_window(const struct ss_dataset *d, struct ss_crop_flip how, int padding)
{
    struct window w = {.width = d->width, .left = how.dx - padding, .flip = how.flip};
    w.begin = clamp(-w.left, 0, w.width);
    w.end = clamp(w.width - w.left, w.begin, w.width);
    return w;
}

/* Return the image row that maps to output row y, or NULL for padding. */
static const uint8_t *source_row(const struct ss_dataset *d, const uint8_t *image, int c, int y,
                                 int top)
{
    int from = y + top;
    if (from < 0 || from >= d->height)
        return NULL;
    return image + ((size_t)c * (size_t)d->height + (size_t)from) * (size_t)d->width;
}

static void normalise_row(const struct window *w, const uint8_t *row, const float *table,
                          float *out)
{
    float black = table[0];
    for (int x = 0; x < w->begin; x++)
        out[x] = black;
    if (w->flip)
        for (int x = w->begin; x < w->end; x++)
            out[x] = table[row[w->width - 1 - w->left - x]];
    else
        for (int x = w->begin; x < w->end; x++)
            out[x] = table[row[w->left + x]];
    for (int x = w->end; x < w->width; x++)
        out[x] = black;
}

void ss_augment_apply(const struct ss_dataset *d, const uint8_t *image, struct ss_crop_flip how,
                      int padding, float *out)
{
    const struct window w = make_window(d, how, padding);
    for (int c = 0; c < d->channels; c++)
        for (int y = 0; y < d->height; y++, out += d->width) {
            const uint8_t *row = source_row(d, image, c, y, how.dy - padding);
            if (row)
                normalise_row(&w, row, d->normalised[c], out);
            else
                for (int x = 0; x < d->width; x++)
                    out[x] = d->normalised[c][0];
        }
}

static void copy_row(const struct window *w, const uint8_t *row, uint8_t *out)
{
    memset(out, 0, (size_t)w->width);
    if (w->flip)
        for (int x = w->begin; x < w->end; x++)
            out[x] = row[w->width - 1 - w->left - x];
    else
        memcpy(out + w->begin, row + w->left + w->begin, (size_t)(w->end - w->begin));
}

void ss_augment_apply_bytes(const struct ss_dataset *d, const uint8_t *image,
                            struct ss_crop_flip how, int padding, uint8_t *out)
{
    const struct window w = make_window(d, how, padding);
    for (int c = 0; c < d->channels; c++)
        for (int y = 0; y < d->height; y++, out += d->width) {
            const uint8_t *row = source_row(d, image, c, y, how.dy - padding);
            if (row)
                copy_row(&w, row, out);
            else
                memset(out, 0, (size_t)d->width);
        }
}

void ss_augment_load(const struct ss_dataset *d, const uint8_t *image, size_t i,
                     const struct ss_load_how *how, void *out)
{
    enum { PADDING = 4 };
    struct ss_crop_flip crop = {PADDING, PADDING, 0};
    if (how->augment)
        crop = ss_augment_draw(how->seed, how->epoch, (uint32_t)i, PADDING);
    if (how->bytes)
        ss_augment_apply_bytes(d, image, crop, PADDING, out);
    else
        ss_augment_apply(d, image, crop, PADDING, out);
}
