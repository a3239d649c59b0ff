/* From bytes to normalised tensors: crop, flip, normalise.
 *
 * Training transform of the guides: RandomHorizontalFlip, RandomCrop(32, padding=4), ToTensor,
 * Normalize(mean, std). Which crop and flip a sample gets depends on (seed, epoch, sample index)
 * alone. */
#ifndef SS_DATA_AUGMENT_H
#define SS_DATA_AUGMENT_H

#include "data/dataset.h"

#include <stdint.h>

struct ss_crop_flip {
    int dy, dx; /* top-left corner of the crop inside the padded image, 0 .. 2*padding */
    int flip;   /* mirror left-right before the crop */
};

/* The draw for one sample: dy, dx uniform in 0..2*padding, flip with probability 1/2. */
struct ss_crop_flip ss_augment_draw(uint64_t seed, uint32_t epoch, uint32_t sample, int padding);

/* out (C,H,W) fp32 = (crop(pad(flip(image))) / 255 - mean) / std; padding pixels are black before
 * normalisation, as torchvision's. dy = dx = padding, flip = 0 is the identity. */
void ss_augment_apply(const struct ss_dataset *d, const uint8_t *image, struct ss_crop_flip how,
                      int padding, float *out);

/* out (C,H,W) bytes = crop(pad(flip(image))): the same before normalisation, for devices that
 * normalise themselves. */
void ss_augment_apply_bytes(const struct ss_dataset *d, const uint8_t *image,
                            struct ss_crop_flip how, int padding, uint8_t *out);

/* Sample i, whose image is `image`, as `how` says, in floats or bytes: the transform of training, with a
 * padding of 4, or without how->augment the identity. */
void ss_augment_load(const struct ss_dataset *d, const uint8_t *image, size_t i,
                     const struct ss_load_how *how, void *out);

#endif
