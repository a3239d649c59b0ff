/* Decoded pixels of an image or an area of it. */
#ifndef SS_DATA_PIXELS_H
#define SS_DATA_PIXELS_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

/* Pixel limit: PIL warns of a decompression bomb above it (1 GiB / 4 / 3); here it is an error. */
enum { SS_IMAGE_MAX_PIXELS = 89478485 };
#define SS_IMAGE_RETAIN ((size_t)64 << 20) /* bytes that a decoder retains between images */

/* A rectangle of pixels: x to the right, y down. */
struct ss_area {
    int x, y, width, height;
};

struct ss_pixels {
    const uint8_t *rgb; /* (height, width, 3) bytes, rows `stride` bytes apart */
    size_t stride;
    struct ss_area area; /* position in the image reduced by `scale` */
    int scale;
};

/* Check the size of the image file `name`. Errors: SS_ERR_FORMAT above SS_IMAGE_MAX_PIXELS. */
enum ss_status ss_pixels_check_size(const char *name, uint32_t width, uint32_t height);
/* Check that the area is inside the image. Errors: SS_ERR_INVALID. */
enum ss_status ss_pixels_check_area(const char *name, const struct ss_area *need, int width,
                                    int height);
/* Ensure that *pixels has space for `rows` rows of row_bytes. Sets *stride to row_bytes rounded
 * up to a multiple of 64. The buffer of *capacity bytes is reused if large enough, else replaced;
 * its content is lost. Errors: SS_ERR_MEMORY; *capacity is then 0. */
enum ss_status ss_pixels_reserve(size_t row_bytes, size_t rows, uint8_t **pixels, size_t *capacity,
                                 size_t *stride);

#endif
