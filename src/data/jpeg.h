/* JPEG images from memory to 8-bit RGB, whole or in part.
 *
 * A decoder belongs to one thread and is used for many images, one after another. Its memory
 * grows to what the largest image needs (up to SS_PICTURE_KEEP bytes are kept) and is used again: in
 * the steady state nothing is allocated. No image leaves a trace in the next one.
 *
 * The pixels are those of PIL's Image.open(FILE).convert("RGB"): accurate integer DCT, smooth
 * upsampling of colour, grey copied to three channels, CMYK and YCCK through PIL's formula. What
 * EXIF says of the orientation is not followed, as torchvision's ImageFolder does not.
 *
 * Built on libjpeg's interface and not on TurboJPEG's, which before version 3 cannot decode a part
 * of an image; a crop needs neither the rows above and below it nor the columns beside it (but of
 * a progressive file that lacks scans it gets all columns, for libjpeg's guesses at what is
 * missing). libjpeg ends a failing call with a jump; see jpeg.c for how that stays in one place. */
#ifndef SS_DATA_JPEG_H
#define SS_DATA_JPEG_H

#include "core/status.h"
#include "data/pixels.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_JPEG_MAX_SCANS = 500 };            /* of a progressive file */
#define SS_JPEG_MAX_MEMORY ((size_t)1 << 30) /* bytes, libjpeg's own for one image */

struct ss_jpeg;

enum ss_status ss_jpeg_open(struct ss_jpeg **out); /* SS_ERR_MEMORY; the caller closes it */
void ss_jpeg_close(struct ss_jpeg *jpeg);          /* NULL is fine */

/* 1 if the bytes begin as those of a JPEG file. */
int ss_jpeg_is(const uint8_t *bytes, size_t size);

/* Read the header of the file `name` (for messages; copied), whose bytes must stay until the
 * decoding is over. Sets the image's size. Errors: SS_ERR_FORMAT (no JPEG, truncated, more than
 * SS_PICTURE_MAX_PIXELS, a kind of JPEG that PIL does not read either), SS_ERR_MEMORY. */
enum ss_status ss_jpeg_begin(struct ss_jpeg *jpeg, const char *name, const uint8_t *bytes,
                             size_t size, int *width, int *height);

/* Decode, after ss_jpeg_begin and once, the part `need` (in pixels of the full image; NULL: all)
 * at 1/scale of the size (1, 2, 4, 8; a reduced image has ceil(width / scale) columns). With
 * scale 1 out->area is `need`; else it is the least area of the reduced image that covers it. The
 * pixels live until the next call for this decoder.
 *
 * A file that ends early is an error wherever the missing part is, as for PIL. Damage that libjpeg
 * can get over (a warning) is not, again as for PIL: see ss_jpeg_warning. Errors: SS_ERR_FORMAT,
 * SS_ERR_INVALID (area, scale, order of calls), SS_ERR_MEMORY. */
enum ss_status ss_jpeg_decode(struct ss_jpeg *jpeg, const struct ss_area *need, int scale,
                              struct ss_pixels *out);

/* The first warning of the last image, or NULL if it had none. Lives until the next image. */
const char *ss_jpeg_warning(const struct ss_jpeg *jpeg);

/* The reduction at which a crop may be decoded that is resized to out_width x out_height
 * afterwards: the largest of 1, 2, 4, 8 that leaves at least out_width x out_height pixels of it,
 * so that resizing still shrinks it or keeps it. libjpeg's reduction averages in the DCT's domain,
 * where the antialiased filter weighs with a triangle: on generated images of 500 x 375 the
 * outputs of 64 x 64 differ from those of the whole decoding by less than 1 of 255 in the mean, by
 * 13 at most. */
int ss_jpeg_choose_scale(int crop_width, int crop_height, int out_width, int out_height);

#endif
