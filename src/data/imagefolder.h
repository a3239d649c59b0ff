/* Pictures in folders: which files a data set has, in which order, and their labels.
 *
 * Three layouts are known, by what DIR, or the only folder in it, holds:
 *   plain         DIR/train/CLASS/.../FILE and DIR/val/CLASS/.../FILE, as torchvision's ImageFolder;
 *                 for val also validation, valid or test, in this order
 *   unsplit       DIR/train/CLASS/.../FILE alone, or DIR/CLASS/.../FILE: a part of each class is the
 *                 validation set (dataset.h, val_fraction)
 *   TinyImageNet  DIR/wnids.txt (the classes), words.txt (what they mean), train/WNID/images/FILE,
 *                 val/images/FILE with val/val_annotations.txt; a val folder that somebody has
 *                 sorted into class folders is read as a plain one
 * In all, class k is the k-th folder of train in the order of bytes, so that labels are
 * ImageFolder's. Files are in ImageFolder's order: by class, then by folder, then by name; those of
 * TinyImageNet's val/images by name. Which names are images': image_file.h. */
#ifndef SS_DATA_IMAGEFOLDER_H
#define SS_DATA_IMAGEFOLDER_H

#include "core/status.h"
#include "data/dataset.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_IMAGEFOLDER_MAX_CLASSES = 65536 };

struct ss_imagefolder {
    char root[4096]; /* DIR/train or DIR/val, say */
    size_t count;    /* files, at least 1 */
    int classes;     /* labels are 0 .. classes-1 */
    /* Hash of the class names and of every file's name, size and label; not of contents and dates.
     * Two ranks whose fingerprints differ read different data. */
    uint64_t fingerprint;
    uint64_t times; /* hash of every file's time of change; copies of one data set may differ */
    /* private */
    struct ss_imagefolder_entry *entries;
    size_t room;
    char *text; /* all names, one after the other; entries and classes say where theirs begins */
    size_t text_used, text_room;
    size_t *class_names, *class_words; /* words: 0 where there are none */
};

struct ss_imagefolder_entry {
    size_t name; /* below root; where it begins in `text` */
    uint64_t size;
    uint64_t changed; /* when its content did, in ns since 1970, modulo 2^64 */
    int label;
};

/* List a split: train, or the validation set for SS_SPLIT_TEST, which may lack classes. Of `options` only
 * val_fraction and val_seed matter; NULL: 0. Every file is looked up (it must be a regular,
 * readable file), none is opened.
 * Errors: SS_ERR_IO (a folder or file that is missing or not readable), SS_ERR_FORMAT (a class
 * without files in train; classes of val that train lacks; an unknown wnid or a file
 * named twice in val_annotations.txt; images that are neither JPEG nor PNG), SS_ERR_MEMORY. The caller closes
 * it. */
enum ss_status ss_imagefolder_open(const char *dir, enum ss_split split,
                                   const struct ss_dataset_options *options,
                                   struct ss_imagefolder **out);
/* 1 if DIR has one of the layouts; *has_val: a validation set of its own. */
int ss_imagefolder_is(const char *dir, int *has_val);
/* List images that have no classes: all in the folder PATH and in folders below it, sorted as
 * those of one class are, or PATH alone where that is a file. classes is 0, labels are -1. Errors as
 * above; SS_ERR_FORMAT for a folder without images. */
enum ss_status ss_imagefolder_open_flat(const char *path, struct ss_imagefolder **out);
void ss_imagefolder_close(struct ss_imagefolder *folder); /* NULL is fine */
/* No file is empty: the first that is ends this with SS_ERR_FORMAT. */
enum ss_status ss_imagefolder_check_sizes(const struct ss_imagefolder *folder);

/* File i: its name below root, and its label. They live as long as the folder. */
const char *ss_imagefolder_name(const struct ss_imagefolder *folder, size_t i);
static inline int ss_imagefolder_label(const struct ss_imagefolder *f, size_t i)
{
    return f->entries[i].label;
}

/* The name of a class's folder ("n01443537"), and what it means ("goldfish, ...") or NULL. */
const char *ss_imagefolder_class(const struct ss_imagefolder *folder, int label);
const char *ss_imagefolder_words(const struct ss_imagefolder *folder, int label);

/* A file's bytes; one per thread, used again for the next file. Begins as {0}. */
struct ss_image_file {
    char path[4096 + 512];
    uint8_t *bytes;
    size_t size, room;
};

/* Read file i whole. Errors: SS_ERR_IO, SS_ERR_MEMORY. The caller frees file->bytes at the end. */
enum ss_status ss_imagefolder_read(const struct ss_imagefolder *folder, size_t i,
                                   struct ss_image_file *file);

#endif
