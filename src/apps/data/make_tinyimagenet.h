/* Generator of a small, learnable data set of JPEG files in TinyImageNet's layout. */
#ifndef SS_APPS_DATA_MAKE_TINYIMAGENET_H
#define SS_APPS_DATA_MAKE_TINYIMAGENET_H

#include "core/status.h"

#include <stdint.h>

struct ss_tinyimagenet {
    uint32_t classes;    /* 1 .. 200 */
    uint32_t train, val; /* total number of files; train: at least one per class */
    uint64_t seed;
};

enum { SS_MAKE_TINYIMAGENET_CLASSES = 200, SS_MAKE_TINYIMAGENET_FILES = 1000000 };

/* Write DIR/wnids.txt, words.txt, train/WNID/images/WNID_N.JPEG, val/images/val_N.JPEG and
 * val/val_annotations.txt. DIR is created if missing, and must not have a train or val folder.
 * Images are those of ss_synthetic_image enlarged to 64x64, with qualities 60 to 95; some are
 * grayscale, progressive or without chroma subsampling. Equal arguments give identical files with
 * the same version of libjpeg-turbo. wnids.txt is written last: without it, the data set is
 * incomplete. Errors: SS_ERR_INVALID, SS_ERR_IO, SS_ERR_MEMORY, SS_ERR_LIBRARY. */
enum ss_status ss_make_tinyimagenet(const char *dir, const struct ss_tinyimagenet *what);

#endif
