/* A generated data set in TinyImageNet's layout, small and learnable, of real JPEG files. */
#ifndef SS_DATA_MAKE_TINYIMAGENET_H
#define SS_DATA_MAKE_TINYIMAGENET_H

#include "core/status.h"

#include <stdint.h>

struct ss_tinyimagenet {
    uint32_t classes;    /* 1 .. 200 */
    uint32_t train, val; /* files in all; for training at least one of each class */
    uint64_t seed;
};

enum { SS_MAKE_TINYIMAGENET_CLASSES = 200, SS_MAKE_TINYIMAGENET_FILES = 1000000 };

/* Write DIR/wnids.txt, words.txt, train/WNID/images/WNID_N.JPEG, val/images/val_N.JPEG and
 * val/val_annotations.txt; DIR is created if missing, and must not hold a data set. Pictures are
 * 64x64, those of ss_synthetic_image enlarged; qualities 60 to 95, some grey, progressive or
 * without subsampling. Files are equal for equal arguments and one libjpeg-turbo. wnids.txt comes
 * last: a folder without it was not finished. Errors: SS_ERR_INVALID, SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_make_tinyimagenet(const char *dir, const struct ss_tinyimagenet *what);

#endif
