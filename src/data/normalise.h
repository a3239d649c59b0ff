/* Normalize bytes of one channel to fp32, bit-identical to torchvision's ToTensor and Normalize. */
#ifndef SS_DATA_NORMALISE_H
#define SS_DATA_NORMALISE_H

#include <stddef.h>
#include <stdint.h>

/* Compute out[i] = (in[i] / 255 - mean) / std for n bytes, with each operation rounded to fp32. */
void ss_pixels_normalise(const uint8_t *restrict in, size_t n, float mean, float std,
                         float *restrict out);

#endif
