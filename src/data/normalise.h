/* Bytes of one channel to normalised fp32, bit-equal to torchvision's ToTensor and Normalize. */
#ifndef SS_DATA_NORMALISE_H
#define SS_DATA_NORMALISE_H

#include <stddef.h>
#include <stdint.h>

/* out[i] = (in[i] / 255 - mean) / std for n bytes, each operation rounded to fp32. */
void ss_pixels_normalise(const uint8_t *restrict in, size_t n, float mean, float std,
                         float *restrict out);

#endif
