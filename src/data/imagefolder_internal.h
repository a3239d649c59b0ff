#ifndef SS_DATA_IMAGEFOLDER_INTERNAL_H
#define SS_DATA_IMAGEFOLDER_INTERNAL_H

#include "data/imagefolder.h"

/* imagefolder_base.c: keep a string (its place in f->text in *at), a file below root. */
enum ss_status imagefolder_keep(struct ss_imagefolder *f, const char *string, size_t length,
                                size_t *at);
enum ss_status imagefolder_add(struct ss_imagefolder *f, const char *name, int label);
/* The label of a class's name, or -1. */
int imagefolder_find_class(const struct ss_imagefolder *f, const char *name);
/* Read the file file->path whole, and put a 0 behind its bytes. */
enum ss_status imagefolder_read_path(struct ss_image_file *file);

/* imagefolder_scan.c: the classes, from the folders of DIR/train; the files of root's class
 * folders. */
enum ss_status imagefolder_scan_classes(struct ss_imagefolder *f, const char *dir);
enum ss_status imagefolder_scan_files(struct ss_imagefolder *f);
/* All pictures of root and of the folders in it, with label -1. */
enum ss_status imagefolder_scan_all(struct ss_imagefolder *f);

/* imagefolder_tiny.c: compare the classes with DIR/wnids.txt and take their meaning from
 * DIR/words.txt, where these are; the files of DIR/val/val_annotations.txt. */
enum ss_status imagefolder_read_wnids(struct ss_imagefolder *f, const char *dir);
enum ss_status imagefolder_read_words(struct ss_imagefolder *f, const char *dir);
enum ss_status imagefolder_read_annotations(struct ss_imagefolder *f);

#endif
