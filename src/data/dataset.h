/* Image classification data sets: 8-bit images with labels, stored as records in memory (CIFAR-10,
 * CIFAR-100) or as image files in folders. */
#ifndef SS_DATA_DATASET_H
#define SS_DATA_DATASET_H

#include "core/size.h"
#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum ss_split { SS_SPLIT_TRAIN, SS_SPLIT_TEST };

/* How to load a sample. Random draws depend only on (seed, epoch, sample). */
struct ss_load_how {
    uint64_t seed;
    uint32_t epoch;
    int augment;  /* apply the data set's training transform; else its evaluation transform */
    int bytes;    /* write (C,H,W) bytes, normalized later on the device; else normalized fp32 */
    int replace;  /* replace a skipped corrupt file by the next good one */
    double erase; /* probability of random erasing (erase.h) */
};

/* Training crop of an image. Also sets the evaluation crop, unless options->least is given. */
enum ss_image_crop {
    SS_CROP_AUTO,    /* as RESIZED, but trained weights are evaluated at their recorded resize */
    SS_CROP_RESIZED, /* RandomResizedCrop, flip; evaluation: resize to 8/7, CenterCrop */
    SS_CROP_PADDED,  /* as for CIFAR: resize to the sample's size, RandomCrop(padding=4), flip;
                        evaluation: resize and CenterCrop to the sample's size */
};

struct ss_dataset_options {
    struct ss_size size;  /* of a sample; 0: CIFAR's 32, for images `usual` */
    struct ss_size usual; /* images: default for `size`; 0: 224 */
    struct ss_size least; /* images, evaluation: minimum size to resize to (crop.h); 0: by `crop` */
    int channels;         /* of a sample; 0: 3. Images can be loaded as grayscale: 1 */
    int reduced; /* images: decode at a reduced scale that still covers the sample's size; faster,
                    but not bit-identical to PIL (jpeg.h) */
    int skip_corrupt;        /* images: skip files that cannot be decoded */
    enum ss_image_crop crop; /* images */
    /* images: split this fraction of every training class off as validation set; 0: use val/ */
    double val_fraction;
    uint64_t val_seed; /* selects the validation files */
};

struct ss_dataset;
struct ss_cifar;
struct ss_images;
struct ss_imagefolder;
struct ss_pack;

struct ss_dataset_ops {
    /* Load a sample, without random erasing. */
    enum ss_status (*load)(const struct ss_dataset *d, size_t i, const struct ss_load_how *how,
                           void *out, int32_t *label);
    void (*close)(struct ss_dataset *d); /* release the contents, not d itself */
};
extern const struct ss_dataset_ops ss_record_ops; /* images in memory: pad by 4, crop, flip */

struct ss_dataset {
    const struct ss_dataset_ops *ops;
    char name[32];   /* "cifar100" */
    char path[4096]; /* the file or folder, for messages */
    size_t count;    /* samples */
    int channels, height, width;
    struct ss_size least;  /* evaluation resizes an image to at least this before CenterCrop */
    int classes;           /* labels are 0 .. classes-1 */
    float mean[3], std[3]; /* normalization of values scaled to 0..1 */
    uint64_t fingerprint;  /* hash that detects ranks with different data: of the whole content;
                              for folders, of all names, sizes and labels */
    /* private */
    const uint8_t *records;
    size_t record_bytes, image_offset, label_offset;
    void *mapping;
    struct ss_images *images; /* NULL: records */
    char **class_names;       /* of records; NULL: unknown */
    int *label_of;            /* maps own classes to labels (ss_dataset_label_by), or NULL */
    char *const *names;       /* of the labels, if label_of is set */
    size_t mapping_bytes;
    float normalised[3][256]; /* (byte / 255 - mean) / std per channel (ss_dataset_fill_table) */
};

/* Open the files of a split: DIR/train.bin or DIR/test.bin of CIFAR-100, DIR/data_batch_1.bin to 5
 * or DIR/test_batch.bin of CIFAR-10, or the same in the archive's folder inside DIR
 * ("cifar-100-binary"). A single file is mapped; several files are concatenated in memory. Checks
 * the file sizes and the label of every record. If the folder contains the Python version instead,
 * the error names the command that converts it.
 * Errors: SS_ERR_IO (missing, unreadable), SS_ERR_FORMAT (truncated, oversized, empty, bad label).
 * The caller closes the data set. */
