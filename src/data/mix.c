#include "data/mix.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

static int clamp(int v, int most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

static struct ss_area draw_box(struct ss_rng *rng, double lambda, int height, int width)
{
    const int x = (int)ss_rng_below(rng, (uint32_t)width);
    const int y = (int)ss_rng_below(rng, (uint32_t)height);
    const double r = 0.5 * sqrt(1 - lambda);
    const int half_width = (int)(r * width), half_height = (int)(r * height);
    struct ss_area box = {.x = clamp(x - half_width, width), .y = clamp(y - half_height, height)};
    box.width = clamp(x + half_width, width) - box.x;
    box.height = clamp(y + half_height, height) - box.y;
    return box;
}

struct ss_mix ss_mix_draw(const struct ss_mix_how *how, uint64_t seed, uint32_t epoch,
                          uint32_t sample, int height, int width)
{
    struct ss_rng rng;
    ss_rng_open(&rng, seed, SS_RNG_MIX, epoch, sample);
    const int second = (int)(ss_rng_u32(&rng) >> 31);
    struct ss_mix mix = {.cut = how->cutmix > 0 && (!(how->mixup > 0) || second)};
    const double lambda = ss_rng_beta(&rng, mix.cut ? how->cutmix : how->mixup);
    mix.share = (float)lambda;
    if (mix.cut) {
        mix.box = draw_box(&rng, lambda, height, width);
        mix.share = (float)(1 - (double)mix.box.width * mix.box.height / ((double)width * height));
    }
    return mix;
}

static void mix_floats(size_t n, float share, float *restrict image, const float *restrict other)
{
    const float rest = 1 - share;
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        image[i] = other[i] * rest + image[i] * share;
}

static void mix_bytes(size_t n, float share, uint8_t *restrict image, const uint8_t *restrict other)
{
    const float rest = 1 - share;
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        image[i] = (uint8_t)((float)other[i] * rest + (float)image[i] * share + 0.5f);
}

/* Copy the box of `other` into `image`. element: bytes per element. */
static void paste(const struct ss_dataset *d, const struct ss_area *box, size_t element,
                  char *image, const char *other)
{
    for (int c = 0; c < d->channels; c++)
        for (int y = 0; y < box->height; y++) {
            const size_t row = (size_t)c * (size_t)d->height + (size_t)(box->y + y);
            const size_t at = (row * (size_t)d->width + (size_t)box->x) * element;
            memcpy(image + at, other + at, (size_t)box->width * element);
        }
}

void ss_mix_apply(const struct ss_dataset *d, const struct ss_mix *mix, int bytes, void *image,
                  const void *other)
{
    const size_t n = (size_t)d->channels * (size_t)d->height * (size_t)d->width;
    if (mix->cut)
        paste(d, &mix->box, bytes ? 1 : sizeof(float), image, other);
    else if (bytes)
        mix_bytes(n, mix->share, image, other);
    else
        mix_floats(n, mix->share, image, other);
}
