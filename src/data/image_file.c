#include "data/image_file.h"
#include "core/log.h"
#include "data/jpeg.h"
#include "data/png.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct ss_decoder {
    struct ss_jpeg *jpeg;
    struct ss_png *png;
    int is_png; /* the current image */
};

static int ends_with_any(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');
    for (; dot && *endings; endings++)
        if (!strcasecmp(dot, *endings))
            return 1;
    return 0;
}

int ss_is_image_name(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", NULL};
    return ends_with_any(name, endings);
}

int ss_is_foreign_image_name(const char *name)
{
    static const char *const endings[] = {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", NULL};
    return ends_with_any(name, endings);
}

enum ss_status ss_decoder_open(struct ss_decoder **out)
{
    struct ss_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return ss_fail_memory("a decoder of images", sizeof *d);
    enum ss_status status = ss_jpeg_open(&d->jpeg);
    if (status == SS_OK)
        status = ss_png_open(&d->png);
    if (status != SS_OK) {
        ss_decoder_close(d);
        return status;
    }
    *out = d;
    return SS_OK;
}

void ss_decoder_close(struct ss_decoder *d)
{
    if (!d)
        return;
    ss_jpeg_close(d->jpeg);
    ss_png_close(d->png);
    free(d);
}

enum ss_status ss_decoder_begin(struct ss_decoder *d, const char *name, const uint8_t *bytes,
                                size_t size, int *width, int *height)
{
    d->is_png = ss_png_is(bytes, size);
    if (d->is_png)
        return ss_png_begin(d->png, name, bytes, size, width, height);
    if (!ss_jpeg_is(bytes, size))
        return ss_fail(SS_ERR_FORMAT, "%s: not a JPEG or PNG file (%zu bytes)", name, size);
    return ss_jpeg_begin(d->jpeg, name, bytes, size, width, height);
}

enum ss_status ss_decoder_decode(struct ss_decoder *d, const struct ss_area *need, int scale,
                                 struct ss_pixels *out)
{
    return d->is_png ? ss_png_decode(d->png, need, out) : ss_jpeg_decode(d->jpeg, need, scale, out);
}

const char *ss_decoder_warning(const struct ss_decoder *d)
{
    return d->is_png ? ss_png_warning(d->png) : ss_jpeg_warning(d->jpeg);
}
