#include "apps/data/png_write.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <png.h>

enum ss_status ss_png_write(const char *path, const uint8_t *pixels, int width, int height,
                            int channels)
{
    if (width < 1 || height < 1 || (channels != 1 && channels != 3))
        return ss_fail(SS_ERR_INVALID, "%s: %d x %d pixels, %d channels; not supported by PNG",
                       path, width, height, channels);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB,
                       .flags = PNG_IMAGE_FLAG_FAST};
    FILE *f = fopen(path, "wb");
    if (!f)
        return ss_fail(SS_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    const int good = png_image_write_to_stdio(&image, f, 0, pixels, 0, NULL);
    const int full = ferror(f), error = errno;
    enum ss_status status = SS_OK;
    if (fclose(f) != 0 || full)
        status = ss_fail(SS_ERR_IO, "%s: cannot write: %s", path, strerror(full ? error : errno));
    else if (!good)
        status = ss_fail(SS_ERR_LIBRARY, "%s: libpng: %s", path, image.message);
    if (status != SS_OK)
        remove(path); /* incomplete */
    return status;
}
