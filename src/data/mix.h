/* Two samples as one: torchvision's v2.MixUp and v2.CutMix, with a draw for each sample instead of
 * one for the batch.
 *
 * MixUp:  x = share * own + (1 - share) * other, share of Beta(alpha, alpha)
 * CutMix: a box of x is the other's; its centre is uniform, its sides are sqrt(1 - lambda) of the
 *         image's, lambda of Beta(alpha, alpha), rounded down to even and clipped; share is what is
 *         left of the own image
 * The label is mixed by the same share. Sources: Zhang and others 2018, section 2; Yun and others
 * 2019, equations 1 and 2; torchvision.transforms.v2. */
#ifndef SS_DATA_MIX_H
#define SS_DATA_MIX_H

#include "data/dataset.h"
#include "data/jpeg.h"

struct ss_mix_how {
    double mixup, cutmix; /* alpha; 0: not at all; of both each sample takes one, half and half */
};
static inline int ss_mixes(const struct ss_mix_how *how)
{
    return how->mixup > 0 || how->cutmix > 0;
}

struct ss_mix {
    float share; /* of the own image */
    int cut;
    struct ss_area box; /* cut: what is the other's; may be empty */
};

/* The draw for one sample: a function of (seed, epoch, sample) and the image's size alone. */
struct ss_mix ss_mix_draw(const struct ss_mix_how *how, uint64_t seed, uint32_t epoch,
                          uint32_t sample, int height, int width);

/* image (C,H,W) becomes the mixture of itself and other, which is as large; fp32, or with bytes
 * rounded to the nearest byte. d: for the size. */
void ss_mix_apply(const struct ss_dataset *d, const struct ss_mix *mix, int bytes, void *image,
                  const void *other);

#endif
