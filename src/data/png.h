/* PNG images from memory to 8-bit RGB.
 *
 * A decoder belongs to one thread and is used for many images, one after another; no image
 * leaves a trace in the next one. libpng asks malloc for its own memory with each image; the
 * pixels' is kept (up to SS_PICTURE_KEEP bytes).
 *
 * The pixels are those of PIL's Image.open(FILE).convert("RGB"):
 * - grey of 1, 2 and 4 bits is spread to 0 .. 255, palettes are looked up; an index past the end of
 *   the palette is black;
 * - transparency is dropped, not blended with a background; so are gamma, colour profiles and all
 *   other chunks that are not needed for the pixels;
 * - of 16-bit colour, and of 16-bit grey with an alpha channel, the upper 8 bits are taken;
 * - 16-bit grey without an alpha channel is cut off at 255, so that all but very dark pixels are
 *   white. PIL does that, and what was trained in PyTorch has seen such images; ss_png_warning
 *   says so;
 * - of an animation (APNG) it is the image that readers without animations show.
 *
 * Every row is decoded whichever part is wanted, so that damage is found whatever the part. */
#ifndef SS_DATA_PNG_H
#define SS_DATA_PNG_H

#include "core/status.h"
#include "data/pixels.h"

#include <stddef.h>
#include <stdint.h>

struct ss_png;

enum ss_status ss_png_open(struct ss_png **out); /* SS_ERR_MEMORY; the caller closes it */
void ss_png_close(struct ss_png *png);           /* NULL is fine */

/* 1 if the bytes begin as those of a PNG file. */
int ss_png_is(const uint8_t *bytes, size_t size);

/* Read the header of the file `name` (for messages; copied), whose bytes must stay until the
 * decoding is over. Sets the image's size. Errors: SS_ERR_FORMAT (no PNG, truncated, more than
 * SS_PICTURE_MAX_PIXELS), SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_png_begin(struct ss_png *png, const char *name, const uint8_t *bytes, size_t size,
                            int *width, int *height);

/* Decode, after ss_png_begin and once; *out is the part `need` of it (in pixels; NULL: all), scale
 * 1. The pixels live until the next call for this decoder. A damaged checksum is an error in what
 * the pixels depend on; of other chunks it is a warning. Errors: SS_ERR_FORMAT, SS_ERR_INVALID
 * (area, order of calls), SS_ERR_MEMORY. */
enum ss_status ss_png_decode(struct ss_png *png, const struct ss_area *need, struct ss_pixels *out);

/* The first warning of the last image, or NULL if it had none. Lives until the next image. */
const char *ss_png_warning(const struct ss_png *png);

#endif
