/* From a file of an ss_imagefolder to the bytes of a sample: read, decode what the crop needs,
 * resize.
 *
 * One context per thread; nothing is allocated in the steady state (but by libpng). The result depends on the file
 * and the arguments alone. */
#ifndef SS_DATA_IMAGE_H
#define SS_DATA_IMAGE_H

#include "core/status.h"
#include "data/crop.h"
#include "data/imagefolder.h"
#include "data/pack.h"

struct ss_image_how {
    struct ss_size size; /* the sample is (channels, height, width), or (height, width, channels) */
    int channels;        /* 3, or 1: grey (grey.h) */
    struct ss_size least; /* evaluation: ss_crop_centre's; 0: training's random crop and flip */
    struct ss_crop_range range; /* training: SS_CROP_RANGE */
    uint64_t seed;
    uint32_t epoch;
    enum ss_pixel_order order;
    const uint32_t *draw_as; /* the sample whose random draw is taken; NULL: i */
    struct ss_pack *pack;    /* pixels come from here; NULL: from the file */
    int reduced; /* decode at ss_jpeg_choose_scale's reduction: faster, not PIL's bits */
};

struct ss_image_loader;

enum ss_status ss_image_open(struct ss_image_loader **out); /* SS_ERR_MEMORY */
void ss_image_close(struct ss_image_loader *loader);        /* NULL is fine */

/* Write sample i of the folder, channels * height * width bytes. Errors name the file: SS_ERR_IO,
 * SS_ERR_FORMAT, SS_ERR_MEMORY; SS_ERR_INVALID for how->size and least. */
enum ss_status ss_image_load(struct ss_image_loader *loader, const struct ss_imagefolder *folder,
                             size_t i, const struct ss_image_how *how, uint8_t *out);

/* ss_decoder_warning about the last image. */
const char *ss_image_warning(const struct ss_image_loader *loader);

#endif
