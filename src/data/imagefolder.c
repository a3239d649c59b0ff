#include "core/folder.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/imagefolder_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Compare the folders of two paths, then the file names: the order of os.walk. */
static int compare_paths(const char *a, const char *b)
{
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
    size_t na = slash_a ? (size_t)(slash_a - a) : 0, nb = slash_b ? (size_t)(slash_b - b) : 0;
    int order = memcmp(a, b, na < nb ? na : nb);
    if (order == 0 && na != nb)
        order = na < nb ? -1 : 1;
    return order ? order : strcmp(a + na, b + nb);
}

struct sorting {
    const char *text;
    int by_class;
};

static int compare_entries(const void *a, const void *b, void *context)
{
    const struct ss_imagefolder_entry *x = a, *y = b;
    const struct sorting *s = context;
    if (s->by_class && x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return compare_paths(s->text + x->name, s->text + y->name);
}

static enum ss_status sort_files(struct ss_imagefolder *f, int by_class)
{
    struct sorting how = {f->text, by_class};
    qsort_r(f->entries, f->count, sizeof *f->entries, compare_entries, &how);
    for (size_t i = 1; i < f->count; i++)
        if (!strcmp(ss_imagefolder_name(f, i - 1), ss_imagefolder_name(f, i)))
            return ss_fail(SS_ERR_FORMAT, "%s/val_annotations.txt: %s is listed twice", f->root,
                           ss_imagefolder_name(f, i));
    return SS_OK;
}

static uint64_t mix_string(uint64_t hash, const char *string)
{
    size_t length = strlen(string);
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        memcpy(&word, string + i, length - i < 8 ? length - i : 8);
        hash = ss_mix64(hash, word);
    }
    return ss_mix64(hash, length);
}

static uint64_t fingerprint(const struct ss_imagefolder *f)
{
    uint64_t hash = ss_mix64(f->count, (uint64_t)f->classes);
    for (int k = 0; k < f->classes; k++)
        hash = mix_string(hash, ss_imagefolder_class(f, k));
    for (size_t i = 0; i < f->count; i++) {
        hash = mix_string(hash, ss_imagefolder_name(f, i));
        hash = ss_mix64(hash, f->entries[i].size);
        hash = ss_mix64(hash, (uint64_t)f->entries[i].label);
    }
    return hash;
}

static uint64_t hash_times(const struct ss_imagefolder *f)
{
    uint64_t hash = f->count;
    for (size_t i = 0; i < f->count; i++)
        hash = ss_mix64(hash, f->entries[i].changed);
    return hash;
}

static void finish(struct ss_imagefolder *f)
{
    f->fingerprint = fingerprint(f);
    f->times = hash_times(f);
}

static enum ss_status list(struct ss_imagefolder *f, const char *dir, enum ss_split split,
                           const struct ss_dataset_options *options)
{
    struct imagefolder_layout at;
    if (!imagefolder_is_folder(dir))
        return ss_fail(SS_ERR_IO, "%s: cannot list this folder: %s", dir, strerror(errno));
    if (!imagefolder_find_layout(dir, &at))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: holds no images in folders; expected train/ and val/ with one folder "
                       "for each class",
                       dir);
    SS_TRY(imagefolder_check_layout(&at, options->val_fraction));
    const int of_val = split == SS_SPLIT_TEST && at.val[0];
    memcpy(f->root, of_val ? at.val : at.train, sizeof f->root);
    SS_TRY(imagefolder_scan_classes(f, at.train));
    SS_TRY(imagefolder_read_wnids(f, at.base));
    SS_TRY(imagefolder_read_words(f, at.base));
    int annotated = of_val && ss_folder_has(f->root, "val_annotations.txt");
    if (annotated)
        SS_TRY(imagefolder_read_annotations(f));
    else
        SS_TRY(imagefolder_scan_files(f, !of_val));
    SS_TRY(sort_files(f, !annotated));
    if (!at.val[0])
        SS_TRY(imagefolder_split_off(f, split, options));
    finish(f);
    return SS_OK;
}

static enum ss_status list_file(struct ss_imagefolder *f)
{
    char name[sizeof f->root];
    char *slash = strrchr(f->root, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : f->root);
    if (!slash)
        strcpy(f->root, ".");
    else
        slash[slash == f->root] = '\0'; /* the folder "/" stays "/" */
    return imagefolder_add(f, name, -1);
}

static enum ss_status list_flat(struct ss_imagefolder *f, const char *path)
{
    struct stat st;
    int n = snprintf(f->root, sizeof f->root, "%s", path);
    if (n < 0 || (size_t)n >= sizeof f->root)
        return ss_fail(SS_ERR_INVALID, "%.80s...: the name is too long", path);
    if (stat(path, &st) != 0)
        return ss_fail(SS_ERR_IO, "%s: %s; give an image or a folder of images", path,
                       strerror(errno));
    SS_TRY(S_ISDIR(st.st_mode) ? imagefolder_scan_all(f) : list_file(f));
    SS_TRY(sort_files(f, 0));
    finish(f);
    return SS_OK;
}

/* Set *out to f on success, else close f. Returns status. */
static enum ss_status give(struct ss_imagefolder *f, enum ss_status status,
                           struct ss_imagefolder **out)
{
    if (status == SS_OK)
        *out = f;
    else
        ss_imagefolder_close(f);
    return status;
}

enum ss_status ss_imagefolder_open(const char *dir, enum ss_split split,
                                   const struct ss_dataset_options *options,
                                   struct ss_imagefolder **out)
{
    static const struct ss_dataset_options none;
    struct ss_imagefolder *f = calloc(1, sizeof *f);
    return f ? give(f, list(f, dir, split, options ? options : &none), out)
             : ss_fail_memory("a list of files", sizeof *f);
}

int ss_imagefolder_is(const char *dir, int *has_val)
{
    struct imagefolder_layout at;
    const int is = imagefolder_find_layout(dir, &at);
    *has_val = is && at.val[0];
    return is;
}

enum ss_status ss_imagefolder_open_flat(const char *path, struct ss_imagefolder **out)
{
    struct ss_imagefolder *f = calloc(1, sizeof *f);
    return f ? give(f, list_flat(f, path), out) : ss_fail_memory("a list of files", sizeof *f);
}

enum ss_status ss_imagefolder_check_sizes(const struct ss_imagefolder *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->entries[i].size == 0)
            return ss_fail(SS_ERR_FORMAT,
                           "%s/%s: the file is empty; copy it again, remove it or give "
                           "--skip-corrupt",
                           f->root, ss_imagefolder_name(f, i));
    return SS_OK;
}

void ss_imagefolder_close(struct ss_imagefolder *f)
{
    if (!f)
        return;
    free(f->entries);
    free(f->text);
    free(f->class_names);
    free(f->class_words);
    free(f);
}

enum ss_status ss_imagefolder_read(const struct ss_imagefolder *f, size_t i,
                                   struct ss_image_file *file)
{
    SS_TRY(ss_folder_join(file->path, sizeof file->path, f->root, ss_imagefolder_name(f, i)));
    return imagefolder_read_path(file);
}
