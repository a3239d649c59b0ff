/* Decoded images, whole or in part. */
#ifndef SS_DATA_PIXELS_H
#define SS_DATA_PIXELS_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

/* Above this PIL warns of a decompression bomb (1 GiB / 4 / 3); here it is an error. */
enum { SS_PICTURE_MAX_PIXELS = 89478485 };
#define SS_PICTURE_KEEP ((size_t)64 << 20) /* bytes that a decoder keeps from image to image */

/* A rectangle of pixels: x to the right, y down. */
struct ss_area {
    int x, y, width, height;
};

struct ss_pixels {
    const uint8_t *rgb; /* (height, width, 3) bytes, rows `stride` bytes apart */
    size_t stride;
    struct ss_area area; /* what they are of the image reduced by `scale` */
    int scale;
};

/* The file `name` may be decoded. Errors: SS_ERR_FORMAT over SS_PICTURE_MAX_PIXELS. */
enum ss_status ss_pixels_check_size(const char *name, uint32_t width, uint32_t height);
/* The part is inside the image. Errors: SS_ERR_INVALID. */
enum ss_status ss_pixels_check_area(const char *name, const struct ss_area *need, int width,
                                    int height);
/* *pixels has room for `rows` rows of row_bytes, each beginning at a multiple of 64 bytes: *stride. What it has is kept if
 * it is enough, else freed: *room bytes. Errors: SS_ERR_MEMORY, *room is 0. */
enum ss_status ss_pixels_reserve(size_t row_bytes, size_t rows, uint8_t **pixels, size_t *room,
                                 size_t *stride);

#endif
