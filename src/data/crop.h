/* Which part of an image becomes a sample: torchvision's RandomResizedCrop with
 * RandomHorizontalFlip for training, Resize with CenterCrop for evaluation. */
#ifndef SS_DATA_CROP_H
#define SS_DATA_CROP_H

#include "core/size.h"
#include "core/status.h"
#include "data/pixels.h"
#include "data/resize.h"

#include <stdint.h>

struct ss_crop {
    struct ss_area area;   /* the part of the image that is resized */
    int width, height;     /* the size that the area gets */
    struct ss_area window; /* the part of that which is the sample */
    int flip;
};

/* What the draw may give: parts of the image's area, and the bounds of width / height. */
struct ss_crop_range {
    double scale_min, scale_max, ratio_min, ratio_max;
};
/* torchvision's default */
#define SS_CROP_RANGE ((struct ss_crop_range){0.08, 1, 3. / 4, 4. / 3})

/* RandomResizedCrop(size) and a flip with probability 1/2 for an image of width x height: ten
 * tries of an area (uniform) and a ratio (uniform in its logarithm), then the largest central part
 * whose ratio is allowed. A function of (seed, epoch, sample) and the image's size alone. */
struct ss_crop ss_crop_draw(uint64_t seed, uint32_t epoch, uint32_t sample, int width, int height,
                            const struct ss_crop_range *range, struct ss_size size);

/* The image made as small as it can be, its ratio kept, without being smaller than `least`, and
 * CenterCrop(size) of that. Where least is a square, these are torchvision's Resize(least) and
 * CenterCrop(size), with its roundings: the longer side is rounded down, the crop's corner to the
 * nearest, half to even. Errors: SS_ERR_INVALID when size is not within least, where torchvision
 * would add black borders. */
enum ss_status ss_crop_centre(int width, int height, struct ss_size least, struct ss_size size,
                              struct ss_crop *out);

/* The crop of what was decoded, as (3, H, W) or (H, W, 3) bytes: `pixels` must cover crop->area.
 * With pixels of scale 1 the result is bit-equal to torchvision's. */
enum ss_status ss_crop_apply(struct ss_resizer *resizer, const struct ss_crop *crop,
                             const struct ss_pixels *pixels, enum ss_pixel_order order,
                             uint8_t *out);

#endif
