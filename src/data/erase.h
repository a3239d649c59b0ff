/* Random erasing: torchvision's RandomErasing(p, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0),
 * after Normalize. A rectangle of 2 to 33 % of the image's area, with height / width between 0.3
 * and 3.3, is set to 0, the mean color. If ten tries do not fit, no pixel is erased. Source: Zhong
 * and others 2020, algorithm 1; torchvision.transforms.RandomErasing.get_params. */
#ifndef SS_DATA_ERASE_H
#define SS_DATA_ERASE_H

#include "data/dataset.h"
#include "data/jpeg.h"

/* Draw the rectangle to erase for one sample. Depends only on (seed, epoch, sample) and the image's
 * size. Returns 1 and sets *out with probability p (if one of ten tries fits), else returns 0. */
int ss_erase_draw(double p, uint64_t seed, uint32_t epoch, uint32_t sample, int height, int width,
                  struct ss_area *out);

/* Erase the area of image (C,H,W): set normalized fp32 to 0, or bytes to the mean, rounded to the
 * nearest. */
void ss_erase_apply(const struct ss_dataset *d, const struct ss_area *area, int bytes, void *image);

#endif
