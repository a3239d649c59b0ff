#include "data/erase.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

enum { TRIES = 10 };

static const double scale_min = 0.02, scale_max = 0.33, ratio_min = 0.3, ratio_max = 3.3;

int ss_erase_draw(double p, uint64_t seed, uint32_t epoch, uint32_t sample, int height, int width,
                  struct ss_area *out)
{
    struct ss_rng rng;
    if (!(p > 0))
        return 0;
    ss_rng_open(&rng, seed, SS_RNG_ERASE, epoch, sample);
    if (!(ss_rng_between(&rng, 0, 1) < p))
        return 0;
    for (int i = 0; i < TRIES; i++) {
        const double area = (double)height * width * ss_rng_between(&rng, scale_min, scale_max);
        const double ratio = exp(ss_rng_between(&rng, log(ratio_min), log(ratio_max)));
        /* rint rounds half to even, like Python's round. */
        const double h = rint(sqrt(area * ratio)), w = rint(sqrt(area / ratio));
        if (!(h < height && w < width))
            continue;
        out->height = (int)h;
        out->width = (int)w;
        out->y = (int)ss_rng_below(&rng, (uint32_t)(height - out->height) + 1);
        out->x = (int)ss_rng_below(&rng, (uint32_t)(width - out->width) + 1);
        return 1;
    }
    return 0;
}

void ss_erase_apply(const struct ss_dataset *d, const struct ss_area *area, int bytes, void *image)
{
    const size_t element = bytes ? 1 : sizeof(float), width = (size_t)area->width;
    for (int c = 0; c < d->channels; c++) {
        const int value = bytes ? (int)rintf(255 * d->mean[c]) : 0; /* 0 also in fp32 */
        for (int y = area->y; y < area->y + area->height; y++) {
            const size_t row = (size_t)c * (size_t)d->height + (size_t)y;
            const size_t at = row * (size_t)d->width + (size_t)area->x;
            memset((char *)image + at * element, value, width * element);
        }
    }
}
