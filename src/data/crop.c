#include "data/crop.h"
#include "core/log.h"
#include "core/rng.h"

#include <math.h>

enum { TRIES = 10 };

static int try_area(struct ss_rng *rng, int width, int height, const struct ss_crop_range *range,
                    struct ss_area *out)
{
    double area = (double)width * height * ss_rng_between(rng, range->scale_min, range->scale_max);
    double ratio = exp(ss_rng_between(rng, log(range->ratio_min), log(range->ratio_max)));
    /* rint rounds half to even, like Python's round. */
    double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
    if (!(w >= 1 && w <= width && h >= 1 && h <= height))
        return 0;
    out->width = (int)w;
    out->height = (int)h;
    out->y = (int)ss_rng_below(rng, (uint32_t)(height - out->height) + 1);
    out->x = (int)ss_rng_below(rng, (uint32_t)(width - out->width) + 1);
    return 1;
}

static int round_side(double value, int most)
{
    return value < 1 ? 1 : value > most ? most : (int)rint(value);
}

static struct ss_area central_area(int width, int height, const struct ss_crop_range *range)
{
    double ratio = (double)width / height;
    struct ss_area a = {.width = width, .height = height};
    if (ratio < range->ratio_min)
        a.height = round_side(width / range->ratio_min, height);
    else if (ratio > range->ratio_max)
        a.width = round_side(height * range->ratio_max, width);
    a.x = (width - a.width) / 2;
    a.y = (height - a.height) / 2;
    return a;
}

struct ss_crop ss_crop_draw(uint64_t seed, uint32_t epoch, uint32_t sample, int width, int height,
                            const struct ss_crop_range *range, struct ss_size size)
{
    struct ss_rng rng;
    ss_rng_open(&rng, seed, SS_RNG_AUGMENT, epoch, sample);
    struct ss_crop crop = {
        .width = size.width, .height = size.height, .window = {0, 0, size.width, size.height}};
    crop.flip = (int)(ss_rng_u32(&rng) >> 31);
    for (int i = 0; i < TRIES; i++)
        if (try_area(&rng, width, height, range, &crop.area))
            return crop;
    crop.area = central_area(width, height, range);
    return crop;
}

enum ss_status ss_crop_centre(int width, int height, struct ss_size least, struct ss_size size,
                              struct ss_crop *out)
{
    if (size.height < 1 || size.height > least.height || size.width < 1 || size.width > least.width)
        return ss_fail(SS_ERR_INVALID, "a crop of %dx%d pixels from at least %dx%d does not fit",
                       size.height, size.width, least.height, least.width);
    struct ss_crop crop = {
        .area = {0, 0, width, height}, .width = least.width, .height = least.height};
    if ((int64_t)width * least.height <= (int64_t)height * least.width)
        crop.height = (int)((double)least.width * height / width);
    else
        crop.width = (int)((double)least.height * width / height);
    crop.window =
        (struct ss_area){(int)rint((crop.width - size.width) / 2.0),
                         (int)rint((crop.height - size.height) / 2.0), size.width, size.height};
    *out = crop;
    return SS_OK;
}

enum ss_status ss_crop_apply(struct ss_resizer *resizer, const struct ss_crop *crop,
                             const struct ss_pixels *pixels, enum ss_pixel_order order,
                             uint8_t *out)
{
    const struct ss_area *area = &crop->area, *have = &pixels->area;
    double scale = pixels->scale;
    struct ss_resize how = {
        .rgb = pixels->rgb,
        .stride = pixels->stride,
        .width = have->width,
        .height = have->height,
        .left = area->x / scale - have->x,
        .top = area->y / scale - have->y,
        .right = (area->x + area->width) / scale - have->x,
        .bottom = (area->y + area->height) / scale - have->y,
        .full_width = crop->width,
        .full_height = crop->height,
        .x = crop->window.x,
        .y = crop->window.y,
        .out_width = crop->window.width,
        .out_height = crop->window.height,
        .flip = crop->flip,
        .order = order,
    };
    if (how.left < 0 || how.top < 0 || how.right > have->width || how.bottom > have->height)
        return ss_fail(SS_ERR_INVALID, "the decoded pixels do not cover the crop");
    return ss_resize_run(resizer, &how, out);
}