enum ss_status ss_dataset_open_cifar(const struct ss_cifar *cifar, const char *dir,
                                     enum ss_split split, struct ss_dataset **out);
/* Detect which CIFAR data set DIR contains; CIFAR-100 if none. Errors: SS_ERR_INVALID if both. */
enum ss_status ss_cifar_find(const char *dir, const struct ss_cifar **out);
/* Open JPEG and PNG files in folders (imagefolder.h) as samples of (channels,height,width). By
 * default, training is RandomResizedCrop((height, width)) and a flip, and evaluation is a resize to
 * at least 8/7 of both and CenterCrop((height, width)) (crop.h); options->crop changes this. Uses
 * ImageNet's mean and std; grayscale samples (grey.h) use their weighted sums, 0.459 and 0.226.
 * Errors: those of ss_imagefolder_open; SS_ERR_UNSUPPORTED for other numbers of channels. */
enum ss_status ss_dataset_open_images(const char *dir, enum ss_split split,
                                      const struct ss_dataset_options *options,
                                      struct ss_dataset **out);
/* Open all images of a folder and its subfolders, or one image file, without classes, for inference
 * (ss_imagefolder_open_flat). Samples use the evaluation transform of a data set with the same
 * options; labels are -1, and classes is 0. With skip_corrupt, an image that cannot be decoded is
 * filled with 0, and ss_dataset_skipped returns 1 for it. */
enum ss_status ss_images_open(const char *path, const struct ss_dataset_options *options,
                              struct ss_dataset **out);
/* Images: write the path of sample i's file to out. Errors: SS_ERR_INVALID if it does not fit into
 * `capacity` bytes. */
enum ss_status ss_images_path(const struct ss_dataset *d, size_t i, char *out, size_t capacity);
/* Detect the kind of data set in DIR and open it. Errors also: SS_ERR_INVALID for options that
 * CIFAR does not support (another size, val_fraction). */
enum ss_status ss_dataset_open(const char *dir, enum ss_split split,
                               const struct ss_dataset_options *options, struct ss_dataset **out);
void ss_dataset_close(struct ss_dataset *dataset); /* NULL is fine */

/* Load sample i < count into out, and its label. Thread-safe. A skipped corrupt file is reported
 * once. It is replaced by the next good file (how->replace) with the random draws of sample i, or
 * else the image is 0 and the label -1. Errors name the file: SS_ERR_IO, SS_ERR_FORMAT,
 * SS_ERR_MEMORY. */
enum ss_status ss_dataset_load(const struct ss_dataset *d, size_t i, const struct ss_load_how *how,
                               void *out, int32_t *label);

/* Map labels to indices in a list of class names, which must outlive the data set; d->classes
 * becomes the length of the list. Call at most once, and only if the class names are known.
 * *changed: whether labels or the number of classes changed. Errors: SS_ERR_MISMATCH names the
 * first class that is missing in the list; SS_ERR_MEMORY. */
enum ss_status ss_dataset_label_by(struct ss_dataset *d, int classes, char *const *names,
                                   int *changed);
/* Return the name of a class, or NULL if unknown. Valid as long as the data set. */
const char *ss_dataset_class(const struct ss_dataset *d, int label);
/* Return the list of image files, valid as long as the data set; NULL for records. */
const struct ss_imagefolder *ss_dataset_folder(const struct ss_dataset *d);
/* Images: read pixels from a pack of that folder from now on. The data set closes the pack. */
void ss_dataset_use_pack(struct ss_dataset *d, struct ss_pack *pack);
/* Return 1 if sample i is a corrupt file that was skipped. */
int ss_dataset_skipped(const struct ss_dataset *d, size_t i);

/* Fill the table of normalized values from mean and std. Called on opening a data set; call again
 * after changing them. */
void ss_dataset_fill_table(struct ss_dataset *dataset);

/* Records: the label of sample i < count, and its image as (C,H,W) bytes. The pointer is valid as
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
