/* MixUp and CutMix of two samples, as torchvision's v2.MixUp and v2.CutMix, but drawn per sample
 * instead of per batch.
 *
 * MixUp:  x = share * own + (1 - share) * other, with share from Beta(alpha, alpha)
 * CutMix: a box of x is copied from the other image; its center is uniform, its sides are
 *         sqrt(1 - lambda) of the image's, lambda from Beta(alpha, alpha), rounded down to even
 *         and clipped; share is the remaining fraction of the own image
 * The labels are mixed with the same share. Sources: Zhang and others 2018, section 2; Yun and
 * others 2019, equations 1 and 2; torchvision.transforms.v2. */
#ifndef SS_DATA_MIX_H
#define SS_DATA_MIX_H

#include "data/dataset.h"
#include "data/jpeg.h"

struct ss_mix_how {
    double mixup, cutmix; /* alpha; 0: disabled; if both are enabled, each has probability 1/2 */
};
static inline int ss_mixes(const struct ss_mix_how *how)
{
    return how->mixup > 0 || how->cutmix > 0;
}

struct ss_mix {
    float share; /* of the own image */
    int cut;
    struct ss_area box; /* cut: the area copied from the other image; may be empty */
};

/* Draw the mixture of one sample. Depends only on (seed, epoch, sample) and the image's size. */
struct ss_mix ss_mix_draw(const struct ss_mix_how *how, uint64_t seed, uint32_t epoch,
                          uint32_t sample, int height, int width);

/* Mix `other` into `image` in place, both (C,H,W) of d's size: fp32, or with `bytes` bytes, rounded
 * to the nearest. */
void ss_mix_apply(const struct ss_dataset *d, const struct ss_mix *mix, int bytes, void *image,
                  const void *other);

#endif
