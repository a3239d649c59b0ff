/* RGB to grayscale as PIL's convert("L"), used by torchvision's Grayscale: ITU-R BT.601. */
#ifndef SS_DATA_GREY_H
#define SS_DATA_GREY_H

#include <stddef.h>
#include <stdint.h>

/* Compute out[i] = 0.299 R + 0.587 G + 0.114 B in fixed point with 16 fractional bits, rounded to
 * nearest. rgb: three planes of n bytes. */
void ss_pixels_grey(const uint8_t *restrict rgb, size_t n, uint8_t *restrict out);

#endif
