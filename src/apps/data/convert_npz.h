/* Convert arrays of images and labels (NumPy .npz or IDX files) to folders of PNG files. */
#ifndef SS_APPS_DATA_CONVERT_NPZ_H
#define SS_APPS_DATA_CONVERT_NPZ_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct ss_npz_how {
    const char *images, *labels; /* array names; NULL: search for common names */
    double val_fraction;         /* validation fraction, < 1; 0: use the file's validation arrays */
    uint64_t seed;               /* selects the validation images */
    int (*stopped)(void);        /* NULL, or polled between images; nonzero: stop */
};

struct ss_npz_converted {
    size_t train, val;
    int classes, height, width, channels;
    char images[64], val_images[64]; /* array names; val_images "": split off the training images */
};

/* Write TO/train/LABEL/NUMBER.png and TO/val/LABEL/NUMBER.png, where NUMBER is the image's index in
 * its array. Folders support any image size and any number of classes; PNG is lossless. TO is
 * created if missing. The files are written to TO/convert.tmp.PID, synced, and then moved to
 * TO/train and TO/val; the temporary folder is removed at the end. Images are uint8 of shape
 * (N,H,W), (N,H,W,C) or (N,C,H,W), C 1 or 3; labels are integers from 0 to 65535 of shape (N) or
 * (N,1). Every validation class needs a training image.
 *
 * val_fraction applies to each class separately and selects at least one image. The selection
 * depends only on the seed.
 *
 * Errors: those of ss_npz_read; SS_ERR_FORMAT; SS_ERR_UNSUPPORTED (type or shape of an array);
 * SS_ERR_INVALID (existing folders, no validation set); SS_ERR_IO; SS_ERR_INTERRUPTED. */
enum ss_status ss_convert_npz(const char *from, const char *to, const struct ss_npz_how *how,
                              struct ss_npz_converted *out);
/* The same for a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and, unless
 * val_fraction is given, t10k-..., each with or without .gz (idx.h). */
enum ss_status ss_convert_idx(const char *from, const char *to, const struct ss_npz_how *how,
                              struct ss_npz_converted *out);

#endif
