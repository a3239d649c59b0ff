/* Arrays of images and labels, NumPy's (.npz) or in IDX files, to folders of PNG files. */
#ifndef SS_DATA_CONVERT_NPZ_H
#define SS_DATA_CONVERT_NPZ_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct ss_npz_how {
    const char *images, *labels; /* names of arrays; NULL: those that are usual */
    double val_fraction;         /* 0: the file has arrays for validation; else their part, < 1 */
    uint64_t seed;               /* of the choice of that part */
    int (*stopped)(void);        /* NULL, or asked between images whether to end */
};

struct ss_npz_converted {
    size_t train, val;
    int classes, height, width, channels;
    char images[64], val_images[64]; /* the arrays; val_images "" where a part was split off */
};

/* Write TO/train/LABEL/NUMBER.png and TO/val/LABEL/NUMBER.png, NUMBER being the image's in its
 * array: folders, because they hold images of any size and any number of classes. PNG keeps every
 * pixel. TO is created if missing; its folders train and val appear when both are whole and durable,
 * until then all is in TO/convert.tmp.PID, which is removed at the end. Images are uint8 of shape
 * (N,H,W), (N,H,W,C) or (N,C,H,W), C 1 or 3; labels are integers from 0 to 65535 of shape (N) or
 * (N,1). Every class of validation needs an image for training.
 *
 * Of each class, val_fraction of the images are for validation, at least one; which ones depends on
 * the seed alone.
 *
 * Errors: those of ss_npz_read; SS_ERR_FORMAT, SS_ERR_UNSUPPORTED (arrays of another kind),
 * SS_ERR_INVALID (folders that are there, no part for validation), SS_ERR_IO, SS_ERR_INTERRUPTED. */
enum ss_status ss_convert_npz(const char *from, const char *to, const struct ss_npz_how *how,
                              struct ss_npz_converted *out);
/* The same of a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and, unless val_fraction is given,
 * t10k-..., each with or without .gz (idx.h). */
enum ss_status ss_convert_idx(const char *from, const char *to, const struct ss_npz_how *how,
                              struct ss_npz_converted *out);

#endif
