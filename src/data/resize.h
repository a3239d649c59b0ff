/* Resizing of 8-bit RGB images: bilinear with antialiasing, bit-identical to PIL's
 * Image.resize(size, BILINEAR, box), which torchvision's transforms use for PIL images.
 *
 * An output pixel is a mean of source pixels with triangular weights around its center. The
 * triangle is two output pixels wide when shrinking and two source pixels wide when enlarging;
 * pixels outside of the source have no weight. The first pass resizes the columns, the second the
 * rows. As in PIL, weights and sums are fixed-point numbers with 22 fractional bits, and the
 * intermediate result is rounded to 8 bits. */
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
    /* The box of the source that is resized, in fractional source pixels. Near its edge, pixels
     * outside of the box are used; for torchvision's crop-then-resize the source is the crop, and
     * the box is all of it. */
    double left, top, right, bottom;
    /* The size of the resized box, and the window of it that is computed. */
    int full_width, full_height;
    int x, y, out_width, out_height;
    int flip; /* mirror the window left-right */
    enum ss_pixel_order order;
};

struct ss_resizer; /* reusable buffers; one per thread */

enum ss_status ss_resizer_open(struct ss_resizer **out); /* SS_ERR_MEMORY; the caller closes it */
void ss_resizer_close(struct ss_resizer *resizer);       /* NULL is fine */

/* Return the description for resizing a whole source to out_width x out_height. */
struct ss_resize ss_resize_whole(const uint8_t *rgb, size_t stride, int width, int height,
                                 int out_width, int out_height);

/* Write the window to out, 3 * out_width * out_height bytes. Allocates memory only if a size
 * exceeds that of all previous calls. Errors: SS_ERR_INVALID (an empty size, a box outside of the
 * source, a window outside of the full size), SS_ERR_MEMORY. */
enum ss_status ss_resize_run(struct ss_resizer *resizer, const struct ss_resize *how, uint8_t *out);

#endif
