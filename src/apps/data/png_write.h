/* Write an image as a PNG file, for converted data sets and tests. */
#ifndef SS_APPS_DATA_PNG_WRITE_H
#define SS_APPS_DATA_PNG_WRITE_H

#include "core/status.h"

#include <stdint.h>

/* Write pixels, (height, width, channels) bytes with 1 (grayscale) or 3 channels, to PATH. An
 * incomplete file is removed. Errors: SS_ERR_INVALID (sizes), SS_ERR_IO, SS_ERR_LIBRARY. */
enum ss_status ss_png_write(const char *path, const uint8_t *pixels, int width, int height,
                            int channels);

#endif
