/* JPEG decoder: from memory to 8-bit RGB, whole images or an area.
 *
 * A decoder belongs to one thread and decodes many images, one after another. Its memory grows to
 * the need of the largest image and is reused (up to SS_IMAGE_RETAIN bytes), so in the steady
 * state no memory is allocated. No state carries over from one image to the next.
 *
 * The pixels equal those of PIL's Image.open(FILE).convert("RGB"): accurate integer DCT, fancy
 * upsampling of chroma, grayscale copied to three channels, CMYK and YCCK through PIL's formula.
 * The EXIF orientation is ignored, as in torchvision's ImageFolder.
 *
 * The decoder uses libjpeg's interface, because TurboJPEG before version 3 cannot decode an area
 * of an image. A crop needs neither the rows above and below it nor the columns next to it.
 * Exception: for a progressive file with missing scans all columns are decoded, because libjpeg
 * estimates missing coefficients from neighboring blocks. libjpeg reports errors by longjmp; see
 * jpeg.c. */
#ifndef SS_DATA_JPEG_H
#define SS_DATA_JPEG_H

#include "core/status.h"
#include "data/pixels.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_JPEG_MAX_SCANS = 500 };            /* of a progressive file */
#define SS_JPEG_MAX_MEMORY ((size_t)1 << 30) /* bytes that libjpeg may use for one image */

struct ss_jpeg;

enum ss_status ss_jpeg_open(struct ss_jpeg **out); /* SS_ERR_MEMORY; the caller closes it */
void ss_jpeg_close(struct ss_jpeg *jpeg);          /* NULL is fine */

/* Return 1 if the bytes begin with the signature of a JPEG file. */
int ss_jpeg_is(const uint8_t *bytes, size_t size);

/* Read the header of an image and set its size. `name` is used in messages and copied; `bytes` must
 * stay valid until ss_jpeg_decode returns. Errors: SS_ERR_FORMAT (not JPEG, truncated, more than
 * SS_IMAGE_MAX_PIXELS, a kind of JPEG that PIL does not support either), SS_ERR_MEMORY. */
enum ss_status ss_jpeg_begin(struct ss_jpeg *jpeg, const char *name, const uint8_t *bytes,
                             size_t size, int *width, int *height);

/* Decode the area `need` (in pixels of the full image; NULL: all) at 1/scale of the size (1, 2,
 * 4, 8; a reduced image has ceil(width / scale) columns). Call once after each ss_jpeg_begin.
 * With scale 1 out->area is `need`; else it is the smallest area of the reduced image that covers
 * it. The pixels are valid until the next call with this decoder.
 *
 * As in PIL, a truncated file is an error wherever the missing data are, but damage that libjpeg
 * can recover from is only a warning (ss_jpeg_warning). Errors: SS_ERR_FORMAT, SS_ERR_INVALID
 * (area, scale, order of calls), SS_ERR_MEMORY. */
enum ss_status ss_jpeg_decode(struct ss_jpeg *jpeg, const struct ss_area *need, int scale,
                              struct ss_pixels *out);

/* Return the first warning about the last image, or NULL. Valid until the next image. */
const char *ss_jpeg_warning(const struct ss_jpeg *jpeg);

/* Choose the decoding scale of a crop that is resized to out_width x out_height afterwards: the
 * largest of 1, 2, 4, 8 that leaves at least out_width x out_height pixels, so that resizing never
 * enlarges. The result is not bit-identical: libjpeg averages in the DCT domain, whereas the
 * antialiased filter uses triangular weights. On generated images of 500 x 375, outputs of 64 x 64
 * differ from those of decoding at scale 1 by less than 1 of 255 on average and by at most 13. */
int ss_jpeg_choose_scale(int crop_width, int crop_height, int out_width, int out_height);

#endif
