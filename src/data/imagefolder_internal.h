#ifndef SS_DATA_IMAGEFOLDER_INTERNAL_H
#define SS_DATA_IMAGEFOLDER_INTERNAL_H

#include "data/imagefolder.h"

/* imagefolder_base.c: keep a string (its place in f->text in *at), a file below root. */
enum ss_status imagefolder_store(struct ss_imagefolder *f, const char *string, size_t length,
                                 size_t *at);
enum ss_status imagefolder_add(struct ss_imagefolder *f, const char *name, int label);
/* The label of a class's name, or -1. */
int imagefolder_find_class(const struct ss_imagefolder *f, const char *name);
/* Read the file file->path whole, and put a 0 behind its bytes. */
enum ss_status imagefolder_read_path(struct ss_image_file *file);

/* imagefolder_layout.c: the splits of DIR, or of the only folder in it. */
struct imagefolder_layout {
    char base[4096];
    char train[4096]; /* where the classes are; base itself, or "", where no train/ is there */
    char val[4096];   /* "": there is none */
};
/* 1 if images are there. */
int imagefolder_find_layout(const char *dir, struct imagefolder_layout *layout);
/* Whether a validation set is there, or can be split off; not both. SS_ERR_FORMAT, SS_ERR_INVALID. */
enum ss_status imagefolder_check_layout(const struct imagefolder_layout *layout,
                                        double val_fraction);
/* Of all files, sorted by class, keep those of one split. SS_ERR_FORMAT. */
enum ss_status imagefolder_split_off(struct ss_imagefolder *f, enum ss_split split,
                                     const struct ss_dataset_options *options);
int imagefolder_is_folder(const char *path); /* else errno says why not */

/* imagefolder_scan.c: the classes, from the folders of a path; the files of root's class folders, where `all` says
 * that none may be empty. */
enum ss_status imagefolder_scan_classes(struct ss_imagefolder *f, const char *path);
enum ss_status imagefolder_scan_files(struct ss_imagefolder *f, int all);
/* All images of root and of the folders in it, with label -1. */
enum ss_status imagefolder_scan_all(struct ss_imagefolder *f);

/* imagefolder_tiny.c: compare the classes with DIR/wnids.txt and take their meaning from
 * DIR/words.txt, where these are; the files of DIR/val/val_annotations.txt. */
enum ss_status imagefolder_read_wnids(struct ss_imagefolder *f, const char *dir);
enum ss_status imagefolder_read_words(struct ss_imagefolder *f, const char *dir);
enum ss_status imagefolder_read_annotations(struct ss_imagefolder *f);

#endif
