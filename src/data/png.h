/* PNG decoder: from memory to 8-bit RGB.
 *
 * A decoder belongs to one thread and decodes many images, one after another; no state carries over
 * from one image to the next. libpng allocates its memory again for each image; the pixel buffer is
 * reused (up to SS_IMAGE_RETAIN bytes).
 *
 * The pixels equal those of PIL's Image.open(FILE).convert("RGB"):
 * - grayscale of 1, 2 and 4 bits is scaled to 0 .. 255, palettes are expanded to RGB; an index past
 *   the end of the palette is black;
 * - transparency is dropped, not blended with a background; gamma, color profiles and all other
 *   chunks that are not needed for the pixels are ignored;
 * - 16-bit color and 16-bit grayscale with an alpha channel are reduced to the upper 8 bits;
 * - 16-bit grayscale without an alpha channel is clipped at 255, so that all but very dark pixels
 *   are white. PIL does the same, so models trained in PyTorch have used such images;
 *   ss_png_warning reports it;
 * - an animation (APNG) gives its default image, which readers without APNG support show.
 *
 * All rows are decoded, whatever area is requested, so damage anywhere is detected. */
#ifndef SS_DATA_PNG_H
#define SS_DATA_PNG_H

#include "core/status.h"
#include "data/pixels.h"

#include <stddef.h>
#include <stdint.h>

struct ss_png;

enum ss_status ss_png_open(struct ss_png **out); /* SS_ERR_MEMORY; the caller closes it */
void ss_png_close(struct ss_png *png);           /* NULL is fine */

/* Return 1 if the bytes begin with the first 4 bytes of the PNG signature. */
int ss_png_is(const uint8_t *bytes, size_t size);

/* Read the header of an image and set its size. `name` is used in messages and copied; `bytes` must
 * stay valid until ss_png_decode returns. Errors: SS_ERR_FORMAT (not PNG, truncated, more than
 * SS_IMAGE_MAX_PIXELS), SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_png_begin(struct ss_png *png, const char *name, const uint8_t *bytes, size_t size,
                            int *width, int *height);

/* Decode the image and set *out to the area `need` (in pixels; NULL: all) at scale 1. Call once
 * after each ss_png_begin. The pixels are valid until the next call with this decoder. A wrong
 * checksum of a chunk is an error if the pixels depend on the chunk, else a warning. Errors:
 * SS_ERR_FORMAT, SS_ERR_INVALID (area, order of calls), SS_ERR_MEMORY. */
enum ss_status ss_png_decode(struct ss_png *png, const struct ss_area *need, struct ss_pixels *out);

/* Return the first warning about the last image, or NULL. Valid until the next image. */
const char *ss_png_warning(const struct ss_png *png);

#endif
