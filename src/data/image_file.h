/* Picture files of every kind that is read, JPEG and PNG: this is the only place that lists the
 * kinds. What a file is its bytes say, not its name.
 *
 * A decoder belongs to one thread and is used for many images, one after another. The pixels are
 * those of PIL's Image.open(FILE).convert("RGB") (jpeg.h, png.h). */
#ifndef SS_DATA_IMAGE_FILE_H
#define SS_DATA_IMAGE_FILE_H

#include "core/status.h"
#include "data/pixels.h"

#include <stddef.h>
#include <stdint.h>

/* 1 if a file of that name is looked at as an image: .jpg, .jpeg or .png, in small or capital
 * letters. */
int ss_is_image_name(const char *name);
/* 1 if it is one to torchvision, but of a kind that is not read here. */
int ss_is_foreign_image_name(const char *name);

struct ss_decoder;

enum ss_status ss_decoder_open(struct ss_decoder **out); /* SS_ERR_MEMORY; the caller closes it */
void ss_decoder_close(struct ss_decoder *decoder);       /* NULL is fine */

/* Read the header of the file `name` (for messages; copied), whose bytes must stay until the
 * decoding is over. Sets the image's size. Errors: SS_ERR_FORMAT (neither JPEG nor PNG,
 * truncated, more than SS_PICTURE_MAX_PIXELS), SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_decoder_begin(struct ss_decoder *decoder, const char *name, const uint8_t *bytes,
                                size_t size, int *width, int *height);

/* Decode, after ss_decoder_begin and once, the part `need` (in pixels of the full image; NULL:
 * all). A JPEG file is decoded at 1/scale of the size (ss_jpeg_decode), others at the full one:
 * out->scale says. The pixels live until the next call for this decoder. Errors: SS_ERR_FORMAT,
 * SS_ERR_INVALID (area, scale, order of calls), SS_ERR_MEMORY. */
enum ss_status ss_decoder_decode(struct ss_decoder *decoder, const struct ss_area *need, int scale,
                                 struct ss_pixels *out);

/* What the library or the decoder found odd in the last image, which PIL accepts silently, or
 * NULL. Lives until the next image. */
const char *ss_decoder_warning(const struct ss_decoder *decoder);

#endif
