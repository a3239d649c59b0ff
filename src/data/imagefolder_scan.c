#include "core/folder.h"
#include "core/log.h"
#include "data/imagefolder_internal.h"
#include "data/image_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 }; /* of folders in a class; symbolic links may form cycles */

static enum ss_status open_folder(const char *path, DIR **out)
{
    *out = opendir(path);
    if (!*out)
        return ss_fail(SS_ERR_IO,
                       "%s: cannot list this folder: %s; a data set of images has folders train/ "
                       "and val/ with one folder for each class, or TinyImageNet's layout",
                       path, strerror(errno));
    return SS_OK;
}

/* Return the next entry except . and ..; NULL at the end or on error, with *status set. */
static const char *next_entry(DIR *d, const char *path, enum ss_status *status)
{
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e) {
            *status =
                errno ? ss_fail(SS_ERR_IO, "%s: cannot list this folder: %s", path, strerror(errno))
                      : SS_OK;
            return NULL;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            return e->d_name;
    }
}

static int compare_names(const void *a, const void *b, void *text)
{
    return strcmp((char *)text + *(const size_t *)a, (char *)text + *(const size_t *)b);
}

static enum ss_status add_class(struct ss_imagefolder *f, const char *path, const char *name)
{
    char sub[sizeof f->root];
    SS_TRY(ss_folder_join(sub, sizeof sub, path, name));
    if (!imagefolder_is_folder(sub))
        return SS_OK;
    if (f->classes == SS_IMAGEFOLDER_MAX_CLASSES)
        return ss_fail(SS_ERR_FORMAT, "%s: more than %d classes", path, SS_IMAGEFOLDER_MAX_CLASSES);
    return imagefolder_store(f, name, strlen(name), &f->class_names[f->classes++]);
}

enum ss_status imagefolder_scan_classes(struct ss_imagefolder *f, const char *path)
{
    f->class_names = calloc(SS_IMAGEFOLDER_MAX_CLASSES, sizeof *f->class_names);
    f->class_words = calloc(SS_IMAGEFOLDER_MAX_CLASSES, sizeof *f->class_words);
    if (!f->class_names || !f->class_words)
        return ss_fail_memory("class names", SS_IMAGEFOLDER_MAX_CLASSES * sizeof *f->class_names);
    DIR *d;
    SS_TRY(open_folder(path, &d));
    enum ss_status status = SS_OK;
    const char *name;
    while (status == SS_OK && (name = next_entry(d, path, &status)) != NULL)
        status = add_class(f, path, name);
    closedir(d);
    if (status == SS_OK && f->classes == 0)
        status =
            ss_fail(SS_ERR_FORMAT, "%s: holds no folder; there must be one for each class", path);
    if (status == SS_OK)
        qsort_r(f->class_names, (size_t)f->classes, sizeof *f->class_names, compare_names, f->text);
    return status;
}

static enum ss_status scan_folder(struct ss_imagefolder *f, const char *below, int label,
                                  int depth);

/* `name` is below root. */
static enum ss_status scan_entry(struct ss_imagefolder *f, const char *name, int label, int depth)
{
    if (ss_is_image_name(name))
        return imagefolder_add(f, name, label);
    if (ss_is_foreign_image_name(name))
        return ss_fail(SS_ERR_FORMAT,
                       "%s/%s: only JPEG and PNG files can be read; remove it, or convert the "
                       "folder: starstep data convert images",
                       f->root, name);
    char path[sizeof f->root];
    SS_TRY(ss_folder_join(path, sizeof path, f->root, name));
    return imagefolder_is_folder(path) ? scan_folder(f, name, label, depth + 1) : SS_OK;
}

static enum ss_status scan_folder(struct ss_imagefolder *f, const char *below, int label, int depth)
{
    char path[sizeof f->root];
    if (*below)
        SS_TRY(ss_folder_join(path, sizeof path, f->root, below));
    else
        memcpy(path, f->root, sizeof path);
    if (depth > MAX_DEPTH)
        return ss_fail(SS_ERR_FORMAT, "%s: more than %d nested folders; a cycle of symbolic links?",
                       path, MAX_DEPTH);
    DIR *d;
    SS_TRY(open_folder(path, &d));
    enum ss_status status = SS_OK;
    const char *name;
    while (status == SS_OK && (name = next_entry(d, path, &status)) != NULL) {
        char sub[sizeof path];
        if (*below)
            status = ss_folder_join(sub, sizeof sub, below, name);
        else
            snprintf(sub, sizeof sub, "%s", name);
        if (status == SS_OK)
            status = scan_entry(f, sub, label, depth);
    }
    closedir(d);
    return status;
}

/* Check that every folder of root is a class of train. */
static enum ss_status check_folders(const struct ss_imagefolder *f)
{
    DIR *d;
    SS_TRY(open_folder(f->root, &d));
    enum ss_status status = SS_OK;
    const char *name;
    while (status == SS_OK && (name = next_entry(d, f->root, &status)) != NULL) {
        char path[sizeof f->root];
        status = ss_folder_join(path, sizeof path, f->root, name);
        if (status == SS_OK && imagefolder_is_folder(path) && imagefolder_find_class(f, name) < 0)
            status = ss_fail(SS_ERR_FORMAT,
                             "%s: this class has no folder in train/, so it has no label", path);
    }
    closedir(d);
    return status;
}

enum ss_status imagefolder_scan_files(struct ss_imagefolder *f, int all)
{
    SS_TRY(check_folders(f));
    for (int k = 0; k < f->classes; k++) {
        char name[512];
        int length = snprintf(name, sizeof name, "%s", ss_imagefolder_class(f, k));
        if (length < 0 || (size_t)length >= sizeof name)
            return ss_fail(SS_ERR_FORMAT, "%s: the name of a class is too long", f->root);
        size_t before = f->count;
        if (all || ss_folder_has(f->root, name))
            SS_TRY(scan_folder(f, name, k, 0));
        if (all && f->count == before)
            return ss_fail(SS_ERR_FORMAT, "%s/%s: the class has no JPEG or PNG file", f->root,
                           name);
    }
    return f->count ? SS_OK
                    : ss_fail(SS_ERR_FORMAT, "%s: no class has a JPEG or PNG file", f->root);
}

enum ss_status imagefolder_scan_all(struct ss_imagefolder *f)
{
    SS_TRY(scan_folder(f, "", -1, 0));
    if (f->count == 0)
        return ss_fail(SS_ERR_FORMAT, "%s: no JPEG or PNG file is in this folder", f->root);
    return SS_OK;
}
