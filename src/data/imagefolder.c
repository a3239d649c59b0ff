#include "data/imagefolder_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/folder.h"
#include "core/log.h"
#include "core/rng.h"

/* Room for one more element, doubled so that long lists grow cheaply. */
static enum ss_status grow(void *pointer, size_t *room, size_t want, size_t size)
{
    void **p = pointer;
    if (want <= *room)
        return SS_OK;
    size_t more = *room ? *room : 1024;
    while (more < want)
        more *= 2;
    void *q = realloc(*p, more * size);
    if (!q)
        return ss_fail_memory("a list of files", more * size);
    *p = q;
    *room = more;
    return SS_OK;
}

enum ss_status imagefolder_keep(struct ss_imagefolder *f, const char *string, size_t length,
                                size_t *at)
{
    SS_TRY(grow(&f->text, &f->text_room, f->text_used + length + 1, 1));
    memcpy(f->text + f->text_used, string, length);
    f->text[f->text_used + length] = '\0';
    *at = f->text_used;
    f->text_used += length + 1;
    return SS_OK;
}

enum ss_status imagefolder_add(struct ss_imagefolder *f, const char *name, int label)
{
    char path[sizeof f->root + 512];
    struct stat st;
    SS_TRY(ss_folder_join(path, sizeof path, f->root, name));
    if (stat(path, &st) != 0 || access(path, R_OK) != 0)
        return ss_fail(SS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ss_fail(SS_ERR_IO, "%s: is not a regular file", path);
    SS_TRY(grow(&f->entries, &f->room, f->count + 1, sizeof *f->entries));
    struct ss_imagefolder_entry *e = &f->entries[f->count];
    SS_TRY(imagefolder_keep(f, name, strlen(name), &e->name));
    e->size = (uint64_t)st.st_size;
    e->changed = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
    e->label = label;
    f->count++;
    return SS_OK;
}

int imagefolder_find_class(const struct ss_imagefolder *f, const char *name)
{
    int low = 0, high = f->classes - 1;
    while (low <= high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(name, f->text + f->class_names[middle]);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}

/* The folder's part of a path, with which os.walk sorts, before the file's. */
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
            return ss_fail(SS_ERR_FORMAT, "%s/val_annotations.txt: %s is there twice", f->root,
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

static enum ss_status list(struct ss_imagefolder *f, const char *dir, enum ss_split split)
{
    SS_TRY(ss_folder_join(f->root, sizeof f->root, dir, split == SS_SPLIT_TRAIN ? "train" : "val"));
    SS_TRY(imagefolder_scan_classes(f, dir));
    SS_TRY(imagefolder_read_wnids(f, dir));
    SS_TRY(imagefolder_read_words(f, dir));
    int annotated = split != SS_SPLIT_TRAIN && ss_folder_has(f->root, "val_annotations.txt");
    if (annotated)
        SS_TRY(imagefolder_read_annotations(f));
    else
        SS_TRY(imagefolder_scan_files(f));
    SS_TRY(sort_files(f, !annotated));
    f->fingerprint = fingerprint(f);
    f->times = hash_times(f);
    return SS_OK;
}

enum ss_status ss_imagefolder_open(const char *dir, enum ss_split split,
                                   struct ss_imagefolder **out)
{
    struct ss_imagefolder *f = calloc(1, sizeof *f);
    if (!f)
        return ss_fail_memory("a list of files", sizeof *f);
    enum ss_status status = list(f, dir, split);
    if (status != SS_OK) {
        ss_imagefolder_close(f);
        return status;
    }
    *out = f;
    return SS_OK;
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

const char *ss_imagefolder_name(const struct ss_imagefolder *f, size_t i)
{
    return f->text + f->entries[i].name;
}

const char *ss_imagefolder_class(const struct ss_imagefolder *f, int label)
{
    return f->text + f->class_names[label];
}

const char *ss_imagefolder_words(const struct ss_imagefolder *f, int label)
{
    return f->class_words[label] ? f->text + f->class_words[label] : NULL;
}

static enum ss_status read_descriptor(int fd, struct ss_image_file *file)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return ss_fail(SS_ERR_IO, "%s: cannot stat: %s", file->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ss_fail(SS_ERR_IO, "%s: is not a regular file", file->path);
    size_t size = (size_t)st.st_size;
    SS_TRY(grow(&file->bytes, &file->room, size + 1, 1));
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, file->bytes + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ss_fail(SS_ERR_IO, "%s: cannot read: %s", file->path, strerror(errno));
        if (n == 0)
            return ss_fail(SS_ERR_IO, "%s: ended after %zu of %zu bytes while it was read",
                           file->path, done, size);
        done += (size_t)n;
    }
    file->bytes[size] = '\0';
    file->size = size;
    return SS_OK;
}

enum ss_status imagefolder_read_path(struct ss_image_file *file)
{
    /* O_NONBLOCK: a FIFO of that name must not hang the open. */
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open: %s", file->path, strerror(errno));
    enum ss_status status = read_descriptor(fd, file);
    close(fd);
    return status;
}

enum ss_status ss_imagefolder_read(const struct ss_imagefolder *f, size_t i,
                                   struct ss_image_file *file)
{
    SS_TRY(ss_folder_join(file->path, sizeof file->path, f->root, ss_imagefolder_name(f, i)));
    return imagefolder_read_path(file);
}
