/* Data augmentation of images in memory: crop, flip, normalize.
 *
 * The training transform is RandomHorizontalFlip, RandomCrop(32, padding=4), ToTensor,
 * Normalize(mean, std). The crop and the flip depend only on (seed, epoch, sample index). */
#ifndef SS_DATA_AUGMENT_H
#define SS_DATA_AUGMENT_H

#include "data/dataset.h"

#include <stdint.h>

struct ss_crop_flip {
    int dy, dx; /* top-left corner of the crop inside the padded image, 0 .. 2*padding */
    int flip;   /* mirror left-right before the crop */
};

/* Draw the crop and flip of one sample: dy and dx uniform in 0..2*padding, flip with probability
 * 1/2. */
struct ss_crop_flip ss_augment_draw(uint64_t seed, uint32_t epoch, uint32_t sample, int padding);

/* Write out (C,H,W) fp32 = (crop(pad(flip(image))) / 255 - mean) / std. Padding pixels are black
 * before normalization, as in torchvision. dy = dx = padding, flip = 0 is the identity. */
void ss_augment_apply(const struct ss_dataset *d, const uint8_t *image, struct ss_crop_flip how,
                      int padding, float *out);

/* Write out (C,H,W) bytes = crop(pad(flip(image))), without normalization, for devices that
 * normalize on their own. */
void ss_augment_apply_bytes(const struct ss_dataset *d, const uint8_t *image,
                            struct ss_crop_flip how, int padding, uint8_t *out);

/* Transform `image`, the image of sample i, to floats or bytes (how->bytes). With how->augment,
 * apply the training transform with a padding of 4; otherwise the identity. */
void ss_augment_load(const struct ss_dataset *d, const uint8_t *image, size_t i,
                     const struct ss_load_how *how, void *out);

#endif
