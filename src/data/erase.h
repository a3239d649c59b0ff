/* torchvision's RandomErasing(p, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0), which follows
 * Normalize: a rectangle of 2 to 33 % of the image is 0, the mean colour; of height / width 0.3 to
 * 3.3; where ten tries do not fit, nothing is erased. Source: Zhong and others 2020, algorithm 1;
 * torchvision.transforms.RandomErasing.get_params. */
#ifndef SS_DATA_ERASE_H
#define SS_DATA_ERASE_H

#include "data/dataset.h"
#include "data/jpeg.h"

/* The draw for one sample, a function of (seed, epoch, sample) and the image's size alone: 1 and
 * what is erased with probability p, else 0. */
int ss_erase_draw(double p, uint64_t seed, uint32_t epoch, uint32_t sample, int height, int width,
                  struct ss_area *out);

/* image (C,H,W): normalised fp32; or bytes, where the mean is rounded to the nearest. */
void ss_erase_apply(const struct ss_dataset *d, const struct ss_area *area, int bytes, void *image);

#endif
