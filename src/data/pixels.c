#include "data/pixels.h"
#include "core/log.h"

#include <stdlib.h>

enum { ROW_ALIGN = 64 };

enum ss_status ss_pixels_check_area(const char *name, const struct ss_area *need, int width,
                                    int height)
{
    if (need->x >= 0 && need->y >= 0 && need->width >= 1 && need->height >= 1 &&
        need->width <= width - need->x && need->height <= height - need->y)
        return SS_OK;
    return ss_fail(SS_ERR_INVALID, "%s: the area %d x %d at (%d, %d) is not inside %d x %d pixels",
                   name, need->width, need->height, need->x, need->y, width, height);
}

enum ss_status ss_pixels_check_size(const char *name, uint32_t width, uint32_t height)
{
    if ((uint64_t)width * height <= SS_IMAGE_MAX_PIXELS)
        return SS_OK;
    return ss_fail(SS_ERR_FORMAT,
                   "%s: %u x %u pixels; image exceeds the %d-pixel limit (decompression bomb?); "
                   "make it smaller",
                   name, width, height, SS_IMAGE_MAX_PIXELS);
}

enum ss_status ss_pixels_reserve(size_t row_bytes, size_t rows, uint8_t **pixels, size_t *capacity,
                                 size_t *stride)
{
    *stride = (row_bytes + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    const size_t want = *stride * rows;
    if (want <= *capacity)
        return SS_OK;
    free(*pixels);
    *capacity = 0;
    *pixels = aligned_alloc(ROW_ALIGN, want);
    if (!*pixels)
        return ss_fail_memory("a decoded image", want);
    *capacity = want;
    return SS_OK;
}
