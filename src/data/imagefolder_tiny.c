#include "core/folder.h"
#include "core/log.h"
#include "data/imagefolder_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Called for each non-empty line with its first two tab-separated fields; second may be NULL. Lines
 * are numbered from 1. */
typedef enum ss_status (*line_taker)(void *context, const char *path, size_t line, char *first,
                                     char *second);

static enum ss_status take_lines(const char *dir, const char *name, line_taker take, void *context)
{
    struct ss_image_file file = {.bytes = NULL};
    SS_TRY(ss_folder_join(file.path, sizeof file.path, dir, name));
    enum ss_status status = imagefolder_read_path(&file);
    size_t line = 1;
    char *next = (char *)file.bytes;
    while (status == SS_OK && next) {
        char *text = strsep(&next, "\n");
        text[strcspn(text, "\r")] = '\0';
        char *first = strsep(&text, "\t"), *second = strsep(&text, "\t");
        if (*first)
            status = take(context, file.path, line, first, second);
        line++;
    }
    free(file.bytes);
    return status;
}

struct wnids {
    const struct ss_imagefolder *folder;
    char *seen;
};

static enum ss_status take_wnid(void *context, const char *path, size_t line, char *wnid,
                                char *second)
{
    (void)second;
    struct wnids *w = context;
    int label = imagefolder_find_class(w->folder, wnid);
    if (label < 0)
        return ss_fail(SS_ERR_FORMAT, "%s: line %zu: %s has no folder in train/", path, line, wnid);
    w->seen[label] = 1;
    return SS_OK;
}

enum ss_status imagefolder_read_wnids(struct ss_imagefolder *f, const char *dir)
{
    if (!ss_folder_has(dir, "wnids.txt"))
        return SS_OK;
    struct wnids w = {f, calloc((size_t)f->classes, 1)};
    if (!w.seen)
        return ss_fail_memory("class names", (size_t)f->classes);
    enum ss_status status = take_lines(dir, "wnids.txt", take_wnid, &w);
    for (int k = 0; status == SS_OK && k < f->classes; k++)
        if (!w.seen[k])
            status = ss_fail(SS_ERR_FORMAT, "%s/wnids.txt: %s is missing; it is a folder of train/",
                             dir, ss_imagefolder_class(f, k));
    free(w.seen);
    return status;
}

static enum ss_status take_words(void *context, const char *path, size_t line, char *wnid,
                                 char *words)
{
    (void)path;
    (void)line;
    struct ss_imagefolder *f = context;
    int label = imagefolder_find_class(f, wnid);
    if (label < 0 || !words)
        return SS_OK; /* the file describes all of WordNet */
    return imagefolder_store(f, words, strlen(words), &f->class_words[label]);
}

enum ss_status imagefolder_read_words(struct ss_imagefolder *f, const char *dir)
{
    return ss_folder_has(dir, "words.txt") ? take_lines(dir, "words.txt", take_words, f) : SS_OK;
}

static enum ss_status take_annotation(void *context, const char *path, size_t line, char *name,
                                      char *wnid)
{
    struct ss_imagefolder *f = context;
    if (!wnid)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: line %zu: a file's name, a tab and a wnid are expected, not \"%.80s\"",
                       path, line, name);
    if (strchr(name, '/'))
        return ss_fail(SS_ERR_FORMAT, "%s: line %zu: \"%.80s\" is not a plain file name", path,
                       line, name);
    int label = imagefolder_find_class(f, wnid);
    if (label < 0)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: line %zu: %.80s has the wnid %.80s, which has no folder in train/",
                       path, line, name, wnid);
    char below[512];
    SS_TRY(ss_folder_join(below, sizeof below, "images", name));
    return imagefolder_add(f, below, label);
}

enum ss_status imagefolder_read_annotations(struct ss_imagefolder *f)
{
    SS_TRY(take_lines(f->root, "val_annotations.txt", take_annotation, f));
    if (f->count == 0)
        return ss_fail(SS_ERR_FORMAT, "%s/val_annotations.txt: names no file", f->root);
    return SS_OK;
}
