/* Image crops: torchvision's RandomResizedCrop with RandomHorizontalFlip for training, Resize with
 * CenterCrop for evaluation. */
#ifndef SS_DATA_CROP_H
#define SS_DATA_CROP_H

#include "core/size.h"
#include "core/status.h"
#include "data/pixels.h"
#include "data/resize.h"

#include <stdint.h>

struct ss_crop {
    struct ss_area area;   /* the area of the image that is resized */
    int width, height;     /* the resized area's size */
    struct ss_area window; /* the sample: a window of the resized area */
    int flip;
};

/* Range of random crops: the fraction of the image's area, and the aspect ratio width / height. */
struct ss_crop_range {
    double scale_min, scale_max, ratio_min, ratio_max;
};
/* torchvision's default */
#define SS_CROP_RANGE ((struct ss_crop_range){0.08, 1, 3. / 4, 4. / 3})

/* Draw RandomResizedCrop(size) and a flip with probability 1/2 for an image of width x height: ten
 * tries of an area (uniform) and a ratio (log-uniform), then the largest central crop with an
 * allowed ratio. Depends only on (seed, epoch, sample) and the image's size. */
struct ss_crop ss_crop_draw(uint64_t seed, uint32_t epoch, uint32_t sample, int width, int height,
                            const struct ss_crop_range *range, struct ss_size size);

/* Resize the image to the smallest size that covers `least` at the same aspect ratio, then
 * CenterCrop(size). For a square `least` this equals torchvision's Resize(least) and
 * CenterCrop(size), including the rounding: the longer side is rounded down, the crop's corner to
 * the nearest, half to even. Errors: SS_ERR_INVALID if size exceeds least; torchvision would add
 * black borders. */
enum ss_status ss_crop_centre(int width, int height, struct ss_size least, struct ss_size size,
                              struct ss_crop *out);

/* Apply the crop to decoded pixels, which must cover crop->area. Writes (3, H, W) or (H, W, 3)
 * bytes. For pixels of scale 1 the result is bit-identical to torchvision's. */
enum ss_status ss_crop_apply(struct ss_resizer *resizer, const struct ss_crop *crop,
                             const struct ss_pixels *pixels, enum ss_pixel_order order,
                             uint8_t *out);

#endif
