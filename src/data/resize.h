/* Resize 8-bit RGB images: bilinear with antialiasing, bit-equal to PIL's Image.resize(size,
 * BILINEAR, box), which torchvision's transforms use for PIL images.
 *
 * An output pixel is a weighted mean of the source pixels under a triangle around its centre, which
 * is two output pixels wide where the image shrinks and two source pixels wide where it grows;
 * pixels outside of the source count for nothing. Columns first, then rows; weights and sums are
 * integers with 22 bits after the point, and what is between the two passes is rounded to 8 bits,
 * as PIL does. */
#ifndef SS_DATA_RESIZE_H
#define SS_DATA_RESIZE_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum ss_pixel_order { SS_PIXELS_CHW, SS_PIXELS_HWC };

struct ss_resize {
    /* The source: (height, width, 3) bytes, rows `stride` bytes apart. */
    const uint8_t *rgb;
    size_t stride;
    int width, height;
    /* The rectangle of it that becomes the output, in source pixels and parts of them, inside the
     * source. Pixels outside of the box are looked at near its edge; for torchvision's
     * crop-then-resize the source is the crop, and the box all of it. */
    double left, top, right, bottom;
    /* The size that the box becomes, and the window of it that is computed. */
    int full_width, full_height;
    int x, y, out_width, out_height;
    int flip; /* mirror the window left-right */
    enum ss_pixel_order order;
};

struct ss_resizer; /* memory that is used again; one per thread */

enum ss_status ss_resizer_open(struct ss_resizer **out); /* SS_ERR_MEMORY; the caller closes it */
void ss_resizer_close(struct ss_resizer *resizer);       /* NULL is fine */

/* All of a source to all of out_width x out_height. */
struct ss_resize ss_resize_whole(const uint8_t *rgb, size_t stride, int width, int height,
                                 int out_width, int out_height);

/* Write the window to out, 3 * out_width * out_height bytes. Nothing is allocated once the largest
 * sizes have been seen. Errors: SS_ERR_INVALID (an empty size, a box outside of the source, a
 * window outside of the full size), SS_ERR_MEMORY. */
enum ss_status ss_resize_run(struct ss_resizer *resizer, const struct ss_resize *how, uint8_t *out);

#endif
