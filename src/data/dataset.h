/* Image classification data sets: 8-bit images and labels, as records in memory (CIFAR-100) or as
 * JPEG files in folders.
 *
 * Source of the CIFAR-100 binary format: the data set's own page. A record of train.bin or test.bin
 * is <1 byte coarse label 0-19><1 byte fine label 0-99><3072 bytes: 1024 red, 1024 green, 1024
 * blue, each row-major 32x32>, 3074 bytes in all. starstep trains on the fine label. */
#ifndef SS_DATA_DATASET_H
#define SS_DATA_DATASET_H

#include "core/size.h"
#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum ss_split { SS_SPLIT_TRAIN, SS_SPLIT_TEST };

/* How a sample is wanted. What is drawn depends on (seed, epoch, sample) alone. */
struct ss_load_how {
    uint64_t seed;
    uint32_t epoch;
    int augment; /* the data set's own training transform; else its evaluation transform */
    int bytes;   /* (C,H,W) bytes for devices that normalise themselves; else normalised fp32 */
    int replace; /* in place of a corrupt file that is skipped, the next good one */
    double erase; /* probability of random erasing (erase.h) */
};

struct ss_dataset_options {
    struct ss_size size;  /* of a sample; 0: the data set's own (32), or the usual one */
    struct ss_size usual; /* of pictures; 0: 224 */
    int channels;        /* of a sample; 0: 3. Pictures may be had in grey: 1 */
    int reduced; /* pictures: decode at a reduced scale where that still leaves the sample's size;
                    faster, but not PIL's bits (jpeg.h) */
    int skip_corrupt; /* pictures: go on without files that cannot be decoded */
};

struct ss_dataset;
struct ss_pictures;
struct ss_imagefolder;
struct ss_pack;

struct ss_dataset_ops {
    /* All but erasing. */
    enum ss_status (*load)(const struct ss_dataset *d, size_t i, const struct ss_load_how *how,
                           void *out, int32_t *label);
    void (*close)(struct ss_dataset *d); /* not d itself */
};
extern const struct ss_dataset_ops ss_record_ops; /* images in memory: pad by 4, crop, flip */

struct ss_dataset {
    const struct ss_dataset_ops *ops;
    char name[32];   /* "cifar100" */
    char path[4096]; /* the file read, for messages */
    size_t count;    /* samples */
    int channels, height, width;
    int classes;           /* labels are 0 .. classes-1 */
    float mean[3], std[3]; /* normalisation, of values scaled to 0..1 */
    uint64_t fingerprint;  /* of what is read: two ranks whose data differ have others. Of the whole
                              content; of folders, of all names and sizes */
    /* private */
    const uint8_t *records;
    size_t record_bytes, image_offset, label_offset;
    void *mapping;
    struct ss_pictures *pictures; /* NULL: records */
    size_t mapping_bytes;
    float normalised[3][256]; /* (byte / 255 - mean) / std per channel, see ss_dataset_fill_table */
};

/* Open DIR/train.bin or DIR/test.bin; a folder "cifar-100-binary" inside DIR is found too. Every
 * record is checked (size of the file, fine label < 100, coarse label < 20). When the folder holds
 * the Python version instead, the error says which command converts it.
 * Errors: SS_ERR_IO (missing, unreadable), SS_ERR_FORMAT (truncated, oversized, empty, bad label).
 * The caller closes the data set. */
enum ss_status ss_dataset_open_cifar100(const char *dir, enum ss_split split,
                                        struct ss_dataset **out);
/* JPEG files in folders (imagefolder.h), as samples of (channels,height,width): training is
 * RandomResizedCrop((height, width)) and a flip, evaluation a resize to at least 8/7 of both and
 * CenterCrop((height, width)) (crop.h). ImageNet's mean and std; grey samples (grey.h) have the same
 * sums of them: 0.459 and 0.226. Errors: those of ss_imagefolder_open; SS_ERR_UNSUPPORTED for other
 * channels. */
enum ss_status ss_dataset_open_pictures(const char *dir, enum ss_split split,
                                        const struct ss_dataset_options *options,
                                        struct ss_dataset **out);
/* One of the two, by what the folder holds. Errors also: SS_ERR_INVALID for another size than
 * CIFAR-100's. */
enum ss_status ss_dataset_open(const char *dir, enum ss_split split,
                               const struct ss_dataset_options *options, struct ss_dataset **out);
void ss_dataset_close(struct ss_dataset *dataset); /* NULL is fine */

/* Sample i < count to out, and its label; threads may load at the same time. A corrupt file that is
 * skipped is named once; its place is taken by the next good one (how->replace), drawn as sample i
 * is, or the image is 0 and the label -1. Errors name the file: SS_ERR_IO, SS_ERR_FORMAT,
 * SS_ERR_MEMORY. */
enum ss_status ss_dataset_load(const struct ss_dataset *d, size_t i, const struct ss_load_how *how,
                               void *out, int32_t *label);

/* Pictures: the list of files, which lives as long as the data set; NULL for records. */
const struct ss_imagefolder *ss_dataset_folder(const struct ss_dataset *d);
/* Pictures: read pixels from a pack of that folder from now on. The data set closes it. */
void ss_dataset_use_pack(struct ss_dataset *d, struct ss_pack *pack);
/* 1 if sample i is a corrupt file that was skipped. */
int ss_dataset_skipped(const struct ss_dataset *d, size_t i);

/* Fill the table of normalised values from mean and std. Opening a data set does it; needed again
 * only after changing them. */
void ss_dataset_fill_table(struct ss_dataset *dataset);

/* Records: the label of sample i, and its image as (C,H,W) bytes. i < count. The pointer lives as
 * long as the data set. */
static inline int ss_dataset_label(const struct ss_dataset *d, size_t i)
{
    return d->records[i * d->record_bytes + d->label_offset];
}
static inline const uint8_t *ss_dataset_image(const struct ss_dataset *d, size_t i)
{
    return d->records + i * d->record_bytes + d->image_offset;
}

#endif
