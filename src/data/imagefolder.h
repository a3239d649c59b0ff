/* List of the image files of a data set in folders, with their order and labels.
 *
 * Three layouts are supported, in DIR or in the only folder inside DIR:
 *   plain         DIR/train/CLASS/.../FILE and DIR/val/CLASS/.../FILE, as for torchvision's
 *                 ImageFolder; val may also be named validation, valid or test, in this order
 *   unsplit       DIR/train/CLASS/.../FILE alone, or DIR/CLASS/.../FILE: a fraction of each class
 *                 is split off as the validation set (dataset.h, val_fraction)
 *   TinyImageNet  DIR/wnids.txt (classes), words.txt (class descriptions), train/WNID/images/FILE,
 *                 val/images/FILE with val/val_annotations.txt; a val folder that was sorted into
 *                 class folders is read as a plain one
 * In all layouts, class k is the k-th folder of train in byte order, so labels equal
 * ImageFolder's. Files are in ImageFolder's order: by class, then by folder, then by name; the
 * files of TinyImageNet's val/images by name. image_file.h defines the image file names. */
#ifndef SS_DATA_IMAGEFOLDER_H
#define SS_DATA_IMAGEFOLDER_H

#include "core/status.h"
#include "data/dataset.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_IMAGEFOLDER_MAX_CLASSES = 65536 };

struct ss_imagefolder {
    char root[4096]; /* for example DIR/train or DIR/val */
    size_t count;    /* files, at least 1 */
    int classes;     /* labels are 0 .. classes-1 */
    /* Hash of the class names and of every file's name, size and label, but not of contents and
     * dates. Two ranks with different fingerprints read different data. */
    uint64_t fingerprint;
    uint64_t times; /* hash of all modification times; copies of one data set may differ */
    /* private */
    struct ss_imagefolder_entry *entries;
    size_t capacity;
    char *text; /* all names, null-terminated; entries and classes store offsets into it */
    size_t text_used, text_capacity;
    size_t *class_names, *class_words; /* offsets per class; words: 0 if there are none */
};

struct ss_imagefolder_entry {
    size_t name; /* path below root, as an offset in `text` */
    uint64_t size;
    uint64_t changed; /* modification time in ns since 1970, modulo 2^64 */
    int label;
};

/* List a split: train, or for SS_SPLIT_TEST the validation set, in which classes may be missing.
 * Uses only val_fraction and val_seed of `options`; NULL: 0. Checks that every file is a regular,
 * readable file, without opening it. Errors: SS_ERR_IO (a folder or file is missing or not
 * readable), SS_ERR_FORMAT (a class without files in train; a class of val that is missing in
 * train; in val_annotations.txt an unknown wnid or a duplicate file; images other than JPEG and
 * PNG), SS_ERR_INVALID (val_fraction for a data set with a validation set), SS_ERR_MEMORY. The
 * caller closes it. */
enum ss_status ss_imagefolder_open(const char *dir, enum ss_split split,
                                   const struct ss_dataset_options *options,
                                   struct ss_imagefolder **out);
/* Return 1 if DIR has one of the layouts. *has_val: whether it has a validation set. */
int ss_imagefolder_is(const char *dir, int *has_val);
/* List images without classes: all files below the folder PATH, sorted like the files of one class,
 * or PATH alone if it is a file. classes is 0, labels are -1. Errors as above; SS_ERR_FORMAT for a
 * folder without images. */
enum ss_status ss_imagefolder_open_flat(const char *path, struct ss_imagefolder **out);
void ss_imagefolder_close(struct ss_imagefolder *folder); /* NULL is fine */
/* Check that no file is empty. Errors: SS_ERR_FORMAT names the first empty file. */
enum ss_status ss_imagefolder_check_sizes(const struct ss_imagefolder *folder);

/* Return the name of file i below root, valid as long as the folder, and its label. */
const char *ss_imagefolder_name(const struct ss_imagefolder *folder, size_t i);
static inline int ss_imagefolder_label(const struct ss_imagefolder *f, size_t i)
{
    return f->entries[i].label;
}

/* Return the folder name of a class ("n01443537"), and its description ("goldfish, ...") or
 * NULL. */
const char *ss_imagefolder_class(const struct ss_imagefolder *folder, int label);
const char *ss_imagefolder_words(const struct ss_imagefolder *folder, int label);

/* Buffer for the content of a file, reused for the next file; one per thread. Initialize to {0}. */
struct ss_image_file {
    char path[4096 + 512];
    uint8_t *bytes;
    size_t size, capacity;
};

/* Read the whole file i. Errors: SS_ERR_IO, SS_ERR_MEMORY. The caller frees file->bytes at the
 * end. */
enum ss_status ss_imagefolder_read(const struct ss_imagefolder *folder, size_t i,
                                   struct ss_image_file *file);

#endif
