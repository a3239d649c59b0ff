#include "data/augment.h"

#include "core/rng.h"

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

void ss_augment_apply(const struct ss_dataset *d, const uint8_t *image, struct ss_crop_flip how,
                      int padding, float *out)
{
    int height = d->height, width = d->width;
    int top = how.dy - padding, left = how.dx - padding;
    /* Columns begin .. end-1 of the output come from the image, the others from the padding. */
    int begin = clamp(-left, 0, width), end = clamp(width - left, begin, width);
    for (int c = 0; c < d->channels; c++) {
        const float *table = d->normalised[c];
        float black = table[0];
        for (int y = 0; y < height; y++, out += width) {
            int from = y + top;
            if (from < 0 || from >= height) {
                for (int x = 0; x < width; x++)
                    out[x] = black;
                continue;
            }
            const uint8_t *row =
                image + ((size_t)c * (size_t)height + (size_t)from) * (size_t)width;
            for (int x = 0; x < begin; x++)
                out[x] = black;
            if (how.flip)
                for (int x = begin; x < end; x++)
                    out[x] = table[row[width - 1 - left - x]];
            else
                for (int x = begin; x < end; x++)
                    out[x] = table[row[left + x]];
            for (int x = end; x < width; x++)
                out[x] = black;
        }
    }
}
