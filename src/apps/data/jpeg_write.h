/* Write an image as a JPEG file, for generated data sets and tests. */
#ifndef SS_APPS_DATA_JPEG_WRITE_H
#define SS_APPS_DATA_JPEG_WRITE_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct ss_jpeg_how {
    int quality; /* 1 .. 100 */
    int grey;    /* grayscale: one channel, libjpeg's luma of red, green and blue */
    int progressive;
    int full_colour; /* 4:4:4; else chroma has half the resolution, 4:2:0 */
};

/* Write rgb, (height, width, 3) bytes, to PATH. An incomplete file is removed. Errors:
 * SS_ERR_INVALID (sizes, quality), SS_ERR_IO, SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_jpeg_write(const char *path, const uint8_t *rgb, int width, int height,
                             const struct ss_jpeg_how *how);

#endif
