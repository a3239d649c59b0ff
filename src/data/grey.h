/* Colour to grey, as PIL's convert("L"), which torchvision's Grayscale uses: ITU-R BT.601. */
#ifndef SS_DATA_GREY_H
#define SS_DATA_GREY_H

#include <stddef.h>
#include <stdint.h>

/* out[i] = 0.299 R + 0.587 G + 0.114 B in 16 bits after the point, rounded to nearest; rgb: three
 * planes of n bytes. */
void ss_pixels_grey(const uint8_t *restrict rgb, size_t n, uint8_t *restrict out);

#endif
