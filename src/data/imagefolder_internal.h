#ifndef SS_DATA_IMAGEFOLDER_INTERNAL_H
#define SS_DATA_IMAGEFOLDER_INTERNAL_H

#include "data/imagefolder.h"

/* imagefolder_base.c: append a string to f->text and set *at to its offset; append the file `name`
 * below root to the list. */
enum ss_status imagefolder_store(struct ss_imagefolder *f, const char *string, size_t length,
                                 size_t *at);
enum ss_status imagefolder_add(struct ss_imagefolder *f, const char *name, int label);
/* Return the label of a class name, or -1. */
int imagefolder_find_class(const struct ss_imagefolder *f, const char *name);
/* Read the whole file file->path and append a 0 byte. */
enum ss_status imagefolder_read_path(struct ss_image_file *file);

/* imagefolder_layout.c: find the splits of DIR, or of the only folder in it. */
struct imagefolder_layout {
    char base[4096];
    char train[4096]; /* folder of the classes; without train/: base itself, or "" if val exists */
    char val[4096];   /* "" if missing */
};
/* Return 1 if DIR has a train or validation folder, or folders with images. */
int imagefolder_find_layout(const char *dir, struct imagefolder_layout *layout);
/* Check that a validation set either exists or is split off. Errors: SS_ERR_FORMAT,
 * SS_ERR_INVALID. */
enum ss_status imagefolder_check_layout(const struct imagefolder_layout *layout,
                                        double val_fraction);
/* Reduce the list of all files, sorted by class, to the files of one split. Errors:
 * SS_ERR_FORMAT. */
enum ss_status imagefolder_split_off(struct ss_imagefolder *f, enum ss_split split,
                                     const struct ss_dataset_options *options);
int imagefolder_is_folder(const char *path); /* sets errno if it returns 0 */

/* imagefolder_scan.c: list the classes, which are the folders of a path; list the files of the
 * class folders in root. all: every class must have files. */
enum ss_status imagefolder_scan_classes(struct ss_imagefolder *f, const char *path);
enum ss_status imagefolder_scan_files(struct ss_imagefolder *f, int all);
/* List all images of root and its subfolders with label -1. */
enum ss_status imagefolder_scan_all(struct ss_imagefolder *f);

/* imagefolder_tiny.c: compare the classes with DIR/wnids.txt and read their descriptions from
 * DIR/words.txt, if these exist; list the files of val_annotations.txt in root. */
enum ss_status imagefolder_read_wnids(struct ss_imagefolder *f, const char *dir);
enum ss_status imagefolder_read_words(struct ss_imagefolder *f, const char *dir);
enum ss_status imagefolder_read_annotations(struct ss_imagefolder *f);

#endif
