/* Image classification data sets: 8-bit images and labels, as records in memory (CIFAR-10,
 * CIFAR-100) or as image files in folders. */
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
    int augment;  /* the data set's own training transform; else its evaluation transform */
    int bytes;    /* (C,H,W) bytes for devices that normalise themselves; else normalised fp32 */
    int replace;  /* in place of a corrupt file that is skipped, the next good one */
    double erase; /* probability of random erasing (erase.h) */
};

/* How an image becomes a sample, in training; and in evaluation unless `least` says otherwise. */
enum ss_image_crop {
    SS_CROP_AUTO,    /* the next; evaluation of trained weights (session.h): as in training */
    SS_CROP_RESIZED, /* RandomResizedCrop and a flip; evaluation: 8/7 of the sample, CenterCrop */
    SS_CROP_PADDED,  /* as CIFAR's: the sample's size, RandomCrop(padding=4), a flip; that size */
};

struct ss_dataset_options {
    struct ss_size size;  /* of a sample; 0: the data set's own (32), or the usual one */
    struct ss_size usual; /* of images; 0: 224 */
    struct ss_size least; /* of images, for evaluation: crop.h; 0: by `crop` */
    int channels;         /* of a sample; 0: 3. Pictures may be had in grey: 1 */
    int reduced; /* images: decode at a reduced scale where that still leaves the sample's size;
                    faster, but not PIL's bits (jpeg.h) */
    int skip_corrupt;        /* images: go on without files that cannot be decoded */
    enum ss_image_crop crop; /* images */
    /* images: this part of every class of the training set is the validation set; 0: one is there */
    double val_fraction;
    uint64_t val_seed; /* which files these are */
};

struct ss_dataset;
struct ss_cifar;
struct ss_images;
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
    struct ss_size least;  /* what evaluation resizes an image to before its middle is cut out */
    int classes;           /* labels are 0 .. classes-1 */
    float mean[3], std[3]; /* normalisation, of values scaled to 0..1 */
    uint64_t fingerprint;  /* of what is read: two ranks whose data differ have others. Of the whole
                              content; of folders, of all names and sizes */
    /* private */
    const uint8_t *records;
    size_t record_bytes, image_offset, label_offset;
    void *mapping;
    struct ss_images *images;     /* NULL: records */
    char **class_names;           /* of records; NULL: the data do not say */
    int *label_of;                /* of each class of its own; NULL: the label is its number */
    char *const *names;           /* of labels, then */
    size_t mapping_bytes;
    float normalised[3][256]; /* (byte / 255 - mean) / std per channel, see ss_dataset_fill_table */
};

/* Open the files of a split: DIR/train.bin or DIR/test.bin of CIFAR-100, DIR/data_batch_1.bin to 5
 * or DIR/test_batch.bin of CIFAR-10; the archive's folder inside DIR ("cifar-100-binary") is found
 * too. One file is mapped, several are copied behind each other. Every record is checked (size of
 * the file, labels). When the folder holds the Python version instead, the error says which command
 * converts it.
 * Errors: SS_ERR_IO (missing, unreadable), SS_ERR_FORMAT (truncated, oversized, empty, bad label).
 * The caller closes the data set. */
enum ss_status ss_dataset_open_cifar(const struct ss_cifar *cifar, const char *dir,
                                     enum ss_split split, struct ss_dataset **out);
/* Which of them DIR holds; CIFAR-100 where it holds neither. Errors: SS_ERR_INVALID for both. */
enum ss_status ss_cifar_find(const char *dir, const struct ss_cifar **out);
/* JPEG and PNG files in folders (imagefolder.h), as samples of (channels,height,width): training is
 * RandomResizedCrop((height, width)) and a flip, evaluation a resize to at least 8/7 of both and
 * CenterCrop((height, width)) (crop.h), or what options->crop says. ImageNet's mean and std; grey
 * samples (grey.h) have the same sums of them: 0.459 and 0.226. Errors: those of
 * ss_imagefolder_open; SS_ERR_UNSUPPORTED for other channels. */
enum ss_status ss_dataset_open_images(const char *dir, enum ss_split split,
                                      const struct ss_dataset_options *options,
                                      struct ss_dataset **out);
/* All images of a folder and of the folders in it, or one image file, without classes: for
 * asking a trained model (ss_imagefolder_open_flat). A sample is what evaluation of a data set with
 * the same options would have; its label is -1, and classes is 0. With skip_corrupt, what cannot be
 * decoded is 0 and ss_dataset_skipped. */
enum ss_status ss_images_open(const char *path, const struct ss_dataset_options *options,
                              struct ss_dataset **out);
/* Of images: the name of sample i's file, with the folder. Errors: SS_ERR_INVALID when it does not
 * fit into `room` bytes. */
enum ss_status ss_images_path(const struct ss_dataset *d, size_t i, char *out, size_t room);
/* One of these, by what the folder holds. Errors also: SS_ERR_INVALID for another size than
 * CIFAR's. */
enum ss_status ss_dataset_open(const char *dir, enum ss_split split,
                               const struct ss_dataset_options *options, struct ss_dataset **out);
void ss_dataset_close(struct ss_dataset *dataset); /* NULL is fine */

/* Sample i < count to out, and its label; threads may load at the same time. A corrupt file that is
 * skipped is named once; its place is taken by the next good one (how->replace), drawn as sample i
 * is, or the image is 0 and the label -1. Errors name the file: SS_ERR_IO, SS_ERR_FORMAT,
 * SS_ERR_MEMORY. */
enum ss_status ss_dataset_load(const struct ss_dataset *d, size_t i, const struct ss_load_how *how,
                               void *out, int32_t *label);

/* Once, for data that say what their classes are called: from now on labels are those of a list of
 * names, which outlives the data set, and `classes` is its length. *changed: other labels than before,
 * or fewer classes than the list's. Errors: SS_ERR_MISMATCH names the first class that the list lacks;
 * SS_ERR_MEMORY. */
enum ss_status ss_dataset_label_by(struct ss_dataset *d, int classes, char *const *names,
                                   int *changed);
/* What a class is called; NULL: the data do not say. Lives as long as the data set. */
const char *ss_dataset_class(const struct ss_dataset *d, int label);
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
