/* Image decoder for all supported file formats, JPEG and PNG. The format is detected from the
 * content, not from the file name. Only image_file.c lists the formats.
 *
 * A decoder belongs to one thread and decodes many images, one after another. The pixels equal
 * those of PIL's Image.open(FILE).convert("RGB") (jpeg.h, png.h). */
#ifndef SS_DATA_IMAGE_FILE_H
#define SS_DATA_IMAGE_FILE_H

#include "core/status.h"
#include "data/pixels.h"

#include <stddef.h>
#include <stdint.h>

/* Return 1 if the file name has an image extension: .jpg, .jpeg or .png, case-insensitive. */
int ss_is_image_name(const char *name);
/* Return 1 if the file name has an extension that torchvision supports, but not starstep. */
int ss_is_foreign_image_name(const char *name);

struct ss_decoder;

enum ss_status ss_decoder_open(struct ss_decoder **out); /* SS_ERR_MEMORY; the caller closes it */
void ss_decoder_close(struct ss_decoder *decoder);       /* NULL is fine */

/* Read the header of an image and set its size. `name` is used in messages and copied; `bytes` must
 * stay valid until ss_decoder_decode returns. Errors: SS_ERR_FORMAT (neither JPEG nor PNG,
 * truncated, more than SS_IMAGE_MAX_PIXELS), SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_decoder_begin(struct ss_decoder *decoder, const char *name, const uint8_t *bytes,
                                size_t size, int *width, int *height);

/* Decode the area `need` (in pixels of the full image; NULL: all). Call once after each
 * ss_decoder_begin. A JPEG image is decoded at 1/scale of its size (ss_jpeg_decode), others at full
 * size; out->scale is the scale used. The pixels are valid until the next call with this decoder.
 * Errors: SS_ERR_FORMAT, SS_ERR_INVALID (area, scale, order of calls), SS_ERR_MEMORY. */
enum ss_status ss_decoder_decode(struct ss_decoder *decoder, const struct ss_area *need, int scale,
                                 struct ss_pixels *out);

/* Return the first warning about the last image, which PIL accepts silently, or NULL. Valid until
 * the next image. */
const char *ss_decoder_warning(const struct ss_decoder *decoder);

#endif
