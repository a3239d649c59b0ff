/* Image loader: reads a file of an ss_imagefolder, decodes the area that the crop needs and resizes
 * it to the bytes of a sample.
 *
 * Use one loader per thread. In the steady state only libpng allocates memory. The result depends
 * only on the file and the arguments. */
#ifndef SS_DATA_IMAGE_H
#define SS_DATA_IMAGE_H

#include "core/status.h"
#include "data/crop.h"
#include "data/imagefolder.h"
#include "data/pack.h"

struct ss_image_how {
    struct ss_size size; /* the sample is (channels, height, width), or (height, width, channels) */
    int channels;        /* 3, or 1: grayscale (grey.h) */
    struct ss_size least; /* evaluation: for ss_crop_centre; 0: random crop and flip of training */
    struct ss_crop_range range; /* training: SS_CROP_RANGE */
    uint64_t seed;
    uint32_t epoch;
    enum ss_pixel_order order;
    const uint32_t *draw_as; /* sample index for the random draw; NULL: i */
    struct ss_pack *pack;    /* read pixels from this pack; NULL: decode the file */
    int reduced; /* decode at the scale of ss_jpeg_choose_scale: faster, not bit-identical to PIL */
};

struct ss_image_loader;

enum ss_status ss_image_open(struct ss_image_loader **out); /* SS_ERR_MEMORY */
void ss_image_close(struct ss_image_loader *loader);        /* NULL is fine */

/* Load sample i of the folder into out, channels * height * width bytes. Errors name the file:
 * SS_ERR_IO, SS_ERR_FORMAT, SS_ERR_MEMORY; SS_ERR_INVALID for how->size and least. */
enum ss_status ss_image_load(struct ss_image_loader *loader, const struct ss_imagefolder *folder,
                             size_t i, const struct ss_image_how *how, uint8_t *out);

/* Return ss_decoder_warning for the last image. */
const char *ss_image_warning(const struct ss_image_loader *loader);

#endif
